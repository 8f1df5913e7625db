//! The AOF that is appended to: one write a block, and the offsets that it has reached.
//!
//! The promises of each call are written once, for all files of this folder, in `mod.rs`. The holder of the AOF's lock may
//! call; no call waits for anything but a write.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{File, Lock};
use crate::format::annotation::{self, Block, Stretch};
use crate::format::manifest::{Entry, Manifest};
use crate::replay::{self, Replay};

use super::directory::{Directory, Options};
use super::increment::{Increment, Tail};
use super::tampering::Tampering;

/// The state of the AOF after its last write and its last sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// All writes and syncs have succeeded.
    Good,
    /// The last append has failed, and nothing of it counts; the same bytes can be appended again. The text is the system's.
    WriteFailed(String),
    /// A sync has failed: the bytes that were written since the last one may not be on the disk, and only healing brings them
    /// there. The text is the system's.
    SyncFailed(String),
}

/// The increment of a healing that has failed; its file still exists.
#[derive(Clone, Debug)]
pub(super) struct LeftOver {
    pub(super) path: PathBuf,
    /// True if a manifest that names this increment may be on the disk.
    pub(super) is_named: bool,
}

/// The database that is selected where an increment is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected {
    pub(super) number: i64,
    pub(super) length: u64,
    pub(super) database: u32,
}

/// The remains of healings that have failed.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) increment: Option<LeftOver>,
    /// The database that is selected where the old file is cut, once it was read.
    pub(super) selected: Option<Selected>,
}

/// Two offsets of the journal that one event (a write, a sync) has reached: the end of the bytes that were handed over, and
/// the end of the last block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) end: u64,
    /// The end of the last block. The journal from there to `end` is for replicas only.
    pub(super) blocks_end: u64,
}

impl Reach {
    pub(super) fn at(offset: u64) -> Reach {
        Reach { end: offset, blocks_end: offset }
    }

    pub(super) fn max(self, other: Reach) -> Reach {
        Reach { end: self.end.max(other.end), blocks_end: self.blocks_end.max(other.blocks_end) }
    }
}

/// The lock of a directory. A job that writes the manifest holds a clone; while there is none, a new job may be taken.
pub(super) type DirectoryLock = Arc<Box<dyn Lock>>;

/// The manifest as it is on the disk, and the right to write it.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) manifest: Manifest,
    /// Increments that were made and never switched to: they are empty, and to be removed.
    pub(super) unused: Vec<Entry>,
    /// The number of changes of the manifest so far.
    pub(super) generation: u64,
    /// The lock, held as long as the AOF lives. The job that writes the manifest, if one is out, has a clone. Two such jobs
    /// would undo each other's work, and no other process may have the directory before the job ends.
    pub(super) lock: DirectoryLock,
}

impl Catalog {
    /// Returns the right to write the manifest; none while another job has it.
    pub(super) fn take_job(&self) -> Option<DirectoryLock> {
        (Arc::strong_count(&self.lock) == 1).then(|| Arc::clone(&self.lock))
    }

    /// Takes over the manifest that a job has written.
    pub(super) fn replace(&mut self, manifest: Manifest) {
        self.manifest = manifest;
        self.generation += 1;
    }
}

/// The state of the annotation lines that are written in front of the AOF's blocks.
#[derive(Debug)]
pub(super) struct BlockLines {
    /// The current stretch of numbered blocks; none if the next block begins a new stretch.
    pub(super) stretch: Option<Stretch>,
    last_time: i64,
    head: Vec<u8>,
    time: Vec<u8>,
}

impl BlockLines {
    /// Writes the line with the time, if one is due.
    fn write_time(&mut self, is_wanted: bool, now: i64) -> bool {
        self.time.clear();
        let is_due = is_wanted && now > self.last_time;
        if is_due {
            annotation::write_time(&mut self.time, now);
        }
        is_due
    }

