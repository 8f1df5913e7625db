//! The folder of an AOF, opened: locked, its manifest read, the single file of older servers taken over.
//!
//! From here there are two ways on. An existing AOF is read back ([`Folder::replay`]) and gone on with ([`Folder::resume`]).
//! Or an AOF is begun, and is none before its first base is there ([`Folder::wait`]).

use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, Open, read_full, read_small};
use crate::format::annotation::Stretch;
use crate::format::manifest::{self, Entry, Manifest, ManifestError};
use crate::replay::{self, Cut, Outcome, Replay};

use super::directory::{Directory, Options};
use super::increment::Increment;
use super::rewrite::NewBase;
use super::unnamed::Unnamed;
use super::writer::{AofWriter, Beginning, Catalog, DirectoryLock};

/// The reason why an AOF cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// An error of the system; the text names the call's object.
    Disk(String, io::Error),
    /// The folder is locked by another process.
    Held(io::Error),
    /// The manifest cannot be parsed.
    Manifest(PathBuf, ManifestError),
    /// The manifest names a file that is not there.
    Missing(PathBuf),
    /// The folder has files of an AOF and no manifest.
    NoManifest(PathBuf, Unnamed),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Disk(what, error) => {
                write!(f, "cannot {what}: {error}. Look after the disk and the permissions, or use another folder")
            }
            OpenError::Held(error) => {
                write!(f, "the append-only log is in use: {error}. Stop that process, or use another folder")
            }
            OpenError::Manifest(path, error) => write!(
                f,
                "the manifest {} is damaged: {error}. Mend the line by hand, or bring the file back from a backup",
                path.display()
            ),
            OpenError::Missing(path) => write!(
                f,
                "{} is named in the manifest and is not there (No such file or directory). Bring it back from a backup, or take \
                 its line out of the manifest: what it held is lost then",
                path.display()
            ),
            OpenError::NoManifest(path, unnamed) => write!(
                f,
                "the manifest {} is not there, or names nothing, and files of the log are there. No log was begun beside them. Bring \
                 the manifest back from a backup; or make one of these lines, without what is older than the base, and look at \
                 it with sleeve check aof; or move the files away, and the log begins empty:\n{}",
                path.display(),
                unnamed.lines().trim_end()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// An AOF that could not be begun.
#[derive(Debug)]
pub struct NotBegun {
    /// The folder in which the AOF was to begin.
    pub folder: Folder,
    /// The reason.
    pub error: OpenError,
}

/// An increment, and the stretch of its blocks where it is known.
type Begun = (Increment, Option<Stretch>);

/// The folder of an AOF, opened and locked.
#[derive(Debug)]
pub struct Folder {
    pub(super) directory: Directory,
    pub(super) manifest: Manifest,
    /// The end of the journal that has written the files here, if it is the journal of this process.
    known_end: Option<u64>,
    told: Vec<String>,
    /// Files that the manifest does not name.
    unnamed: Unnamed,
    has_taken_over: bool,
    lock: DirectoryLock,
}

impl Folder {
    /// Opens the folder, which is made where there is none, for the process with this id.
    ///
    /// # Errors
    /// The fault, with a remedy.
    pub fn open(disk: Arc<dyn Disk>, options: Options, process: u32) -> Result<Folder, OpenError> {
        let directory = Directory { disk, options };
        make_folder(&directory)?;
        let lock = take_lock(&directory, process)?;
        let (mut manifest, told) = read_manifest(&directory)?;
        let unnamed = look_for_unnamed(&directory, &mut manifest)?;
        let has_taken_over = take_over_old_file(&directory, &mut manifest)
            .map_err(|error| failed("take over the log of an older server,", &directory.options.old_file(), error))?;
        Ok(Folder { directory, manifest, known_end: None, told, unnamed, has_taken_over, lock })
    }

    /// Returns whether the manifest names no base and no increment: the folder holds no AOF yet.
    pub fn is_empty(&self) -> bool {
        self.manifest.base.is_none() && self.manifest.increments.is_empty()
    }

    /// Returns whether the single file of an older server has just been moved into the folder.
    pub fn has_taken_over(&self) -> bool {
        self.has_taken_over
    }

    /// Returns the oddities of the manifest, a sentence each.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the files that are read, in order, each with its size.
    ///
    /// # Errors
    /// When a file is not there, or a call to the system fails.
    pub fn files(&self) -> Result<Vec<(Entry, u64)>, OpenError> {
        let named = self.manifest.base.iter().chain(&self.manifest.increments);
        named.map(|entry| Ok((entry.clone(), self.size_of(entry)?))).collect()
    }

    fn size_of(&self, entry: &Entry) -> Result<u64, OpenError> {
        self.directory.size(entry).map_err(|error| match (self.directory.path(entry), error.kind()) {
            (path, io::ErrorKind::NotFound) => OpenError::Missing(path),
            (path, _) => OpenError::Disk(format!("read {}", path.display()), error),
        })
    }

    /// Reads it back.
    pub fn replay(&self, options: replay::Options) -> Replay {
        let replay =
            Replay::new(self.directory.disk.clone(), &self.directory.options.folder, self.manifest.clone(), options);
        replay.beside(self.unnamed.bases.clone(), self.unnamed.increments.clone())
    }

    /// Returns the journal's offset behind all that was ever written here. Reads the files, unless this process's journal has
    /// written them.
    ///
    /// # Errors
    /// When an existing file cannot be read.
    pub fn past_end(&self) -> io::Result<u64> {
        self.known_end.map_or_else(|| self.directory.journal_end(&self.manifest), Ok)
    }

    /// Goes on with the AOF that was read to its end: cuts off the unfinished end that the reading has found, makes
    /// everything durable that was read, and appends to the last increment.
    ///
    /// # Errors
    /// When a call to the system fails.
    pub fn resume(mut self, outcome: Outcome) -> io::Result<AofWriter> {
        self.remove_unfinished()?;
        if let Some(cut) = &outcome.cut {
            self.cut(cut)?;
        }
        self.drop_empty_base()?;
        self.cut_what_is_over()?;
        for entry in self.manifest.base.iter().chain(&self.manifest.increments) {
            self.directory.open(entry, Open::Append)?.sync()?;
        }
        // An earlier process that died may have renamed the manifest and not synced its name.
        self.directory.sync()?;
        // Behind a cut, blocks go on in a new file, so that the remains of the cut cannot be taken for them. If the file has
        // no blocks at all, the AOF goes on in it, as the server that wrote it would.
        let is_fresh = outcome.cut.is_some() && self.directory.options.checksums && !outcome.is_strangers_cut;
        let tail = outcome.tail.filter(|_| outcome.cut.is_none());
        let (increment, tail) = match self.manifest.increments.last() {
            Some(entry) if !is_fresh => {
                let file = self.directory.open(entry, Open::Append)?;
                let length = file.size()?;
                let increment = Increment::new(entry.number, self.directory.path(entry), file, length);
                self.begin_stretch(increment, tail)?
            }
            _ => self.add_increment()?,
        };
        self.begin(increment, outcome.end, tail)
    }

    /// Cuts off the bytes that the next file repeats: the process that healed the AOF died before that cut.
    fn cut_what_is_over(&mut self) -> io::Result<()> {
        for entry in &mut self.manifest.increments {
            let Some(length) = entry.length.take() else { continue };
            let file = self.directory.open(entry, Open::Append)?;
            if file.size()? > length {
                file.truncate(length)?;
                file.sync()?;
            }
        }
        Ok(())
    }

    /// Makes the line with the salt durable if blocks begin in another server's file: if that line is damaged, nothing behind
    /// it can be judged. If the disk is full, the line is written with the first block.
    fn begin_stretch(&mut self, mut increment: Increment, tail: Option<Stretch>) -> io::Result<Begun> {
        let next = self.directory.options.next_stretch();
        let Some(stretch) = next.filter(|_| tail.is_none()) else { return Ok((increment, tail)) };
        let mut line = Vec::new();
        stretch.write_salt(&mut line);
        let written = increment.file.append(&[IoSlice::new(&line)]).and_then(|()| increment.file.sync());
        if written.is_err() {
            increment.file.truncate(increment.length)?;
            return Ok((increment, None));
        }
        increment.length += line.len() as u64;
        increment.synced_length = increment.length;
        Ok((increment, Some(stretch)))
    }

    /// Drops an empty base from the manifest. Another server has written it; if Sleeve's own increments stood behind one, the
    /// base was cut off and is damaged.
    fn drop_empty_base(&mut self) -> io::Result<()> {
        let Some(base) = &self.manifest.base else { return Ok(()) };
        let path = self.directory.path(base);
        if self.directory.disk.size(&path)? > 0 {
            return Ok(());
        }
        self.manifest.base = None;
        if self.manifest.increments.is_empty() {
            // The manifest has to name some file, so the new increment is named before the base is gone.
            self.make_named_increment()?;
        }
        self.directory.write_manifest(&self.manifest)?;
        self.directory.disk.remove(&path)
    }

    /// Cuts off the end of the AOF. First the later files lose their contents, from the last file on, and then their names.
    /// Then the file loses its end. So a start finds no unnamed file that has contents.
    fn cut(&mut self, cut: &Cut) -> io::Result<()> {
        for entry in cut.later.iter().rev() {
            let file = self.directory.open(entry, Open::Append)?;
            file.truncate(0)?;
            file.sync()?;
        }
        let is_later = |entry: &Entry| cut.later.contains(entry);
        if self.manifest.increments.iter().any(is_later) {
            self.manifest.increments.retain(|entry| !is_later(entry));
            // The last file is appended to, so all of its bytes count.
            self.manifest.increments.last_mut().iter_mut().for_each(|last| last.length = None);
            self.directory.write_manifest(&self.manifest)?;
        }
        let file = self.directory.open(&cut.file, Open::Append)?;
        file.truncate(cut.at)?;
        file.sync()?;
        cut.later.iter().try_for_each(|entry| self.directory.remove(&self.directory.path(entry)))
    }

    /// Makes a new increment, and names it on the disk.
    fn add_increment(&mut self) -> io::Result<Begun> {
        let begun = self.make_named_increment()?;
        self.directory.write_manifest(&self.manifest)?;
        Ok(begun)
    }

    /// Makes a new increment, which the manifest names once it is written.
    fn make_named_increment(&mut self) -> io::Result<Begun> {
        let entry = self.manifest.add_increment(&self.directory.options.name);
        let stretch = self.directory.options.next_stretch();
        let increment = self.directory.make_increment(self.directory.path(&entry), entry.number, stretch)?;
        Ok((increment, stretch))
    }

    /// Puts a base in the place of all files, while nothing is appended to the AOF. Files that are not needed any more are
    /// removed, or, if they are to be kept, called history.
    ///
    /// # Errors
    /// When a call to the system fails. The former files are as good as they were, or are history.
    pub fn replace(mut self, base: &NewBase, keeps_history: bool) -> io::Result<()> {
        let entry = self.manifest.replace_base(&self.directory.options.name, base.format);
        self.manifest.retire_increments_before(i64::MAX);
        let (directory, path) = (&self.directory, self.directory.path(&entry));
        directory.stage_manifest(&self.manifest)?;
        directory.sync()?;
        directory.disk.rename(&base.file, &path)?;
        directory.sync()?;
        directory.put_manifest().map_err(|unwritten| {
            if !unwritten.is_unsure {
                // No manifest names the file.
                let _ = directory.disk.remove(&path);
            }
            unwritten.error
        })?;
        if keeps_history {
            return Ok(());
        }
        directory.remove_history(&mut self.manifest)
    }

    /// Begins an AOF whose first base is still to be written; the journal is at `end`. Until the first rewrite has ended it
    /// cannot be read back, and the files of an older AOF stay as they are.
    ///
    /// # Errors
    /// When a call to the system fails.
    pub fn wait(mut self, end: u64) -> io::Result<AofWriter> {
        let begun = self.make_waiting()?;
        Ok(self.begin_waiting(begun, end))
    }

    /// Does the same as [`Folder::wait`]. If another process has removed the folder or its lock since it was opened, they are
    /// made again.
    ///
    /// # Errors
    /// When a call to the system fails, or if another process has the lock now. The folder is returned for the next attempt.
    pub fn wait_anew(mut self, end: u64, process: u32) -> Result<AofWriter, Box<NotBegun>> {
        let restored = self.restore(process);
        let begun = restored.and_then(|()| {
            self.make_waiting().map_err(|error| failed("begin a log in", &self.directory.options.folder, error))
        });
        match begun {
            Ok(begun) => Ok(self.begin_waiting(begun, end)),
            Err(error) => Err(Box::new(NotBegun { folder: self, error })),
        }
    }

    fn restore(&mut self, process: u32) -> Result<(), OpenError> {
        if !self.lock.is_in_place() {
            make_folder(&self.directory)?;
            self.lock = take_lock(&self.directory, process)?;
        }
        Ok(())
    }

    fn make_waiting(&mut self) -> io::Result<Begun> {
        self.remove_unfinished()?;
        let stretch = self.directory.options.next_stretch();
        let increment = self.directory.make_increment(self.directory.options.waiting_increment(), 0, stretch)?;
        Ok((increment, stretch))
    }

    fn begin_waiting(self, begun: Begun, end: u64) -> AofWriter {
        // The files that the base will replace may not be there any more, and do not count.
        let mut log = self.begin_with((0, 0), begun, end);
        log.is_waiting = true;
        log
    }

    fn begin(self, increment: Increment, end: u64, tail: Option<Stretch>) -> io::Result<AofWriter> {
        let size = |entry: &Entry| self.directory.size(entry);
        let base = self.manifest.base.iter().map(size).sum::<io::Result<u64>>()?;
        let between = self.manifest.increments.iter().rev().skip(1).map(size).sum::<io::Result<u64>>()?;
        Ok(self.begin_with((base + between, base), (increment, tail), end))
    }

    fn begin_with(self, sizes: (u64, u64), (increment, stretch): Begun, end: u64) -> AofWriter {
        let (bytes_before, bytes_at_rewrite) = sizes;
        let Folder { directory, manifest, known_end, lock, .. } = self;
        AofWriter::new(Beginning {
            directory,
            manifest,
            known_end,
            lock,
            increment,
            end,
            stretch,
            bytes_before,
            bytes_at_rewrite,
        })
    }
}

fn failed(what: &str, folder: &Path, error: io::Error) -> OpenError {
    OpenError::Disk(format!("{what} {}", folder.display()), error)
}

fn make_folder(directory: &Directory) -> Result<(), OpenError> {
    let Directory { disk, options: Options { folder, .. } } = directory;
    let made = disk.make_folder(folder).and_then(|()| disk.sync_folder(&parent(folder)));
    made.map_err(|error| failed("make the folder", folder, error))
}

fn take_lock(directory: &Directory, process: u32) -> Result<DirectoryLock, OpenError> {
    let Directory { disk, options } = directory;
    disk.lock(&options.lock_file(), process).map(Arc::new).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => OpenError::Held(error),
        _ => failed("lock the folder", &options.folder, error),
    })
}

