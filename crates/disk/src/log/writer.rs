//! The AOF that is appended to: one write a block, and the offsets that it has reached.
//!
//! The promises of each call are written once, for all files of this folder, in `mod.rs`. The holder of the AOF's lock may
//! call; no call waits for anything but a write.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, File, Lock};
use crate::format::annotation::{self, Block, Salt};
use crate::format::manifest::{Entry, Manifest};

use super::place::Options;

/// Whether the log can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Good,
    /// The last append has failed, and nothing of it counts; the same bytes can be appended again. The text is the system's.
    WriteFailed(String),
    /// A sync has failed: the bytes that were written since the last one may not be on the disk, and only healing brings them
    /// there. The text is the system's.
    SyncFailed(String),
}

/// An increment of which something may not be synced.
#[derive(Clone, Debug)]
pub(super) struct Increment {
    pub(super) number: i64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    /// Bytes that count; there may be more after an append that failed.
    pub(super) length: u64,
    /// Bytes that are durable.
    pub(super) synced_length: u64,
}

/// The increment of a healing that has failed, still there.
#[derive(Clone, Debug)]
pub(super) struct LeftOver {
    pub(super) path: PathBuf,
    /// Whether a manifest names it that may be on the disk.
    pub(super) is_named: bool,
}

/// The database that is selected where an increment is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected {
    pub(super) number: i64,
    pub(super) length: u64,
    pub(super) database: u32,
}

/// The AOF. Every call that may wait for the disk is taken from it as a job and run elsewhere, so its lock is never held for
/// long.
#[derive(Debug)]
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: Options,
    pub(super) manifest: Manifest,
    /// Increments that were made and never switched to: they are empty, and to be removed.
    pub(super) unused: Vec<Entry>,
    /// As in the folder that it was begun in.
    pub(super) known_end: Option<u64>,
    /// Increments that are not synced whole, in order; the last is appended to.
    pub(super) tail: Vec<Increment>,
    /// Whether the increment is one that no manifest names yet.
    pub(super) is_waiting: bool,
    /// The journal's offset up to which it was handed over.
    pub(super) end: u64,
    /// The journal's offset behind the last block.
    pub(super) blocks_end: u64,
    /// The journal's offset up to which it is durable.
    pub(super) synced: u64,
    /// The journal's offset behind the last block that is durable.
    pub(super) synced_blocks: u64,
    pub(super) health: Health,
    /// How many syncs have failed.
    pub(super) sync_failures: u64,
    /// The remains of the last healing, where that failed.
    pub(super) left_over: Option<LeftOver>,
    pub(super) selected: Option<Selected>,
    /// The salt of the stretch; none where the next block begins one.
    pub(super) salt: Option<Salt>,
    pub(super) next_number: u64,
    /// Bytes of the files before the last.
    pub(super) bytes_before: u64,
    /// Bytes of all files when the base was new.
    pub(super) bytes_at_rewrite: u64,
    last_time: i64,
    /// Whether bytes that do not count lie behind the last increment's length.
    pub(super) is_torn: bool,
    head: Vec<u8>,
    time: Vec<u8>,
    /// Held as long as the AOF lives. A clone is with the job that writes the manifest, if one is out. Two such jobs would
    /// undo each other's work, and no other process has the folder before the job ends.
    pub(super) lock: FolderLock,
    /// How often the manifest has changed.
    pub(super) generation: u64,
}

/// The lock of a folder, and the right to write its manifest where there is no clone.
pub(super) type FolderLock = Arc<Box<dyn Lock>>;

/// The state with which an AOF begins.
pub(super) struct Beginning {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: Options,
    pub(super) manifest: Manifest,
    pub(super) known_end: Option<u64>,
    pub(super) lock: FolderLock,
    pub(super) increment: Increment,
    pub(super) end: u64,
    pub(super) tail: Option<(Salt, u64)>,
    pub(super) bytes_before: u64,
    pub(super) bytes_at_rewrite: u64,
}

/// Slices that a block has at most without an allocation for them.
const SLICES: usize = 16;

impl Log {
    pub(super) fn new(beginning: Beginning) -> Log {
        let Beginning { disk, options, manifest, known_end, lock, increment, end, tail, .. } = beginning;
        Log {
            disk,
            options,
            manifest,
            unused: Vec::new(),
            known_end,
            tail: vec![increment],
            is_waiting: false,
            end,
            blocks_end: end,
            synced: end,
            synced_blocks: end,
            health: Health::Good,
            sync_failures: 0,
            left_over: None,
            selected: None,
            salt: tail.map(|(salt, _)| salt),
            next_number: tail.map_or(0, |(_, number)| number),
            bytes_before: beginning.bytes_before,
            bytes_at_rewrite: beginning.bytes_at_rewrite,
            last_time: 0,
            is_torn: false,
            head: Vec::new(),
            time: Vec::new(),
            lock,
            generation: 0,
        }
    }

