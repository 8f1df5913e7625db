//! Writing what a snapshot gives out into a file, one record after the other.
//!
//! It knows no clock: what has expired at the instant is written as it was. One thread uses it, outside of all locks.

use super::Size;
use super::record::{Bytes, Keys, Large, Members, Record};
use crate::rdb::file::{Access, Head, Writer};
use crate::types::stream::Stream;
use crate::types::stream::group::PendingCopy;
use crate::value::{Kind, ValueRef};

/// Fields whose time is over are written too: they were there.
const NO_TIME: i64 = i64::MIN;

/// Writes records into one file.
#[derive(Debug, Default)]
pub struct Scribe {
    /// The database to which the file's keys belong from here on.
    db: Option<usize>,
    /// How many keys each database has, until the file says so.
    sizes: Vec<Size>,
    keys: u64,
    /// What is pending in the stream that is being written: a file has it behind the blocks, group by group.
    pending: Vec<PendingCopy>,
}

impl Scribe {
    /// Writes a snapshot of these sizes, which the file says in front of each database's first key.
    pub fn new(sizes: &[Size]) -> Self {
        Self { sizes: sizes.to_vec(), ..Self::default() }
    }

    /// How many keys were written.
    pub fn keys_len(&self) -> u64 {
        self.keys
    }

    /// Writes a record. `access` says what the file shall tell of an access clock.
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
                if let Some(stream) = large.stream() {
                    close_stream(writer, stream, std::mem::take(&mut self.pending));
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
            writer.record(&head).entry(&entry, NO_TIME);
        });
    }
}

fn head<'a>(large: &'a Large, access: &impl Fn(u32) -> Access) -> Head<'a> {
    Head { key: large.key(), deadline: large.deadline(), access: access(large.clock()) }
}

fn open(writer: &mut Writer, large: &Large, access: &impl Fn(u32) -> Access) {
    if large.is_packed() {
        // Its one part is the whole record.
        return;
    }
    let head = head(large, access);
    let (record, parts) = (writer.record(&head), large.blocks_len() as u64);
    match large.kind() {
        Kind::String => record.open_string(large.string_len() as u64),
        Kind::List => record.open_list(parts),
        Kind::Set => record.open_set(parts),
        Kind::SortedSet => record.open_sorted_set(parts),
        Kind::Hash => record.open_hash(parts, large.is_timed()),
        Kind::Stream => record.open_stream(parts),
    }
}

fn write_members(writer: &mut Writer, kind: Kind, members: Members<'_>) {
    let parts = writer.parts();
    members.for_each(|entry| {
        let name = ValueRef::Bytes(entry.key());
        match (kind, entry.value()) {
            (Kind::SortedSet, ValueRef::Integer(bits)) => parts.scored(name, f64::from_bits(bits as u64)),
            (Kind::Hash, value) => parts.field(name, value, entry.deadline()),
            _ => parts.member(name),
        }
    });
}

fn write_part(writer: &mut Writer, large: &Large, bytes: &Bytes<'_>, access: &impl Fn(u32) -> Access) {
    if let Some(form) = large.packed_form() {
        return writer.record(&head(large, access)).raw(form, &bytes.bytes(), NO_TIME);
    }
    match large.kind() {
        Kind::String => writer.parts().string_part(&bytes.bytes()),
        Kind::Stream => writer.parts().block(bytes.id(), bytes.pack().as_packed()),
        _ => writer.parts().pack(bytes.pack().as_packed()),
    }
}

/// Everything of a stream that stands behind its blocks.
fn close_stream(writer: &mut Writer, stream: &Stream, mut pending: Vec<PendingCopy>) {
    let parts = writer.parts();
    parts.stream_counters(stream.len(), stream.first_id(), stream.counters(), stream.groups().len() as u64);
    pending.sort_unstable_by_key(|copy| (copy.group, copy.id));
    let mut rest = pending.as_mut_slice();
    for (number, (name, group)) in (0..).zip(stream.groups()) {
        let (of_group, behind) = rest.split_at_mut(rest.partition_point(|copy| copy.group <= number));
        rest = behind;
        parts.group(name, group.last_id, group.entries_read, of_group.len() as u64);
        of_group.iter().for_each(|copy| parts.pending(copy.id, copy.pending));
        parts.consumers(group.consumers().len() as u64);
        of_group.sort_unstable_by_key(|copy| (copy.pending.consumer, copy.id));
        for consumer in group.consumers() {
            let number = group.find(&consumer.name);
            let start = of_group.partition_point(|copy| Some(copy.pending.consumer) < number);
            let count = of_group[start..].partition_point(|copy| Some(copy.pending.consumer) == number);
            parts.consumer(&consumer.name, consumer.seen_ms, consumer.active_ms, count as u64);
            of_group[start..start + count].iter().for_each(|copy| parts.consumer_pending(copy.id));
        }
    }
}
