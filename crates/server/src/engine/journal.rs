//! The one ordered log of effects.
//!
//! Every write appends what it *did*, never what it was asked: expiry is a DEL, a relative time is absolute, a random
//! choice is its result. An effect is a request in RESP form, so a reader needs nothing but an engine to replay it.
//! Effects are appended under the lock of the shard that they changed, so two effects on one key stand in the order in
//! which they happened; a SELECT is put in wherever the database changes.
//!
//! Nobody reading costs one relaxed load a write. While somebody reads, at most `journal-max-bytes` are kept: a reader
//! that falls further behind is told so ([`Lagged`]) and must start from a fresh copy of the data.
//!
//! Any thread may append or read. The append-only file, replicas and the backlog will be readers of this log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_wire::request::OwnedArgs;

/// The reader fell further behind than the journal keeps; the offset is the oldest that is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lagged {
    /// The global offset of the oldest byte that is kept.
    pub oldest_offset: u64,
}

/// The log itself; one an engine.
#[derive(Debug)]
pub struct Journal {
    readers: AtomicUsize,
    bytes_max: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Global offset one past the newest byte.
    end: u64,
    /// The database that the last effect was about; none makes the next effect begin with a SELECT.
    database: Option<u32>,
}

impl Journal {
    /// An empty journal that keeps at most `bytes_max` bytes for its slowest reader.
    pub fn new(bytes_max: usize) -> Self {
        Self { readers: AtomicUsize::new(0), bytes_max: AtomicUsize::new(bytes_max), kept: Mutex::default() }
    }

    /// Changes the bound; what is over it goes with the next effect.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Whether anybody reads: if not, an effect need not even be put into words.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) != 0
    }

    /// The global offset one past the newest byte.
    pub fn end(&self) -> u64 {
        self.kept.lock().end
    }

    /// Bytes that the journal holds for its readers.
    pub fn memory_bytes(&self) -> usize {
        self.kept.lock().bytes.capacity()
    }

    /// Appends one effect on `database`. The caller holds the lock of every shard that the effect changed.
    pub fn append<'a>(&self, database: u32, effect: impl ExactSizeIterator<Item = &'a [u8]>) {
        let mut kept = self.kept.lock();
        kept.select(database);
        kept.request(effect);
        self.trim(&mut kept);
    }

    /// Appends the effects of one transaction, each with its database, as one piece between MULTI and EXEC. The caller
    /// holds the locks of all shards that they changed.
    pub fn append_transaction(&self, effects: &[(u32, OwnedArgs)]) {
        if effects.is_empty() {
            return;
        }
        let mut kept = self.kept.lock();
        kept.request([b"MULTI".as_slice()].into_iter());
        for (database, effect) in effects {
            kept.select(*database);
            kept.request(effect.args().iter());
        }
        kept.request([b"EXEC".as_slice()].into_iter());
        self.trim(&mut kept);
    }

    fn trim(&self, kept: &mut Kept) {
        let excess = kept.bytes.len().saturating_sub(self.bytes_max.load(Ordering::Relaxed));
        kept.bytes.drain(..excess);
    }

    /// A reader that sees every effect from now on; a transaction that runs already shows none of its own. Whoever takes
    /// a copy of the data to begin with subscribes while it holds the locks of all shards, at the instant of the copy.
    pub fn subscribe(self: &Arc<Self>) -> Reader {
        let mut kept = self.kept.lock();
        self.readers.fetch_add(1, Ordering::Relaxed);
        kept.database = None;
        Reader { journal: Arc::clone(self), offset: kept.end }
    }
}

impl Kept {
    fn select(&mut self, database: u32) {
        if self.database != Some(database) {
            self.database = Some(database);
            self.request([b"SELECT".as_slice(), database.to_string().as_bytes()].into_iter());
        }
    }

    fn request<'a>(&mut self, arguments: impl ExactSizeIterator<Item = &'a [u8]>) {
        let before = self.bytes.len();
        self.bytes.extend(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            self.bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
            self.bytes.extend(argument);
            self.bytes.extend(b"\r\n");
        }
        self.end += (self.bytes.len() - before) as u64;
    }
}

/// One reader's place in the journal; while one lives, effects are kept.
#[derive(Debug)]
pub struct Reader {
    journal: Arc<Journal>,
    offset: u64,
}

impl Reader {
    /// The global offset of the next byte that this reader will see.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Moves all that has been appended since the last call to the end of `into`; returns how many bytes.
    ///
    /// # Errors
    /// [`Lagged`] when some of it is no longer kept; the reader stays where it was.
    pub fn read(&mut self, into: &mut Vec<u8>) -> Result<usize, Lagged> {
        let kept = self.journal.kept.lock();
        let oldest_offset = kept.end - kept.bytes.len() as u64;
        if self.offset < oldest_offset {
            return Err(Lagged { oldest_offset });
        }
        let skip = (self.offset - oldest_offset) as usize;
        let (front, back) = kept.bytes.as_slices();
        into.extend_from_slice(front.get(skip..).unwrap_or_default());
        into.extend_from_slice(&back[skip.saturating_sub(front.len())..]);
        let read = kept.bytes.len() - skip;
        self.offset = kept.end;
        Ok(read)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut kept = self.journal.kept.lock();
        if self.journal.readers.fetch_sub(1, Ordering::Relaxed) == 1 {
            kept.bytes = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(journal: &Journal, database: u32, effect: &[&str]) {
        journal.append(database, effect.iter().map(|part| part.as_bytes()));
    }

    #[test]
    fn a_reader_sees_effects_in_order_with_selects_where_the_database_changes() {
        let journal = Arc::new(Journal::new(1 << 20));
        let mut reader = journal.subscribe();
        append(&journal, 0, &["SET", "a", "1"]);
        append(&journal, 0, &["DEL", "a"]);
        append(&journal, 3, &["DEL", "b"]);
        let mut read = Vec::new();
        assert_eq!(reader.read(&mut read), Ok(read.len()).map(|_: usize| journal.end() as usize));
        let expected = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n\
                        *2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n";
        assert_eq!(String::from_utf8_lossy(&read), expected);
        assert_eq!(reader.read(&mut read), Ok(0));
    }

    #[test]
    fn memory_is_bounded_and_a_slow_reader_is_told() {
        let journal = Arc::new(Journal::new(256));
        let mut reader = journal.subscribe();
        for _ in 0..1_000 {
            append(&journal, 0, &["SET", "key", "value"]);
        }
        assert!(journal.kept.lock().bytes.len() <= 256);
        assert_eq!(reader.read(&mut Vec::new()), Err(Lagged { oldest_offset: journal.end() - 256 }));
    }

    #[test]
    fn a_new_reader_learns_the_database_again() {
        let journal = Arc::new(Journal::new(1 << 10));
        let _first = journal.subscribe();
        append(&journal, 0, &["DEL", "a"]);
        let mut second = journal.subscribe();
        append(&journal, 0, &["DEL", "a"]);
        let mut read = Vec::new();
        second.read(&mut read).expect("nothing was lost");
        assert!(read.starts_with(b"*2\r\n$6\r\nSELECT"));
    }
}