    /// The right to write the manifest; none while another has it.
    pub(super) fn take_job(&self) -> Option<FolderLock> {
        (Arc::strong_count(&self.lock) == 1).then(|| Arc::clone(&self.lock))
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Returns the journal's offset behind the written bytes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The journal's offset up to which it is durable.
    pub fn synced_end(&self) -> u64 {
        self.synced
    }

    /// Whether it can be relied on. While it is not good no write is to be acknowledged.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Whether it is being switched on: it is no log before its first base is there.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Bytes of all files that are read at a start (`aof_current_size`).
    pub fn bytes(&self) -> u64 {
        self.bytes_before + self.increment_bytes()
    }

    /// Bytes of all files when the last rewrite ended, or of the base at the start (`aof_base_size`).
    pub fn bytes_at_rewrite(&self) -> u64 {
        self.bytes_at_rewrite
    }

    /// Bytes of the increment that is appended to.
    pub fn increment_bytes(&self) -> u64 {
        self.current().length
    }

    /// How a base of this log in words of requests is written.
    pub fn base_options(&mut self) -> Options {
        let salt = self.options.next_salt().0;
        Options { salt, ..self.options.clone() }
    }

    /// Returns the path where a base of this AOF is written under this mark ([`Options::unfinished_base`]).
    pub fn unfinished_base(&self, mark: &str) -> PathBuf {
        self.options.unfinished_base(mark)
    }

    /// Switches the sums of blocks on or off, from the next block on.
    pub fn set_checksums(&mut self, checksums: bool) {
        if checksums && !self.options.checksums {
            self.salt = None;
        }
        self.options.checksums = checksums;
    }

    /// Switches `#TS:` lines on or off.
    pub fn set_timestamps(&mut self, timestamps: bool) {
        self.options.timestamps = timestamps;
    }

    pub(super) fn current(&self) -> &Increment {
        self.tail.last().expect("a log has an increment that is appended to")
    }

    fn current_mut(&mut self) -> &mut Increment {
        self.tail.last_mut().expect("a log has an increment that is appended to")
    }

    /// Makes the AOF begin at this offset of the journal: that of its first base, while nothing has been appended.
    pub fn begin_at(&mut self, offset: u64) {
        (self.end, self.blocks_end) = (offset, offset);
        (self.synced, self.synced_blocks) = (offset, offset);
    }

    /// Writes the journal from where it was to `end`: the slices are whole pieces, and are all of it that is to be logged.
    /// One call to the system. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Those of the system: none of these bytes counts, and [`Log::health`] is not good until an append succeeds. After a
    /// sync that failed every append is refused.
    pub fn append(&mut self, end: u64, slices: &[IoSlice<'_>], now: i64) -> io::Result<()> {
        if let Health::SyncFailed(reason) = &self.health {
            return Err(io::Error::other(format!("a sync has failed before: {reason}")));
        }
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length == 0 {
            self.end = end;
            return Ok(());
        }
        self.cut_back()?;
        let (covered, has_time) = (end - self.blocks_end, self.write_time(now));
        self.write_head(covered, length, slices);
        let Log { head, time, tail, .. } = self;
        let current = tail.last_mut().expect("a log has an increment that is appended to");
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
        (self.end, self.blocks_end) = (end, end);
        self.next_number += 1;
        if has_time {
            self.last_time = now;
        }
        self.health = Health::Good;
        Ok(())
    }

    /// Takes back the bytes that an append that failed has left.
    fn cut_back(&mut self) -> io::Result<()> {
        if !self.is_torn {
            return Ok(());
        }
        let current = self.current();
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
        if !self.head.is_empty() && self.next_number == 0 {
            // The line with the salt goes with the block.
            self.salt = None;
        }
        // Bytes that cannot be cut back now are cut back before the next append.
        let _ = self.cut_back();
    }

    /// The line with the time, where there has to be one.
    fn write_time(&mut self, now: i64) -> bool {
        self.time.clear();
        let is_due = self.options.timestamps && now > self.last_time;
        if is_due {
            annotation::write_time(&mut self.time, now);
        }
        is_due
    }

    /// The line in front of the block, and that of a new stretch.
    fn write_head(&mut self, covered: u64, length: usize, slices: &[IoSlice<'_>]) {
        self.head.clear();
        if !self.options.checksums {
            return;
        }
        let salt = match self.salt {
            Some(salt) => salt,
            None => {
                let salt = self.options.next_salt();
                (self.salt, self.next_number) = (Some(salt), 0);
                annotation::write_salt(&mut self.head, salt);
                salt
            }
        };
        let block = Block {
            number: self.next_number,
            from: self.blocks_end,
            covered,
            length: (self.time.len() + length) as u64,
            unsynced: self.blocks_end.saturating_sub(self.synced_blocks),
        };
        let content = std::iter::once(self.time.as_slice()).chain(slices.iter().map(|slice| &**slice));
        annotation::write_block(&mut self.head, salt, &block, content);
    }

    /// Ends the AOF where it is durable: a block without content says so, and a reader that finds damage in front of it knows
    /// that it was whole. For a server that ends, after its last sync.
    ///
    /// # Errors
    /// Those of the system; the AOF is as good as before.
    pub fn close(mut self) -> io::Result<()> {
        if !self.options.checksums || self.salt.is_none() || self.synced != self.end || self.health != Health::Good {
            return Ok(());
        }
        self.time.clear();
        self.cut_back()?;
        let covered = self.end - self.blocks_end;
        self.write_head(covered, 0, &[]);
        let head = std::mem::take(&mut self.head);
        let current = self.current_mut();
        current.file.append(&[IoSlice::new(&head)])?;
        current.file.sync()
    }
}
