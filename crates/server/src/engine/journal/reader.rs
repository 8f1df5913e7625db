//! Reading the journal.
//!
//! A [`Reader`] is a position in the journal. While a reader lives, effects are encoded and kept until it has read them; it
//! never misses any, however slow it is ([`Journal::is_full`] says when writers should wait for it). It takes references to
//! the journal's own chunks, without the bytes for replicas alone. One thread at a time.
//!
//! A [`ReplicaCursor`] reads for a replica: all bytes, and no writer waits for it.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use super::Journal;
use super::chunks::Part;

/// The most parts that are taken at once; a system call takes 1,024.
const PARTS_MAX: usize = 512;

/// A reader's position in the journal.
#[derive(Debug)]
pub struct Reader {
    journal: Arc<Journal>,
    number: u64,
    offset: u64,
}

/// Bytes of the journal in order, which stay alive as long as this value.
#[derive(Debug)]
pub struct Slices {
    offset: u64,
    end: u64,
    parts: Vec<Part>,
}

/// A replica's position in the journal.
#[derive(Debug)]
pub struct ReplicaCursor {
    journal: Arc<Journal>,
    number: u64,
    offset: u64,
}

impl Journal {
    /// Makes a reader that gets every piece from now on; the first one begins with a SELECT. A caller that also takes a copy
    /// of the data subscribes while it holds the locks of all shards, at the instant of the copy, and not inside a
    /// transaction or a script. If a reader began while a piece is being gathered, it would get the whole piece, or none of
    /// it if there is no other reader.
    pub fn subscribe(self: &Arc<Self>) -> Reader {
        let (number, offset) = self.enter();
        Reader { journal: Arc::clone(self), number, offset }
    }

    /// Reads for a replica from an offset on. Returns None if the bytes behind it are not kept, or if the offset lies beyond
    /// the end.
    pub fn follow(self: &Arc<Self>, offset: u64) -> Option<ReplicaCursor> {
        let number = self.enter_follower(offset)?;
        Some(ReplicaCursor { journal: Arc::clone(self), number, offset })
    }
}

impl ReplicaCursor {
    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends the next bytes, at most `bytes_max` and not beyond the offset `end`, and returns their number. They are not
    /// kept for this replica any longer.
    pub fn read(&mut self, end: u64, bytes_max: usize, into: &mut Vec<u8>) -> usize {
        let count = self.copy(end, bytes_max, into);
        self.advance(count);
        count
    }

    /// Copies bytes as [`ReplicaCursor::read`] does, but they are kept until the cursor is advanced.
    pub fn copy(&self, end: u64, bytes_max: usize, into: &mut Vec<u8>) -> usize {
        let bytes_max = bytes_max.min(usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX));
        let before = into.len();
        self.journal.copy_for(self.number, self.offset, bytes_max, into);
        into.len() - before
    }

    /// Advances the cursor by so many bytes, which were copied.
    pub fn advance(&mut self, count: usize) {
        if count != 0 {
            self.offset += count as u64;
            self.journal.advance(self.number, self.offset);
        }
    }
}

impl Drop for ReplicaCursor {
    fn drop(&mut self) {
        self.journal.leave(self.number);
    }
}

impl Reader {
    /// Returns the offset of the next byte that this reader will get.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next bytes, at most `bytes_max`, but at least one if there is any. The same bytes are returned again until
    /// the reader is advanced.
    pub fn take(&self, bytes_max: usize) -> Slices {
        self.take_from(self.offset, bytes_max)
    }

    /// Returns bytes as [`Reader::take`] does, from a later offset on.
    pub fn take_from(&self, offset: u64, bytes_max: usize) -> Slices {
        let offset = offset.max(self.offset);
        let (parts, end) = self.journal.look(|chunks| chunks.from(offset, bytes_max, PARTS_MAX));
        Slices { offset, end, parts }
    }

    /// Advances the reader by so many bytes, which are not kept for it any longer.
    ///
    /// # Panics
    /// If there are fewer bytes.
    pub fn advance(&mut self, bytes: u64) {
        assert!(self.offset + bytes <= self.journal.end(), "a reader goes past what is there");
        self.offset += bytes;
        self.journal.advance(self.number, self.offset);
    }

    /// Waits until there are bytes to take, or until the timeout. Returns whether there are.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.journal.wait_beyond(self.offset, timeout)
    }

    /// Moves all available bytes to the end of `into`.
    pub fn read(&mut self, into: &mut Vec<u8>) {
        loop {
            let slices = self.take(usize::MAX);
            if slices.is_empty() {
                return;
            }
            slices.iter().for_each(|bytes| into.extend_from_slice(bytes));
            self.advance(slices.len());
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.journal.leave(self.number);
    }
}

impl Slices {
    /// Returns the offset of the first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length of the range of the journal that these bytes come from. Bytes for replicas alone are left out, so
    /// there may be fewer.
    pub fn len(&self) -> u64 {
        self.end - self.offset
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.end == self.offset
    }

