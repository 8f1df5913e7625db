//! Writes the records of a snapshot into a file, one after the other.
//!
//! It knows no clock: keys that had expired at the instant are written as they were. One thread uses it, outside of all
//! locks.

use super::Size;
use super::record::{Bytes, Keys, Large, Members, Record};
use crate::rdb::file::{Access, Head, Writer};
use crate::rdb::types;
use crate::types::stream::group::PendingCopy;
use crate::types::stream::id::StreamId;
use crate::value::Kind;

/// The most bytes that a pending entry takes in the file: its id, twice, the time of its delivery, and the number of
/// deliveries.
const PENDING_BYTES: usize = 2 * size_of::<StreamId>() + 8 + 9;

/// The time at which no field has expired: fields that had expired at the instant are written too.
const NO_TIME: i64 = i64::MIN;

/// Writes records into one file.
#[derive(Debug, Default)]
pub struct SnapshotWriter {
    /// The database to which the file's keys belong from here on.
    db: Option<usize>,
    /// The number of keys in each database, kept until it is written in front of them.
    sizes: Vec<Size>,
    keys: u64,
    /// The pending entries of the stream that is being written: a file has them behind the blocks, group by group.
    pending: Vec<PendingCopy>,
}

impl SnapshotWriter {
    /// Returns a writer for a snapshot of these sizes, which the file states in front of each database's first key.
    pub fn new(sizes: &[Size]) -> Self {
        Self { sizes: sizes.to_vec(), ..Self::default() }
    }

    /// Returns the number of keys written so far.
    pub fn keys_len(&self) -> u64 {
        self.keys
    }

    /// Returns the memory of data that waits because the file has it behind data that has not arrived yet: its bytes here,
    /// and its bytes in the file. It is written at once when all data is there.
    pub fn held_len(&self) -> usize {
        self.pending.capacity() * size_of::<PendingCopy>() + self.pending.len() * PENDING_BYTES
    }

    /// Writes a record. `access` turns an access clock into the form that the file has.
    pub fn write(&mut self, writer: &mut Writer, record: Record<'_>, access: impl Fn(u32) -> Access) {
        match record {
            Record::Keys(keys) => self.keys(writer, keys, access),
            Record::Open(large) => {
                self.select(writer, large.db());
                self.keys += 1;
                open(writer, large, &access);
            }
            Record::Members(large, members) => write_members(writer, large.kind(), members),
            Record::Part(large, bytes) => write_part(writer, large, &bytes, &access),
            Record::Pending(_, pending) => self.pending.extend(pending.iter()),
            Record::Close(large) => {
                let pending = std::mem::take(&mut self.pending);
                if !large.is_packed() {
                    types::close(writer.parts(), large.open_value(), pending);
                }
            }
        }
    }

    fn select(&mut self, writer: &mut Writer, db: usize) {
        if self.db.replace(db) == Some(db) {
            return;
        }
        writer.select(db);
        let size = self.sizes.get_mut(db).map(std::mem::take).unwrap_or_default();
        if size.keys != 0 {
            writer.sizes(size.keys as u64, size.volatile as u64);
        }
    }

    fn keys(&mut self, writer: &mut Writer, keys: Keys<'_>, access: impl Fn(u32) -> Access) {
        self.select(writer, keys.db());
        keys.for_each(|entry| {
            self.keys += 1;
            let head = Head { key: entry.key(), deadline: entry.deadline(), access: access(entry.clock()) };
            types::write_entry(writer.record(&head), &entry, NO_TIME);
        });
    }
}

fn head<'a>(large: &'a Large, access: &impl Fn(u32) -> Access) -> Head<'a> {
    Head { key: large.key(), deadline: large.deadline(), access: access(large.clock()) }
}

fn open(writer: &mut Writer, large: &Large, access: &impl Fn(u32) -> Access) {
    // A packed value has one part, which is the whole record.
    if !large.is_packed() {
        types::open(writer.record(&head(large, access)), large.open_value());
    }
}

fn write_members(writer: &mut Writer, kind: Kind, members: Members<'_>) {
    let parts = writer.parts();
    members.for_each(|entry| types::write_member(parts, kind, &entry));
}

fn write_part(writer: &mut Writer, large: &Large, bytes: &Bytes<'_>, access: &impl Fn(u32) -> Access) {
    match large.packed_form() {
        Some(form) => types::write_copied(writer.record(&head(large, access)), form, &bytes.bytes(), NO_TIME),
        None => types::write_part(writer.parts(), large.kind(), bytes.place(), &bytes.bytes()),
    }
}
