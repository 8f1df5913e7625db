//! A rewrite: a new increment, then a new base that stands for all before it, then the old files go.
//!
//! The increment begins where the base stands. The caller that takes the data for the base notes the journal's offset,
//! appends the journal up to there, and switches to the increment before it appends more. The first request behind the switch
//! has to be a SELECT, because each file is read by itself. Until the base is there the AOF is read as base and increments,
//! in order.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, Open};
use crate::format::annotation::{self, Salt};
use crate::format::manifest::{Entry, Format, Manifest};

use super::place::{Options, Unwritten, put_manifest, stage_manifest, unfinished_manifest, write_manifest};
use super::writer::{FolderLock, Health, Increment, Log};

/// A new increment that is to be made.
#[derive(Debug)]
pub struct Rotation {
    disk: Arc<dyn Disk>,
    options: Options,
    manifest: Manifest,
    entry: Entry,
    salt: Option<Salt>,
    generation: u64,
    /// None where another job is out.
    job: Option<FolderLock>,
}

/// A new increment that is there, empty and named.
#[derive(Debug)]
pub struct Rotated {
    manifest: Manifest,
    increment: Increment,
    salt: Option<Salt>,
    generation: u64,
}

/// That another job of the log is not over.
fn is_busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the log is being rewritten or healed")
}

/// Makes an increment, durable with its name.
pub(super) fn make_increment(disk: &dyn Disk, path: PathBuf, number: i64, salt: Option<Salt>) -> io::Result<Increment> {
    let file = disk.open(&path, Open::Create)?;
    let mut line = Vec::new();
    if let Some(salt) = salt {
        annotation::write_salt(&mut line, salt);
        file.append(&[IoSlice::new(&line)])?;
    }
    // Also where it is empty: another file may have had this name before. And the name before the manifest's.
    file.sync()?;
    disk.sync_folder(path.parent().unwrap_or(Path::new("")))?;
    let length = line.len() as u64;
    Ok(Increment { number, path, file, length, synced_length: length })
}

impl Rotation {
    /// Makes the increment and names it in the manifest.
    ///
    /// # Errors
    /// Those of the system, or that another job was out; the AOF goes on in the increment that it has.
    pub fn run(self) -> io::Result<Rotated> {
        if self.job.is_none() {
            return Err(is_busy());
        }
        let disk = self.disk.as_ref();
        let path = self.options.path(self.entry.path());
        let increment = make_increment(disk, path.clone(), self.entry.number, self.salt)?;
        write_manifest(disk, &self.options, &self.manifest).map_err(|unwritten| {
            if !unwritten.is_unsure {
                // A file that cannot be removed is empty, and nothing names it.
                let _ = disk.remove(&path);
            }
            unwritten.error
        })?;
        let Rotation { manifest, salt, generation, .. } = self;
        Ok(Rotated { manifest, increment, salt, generation })
    }
}

impl Log {
    /// A new increment, to be run and then switched to.
    pub fn rotation(&mut self) -> Rotation {
        let salt = self.options.checksums.then(|| self.options.next_salt());
        let mut manifest = self.manifest.clone();
        let entry = manifest.add_increment(&self.options.name);
        // A number is used once: the state of the disk after an attempt that failed is unknown.
        self.manifest.increment_number = entry.number;
        let (disk, options) = (self.disk.clone(), self.options.clone());
        Rotation { disk, options, manifest, entry, salt, generation: self.generation, job: self.take_job() }
    }

    /// Appends to this increment from now on, and returns its number.
    ///
    /// # Errors
    /// After a sync or an append that failed: the bytes before must be whole. If the AOF was healed or rewritten since, or is
    /// being rewritten: its manifest has changed. The increment goes with the next history.
    pub fn switch(&mut self, rotated: Rotated) -> io::Result<i64> {
        if let Health::WriteFailed(reason) | Health::SyncFailed(reason) = &self.health {
            let error = io::Error::other(format!("the log is not whole: {reason}"));
            self.discard(rotated);
            return Err(error);
        }
        if rotated.generation != self.generation || self.take_job().is_none() {
            self.discard(rotated);
            return Err(is_busy());
        }
        let number = rotated.increment.number;
        self.generation += 1;
        self.bytes_before += self.increment_bytes();
        self.manifest = rotated.manifest;
        self.salt = rotated.salt.filter(|_| self.options.checksums);
        self.next_number = 0;
        self.tail.push(rotated.increment);
        self.tail.retain(|part| part.number == number || part.synced_length < part.length);
        Ok(number)
    }

    /// Does without an increment that is there: it goes with the next history. Until then the manifest on the disk may name
    /// it, and it is read as an empty one.
    pub fn discard(&mut self, mut rotated: Rotated) {
        self.unused.extend(rotated.manifest.increments.pop());
    }

    /// The end of a rewrite: `base` stands for the journal up to where the increment `since` begins. Of a log that is being
    /// switched on `since` is 0.
    ///
    /// # Errors
    /// When the log has no such increment any more, because it was healed meanwhile: then the rewrite was for nothing. Or when
    /// another job is out.
    pub fn rewrite(&mut self, base: NewBase, since: i64) -> io::Result<Rewrite> {
        let job = self.take_job().ok_or_else(is_busy)?;
        let mut manifest = self.manifest.clone();
        let is_there = manifest.increments.iter().any(|entry| entry.number == since);
        let is_first = self.is_waiting && since == 0;
        if !is_there && !is_first {
            return Err(io::Error::other("the increment that the rewrite began is no longer there"));
        }
        let entry = manifest.replace_base(&self.options.name, base.format);
        self.manifest.base_number = entry.number;
        let mut waiting = None;
        let mut keep_from = since;
        if self.is_waiting {
            let increment = manifest.add_increment(&self.options.name);
            (keep_from, self.manifest.increment_number) = (increment.number, increment.number);
            waiting = Some(self.options.path(increment.path()));
        }
        manifest.retire_increments_before(keep_from);
        let (disk, options) = (self.disk.clone(), self.options.clone());
        Ok(Rewrite { disk, options, manifest, base, entry, waiting, since: keep_from, job })
    }