    /// Returns the bytes, part by part.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|(chunk, range)| chunk.part(range))
    }

    /// Returns the bytes for a vectored write.
    pub fn io_slices(&self) -> Vec<IoSlice<'_>> {
        self.iter().map(IoSlice::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::journal::Batch;

    fn append(journal: &Journal, database: u32, effect: &[&str]) -> u64 {
        let mut batch = Batch::default();
        let mut words = batch.effect(database, effect.len());
        effect.iter().for_each(|word| words.bulk(word.as_bytes()));
        batch.seal();
        let end = journal.append(&mut batch);
        journal.ring();
        end
    }

    fn text(reader: &mut Reader) -> String {
        let mut bytes = Vec::new();
        reader.read(&mut bytes);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_reader_sees_effects_in_order_with_selects_where_the_database_changes() {
        let journal = Arc::new(Journal::new(1 << 20));
        assert_eq!(append(&journal, 0, &["DEL", "unseen"]), 0);
        journal.set_end(100);
        let mut reader = journal.subscribe();
        append(&journal, 0, &["SET", "a", "1"]);
        append(&journal, 0, &["DEL", "a"]);
        let end = append(&journal, 3, &["DEL", "b"]);
        let expected = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n\
                        *2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n";
        assert_eq!((reader.offset(), reader.take(7).len()), (100, 7));
        assert_eq!(text(&mut reader), expected);
        assert_eq!((reader.offset(), journal.end()), (end, 100 + expected.len() as u64));
        assert!(text(&mut reader).is_empty() && reader.take(usize::MAX).is_empty());
    }

    #[test]
    fn a_new_reader_and_a_new_file_learn_the_database_again() {
        let journal = Arc::new(Journal::new(1 << 10));
        let mut first = journal.subscribe();
        append(&journal, 0, &["DEL", "a"]);
        let mut second = journal.subscribe();
        append(&journal, 0, &["DEL", "a"]);
        assert!(text(&mut second).starts_with("*2\r\n$6\r\nSELECT"));
        assert_eq!(text(&mut first).matches("SELECT").count(), 2);
        append(&journal, 0, &["DEL", "a"]);
        assert_eq!(journal.forget_database(), journal.end());
        append(&journal, 0, &["DEL", "a"]);
        assert_eq!(text(&mut first).matches("SELECT").count(), 1);
    }

    #[test]
    fn a_replica_goes_on_only_within_what_is_kept_for_it_or_for_another() {
        let journal = Arc::new(Journal::new(1 << 20));
        journal.keep_backlog(1 << 20);
        (0..100).for_each(|_| _ = append(&journal, 0, &["SET", "key", "value"]));
        let end = journal.end();
        let goes_on = |missing: u64| journal.follow(end - missing).is_some();
        assert!(goes_on(0) && goes_on(end) && journal.follow(end + 1).is_none());
        journal.set_backlog_bytes(1_000);
        let slow = journal.follow(end - 1_000).expect("it is kept");
        // Unneeded bytes still lie in the memory of needed ones.
        journal.set_backlog_bytes(100);
        assert!(goes_on(1_000) && !goes_on(1_001));
        drop(slow);
        assert!(goes_on(100) && !goes_on(101));
    }

    #[test]
    fn what_all_have_read_is_freed_and_the_slowest_makes_the_journal_full() {
        let journal = Arc::new(Journal::new(256));
        let (mut fast, mut slow) = (journal.subscribe(), journal.subscribe());
        let taken = slow.take(1);
        assert!(taken.is_empty());
        for _ in 0..1_000 {
            append(&journal, 0, &["SET", "key", "value"]);
            text(&mut fast);
        }
        assert!(journal.is_full() && journal.memory().held >= journal.end());
        journal.set_bytes_max(1 << 20);
        assert!(!journal.is_full());
        journal.set_bytes_max(256);
        let taken = slow.take(journal.end() as usize);
        assert!(taken.len() > 256 && taken.io_slices().len() <= PARTS_MAX);
        while slow.offset() < journal.end() {
            slow.advance(slow.take(10_000).len());
        }
        assert_eq!((journal.is_full(), journal.memory().held), (false, 0));
        assert!(taken.iter().next().expect("it stays").starts_with(b"*2\r\n$6\r\nSELECT"));
        append(&journal, 0, &["SET", "key", "value"]);
        drop((fast, slow));
        assert_eq!((journal.is_read(), journal.memory().held), (false, 0));
    }

    #[test]
    fn positions_never_go_back() {
        let journal = Journal::new(0);
        journal.set_end(10);
        assert_eq!((journal.written(), journal.synced()), (10, 10));
        journal.set_written(30);
        journal.set_written(20);
        journal.set_synced(15);
        journal.set_synced(5);
        assert_eq!((journal.end(), journal.written(), journal.synced()), (10, 30, 15));
    }

    #[test]
    fn a_reader_that_waits_is_woken_by_what_comes_next() {
        let journal = Arc::new(Journal::new(1 << 20));
        let mut reader = journal.subscribe();
        assert!(!reader.wait(Duration::ZERO));
        let (rounds, writer) = (2_000, Arc::clone(&journal));
        let writes = std::thread::spawn(move || {
            for _ in 0..rounds {
                append(&writer, 0, &["SET", "key", "value"]);
            }
        });
        let mut seen = 0;
        while seen < rounds {
            assert!(reader.wait(Duration::from_secs(60)), "{seen} of {rounds} were seen");
            seen += text(&mut reader).matches("SET").count();
        }
        writes.join().expect("it ends");
    }
}
