//! A base of the AOF in the form of requests (`aof-use-rdb-preamble no`): the requests that create each key, limited to the
//! commands of the oldest server that reads an AOF folder.
//!
//! The file of each type (`engine/values`) knows how its values are created; a large value takes several requests. State that
//! requests cannot express is lost, as with every server: the access clocks of keys, and the times at which consumers of
//! streams were last seen.

use sleeve_disk::aof::Options;
use sleeve_store::Digits;
use sleeve_store::snapshot::{Keys, Record};

use crate::engine::values;
use crate::engine::values::request_writer::RequestWriter;
use crate::engine::values::value_type::LargeRequests;

/// A writer of a snapshot's records as requests.
pub struct Requests {
    writer: RequestWriter,
    /// The selected database.
    db: Option<usize>,
    keys: u64,
    /// The large value that is being written.
    large: Option<Box<dyn LargeRequests>>,
}

impl Requests {
    /// Begins a base that stands for the journal up to an offset, at this time.
    pub fn begin(options: &Options, stands_for: u64, now_s: i64) -> Self {
        Self { writer: RequestWriter::begin(options, stands_for, now_s), db: None, keys: 0, large: None }
    }

    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8]) {
        self.writer.request(&[b"FUNCTION", b"LOAD", code]);
    }

    /// Returns how many keys were written.
    pub fn keys_len(&self) -> u64 {
        self.keys
    }

    /// Returns the number of bytes that wait to be taken out.
    pub fn pending_len(&self) -> usize {
        self.writer.pending_len()
    }

    /// Returns the memory of records that cannot be encoded before more arrive.
    pub fn held_len(&self) -> usize {
        self.large.as_ref().map_or(0, |large| large.held_len())
    }

    /// Calls `take` with the bytes that were encoded since the last call.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        self.writer.drain(take)
    }

    /// Ends the base, and returns the remaining bytes.
    pub fn end(self) -> Vec<u8> {
        self.writer.end()
    }

    /// Writes a record.
    pub fn write(&mut self, record: Record<'_>) {
        match (record, &mut self.large) {
            (Record::Keys(keys), _) => self.small(keys),
            (Record::Open(large), _) => {
                self.select(large.db());
                self.keys += 1;
                self.large = Some(values::of(large.kind()).begin(large));
            }
            (Record::Members(large, members), Some(requests)) => requests.members(&mut self.writer, large, members),
            (Record::Part(large, bytes), Some(requests)) => requests.part(&mut self.writer, large, &bytes),
            (Record::Pending(_, pending), Some(requests)) => requests.pending(&pending),
            (Record::Close(large), requests) => {
                if let Some(requests) = requests.take() {
                    requests.close(&mut self.writer, large);
                }
                self.deadline(large.key(), large.deadline());
            }
            // A part is ignored if the beginning of its value was not written.
            (Record::Members(..) | Record::Part(..) | Record::Pending(..), None) => {}
        }
        self.writer.settle();
    }

    fn select(&mut self, db: usize) {
        if self.db.replace(db) != Some(db) {
            self.writer.request(&[b"SELECT", db.to_string().as_bytes()]);
        }
    }

    fn deadline(&mut self, key: &[u8], deadline: Option<i64>) {
        if let Some(deadline) = deadline {
            self.writer.request(&[b"PEXPIREAT", key, Digits::default().write(deadline)]);
        }
    }

    fn small(&mut self, keys: Keys<'_>) {
        self.select(keys.db());
        keys.for_each(|entry| {
            self.keys += 1;
            values::of(entry.kind()).write(&mut self.writer, &entry);
            self.deadline(entry.key(), entry.deadline());
            self.writer.settle();
        });
    }
}
