//! The form of stream ids, entries and arrays of entries in replies.
//!
//! XRANGE, XREAD, XCLAIM, XINFO and their like share it, so that an entry looks the same in each. This module writes bytes
//! and looks nothing up.

use sleeve_store::{StreamEntry, StreamId, ValueRef};
use sleeve_wire::number::Digits;
use sleeve_wire::reply::Writer;

/// Writes an id.
pub(super) fn id(reply: &mut Writer<'_>, id: StreamId) {
    match (i64::try_from(id.ms), i64::try_from(id.seq)) {
        (Ok(ms), Ok(seq)) => {
            let (ms, seq) = (Digits::new(ms), Digits::new(seq));
            reply.bulk_header(ms.as_bytes().len() + 1 + seq.as_bytes().len());
            reply.out.extend_from_slice(ms.as_bytes());
            reply.out.push(b'-');
            reply.out.extend_from_slice(seq.as_bytes());
            reply.bulk_end();
        }
        _ => reply.bulk(id.to_string().as_bytes()),
    }
}

/// Writes an entry: its id, and its names and values, alternating.
pub(super) fn entry(reply: &mut Writer<'_>, entry: &StreamEntry<'_>) {
    reply.array(2);
    parts(reply, entry);
}

/// Writes an entry with the time since its last delivery, in milliseconds, and its number of deliveries.
pub(super) fn entry_with_history(reply: &mut Writer<'_>, entry: &StreamEntry<'_>, idle_ms: i64, deliveries: u64) {
    reply.array(4);
    parts(reply, entry);
    reply.integer(idle_ms);
    reply.integer(i64::try_from(deliveries).unwrap_or(i64::MAX));
}

fn parts(reply: &mut Writer<'_>, entry: &StreamEntry<'_>) {
    id(reply, entry.id);
    reply.array(2 * entry.fields_len());
    for (name, value) in entry.fields() {
        element(reply, name);
        element(reply, value);
    }
}

fn element(reply: &mut Writer<'_>, value: ValueRef<'_>) {
    match value {
        ValueRef::Integer(number) => reply.bulk_integer(number),
        ValueRef::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Writes an array of at most `count` of these entries; returns how many.
pub(super) fn entries<'a>(
    reply: &mut Writer<'_>,
    entries: impl Iterator<Item = StreamEntry<'a>>,
    count: usize,
) -> usize {
    counted_array(reply, |reply| {
        let mut written = 0;
        for found in entries.take(count) {
            if reply.is_full() {
                break;
            }
            entry(reply, &found);
            written += 1;
        }
        written
    })
}

/// Writes an array. `write` writes the elements and returns their number, which is inserted before them.
pub(super) fn counted_array(reply: &mut Writer<'_>, write: impl FnOnce(&mut Writer<'_>) -> usize) -> usize {
    let start = reply.out.len();
    let count = write(reply);
    insert(reply, start, |head| head.array(count));
    count
}

/// Inserts a head before the bytes that were written from `start` on.
pub(super) fn insert(reply: &mut Writer<'_>, start: usize, write: impl FnOnce(&mut Writer<'_>)) {
    let mut head = Vec::new();
    write(&mut Writer::new(&mut head, reply.protocol));
    reply.out.splice(start..start, head);
}