    /// Writes the annotation line of a block, with the checksum of the block's content: the line with the time and these
    /// slices. If the block begins a new stretch, the line with the stretch's salt is written first. `block` has neither its
    /// number nor its length yet.
    fn write_head(&mut self, options: &mut Options, mut block: Block, slices: &[IoSlice<'_>]) {
        self.head.clear();
        if !options.checksums {
            return;
        }
        let stretch = *self.stretch.get_or_insert_with(|| {
            let stretch = Stretch::new(options.next_salt());
            stretch.write_salt(&mut self.head);
            stretch
        });
        let length = self.time.len() + slices.iter().map(|slice| slice.len()).sum::<usize>();
        (block.number, block.length) = (stretch.next_number, length as u64);
        let content = std::iter::once(self.time.as_slice()).chain(slices.iter().map(|slice| &**slice));
        annotation::write_block(&mut self.head, stretch.salt, &block, content);
    }
}

/// The AOF. Every call that may wait for the disk is taken from it as a job and run elsewhere, so its lock is never held for
/// long.
#[derive(Debug)]
pub struct AofWriter {
    pub(super) directory: Directory,
    pub(super) catalog: Catalog,
    /// The end of the journal that has written the files of the directory before, if it is the journal of this process.
    known_end: Option<u64>,
    pub(super) tail: Tail,
    /// True if no manifest names the current increment yet: the AOF is being switched on.
    pub(super) is_waiting: bool,
    pub(super) written: Reach,
    pub(super) synced: Reach,
    pub(super) health: Health,
    /// The number of syncs that have failed.
    sync_failures: u64,
    pub(super) remains: Remains,
    pub(super) lines: BlockLines,
    /// Bytes of the files before the last.
    pub(super) bytes_before: u64,
    /// Bytes of all files when the base was new.
    pub(super) bytes_at_rewrite: u64,
    /// True if the last increment's file holds bytes of a failed write behind its valid length.
    pub(super) is_torn: bool,
}

/// The state with which an AOF begins.
pub(super) struct Beginning {
    pub(super) directory: Directory,
    pub(super) manifest: Manifest,
    pub(super) known_end: Option<u64>,
    pub(super) lock: DirectoryLock,
    pub(super) increment: Increment,
    pub(super) end: u64,
    pub(super) stretch: Option<Stretch>,
    pub(super) bytes_before: u64,
    pub(super) bytes_at_rewrite: u64,
}

/// The most slices of a block that need no allocation.
const SLICES: usize = 16;

impl AofWriter {
    pub(super) fn new(beginning: Beginning) -> AofWriter {
        let Beginning { directory, manifest, known_end, lock, increment, end, stretch, .. } = beginning;
        AofWriter {
            directory,
            catalog: Catalog { manifest, unused: Vec::new(), generation: 0, lock },
            known_end,
            tail: Tail::new(increment),
            is_waiting: false,
            written: Reach::at(end),
            synced: Reach::at(end),
            health: Health::Good,
            sync_failures: 0,
            remains: Remains::default(),
            lines: BlockLines { stretch, last_time: 0, head: Vec::new(), time: Vec::new() },
            bytes_before: beginning.bytes_before,
            bytes_at_rewrite: beginning.bytes_at_rewrite,
            is_torn: false,
        }
    }

    /// Returns the folder of its files.
    pub fn folder(&self) -> &Path {
        &self.directory.options.folder
    }

    /// Returns the journal's offset behind the written bytes.
    pub fn end(&self) -> u64 {
        self.written.end
    }

    /// Returns the journal's offset up to which it is durable.
    pub fn synced_end(&self) -> u64 {
        self.synced.end
    }

    /// Returns the health of the AOF. While it is not good, no write may be acknowledged.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Returns whether the AOF is being switched on: before its first base is written it cannot be read back.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Returns the bytes of all files that are read at a start (`aof_current_size`).
    pub fn bytes(&self) -> u64 {
        self.bytes_before + self.increment_bytes()
    }

    /// Returns the bytes of all files when the last rewrite ended, or of the base at the start (`aof_base_size`).
    pub fn bytes_at_rewrite(&self) -> u64 {
        self.bytes_at_rewrite
    }

    /// Returns the bytes of the increment that is appended to.
    pub fn increment_bytes(&self) -> u64 {
        self.tail.current().length
    }

    /// Returns the options by which a base of this AOF in the form of requests is written.
    pub fn base_options(&mut self) -> Options {
        let salt = self.directory.options.next_salt().0;
        Options { salt, ..self.directory.options.clone() }
    }

    /// Returns the path where a base of this AOF is written under this mark ([`Options::unfinished_base`]).
    pub fn unfinished_base(&self, mark: &str) -> PathBuf {
        self.directory.options.unfinished_base(mark)
    }