impl From<AofWriter> for Folder {
    /// Gives the AOF up and keeps its folder, in which it is to be begun again.
    fn from(aof: AofWriter) -> Folder {
        let (told, unnamed, known_end) = (Vec::new(), Unnamed::default(), Some(aof.end()));
        let AofWriter { directory, catalog: Catalog { manifest, lock, .. }, .. } = aof;
        Folder { directory, manifest, known_end, told, unnamed, has_taken_over: false, lock }
    }
}

/// Reads the manifest at this path; returns an empty one where there is none.
///
/// # Errors
/// When a call to the system fails, and the fault of the manifest.
fn read_manifest(directory: &Directory) -> Result<(Manifest, Vec<String>), OpenError> {
    let path = directory.manifest_path();
    let bytes = match read_small(directory.disk.as_ref(), &path, manifest::BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Manifest::default(), Vec::new())),
        Err(error) => return Err(OpenError::Disk(format!("read the manifest {}", path.display()), error)),
    };
    Manifest::parse(&bytes).map_err(|error| OpenError::Manifest(path, error))
}

/// Returns the files that the manifest does not name. If there is no manifest, no AOF is begun beside such files. None of
/// them is ever overwritten.
fn look_for_unnamed(directory: &Directory, manifest: &mut Manifest) -> Result<Unnamed, OpenError> {
    let looked = directory.unnamed(manifest).and_then(|unnamed| {
        directory.pass_over_numbers(manifest)?;
        Ok(unnamed)
    });
    let unnamed = looked.map_err(|error| failed("look into", &directory.options.folder, error))?;
    let is_without = manifest.base.is_none() && manifest.increments.is_empty() && manifest.history.is_empty();
    match is_without && !unnamed.is_empty() {
        true => Err(OpenError::NoManifest(directory.manifest_path(), unnamed)),
        false => Ok(unnamed),
    }
}

