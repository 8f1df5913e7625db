//! The directory of an AOF: the names of its files, the calls to them, and how a manifest gets to its place.
//!
//! A manifest is written beside its place, synced, renamed, and its directory synced, so that there is always one that is
//! whole. It keeps no state; a caller that writes holds the lock and the right to write. Any thread.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, File, Open};
use crate::format::annotation::{Salt, Stretch};
use crate::format::manifest::{Entry, Manifest};
use crate::replay::part::claims;

use super::increment::Increment;

/// The suffix of an unfinished base's name.
const UNFINISHED_BASE_END: &str = ".aof";

/// The place of an AOF on the disk, and the settings with which it is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder (`appenddirname` in `dir`).
    pub folder: PathBuf,
    /// The prefix of the files' names (`appendfilename`).
    pub name: String,
    /// True if each block is preceded by a line with its checksum (`aof-checksums`).
    pub checksums: bool,
    /// True if a `#TS:` line is written when the second changes (`aof-timestamp-enabled`).
    pub timestamps: bool,
    /// Random bits, which are unknown to clients that only send commands.
    pub salt: u64,
}

impl Options {
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the path of the only file that servers before Redis 7 had.
    pub(super) fn old_file(&self) -> PathBuf {
        self.folder.parent().unwrap_or(Path::new("")).join(&self.name)
    }

    /// Returns the file with the lock that a process which uses the AOF holds.
    pub(super) fn lock_file(&self) -> PathBuf {
        self.path(format!("{}.lock", self.name))
    }

    /// Returns the path of the first increment while the AOF is being switched on and has no base yet.
    pub(super) fn waiting_increment(&self) -> PathBuf {
        self.path(format!("temp-{}.incr", self.name))
    }

    /// Returns the path of a base that is being written under this mark: the number of the process, and perhaps one behind
    /// it, with a hyphen between. No other AOF in the same folder has such a name.
    pub fn unfinished_base(&self, mark: &str) -> PathBuf {
        self.path(format!("{}{mark}{UNFINISHED_BASE_END}", self.unfinished_base_begin()))
    }

    /// Returns the prefix of unfinished bases' names.
    fn unfinished_base_begin(&self) -> String {
        format!("temp-rewriteaof-bg-{}.", self.name)
    }

    /// Returns whether this is the name of a base or a manifest that the holder of the lock is writing. The increment of an
    /// AOF that is being switched on is none of them: it holds writes that were answered.
    pub(super) fn is_unfinished(&self, name: &str) -> bool {
        let is_mark = |mark: &str| {
            let mut numbers = mark.splitn(2, '-');
            numbers.all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let base = name.strip_prefix(&self.unfinished_base_begin());
        base.and_then(|rest| rest.strip_suffix(UNFINISHED_BASE_END)).is_some_and(is_mark)
            || self.unfinished_manifest() == self.path(name)
    }

    /// Returns the path of a manifest that is not in its place yet.
    pub(super) fn unfinished_manifest(&self) -> PathBuf {
        self.path(format!("temp-{}.manifest", self.name))
    }

    /// Returns the beginning of a stretch of blocks, unless checksums are off.
    pub(super) fn next_stretch(&mut self) -> Option<Stretch> {
        self.checksums.then(|| Stretch::new(self.next_salt()))
    }

    /// Returns a salt that no other stretch of the AOF has.
    pub(super) fn next_salt(&mut self) -> Salt {
        // The step and the mix of SplitMix64.
        self.salt = self.salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.salt ^ (self.salt >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Salt((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb))
    }
}

/// Returns the path of the manifest of an AOF with this name in this folder.
pub fn manifest_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.manifest"))
}

/// The failure to put a manifest in its place.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) error: io::Error,
    /// True if the manifest may be on the disk all the same: then the files that it names have to stay.
    pub(super) is_unsure: bool,
}

impl From<Unwritten> for io::Error {
    fn from(unwritten: Unwritten) -> io::Error {
        unwritten.error
    }
}

/// The directory of an AOF on its disk. The errors of its methods are the system's.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: Options,
}

impl Directory {
    pub(super) fn path(&self, entry: &Entry) -> PathBuf {
        self.options.path(entry.path())
    }

    pub(super) fn manifest_path(&self) -> PathBuf {
        manifest_path(&self.options.folder, &self.options.name)
    }

    pub(super) fn open(&self, entry: &Entry, how: Open) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.path(entry), how)
    }

    pub(super) fn size(&self, entry: &Entry) -> io::Result<u64> {
        self.disk.size(&self.path(entry))
    }

    /// Makes the names of the directory's files durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync_folder(&self.options.folder)
    }

    /// Returns whether a file, or a folder on the way to it, was removed.
    pub(super) fn is_gone(&self, path: &Path) -> bool {
        let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        self.disk.size(path).is_err_and(|error| gone.contains(&error.kind()))
    }

    /// Removes a file that may be there.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes an increment, durable with its name.
    pub(super) fn make_increment(&self, path: PathBuf, number: i64, stretch: Option<Stretch>) -> io::Result<Increment> {
        let file = self.disk.open(&path, Open::Create)?;
        let mut line = Vec::new();
        if let Some(stretch) = stretch {
            stretch.write_salt(&mut line);
            file.append(&[IoSlice::new(&line)])?;
        }
        // An empty file is synced too, because another file may have had this name before. Its name is synced before the
        // manifest's.
        file.sync()?;
        self.disk.sync_folder(path.parent().unwrap_or(Path::new("")))?;
        Ok(Increment::new(number, path, file, line.len() as u64))
    }

    /// Writes a manifest beside its place. Its name is durable with the next sync of the directory.
    pub(super) fn stage_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let file = self.disk.open(&self.options.unfinished_manifest(), Open::Create)?;
        file.append(&[IoSlice::new(&manifest.to_bytes())])?;
        file.sync()
    }

    /// Puts the manifest that was written beside its place in its place, durably.
    pub(super) fn put_manifest(&self) -> Result<(), Unwritten> {
        let renamed = self.disk.rename(&self.options.unfinished_manifest(), &self.manifest_path());
        renamed.map_err(|error| Unwritten { error, is_unsure: false })?;
        self.sync().map_err(|error| Unwritten { error, is_unsure: true })
    }

    /// Puts a manifest in its place, durably.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<(), Unwritten> {
        self.stage_manifest(manifest).map_err(|error| Unwritten { error, is_unsure: false })?;
        self.put_manifest()
    }

    /// Removes the files that this manifest calls history, and then their lines.
    pub(super) fn remove_history(&self, manifest: &mut Manifest) -> io::Result<()> {
        for entry in std::mem::take(&mut manifest.history) {
            self.remove(&self.path(&entry))?;
        }
        // If such a file came back after a crash without its line, a start would take it for a file that the manifest has
        // lost.
        self.sync()?;
        Ok(self.write_manifest(manifest)?)
    }

    /// Returns the journal's offset behind all that was ever written here, in increments and in history.
    ///
    /// A process that begins an AOF over an older one, which it has not read, has a journal of its own. It goes on where the
    /// older one ended, so that offsets never go back within a directory: nothing that is history by then claims to be behind
    /// the new base.
    pub(super) fn journal_end(&self, manifest: &Manifest) -> io::Result<u64> {
        let mut end = 0;
        for entry in manifest.increments.iter().chain(&manifest.history) {
            match self.open(entry, Open::Read) {
                Ok(file) => {
                    let held = claims(file, 0, None)?;
                    end = end.max(if held.is_base { 0 } else { held.to });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(end)
    }
}
