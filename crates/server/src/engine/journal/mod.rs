//! The journal: the one ordered sequence of effects.
//!
//! Every write appends its *effects*, never its request: an expired key is a DEL, a relative time is recorded as an absolute
//! one, a random choice as its result. An effect is a request in RESP form, so a reader needs nothing but an engine to replay
//! it.
//!
//! The effects of one command, transaction or script are one piece. They are gathered in a [`Batch`], which a thread's
//! [`Recorder`] keeps with its locks: no thread gives a shard back without appending the effects recorded under it, so two
//! effects on one key stand in the order in which they happened. The [`Journal`] keeps pieces in `chunks`, which its
//! [`Reader`]s share and which are released when all readers have read them. Without readers a write costs one relaxed load.
//! Replicas are sent the journal as it is ([`ReplicaCursor`]); bytes that stand in it for replicas alone, such as messages,
//! are in no AOF.
//!
//! For replicas the journal is a stream. From the first replica on, the last stretch of it is kept as the backlog, so that a
//! replica with a cut connection can continue, and each replica reads at its own position. No writer waits for a replica.

mod batch;
mod chunk;
mod chunks;
mod memory;
mod offsets;
mod reader;
mod recorder;
mod retained;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::host::planted::{self, Fault};
use crate::host::waiting::Condvar;
use crate::messaging::mail::{Letter, Mailbox};
use chunk::Chunk;
use chunks::Chunks;
use retained::{Backlog, ReaderOffset, Retained};

pub use batch::{Batch, write_select};
pub use memory::JournalMemory;
pub use offsets::ShardOffsets;
pub use reader::{Reader, ReplicaCursor, Slices};
pub use recorder::{BatchBuffer, Recorder};

/// The journal of an engine.
#[derive(Debug)]
pub struct Journal {
    readers: AtomicUsize,
    /// A reader exists, and the effects of this server's own clients are appended to the journal.
    wants_effects: AtomicBool,
    bytes_max: AtomicUsize,
    /// The slowest reader has more than `bytes_max` still to read.
    is_full: AtomicBool,
    /// The offset one past the newest byte.
    end: AtomicU64,
    /// The number of appended pieces.
    pieces: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    kept: Mutex<Retained>,
    grown: Condvar,
    /// The journal is kept for replicas.
    is_streamed: AtomicBool,
    /// The owner of a replica's connection waits for a letter.
    is_awaited: AtomicBool,
}