    /// Switches the checksums of blocks on or off, from the next block on.
    pub fn set_checksums(&mut self, checksums: bool) {
        let options = &mut self.directory.options;
        if checksums && !options.checksums {
            self.lines.stretch = None;
        }
        options.checksums = checksums;
    }

    /// Switches `#TS:` lines on or off.
    pub fn set_timestamps(&mut self, timestamps: bool) {
        self.directory.options.timestamps = timestamps;
    }

    /// Makes the AOF begin at this offset of the journal: that of its first base, while nothing has been appended.
    pub fn begin_at(&mut self, offset: u64) {
        (self.written, self.synced) = (Reach::at(offset), Reach::at(offset));
    }

    /// Writes the journal from where it was to `end`: the slices are whole pieces, and are all of it that is to be logged.
    /// One call to the system. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The errors of the system: none of these bytes counts, and [`AofWriter::health`] is not good until an append succeeds.
    /// After a sync that failed every append is refused.
    pub fn append(&mut self, end: u64, slices: &[IoSlice<'_>], now: i64) -> io::Result<()> {
        if let Health::SyncFailed(reason) = &self.health {
            return Err(io::Error::other(format!("a sync has failed before: {reason}")));
        }
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length == 0 {
            self.written.end = end;
            return Ok(());
        }
        self.cut_back()?;
        let has_time = self.lines.write_time(self.directory.options.timestamps, now);
        self.write_head(end, slices);
        let (BlockLines { head, time, .. }, current) = (&self.lines, self.tail.current_mut());
        let own = [IoSlice::new(head), IoSlice::new(time)];
        let written = if slices.len() <= SLICES {
            let mut all = [IoSlice::new(&[]); SLICES + 2];
            all[..2].copy_from_slice(&own);
            all[2..2 + slices.len()].copy_from_slice(slices);
            current.file.append(&all[..2 + slices.len()])
        } else {
            current.file.append(&[&own, slices].concat())
        };
        if let Err(error) = written {
            self.append_failed(&error);
            return Err(error);
        }
        current.length += (head.len() + time.len() + length) as u64;
        self.written = Reach::at(end);
        self.lines.stretch.iter_mut().for_each(|stretch| stretch.next_number += 1);
        if has_time {
            self.lines.last_time = now;
        }
        self.health = Health::Good;
        Ok(())
    }

    /// Takes back the bytes that an append that failed has left.
    fn cut_back(&mut self) -> io::Result<()> {
        if !self.is_torn {
            return Ok(());
        }
        let current = self.tail.current();
        let cut = current.file.truncate(current.length);
        match cut {
            Ok(()) => self.is_torn = false,
            Err(ref error) => self.health = Health::WriteFailed(error.to_string()),
        }
        cut
    }

    fn append_failed(&mut self, error: &io::Error) {
        self.health = Health::WriteFailed(error.to_string());
        self.is_torn = true;
        let is_first = self.lines.stretch.is_some_and(|stretch| stretch.next_number == 0);
        if !self.lines.head.is_empty() && is_first {
            // The line with the salt is cut off with the block.
            self.lines.stretch = None;
        }
        // Bytes that cannot be cut back now are cut back before the next append.
        let _ = self.cut_back();
    }

    /// Writes the annotation line of the block that extends the AOF to the journal's offset `end`.
    fn write_head(&mut self, end: u64, slices: &[IoSlice<'_>]) {
        let from = self.written.blocks_end;
        let unsynced = from.saturating_sub(self.synced.blocks_end);
        let block = Block { number: 0, from, covered: end - from, length: 0, unsynced };
        self.lines.write_head(&mut self.directory.options, block, slices);
    }

    /// Ends the AOF if all of it is durable: it appends a block without content that says so. A reader that finds damage in
    /// front of that block knows that the part was whole. For a server that ends, after its last sync.
    ///
    /// # Errors
    /// When a call to the system fails; the AOF is as good as before.
    pub fn close(mut self) -> io::Result<()> {
        let is_sealed = self.directory.options.checksums && self.lines.stretch.is_some();
        if !is_sealed || self.synced.end != self.written.end || self.health != Health::Good {
            return Ok(());
        }
        self.lines.time.clear();
        self.cut_back()?;
        self.write_head(self.written.end, &[]);
        let current = self.tail.current();
        current.file.append(&[IoSlice::new(&self.lines.head)])?;
        current.file.sync()
    }

    /// Returns the job that syncs; none if all is durable, or if only healing helps.
    pub fn sync_job(&self) -> Option<SyncJob> {
        if self.synced.end == self.written.end || matches!(self.health, Health::SyncFailed(_)) {
            return None;
        }
        let unsynced = self.tail.iter().filter(|part| !part.is_synced());
        let files = unsynced.map(|part| (part.number, part.file.clone(), part.length)).collect();
        Some(SyncJob { files, reach: self.written, failures: self.sync_failures })
    }

    /// Notes that a job has succeeded. If another job has failed since this one was taken, the success proves nothing: the
    /// system reports bytes that it could not write once only, to the first of two callers.
    pub fn synced(&mut self, job: &SyncJob) {
        if job.failures != self.sync_failures {
            return;
        }
        job.files.iter().for_each(|(number, _, length)| self.tail.synced(*number, *length));
        self.synced = self.synced.max(job.reach);
        self.tail.drop_synced();
    }

    /// Notes that a job has failed: the bytes that were written since the last successful sync are not trusted any more.
    pub fn sync_failed(&mut self, error: &io::Error) {
        self.sync_failures += 1;
        self.health = Health::SyncFailed(error.to_string());
    }

    /// Returns the change that another process has made to a file of this AOF, if any. While a job is out nothing is checked,
    /// because the job changes the files itself.
    pub fn tampering(&self) -> Option<Tampering> {
        self.catalog.take_job()?;
        let (directory, current) = (&self.directory, self.tail.current());
        let named = self.catalog.manifest.base.iter().chain(&self.catalog.manifest.increments);
        let others = named.map(|entry| directory.path(entry)).filter(|path| *path != current.path);
        // An AOF that is being switched on has no other file yet: the existing files are those of an older one.
        let others = std::iter::once(directory.manifest_path()).chain(others).filter(|_| !self.is_waiting);
        let mut all = others.chain(std::iter::once(current.path.clone()));
        if let Some(path) = all.find(|path| directory.is_gone(path)) {
            return Some(Tampering::Removed(path));
        }
        // If the system cannot tell the sizes now, a later check asks again.
        let (own, named) = (current.file.size().ok()?, directory.disk.size(&current.path).ok()?);
        let path = current.path.clone();
        match own {
            _ if named != own => Some(Tampering::Exchanged(path)),
            _ if own < current.length => Some(Tampering::Cut(path, own, current.length)),
            _ if own > current.length && !self.is_torn => Some(Tampering::Extended(path, own - current.length)),
            _ => None,
        }
    }

    /// Returns the journal's offset behind all that was written to the directory before this AOF, which is being switched on.
    /// Reads the files, unless this process's journal has written them.
    ///
    /// # Errors
    /// When an existing file cannot be read.
    pub fn past_end(&self) -> io::Result<u64> {
        self.known_end.map_or_else(|| self.directory.journal_end(&self.catalog.manifest), Ok)
    }

    /// Reads back the files of the AOF, while nothing is appended to it. If the AOF is being switched on, these are the files
    /// of the older AOF.
    pub fn replay(&self, options: replay::Options) -> Replay {
        let Directory { disk, options: own } = &self.directory;
        Replay::new(disk.clone(), &own.folder, self.catalog.manifest.clone(), options)
    }

    /// Returns whether the manifest names no file of the AOF yet: there is nothing to read back.
    pub fn is_nameless(&self) -> bool {
        self.catalog.manifest.base.is_none() && self.catalog.manifest.increments.is_empty()
    }
}

/// The files to be synced, and the offsets that are durable then. It shares the files with the AOF and nothing else: the
/// thread that runs it holds no lock, and others append at the same time.
#[derive(Clone, Debug)]
pub struct SyncJob {
    /// The files, each with its number and with its length when the job was taken.
    files: Vec<(i64, Arc<dyn File>, u64)>,
    reach: Reach,
    /// The number of failed syncs when the job was taken.
    failures: u64,
}

impl SyncJob {
    /// Returns the journal's offset up to which it is durable when this job has run.
    pub fn end(&self) -> u64 {
        self.reach.end
    }

    /// Syncs the files, in the order in which they were written.
    ///
    /// # Errors
    /// When a sync fails; then [`AofWriter::sync_failed`] is due, and none of these bytes may be counted on.
    pub fn run(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|(_, file, _)| file.sync())
    }
}
