//! Writing values.

use super::kind;
use crate::packed::pack::Pack;
use crate::table::entry::handle::EntryRef;
use crate::types::hash::{Map, MapRef};
use crate::types::list::List;
use crate::types::list::lzf;
use crate::types::set::{Set, SetRef};
use crate::types::sorted_set::{SortedSet, SortedSetRef};
use crate::types::stream::Stream;
use crate::types::stream::group::StreamGroup;
use crate::types::stream::id::StreamId;
use crate::value::{Digits, Encoding, Kind, ValueRef, parse_integer};

/// Strings of at most so many bytes are not worth compressing.
const PLAIN_MAX: usize = 20;

/// The longest string that may be an integer of 32 bits, in bytes.
const INTEGER_MAX: usize = 11;

/// Appends the type and the bytes of a value. Fields of hashes whose time is over are left out. Returns the version of the
/// format that reads it.
pub fn write(out: &mut Vec<u8>, entry: &EntryRef<'_>, now_ms: i64) -> u16 {
    match entry.kind() {
        Kind::String => {
            out.push(kind::STRING);
            push_string(out, entry.value());
            return 10;
        }
        Kind::List => write_list(out, entry),
        Kind::Set => return entry.collection::<Set>().map_or(10, |set| write_set(out, set)),
        Kind::SortedSet => {
            if let Some(set) = entry.collection::<SortedSet>() {
                write_sorted_set(out, set);
            }
        }
        Kind::Hash => {
            let is_packed = entry.encoding() == Encoding::Listpack;
            return entry.collection::<Map>().map_or(10, |map| write_hash(out, map, is_packed, now_ms));
        }
        Kind::Stream => {
            if let Some(stream) = entry.collection::<Stream>() {
                write_stream(out, stream);
            }
            return 11;
        }
    }
    10
}