/// The extent of the backlog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BacklogSize {
    /// The offset of the first byte.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Journal {
    /// Makes an empty journal, which is full at `bytes_max` unread bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            readers: AtomicUsize::new(0),
            wants_effects: AtomicBool::new(false),
            bytes_max: AtomicUsize::new(bytes_max),
            is_full: AtomicBool::new(false),
            end: AtomicU64::new(0),
            pieces: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            kept: Mutex::default(),
            grown: Condvar::new(),
            is_streamed: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
        }
    }

    /// Changes the number of unread bytes at which the journal is full.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.note_fullness(&self.kept.lock());
    }

    /// Continues the journal at the end of an AOF that has been loaded; all before it counts as durable. There is no reader
    /// yet.
    pub fn set_end(&self, offset: u64) {
        self.kept.lock().chunks.set_end(offset);
        for position in [&self.end, &self.written, &self.synced] {
            position.store(offset, Ordering::Release);
        }
    }

    /// Continues the journal at an offset, unless it is beyond that already. There is no reader yet. If clients are being
    /// served, the caller holds the locks of all shards. A copy of another server's journal keeps that server's offsets.
    pub fn skip_to(&self, offset: u64) {
        if self.end() < offset && self.copied_database().is_none() {
            self.set_end(offset);
        }
    }

    /// Returns whether there is a reader.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) != 0
    }

    /// Returns whether this server's own effects need to be encoded: there is a reader, and the journal is no copy.
    #[inline]
    pub fn wants_effects(&self) -> bool {
        self.wants_effects.load(Ordering::Relaxed)
    }

    /// Makes the journal a copy of another server's from now on, to which only that server's bytes are appended; or this
    /// server's own again. All shards are locked, or no client is served yet.
    pub fn set_copy(&self, is_copy: bool) {
        let mut kept = self.kept.lock();
        // The next effect of the server's own journal gets a SELECT before it.
        (kept.is_copy, kept.database) = (is_copy, None);
        self.note_readers(&kept);
    }

    /// Continues the journal as a copy of another server's from this offset on, at which `database` is selected. Earlier
    /// bytes are dropped. All shards are locked, and no AOF is open.
    pub fn begin_copy(&self, offset: u64, database: u32) {
        let mut kept = self.kept.lock();
        (kept.is_copy, kept.database) = (true, Some(database));
        kept.chunks = Chunks::default();
        kept.chunks.set_end(offset);
        // A replica's reader of the old journal notices this at its next read.
        kept.readers.clear();
        if let Some(backlog) = &mut kept.backlog {
            backlog.begins = offset;
        }
        for position in [&self.end, &self.written, &self.synced] {
            position.store(offset, Ordering::Release);
        }
        self.note_readers(&kept);
    }

    /// Returns the database that is selected at the end of a copy of another server's journal; None if the journal is this
    /// server's own, in which a new reader gets a SELECT first.
    pub fn copied_database(&self) -> Option<u32> {
        let kept = self.kept.lock();
        kept.is_copy.then_some(kept.database.unwrap_or(0))
    }

    /// Returns the end offset, and the database that is selected there; 0 if the next piece begins with a SELECT anyway.
    pub fn position(&self) -> (u64, u32) {
        let kept = self.kept.lock();
        (kept.chunks.end(), kept.database.unwrap_or(0))
    }

    /// Returns whether the slowest reader has more than `journal-max-bytes` still to read. The journal itself refuses and
    /// forgets nothing; a writer has to wait before it writes more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns the offset one past the newest byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Returns how many pieces have been appended so far.
    pub fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }

    /// Returns the offset up to which the AOF's file has been written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Notes that all before an offset is in the file. An offset before an earlier one is ignored.
    pub fn set_written(&self, offset: u64) {
        self.written.fetch_max(offset, Ordering::AcqRel);
    }

    /// Returns the offset up to which the AOF has been fsynced.
    #[inline]
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Notes that all before an offset has been fsynced. An offset before an earlier one is ignored.
    pub fn set_synced(&self, offset: u64) {
        self.synced.fetch_max(offset, Ordering::AcqRel);
    }

    /// Returns the memory that the journal holds, by the readers that need it.
    pub fn memory(&self) -> JournalMemory {
        let kept = self.kept.lock();
        let (held, end) = (kept.chunks.memory_bytes() as u64, kept.chunks.end());
        let backlog_start = kept.backlog_start().unwrap_or(end);
        let needed_start = kept.oldest_awaited().min(backlog_start);
        let backlog = (end - backlog_start).min(held);
        let for_log = (backlog_start - needed_start).min(held - backlog);
        let for_replicas = (needed_start - kept.oldest()).min(held - backlog - for_log);
        JournalMemory { held, backlog, for_log, for_replicas }
    }

    /// Makes the next piece begin with a SELECT, as the first piece of a new file must, and returns the offset at which that
    /// piece will stand. If the offset has to be one instant of the data, the caller holds the locks of all shards.
    pub fn forget_database(&self) -> u64 {
        let mut kept = self.kept.lock();
        kept.begin_with_select();
        kept.chunks.end()
    }

    /// Appends the pieces of a batch, if there is a reader, and empties the batch. Returns the offset behind them. The caller
    /// holds the lock of every shard that they changed, and calls [`Journal::ring`] when it has given these back.
    pub fn append(&self, batch: &mut Batch) -> u64 {
        let Some(pieces) = batch.take() else { return self.end() };
        let (mut freed, mut kept) = (Vec::new(), self.kept.lock());
        // In a copy, each byte counts for the offsets, read or not.
        let is_wanted = pieces.is_foreign == kept.is_copy || planted::has(Fault::OwnEffects);
        if !is_wanted || (kept.count() == 0 && !kept.is_copy) {
            pieces.bytes.clear();
            pieces.for_replicas.clear();
            return kept.chunks.end();
        }
        // Messages concern no database, but as in Redis a stream names a database before its first message.
        let nothing_named = (!kept.is_copy && kept.database.is_none()).then_some((0, 0));
        if let Some((first, last)) = pieces.databases.or(nothing_named) {
            if !kept.is_copy && kept.database != Some(first) {
                let mut select = Vec::new();
                write_select(&mut select, first);
                kept.chunks.push(&select);
            }
            kept.database = Some(last);
        }
        let start = kept.chunks.end();
        if kept.count() == 0 {
            kept.chunks.set_end(start + pieces.bytes.len() as u64);
            pieces.bytes.clear();
            pieces.for_replicas.clear();
        }
        kept.chunks.push_all(pieces.bytes);
        for range in pieces.for_replicas.drain(..) {
            kept.chunks.mark_for_replicas(start + range.start as u64..start + range.end as u64);
        }
        self.pieces.fetch_add(pieces.count, Ordering::Relaxed);
        self.grow(&mut kept, &mut freed)
    }

    /// Appends a request for replicas alone, if the journal is kept for replicas; returns the offset behind it.
    pub fn append_for_replicas(&self, request: &[u8]) -> u64 {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        if kept.backlog.is_none() || kept.is_copy {
            return kept.chunks.end();
        }
        let start = kept.chunks.end();
        kept.chunks.push(request);
        let end = kept.chunks.end();
        kept.chunks.mark_for_replicas(start..end);
        self.grow(&mut kept, &mut freed);
        drop(kept);
        self.ring();
        end
    }

    /// Updates and returns the end of the journal. The caller drops the freed chunks after it has released the lock.
    fn grow(&self, kept: &mut Retained, freed: &mut Vec<Arc<Chunk>>) -> u64 {
        let end = kept.chunks.end();
        self.end.store(end, Ordering::Release);
        if kept.backlog.is_some() {
            let oldest = kept.oldest();
            kept.chunks.free_before(oldest, freed);
        }
        self.note_fullness(kept);
        end
    }

    /// Keeps a backlog of so many bytes for replicas from now on. If there is a backlog already, its size changes. If the
    /// beginning has to be one instant of the data, the caller holds the locks of all shards.
    pub fn keep_backlog(&self, bytes_max: u64) {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        let begins = kept.backlog.map_or(kept.chunks.end(), |backlog| backlog.begins);
        kept.backlog = Some(Backlog { begins, bytes_max });
        self.note_readers(&kept);
        self.free(&mut kept, &mut freed);
    }

    /// Changes the size of the backlog, if there is one.
    pub fn set_backlog_bytes(&self, bytes_max: u64) {
        if self.is_streamed() {
            self.keep_backlog(bytes_max);
        }
    }

    /// Drops the backlog: a replica that reconnects needs a full sync.
    pub fn drop_backlog(&self) {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        kept.backlog = None;
        self.note_readers(&kept);
        self.free(&mut kept, &mut freed);
    }

    /// Returns the extent of the backlog; None if there is none.
    pub fn backlog(&self) -> Option<BacklogSize> {
        let kept = self.kept.lock();
        let start = kept.backlog_start()?;
        Some(BacklogSize { start, len: kept.chunks.end() - start })
    }

    /// Returns whether the journal is kept for replicas. Only then bytes for replicas alone are appended.
    #[inline]
    pub fn is_streamed(&self) -> bool {
        self.is_streamed.load(Ordering::Relaxed)
    }

    /// Registers `owner` for a letter when the journal grows beyond an offset. If it is beyond that already, returns true, and
    /// no letter is sent.
    pub fn tell_when_grown(&self, offset: u64, owner: &Arc<Mailbox>) -> bool {
        let mut kept = self.kept.lock();
        if kept.chunks.end() > offset {
            return true;
        }
        if !kept.owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
            kept.owners.push(Arc::clone(owner));
        }
        self.is_awaited.store(true, Ordering::Relaxed);
        false
    }

    /// Withdraws the request for a letter, because the owner checks by itself.
    pub fn forget_owner(&self, owner: &Arc<Mailbox>) {
        let mut kept = self.kept.lock();
        kept.owners.retain(|known| !Arc::ptr_eq(known, owner));
        self.is_awaited.store(!kept.owners.is_empty(), Ordering::Relaxed);
    }

    #[cold]
    fn tell_owners(&self) {
        let mut kept = self.kept.lock();
        let owners = std::mem::take(&mut kept.owners);
        self.is_awaited.store(false, Ordering::Relaxed);
        drop(kept);
        owners.iter().for_each(|owner| owner.post(Letter::Stream));
    }

    /// Wakes readers that wait for new bytes. Costs two loads if none waits.
    #[inline]
    pub fn ring(&self) {
        self.grown.notify_all();
        if self.is_awaited.load(Ordering::Relaxed) {
            self.tell_owners();
        }
    }

    fn note_fullness(&self, kept: &Retained) {
        let unread_bytes = kept.chunks.end() - kept.oldest_awaited();
        self.is_full.store(unread_bytes > self.bytes_max.load(Ordering::Relaxed) as u64, Ordering::Relaxed);
    }

    /// Adds a reader that gets all from now on; returns its number, and the offset at which it begins.
    pub(super) fn enter(&self) -> (u64, u64) {
        let mut kept = self.kept.lock();
        let (reader, offset) = (kept.next_reader, kept.chunks.end());
        kept.next_reader += 1;
        kept.readers.push(ReaderOffset { reader, offset, is_follower: false });
        kept.begin_with_select();
        self.note_readers(&kept);
        (reader, offset)
    }

    /// Adds a replica that continues at an offset. Returns its number if the bytes from there on are kept.
    pub(super) fn enter_follower(&self, offset: u64) -> Option<u64> {
        let mut kept = self.kept.lock();
        let reader = kept.next_reader;
        // If more than the backlog is kept for another replica, this one may read that too.
        if offset < kept.backlog?.begins.max(kept.oldest()) || offset > kept.chunks.end() {
            return None;
        }
        kept.next_reader += 1;
        kept.readers.push(ReaderOffset { reader, offset, is_follower: true });
        self.note_readers(&kept);
        Some(reader)
    }

    fn note_readers(&self, kept: &Retained) {
        self.readers.store(kept.count(), Ordering::Relaxed);
        let is_own = kept.count() != 0 && (!kept.is_copy || planted::has(Fault::OwnEffects));
        self.wants_effects.store(is_own, Ordering::Relaxed);
        self.is_streamed.store(kept.backlog.is_some(), Ordering::Relaxed);
    }

    /// Removes a reader.
    pub(super) fn leave(&self, reader: u64) {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        kept.readers.retain(|known| known.reader != reader);
        self.note_readers(&kept);
        self.free(&mut kept, &mut freed);
    }

    /// Notes that a reader has read up to an offset.
    pub(super) fn advance(&self, reader: u64, offset: u64) {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        if let Some(known) = kept.reader_mut(reader) {
            known.offset = offset;
        }
        self.free(&mut kept, &mut freed);
    }

    /// Releases the bytes that all readers have read. The caller drops the freed chunks after it has released the lock.
    fn free(&self, kept: &mut Retained, freed: &mut Vec<Arc<Chunk>>) {
        let oldest = kept.oldest();
        kept.chunks.free_before(oldest, freed);
        self.note_fullness(kept);
    }

    /// Runs `look` on the chunks, with the lock held.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut Chunks) -> R) -> R {
        look(&mut self.kept.lock().chunks)
    }

    /// Appends the bytes from an offset on to `into`, unless the reader was removed because the journal has been replaced.
    pub(super) fn copy_for(&self, reader: u64, offset: u64, bytes_max: usize, into: &mut Vec<u8>) {
        let mut kept = self.kept.lock();
        if kept.reader_mut(reader).is_some() {
            kept.chunks.copy(offset, bytes_max, into);
        }
    }

    /// Waits until there are bytes behind an offset, or until the timeout. Returns whether there are.
    pub(super) fn wait_beyond(&self, offset: u64, timeout: Duration) -> bool {
        let mut kept = self.kept.lock();
        while kept.chunks.end() <= offset {
            if self.grown.wait_for(&mut kept, timeout).timed_out() {
                return kept.chunks.end() > offset;
            }
        }
        true
    }
}
