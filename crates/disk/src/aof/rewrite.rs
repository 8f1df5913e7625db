//! A rewrite: a new increment, then a new base that stands for all before it, then the old files go.
//!
//! The increment begins where the base stands. The caller that takes the data for the base notes the journal's offset,
//! appends the journal up to there, and switches to the increment before it appends more. The first request behind the switch
//! has to be a SELECT, because each file is read by itself. Until the base is there the AOF is read as base and increments,
//! in order.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::annotation::Stretch;
use crate::format::manifest::{Entry, Format, Manifest};

use super::directory::{Directory, Unwritten};
use super::increment::Increment;
use super::writer::{AofWriter, Catalog, DirectoryLock, Health, Reach};

/// A new increment that is to be made.
#[derive(Debug)]
pub struct Rotation {
    directory: Directory,
    manifest: Manifest,
    entry: Entry,
    stretch: Option<Stretch>,
    generation: u64,
    /// The right to write the manifest; none if another job has it.
    job: Option<DirectoryLock>,
}

/// A new increment that is made, empty and named.
#[derive(Debug)]
pub struct Rotated {
    manifest: Manifest,
    increment: Increment,
    stretch: Option<Stretch>,
    generation: u64,
}

/// Returns the error of a rewrite that is refused because another job of the AOF still runs.
fn is_busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the log is being rewritten or healed")
}

impl Rotation {
    /// Makes the increment and names it in the manifest.
    ///
    /// # Errors
    /// When a call to the system fails, or that another job was out; the AOF goes on in the increment that it has.
    pub fn run(self) -> io::Result<Rotated> {
        if self.job.is_none() {
            return Err(is_busy());
        }
        let path = self.directory.path(&self.entry);
        let increment = self.directory.make_increment(path, self.entry.number, self.stretch)?;
        self.directory.write_manifest(&self.manifest).map_err(|unwritten| {
            if !unwritten.is_unsure {
                // A file that cannot be removed is empty, and nothing names it.
                let _ = self.directory.disk.remove(&increment.path);
            }
            unwritten.error
        })?;
        let Rotation { manifest, stretch, generation, .. } = self;
        Ok(Rotated { manifest, increment, stretch, generation })
    }
}

impl AofWriter {
    /// Returns the job that makes a new increment. When it has run, the AOF switches to the increment.
    pub fn rotation(&mut self) -> Rotation {
        let stretch = self.directory.options.next_stretch();
        let mut manifest = self.catalog.manifest.clone();
        let entry = manifest.add_increment(&self.directory.options.name);
        // Each number is used once, because the state of the disk after a failed attempt is unknown.
        self.catalog.manifest.increment_number = entry.number;
        let (directory, generation, job) = (self.directory.clone(), self.catalog.generation, self.catalog.take_job());
        Rotation { directory, manifest, entry, stretch, generation, job }
    }

    /// Appends to this increment from now on, and returns its number.
    ///
    /// # Errors
    /// After a sync or an append that failed: the bytes before must be whole. If the AOF was healed or rewritten since, or is
    /// being rewritten: its manifest has changed. The increment is then removed with the next [`History`].
    pub fn switch(&mut self, rotated: Rotated) -> io::Result<i64> {
        if let Health::WriteFailed(reason) | Health::SyncFailed(reason) = &self.health {
            let error = io::Error::other(format!("the log is not whole: {reason}"));
            self.discard(rotated);
            return Err(error);
        }
        if rotated.generation != self.catalog.generation || self.catalog.take_job().is_none() {
            self.discard(rotated);
            return Err(is_busy());
        }
        let number = rotated.increment.number;
        self.bytes_before += self.increment_bytes();
        self.catalog.replace(rotated.manifest);
        self.lines.stretch = rotated.stretch.filter(|_| self.directory.options.checksums);
        self.tail.push(rotated.increment);
        Ok(number)
    }

    /// Gives up an increment that was made: the next [`History`] removes it. Until then the manifest on the disk may name it,
    /// and it is read as an empty one.
    pub fn discard(&mut self, mut rotated: Rotated) {
        self.catalog.unused.extend(rotated.manifest.increments.pop());
    }

    /// Returns the job that ends a rewrite: `base` stands for the journal up to where the increment `since` begins. If the
    /// AOF is being switched on, `since` is 0.
    ///
    /// # Errors
    /// If the AOF does not have that increment any more, because it was healed in between: then the rewrite was in vain. Or
    /// if another job is out.
    pub fn rewrite(&mut self, base: NewBase, since: i64) -> io::Result<Rewrite> {
        let job = self.catalog.take_job().ok_or_else(is_busy)?;
        let (directory, current) = (self.directory.clone(), &mut self.catalog.manifest);
        let mut manifest = current.clone();
        let is_there = manifest.increments.iter().any(|entry| entry.number == since);
        let is_first = self.is_waiting && since == 0;
        if !is_there && !is_first {
            return Err(io::Error::other("the increment that the rewrite began is no longer there"));
        }
        let entry = manifest.replace_base(&directory.options.name, base.format);
        current.base_number = entry.number;
        let mut waiting = None;
        let mut keep_from = since;
        if self.is_waiting {
            let increment = manifest.add_increment(&directory.options.name);
            (keep_from, current.increment_number) = (increment.number, increment.number);
            waiting = Some(directory.path(&increment));
        }
        manifest.retire_increments_before(keep_from);
        Ok(Rewrite { directory, manifest, base, entry, waiting, since: keep_from, job })
    }