/// Appends a length in as few bytes as it takes.
pub fn push_len(out: &mut Vec<u8>, length: u64) {
    match length {
        0..=0x3f => out.push(length as u8),
        0x40..=0x3fff => out.extend([0x40 | (length >> 8) as u8, length as u8]),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend((length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(length.to_be_bytes());
        }
    }
}

/// Appends a string: as an integer or compressed where that is shorter.
pub fn push_string(out: &mut Vec<u8>, value: ValueRef<'_>) {
    let integer = match value {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Bytes(bytes) if bytes.len() <= INTEGER_MAX => parse_integer(bytes),
        ValueRef::Bytes(_) => None,
    };
    if let Some(number) = integer.and_then(|number| i32::try_from(number).ok()) {
        return push_integer(out, number);
    }
    let mut digits = Digits::default();
    let bytes = value.bytes(&mut digits);
    let packed = if bytes.len() > PLAIN_MAX { lzf::pack(bytes) } else { None };
    if let Some(packed) = packed {
        out.push(0xc3);
        push_len(out, packed.len() as u64);
        push_len(out, bytes.len() as u64);
        out.extend(packed);
    } else {
        push_len(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

fn push_integer(out: &mut Vec<u8>, number: i32) {
    if let Ok(byte) = i8::try_from(number) {
        out.extend([0xc0, byte as u8]);
    } else if let Ok(short) = i16::try_from(number) {
        out.push(0xc1);
        out.extend(short.to_le_bytes());
    } else {
        out.push(0xc2);
        out.extend(number.to_le_bytes());
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_string(out, ValueRef::Bytes(bytes));
}

fn write_list(out: &mut Vec<u8>, entry: &EntryRef<'_>) {
    const PACKED: u64 = 2;
    let Some(list) = entry.collection::<List>() else { return };
    let (count, packs) = list.packs();
    out.push(kind::LIST_QUICKLIST_2);
    push_len(out, count as u64);
    for packed in packs {
        push_len(out, PACKED);
        push_bytes(out, &packed.to_redis());
    }
}

fn write_set(out: &mut Vec<u8>, set: SetRef<'_>) -> u16 {
    if let Some(integers) = set.integers() {
        out.push(kind::SET_INTSET);
        push_bytes(out, &integers.to_redis());
        return 10;
    }
    if let Some(packed) = set.packed() {
        out.push(kind::SET_LISTPACK);
        push_bytes(out, &packed.to_redis());
        return 11;
    }
    out.push(kind::SET);
    push_len(out, set.len() as u64);
    set.for_each(|member| push_string(out, member));
    10
}

fn write_sorted_set(out: &mut Vec<u8>, set: SortedSetRef<'_>) {
    if let Some(packed) = set.packed() {
        out.push(kind::SORTED_SET_LISTPACK);
        return push_bytes(out, &packed.to_redis());
    }
    out.push(kind::SORTED_SET);
    push_len(out, set.len() as u64);
    // From the last to the first, so that whoever reads can put each before all others.
    set.visit(0..set.len(), true, |name, score| {
        push_string(out, name);
        out.extend(score.to_le_bytes());
    });
}

fn write_hash(out: &mut Vec<u8>, map: MapRef<'_>, is_packed: bool, now_ms: i64) -> u16 {
    if let Some(due_ms) = map.due_ms() {
        return write_timed_hash(out, map, due_ms, now_ms);
    }
    if is_packed {
        let mut pack = Pack::new();
        map.for_each(now_ms, |field, value| {
            pack.push_back(field);
            pack.push_back(value);
        });
        out.push(kind::HASH_LISTPACK);
        push_bytes(out, &pack.as_packed().to_redis());
    } else {
        out.push(kind::HASH);
        push_len(out, map.len() as u64);
        map.for_each(now_ms, |field, value| {
            push_string(out, field);
            push_string(out, value);
        });
    }
    10
}

/// Deadlines count from the earliest, plus one; 0 is none.
fn write_timed_hash(out: &mut Vec<u8>, map: MapRef<'_>, due_ms: i64, now_ms: i64) -> u16 {
    out.push(kind::HASH_TIMED);
    out.extend(due_ms.to_le_bytes());
    push_len(out, map.live_len(now_ms) as u64);
    map.for_each_with_deadline(now_ms, |field, value, deadline| {
        push_len(out, deadline.map_or(0, |deadline| deadline.saturating_sub(due_ms).saturating_add(1) as u64));
        push_string(out, field);
        push_string(out, value);
    });
    12
}

fn push_id(out: &mut Vec<u8>, id: StreamId) {
    push_len(out, id.ms);
    push_len(out, id.seq);
}

/// An id of sixteen bytes, highest first.
fn raw_id(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn write_stream(out: &mut Vec<u8>, stream: &Stream) {
    out.push(kind::STREAM_3);
    push_len(out, stream.blocks_len() as u64);
    for (first, packed) in stream.blocks() {
        push_bytes(out, &raw_id(first));
        push_bytes(out, &packed.to_redis());
    }
    let counters = stream.counters();
    push_len(out, stream.len());
    push_id(out, counters.last_id);
    push_id(out, stream.first_id());
    push_id(out, counters.max_deleted_id);
    push_len(out, counters.entries_added);
    push_len(out, stream.groups().len() as u64);
    for (name, group) in stream.groups() {
        push_bytes(out, name);
        write_group(out, group);
    }
}

fn write_group(out: &mut Vec<u8>, group: &StreamGroup) {
    push_id(out, group.last_id);
    // What cannot be told is -1, which as a length is the largest number.
    push_len(out, group.entries_read.unwrap_or(u64::MAX));
    push_len(out, group.pending_len() as u64);
    for (id, pending) in group.pending_in(StreamId::MIN..=StreamId::MAX) {
        out.extend(raw_id(id));
        out.extend(pending.delivered_ms.to_le_bytes());
        push_len(out, pending.deliveries);
    }
    push_len(out, group.consumers().len() as u64);
    for consumer in group.consumers() {
        push_bytes(out, &consumer.name);
        out.extend(consumer.seen_ms.to_le_bytes());
        out.extend(consumer.active_ms.unwrap_or(-1).to_le_bytes());
        push_len(out, consumer.pending_len() as u64);
        consumer.pending_from(StreamId::MIN).for_each(|id| out.extend(raw_id(id)));
    }
}