    /// That a rewrite has run.
    pub fn rewritten(&mut self, rewritten: Rewritten) {
        let Rewritten { manifest, waiting, since, stands_for, bytes_before, .. } = rewritten;
        self.manifest = manifest;
        self.generation += 1;
        if let Some(path) = waiting {
            self.is_waiting = false;
            if let Some(part) = self.tail.last_mut() {
                (part.number, part.path) = (since, path);
            }
        }
        self.tail.retain(|part| part.number >= since);
        // The base is durable, so that the journal for which it stands is, too.
        self.synced = self.synced.max(stands_for);
        self.synced_blocks = self.synced_blocks.max(stands_for);
        self.bytes_before = bytes_before;
        self.bytes_at_rewrite = self.bytes();
    }

    /// Returns the job that removes the files that the manifest calls history, and the ones that were made and never used.
    /// Returns none where there are no such files, and while another job is out. Under `aof-disable-auto-gc` it is not
    /// called. Due after each rewrite, good or bad, and after a start.
    pub fn history(&mut self) -> Option<History> {
        if self.manifest.history.is_empty() && self.unused.is_empty() || self.is_waiting {
            return None;
        }
        let job = self.take_job()?;
        self.manifest.history.append(&mut self.unused);
        let (disk, options, manifest) = (self.disk.clone(), self.options.clone(), self.manifest.clone());
        Some(History { disk, options, manifest, _job: job })
    }

    /// That history is gone.
    pub fn history_removed(&mut self) {
        self.generation += 1;
        self.manifest.history.clear();
    }
}

/// A base that has been written to a file of its own, and synced.
#[derive(Clone, Debug)]
pub struct NewBase {
    /// The file, on the same file system as the log.
    pub file: PathBuf,
    /// In which words it is written.
    pub format: Format,
    /// The journal's offset that it stands for.
    pub stands_for: u64,
}

/// The end of a rewrite that is to be run.
#[derive(Debug)]
pub struct Rewrite {
    disk: Arc<dyn Disk>,
    options: Options,
    manifest: Manifest,
    base: NewBase,
    entry: Entry,
    /// The future path of the increment that no manifest has named yet.
    waiting: Option<PathBuf>,
    since: i64,
    job: FolderLock,
}

/// A rewrite that has ended.
#[derive(Debug)]
pub struct Rewritten {
    manifest: Manifest,
    waiting: Option<PathBuf>,
    since: i64,
    stands_for: u64,
    bytes_before: u64,
    /// Until the log has heard of it.
    _job: FolderLock,
}

impl Rewrite {
    /// Puts the base in its place and names it.
    ///
    /// # Errors
    /// Those of the system. The AOF is as good as before: its files are still there. One that is being switched on is begun
    /// again ([`Log::into_folder`]).
    pub fn run(self) -> io::Result<Rewritten> {
        let disk = self.disk.as_ref();
        let base = self.options.path(self.entry.path());
        self.put_in_place(&base).map_err(|unwritten| {
            if !unwritten.is_unsure {
                // A full disk needs the room. A file that cannot be removed is not named. An increment without its base
                // counts for nothing, and the AOF that was to begin with it is begun again.
                let _ = disk.remove(&base);
                self.waiting.iter().for_each(|path| _ = disk.remove(path));
                let _ = disk
                    .sync_folder(&self.options.folder)
                    .and_then(|()| disk.remove(&unfinished_manifest(&self.options)));
            }
            unwritten.error
        })?;
        let size = |path: &Path| disk.size(path).unwrap_or(0);
        let between = self.manifest.increments.iter().rev().skip(1);
        let bytes_before = size(&base) + between.map(|entry| size(&self.options.path(entry.path()))).sum::<u64>();
        let Rewrite { manifest, waiting, since, base, job, .. } = self;
        Ok(Rewritten { manifest, waiting, since, stands_for: base.stands_for, bytes_before, _job: job })
    }

    fn put_in_place(&self, base: &Path) -> Result<(), Unwritten> {
        let disk = self.disk.as_ref();
        let renamed = stage_manifest(disk, &self.options, &self.manifest).and_then(|()| {
            disk.sync_folder(&self.options.folder)?;
            disk.rename(&self.base.file, base)?;
            self.waiting.as_ref().map_or(Ok(()), |path| disk.rename(&self.options.waiting_increment(), path))?;
            disk.sync_folder(&self.options.folder)
        });
        renamed.map_err(|error| Unwritten { error, is_unsure: false })?;
        put_manifest(disk, &self.options)
    }
}

/// Files that a rewrite has left over, to be removed.
#[derive(Debug)]
pub struct History {
    disk: Arc<dyn Disk>,
    options: Options,
    manifest: Manifest,
    _job: FolderLock,
}

impl History {
    /// The files.
    pub fn files(&self) -> &[Entry] {
        &self.manifest.history
    }

    /// Removes them, and then their lines.
    ///
    /// # Errors
    /// Those of the system; the remaining files are tried again with the next.
    pub fn run(mut self) -> io::Result<()> {
        for entry in std::mem::take(&mut self.manifest.history) {
            match self.disk.remove(&self.options.path(entry.path())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // A file that were there again without its line would be taken for one that the manifest has lost.
        self.disk.sync_folder(&self.options.folder)?;
        Ok(write_manifest(self.disk.as_ref(), &self.options, &self.manifest)?)
    }
}