    /// Takes the result of a rewrite that has run.
    pub fn rewritten(&mut self, rewritten: Rewritten) {
        let Rewritten { manifest, waiting, since, stands_for, bytes_before, .. } = rewritten;
        self.catalog.replace(manifest);
        if let Some(path) = waiting {
            self.is_waiting = false;
            let current = self.tail.current_mut();
            (current.number, current.path) = (since, path);
        }
        self.tail.retire_before(since);
        // The base is durable, so that the journal for which it stands is, too.
        self.synced = self.synced.max(Reach::at(stands_for));
        self.bytes_before = bytes_before;
        self.bytes_at_rewrite = self.bytes();
    }

    /// Returns the job that removes the files that the manifest calls history, and the ones that were made and never used.
    /// Returns none where there are no such files, and while another job is out. Under `aof-disable-auto-gc` it is not
    /// called. Due after each rewrite, good or bad, and after a start.
    pub fn history(&mut self) -> Option<History> {
        let Catalog { manifest, unused, .. } = &self.catalog;
        if manifest.history.is_empty() && unused.is_empty() || self.is_waiting {
            return None;
        }
        let job = self.catalog.take_job()?;
        let Catalog { manifest, unused, .. } = &mut self.catalog;
        manifest.history.append(unused);
        Some(History { directory: self.directory.clone(), manifest: manifest.clone(), _job: job })
    }

    /// Notes that the files that the manifest calls history are removed.
    pub fn history_removed(&mut self) {
        self.catalog.generation += 1;
        self.catalog.manifest.history.clear();
    }
}

/// A base that has been written to a file of its own, and synced.
#[derive(Clone, Debug)]
pub struct NewBase {
    /// The file, on the same file system as the AOF.
    pub file: PathBuf,
    /// The format of the base: RDB or requests.
    pub format: Format,
    /// The journal's offset up to which the base stands for the journal.
    pub stands_for: u64,
}

/// The end of a rewrite that is to be run.
#[derive(Debug)]
pub struct Rewrite {
    directory: Directory,
    manifest: Manifest,
    base: NewBase,
    entry: Entry,
    /// The future path of the increment that no manifest has named yet.
    waiting: Option<PathBuf>,
    since: i64,
    job: DirectoryLock,
}

/// A rewrite that has ended.
#[derive(Debug)]
pub struct Rewritten {
    manifest: Manifest,
    waiting: Option<PathBuf>,
    since: i64,
    stands_for: u64,
    bytes_before: u64,
    /// The right to write the manifest, held until the AOF has taken this result.
    _job: DirectoryLock,
}

impl Rewrite {
    /// Puts the base in its place and names it.
    ///
    /// # Errors
    /// When a call to the system fails. The AOF is as good as before: its files are still there. If it was being switched on,
    /// it is begun again (as the [`Folder`](super::Folder) that the AOF becomes).
    pub fn run(self) -> io::Result<Rewritten> {
        let (directory, disk) = (&self.directory, self.directory.disk.as_ref());
        let base = directory.path(&self.entry);
        self.put_in_place(&base).map_err(|unwritten| {
            if !unwritten.is_unsure {
                // A full disk needs the room. A file that cannot be removed is not named. An increment without its base
                // counts for nothing, and the AOF that was to begin with it is begun again.
                let _ = disk.remove(&base);
                self.waiting.iter().for_each(|path| _ = disk.remove(path));
                let _ = directory.sync().and_then(|()| disk.remove(&directory.options.unfinished_manifest()));
            }
            unwritten.error
        })?;
        let size = |path: &Path| disk.size(path).unwrap_or(0);
        let between = self.manifest.increments.iter().rev().skip(1);
        let bytes_before = size(&base) + between.map(|entry| size(&directory.path(entry))).sum::<u64>();
        let Rewrite { manifest, waiting, since, base, job, .. } = self;
        Ok(Rewritten { manifest, waiting, since, stands_for: base.stands_for, bytes_before, _job: job })
    }

    fn put_in_place(&self, base: &Path) -> Result<(), Unwritten> {
        let (directory, disk) = (&self.directory, self.directory.disk.as_ref());
        let renamed = directory.stage_manifest(&self.manifest).and_then(|()| {
            directory.sync()?;
            disk.rename(&self.base.file, base)?;
            self.waiting.as_ref().map_or(Ok(()), |path| disk.rename(&directory.options.waiting_increment(), path))?;
            directory.sync()
        });
        renamed.map_err(|error| Unwritten { error, is_unsure: false })?;
        directory.put_manifest()
    }
}

/// The job that removes the files that a rewrite has left over.
#[derive(Debug)]
pub struct History {
    directory: Directory,
    manifest: Manifest,
    _job: DirectoryLock,
}

impl History {
    /// Returns the files.
    pub fn files(&self) -> &[Entry] {
        &self.manifest.history
    }

    /// Removes the files, and then their lines in the manifest.
    ///
    /// # Errors
    /// When a call to the system fails; the next job tries the remaining files again.
    pub fn run(mut self) -> io::Result<()> {
        self.directory.remove_history(&mut self.manifest)
    }
}
