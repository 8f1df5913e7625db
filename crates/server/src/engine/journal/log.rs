//! The journal itself: who reads it, how far it goes, and how far it is safe. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::chunks::{Chunk, Chunks};
use super::stage::{Stage, write_select};

/// The log of effects; one an engine.
#[derive(Debug)]
pub struct Journal {
    readers: AtomicUsize,
    bytes_max: AtomicUsize,
    /// The slowest reader has more before it than `bytes_max`.
    is_full: AtomicBool,
    /// The offset one past the newest byte.
    end: AtomicU64,
    /// How many pieces were appended.
    pieces: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    kept: Mutex<Kept>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    chunks: Chunks,
    readers: Vec<ReaderOffset>,
    /// The number of the next reader.
    next_reader: u64,
    /// The database that is selected at the end; none makes the next effect begin with a SELECT.
    database: Option<u32>,
}

/// Where a reader stands.
#[derive(Debug)]
struct ReaderOffset {
    reader: u64,
    offset: u64,
}

impl Kept {
    fn reader_mut(&mut self, reader: u64) -> Option<&mut ReaderOffset> {
        self.readers.iter_mut().find(|known| known.reader == reader)
    }

    /// The offset before which everybody has read everything.
    fn oldest(&self) -> u64 {
        self.readers.iter().map(|known| known.offset).min().unwrap_or(self.chunks.end())
    }
}

impl Journal {
    /// An empty journal, which is full from `bytes_max` unread bytes on.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            readers: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(bytes_max),
            is_full: AtomicBool::new(false),
            end: AtomicU64::new(0),
            pieces: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            kept: Mutex::default(),
            grown: Condvar::new(),
        }
    }

    /// Changes the bound.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.note_fullness(&self.kept.lock());
    }

    /// Has the journal go on at an offset, up to which all is safe: that of a log which has been loaded. Nobody reads yet.
    pub fn set_end(&self, offset: u64) {
        self.kept.lock().chunks.set_end(offset);
        for position in [&self.end, &self.written, &self.synced] {
            position.store(offset, Ordering::Release);
        }
    }

    /// Has the journal go on at an offset, unless it is further already. Nobody reads yet, and whoever calls this while clients
    /// are served holds the locks of all shards.
    pub fn skip_to(&self, offset: u64) {
        if self.end() < offset {
            self.set_end(offset);
        }
    }

    /// Whether anybody reads: if not, an effect need not even be put into words.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) != 0
    }

    /// Whether the slowest reader has more than `journal-max-bytes` before it. Nothing is refused here or forgotten; who
    /// writes is to wait before it writes more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The offset one past the newest byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// How many pieces have been appended so far.
    pub fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }

    /// The offset up to which the file of the log has been given everything.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Says that all before an offset is in the file; one that lies before an earlier one says nothing.
    pub fn set_written(&self, offset: u64) {
        self.written.fetch_max(offset, Ordering::AcqRel);
    }

    /// The offset up to which the disk has everything.
    #[inline]
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Says that all before an offset is on the disk; one that lies before an earlier one says nothing.
    pub fn set_synced(&self, offset: u64) {
        self.synced.fetch_max(offset, Ordering::AcqRel);
    }

    /// Bytes of memory that the journal holds for its readers.
    pub fn memory_bytes(&self) -> usize {
        self.kept.lock().chunks.memory_bytes()
    }

    /// Has the next piece begin with a SELECT, as one must with which a new file begins, and returns the offset at which it
    /// will stand. Whoever calls this for the sake of an instant holds the locks of all shards.
    pub fn forget_database(&self) -> u64 {
        let mut kept = self.kept.lock();
        kept.database = None;
        kept.chunks.end()
    }

    /// Appends the pieces of a stage, if anybody reads, and empties it; the offset behind them. The caller holds the lock of
    /// every shard that they changed, and calls [`Journal::ring`] when it has given them back.
    pub fn append(&self, stage: &mut Stage) -> u64 {
        let Some(pieces) = stage.take() else { return self.end() };
        let mut kept = self.kept.lock();
        if kept.readers.is_empty() {
            pieces.bytes.clear();
            return kept.chunks.end();
        }
        if kept.database != Some(pieces.first_database) {
            let mut select = Vec::new();
            write_select(&mut select, pieces.first_database);
            kept.chunks.push(&select);
        }
        kept.database = Some(pieces.last_database);
        kept.chunks.push_all(pieces.bytes);
        let end = kept.chunks.end();
        self.pieces.fetch_add(pieces.count, Ordering::Relaxed);
        self.end.store(end, Ordering::Release);
        self.note_fullness(&kept);
        end
    }

    /// Wakes readers that wait for something new. Costs one load while none does.
    #[inline]
    pub fn ring(&self) {
        self.grown.notify_all();
    }

    fn note_fullness(&self, kept: &Kept) {
        let unread_bytes = kept.chunks.end() - kept.oldest();
        self.is_full.store(unread_bytes > self.bytes_max.load(Ordering::Relaxed) as u64, Ordering::Relaxed);
    }

    /// Enters a reader that sees all from now on; its number, and the offset at which it begins.
    pub(super) fn enter(&self) -> (u64, u64) {
        let mut kept = self.kept.lock();
        let (reader, offset) = (kept.next_reader, kept.chunks.end());
        kept.next_reader += 1;
        kept.readers.push(ReaderOffset { reader, offset });
        kept.database = None;
        self.readers.store(kept.readers.len(), Ordering::Relaxed);
        (reader, offset)
    }

    /// Strikes out a reader.
    pub(super) fn leave(&self, reader: u64) {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        kept.readers.retain(|known| known.reader != reader);
        self.readers.store(kept.readers.len(), Ordering::Relaxed);
        self.free(&mut kept, &mut freed);
    }

    /// A reader has read up to an offset.
    pub(super) fn advance(&self, reader: u64, offset: u64) {
        let mut freed = Vec::new();
        let mut kept = self.kept.lock();
        if let Some(known) = kept.reader_mut(reader) {
            known.offset = offset;
        }
        self.free(&mut kept, &mut freed);
    }

    /// Lets go of what all have read. What is freed is dropped by the caller, without the lock.
    fn free(&self, kept: &mut Kept, freed: &mut Vec<Arc<Chunk>>) {
        let oldest = kept.oldest();
        kept.chunks.free_before(oldest, freed);
        self.note_fullness(kept);
    }

    /// Runs `look` on the chunks, with the lock held.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut Chunks) -> R) -> R {
        look(&mut self.kept.lock().chunks)
    }

    /// Waits until there is something behind an offset, or until the time is over; whether there is.
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