/// Takes over the single file that servers before Redis 7 wrote: it becomes the base, under its old name. The manifest is
/// written first; a start that finds it without the file goes on from there. Returns whether there was such a file.
fn take_over_old_file(directory: &Directory, manifest: &mut Manifest) -> io::Result<bool> {
    let Directory { disk, options } = directory;
    let old = options.old_file();
    match disk.size(&old) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let new = options.path(&options.name);
    let name = options.name.as_bytes();
    let is_begun = manifest.increments.is_empty() && manifest.base.as_ref().is_some_and(|base| base.name == name);
    let is_empty = manifest.base.is_none() && manifest.increments.is_empty();
    let is_unfinished = is_begun && disk.size(&new).is_err();
    if !is_empty && !is_unfinished {
        return Ok(false);
    }
    if !is_unfinished {
        expect_log(disk.as_ref(), &old)?;
    }
    manifest.base = Some(Entry { name: name.to_vec(), number: 1, length: None });
    manifest.base_number = 1;
    directory.write_manifest(manifest)?;
    disk.rename(&old, &new)?;
    directory.sync()?;
    disk.sync_folder(&parent(&old))?;
    Ok(true)
}

/// Checks that a file begins as an AOF does, or is empty, before it gets another name.
fn expect_log(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let mut front = [b'*'];
    read_full(disk.open(path, Open::Read)?.as_ref(), 0, &mut front)?;
    // The first byte of a request, of a snapshot of Redis or Valkey, or of a line with the time.
    if b"*RV#".contains(&front[0]) { Ok(()) } else { Err(io::Error::other("it is no log, and stays where it is")) }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}
