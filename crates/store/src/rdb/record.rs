//! The record of one value, written: its type, its key where it stands in a file, its bytes.
//!
//! A [`Record`] is begun by whoever knows the key (`file::Writer::record`) and is one of these:
//!
//! - a whole value: [`Record::entry`] from an entry under its lock, [`Record::raw`] from the form and the bytes that were
//!   copied out of one, [`Record::string`] from a string;
//! - a large value in parts: an `open_...` that says how many parts there are, and then exactly so many calls on the
//!   [`Encoder`]. What is announced must come, or the file is broken.
//!
//! | opened by | parts |
//! | --- | --- |
//! | [`Record::open_string`] | [`Encoder::string_part`], as many bytes in all as were announced |
//! | [`Record::open_list`] | [`Encoder::pack`] |
//! | [`Record::open_set`] | [`Encoder::member`] |
//! | [`Record::open_sorted_set`] | [`Encoder::scored`] |
//! | [`Record::open_hash`] | [`Encoder::field`] |
//! | [`Record::open_stream`] | [`Encoder::block`] for each, then [`Encoder::stream_counters`], then for each group [`Encoder::group`], [`Encoder::pending`] for each pending entry, [`Encoder::consumers`], and for each of them [`Encoder::consumer`] and [`Encoder::consumer_pending`] for each entry that it has |
//!
//! Members of sets, hashes and sorted sets may come in any order.

use super::encoder::{Encoder, Fields, Version, raw_id};
use super::kind;
use crate::packed::listpack::Packed;
use crate::table::entry::handle::EntryRef;
use crate::types::hash::{Map, MapRef};
use crate::types::list::{List, ListRef};
use crate::types::set::{Set, SetRef};
use crate::types::sorted_set::{SortedSet, SortedSetRef};
use crate::types::stream::group::{Consumer, Pending, StreamGroup};
use crate::types::stream::id::StreamId;
use crate::types::stream::{Stream, StreamCounters};
use crate::value::collection::Collection;
use crate::value::form::Form;
use crate::value::{Kind, ValueRef};

/// A list's node that has many elements, not one.
const PACKED: u64 = 2;

/// Why a value can be looked at as what it is.
const KNOWN: &str = "type and form say which collection it is";

/// The record of one value, about to be written.
#[must_use = "nothing is written before the value is"]
pub struct Record<'a> {
    encoder: &'a mut Encoder,
    /// None in a dump, where there is no key.
    key: Option<&'a [u8]>,
}

/// Appends the type and the bytes of a value, as a dump has them, in words that this version knows. Fields of hashes whose time
/// is over are left out. Returns the version of the format that reads it.
pub fn write(out: &mut Vec<u8>, entry: &EntryRef<'_>, now_ms: i64, version: Version) -> u16 {
    let mut encoder = Encoder::new(version, true);
    encoder.out = std::mem::take(out);
    Record::new(&mut encoder, None).entry(entry, now_ms);
    let needed = encoder.needed();
    *out = encoder.out;
    needed
}

impl<'a> Record<'a> {
    pub(super) fn new(encoder: &'a mut Encoder, key: Option<&'a [u8]>) -> Self {
        Self { encoder, key }
    }

    fn begin(self, kind: u8) -> &'a mut Encoder {
        self.encoder.out.push(kind);
        if let Some(key) = self.key {
            self.encoder.text(key);
        }
        self.encoder
    }

    /// The value of an entry, whatever it is. Fields whose time is over at `now_ms` are left out; where `now_ms` is the
    /// least number, none is.
    pub fn entry(self, entry: &EntryRef<'_>, now_ms: i64) {
        match entry.kind() {
            Kind::String => self.string(entry.value()),
            Kind::List => self.list(entry.collection::<List>().expect(KNOWN)),
            Kind::Set => self.set(entry.collection::<Set>().expect(KNOWN)),
            Kind::SortedSet => self.sorted_set(entry.collection::<SortedSet>().expect(KNOWN)),
            Kind::Hash => self.hash(entry.collection::<Map>().expect(KNOWN), now_ms),
            Kind::Stream => self.stream(entry.collection::<Stream>().expect(KNOWN)),
        }
    }

    /// The value whose form and bytes were copied out of an entry: a short string, an integer or a small collection. What
    /// lies outside of entries has no bytes there, and is written by another function. `now_ms` is as in [`Record::entry`].
    pub fn raw(self, form: Form, bytes: &[u8], now_ms: i64) {
        match form {
            Form::Whole | Form::Edited => self.string(ValueRef::Bytes(bytes)),
            Form::Integer => {
                let number = bytes.first_chunk().expect("an integer has eight bytes");
                self.string(ValueRef::Integer(i64::from_ne_bytes(*number)));
            }
            Form::PackedList => self.list(List::view(form, bytes).expect(KNOWN)),
            Form::PackedSet | Form::PackedIntegers => self.set(Set::view(form, bytes).expect(KNOWN)),
            Form::PackedSortedSet => self.sorted_set(SortedSet::view(form, bytes).expect(KNOWN)),
            Form::PackedHash | Form::WideHash | Form::TimedHash | Form::WideTimedHash => {
                self.hash(Map::view(form, bytes).expect(KNOWN), now_ms);
            }
            Form::Shared | Form::Object | Form::Member | Form::Scored => {
                unreachable!("the bytes of this form are no value of a key")
            }
        }
    }

    /// A string.
    pub fn string(self, value: ValueRef<'_>) {
        self.begin(kind::STRING).string(value);
    }

    /// A string of so many bytes, which come in parts and stay as they are: neither compressed nor an integer.
    pub fn open_string(self, length: u64) {
        self.begin(kind::STRING).len(length);
    }

    /// A list of so many packs.
    pub fn open_list(self, packs: u64) {
        self.begin(kind::LIST_QUICKLIST_2).len(packs);
    }

    fn list(self, list: ListRef<'_>) {
        let (count, packs) = list.packs();
        let encoder = self.begin(kind::LIST_QUICKLIST_2);
        encoder.len(count as u64);
        packs.for_each(|pack| encoder.pack(pack));
    }

    /// A set of so many members.
    pub fn open_set(self, count: u64) {
        self.begin(kind::SET).len(count);
    }

    fn set(self, set: SetRef<'_>) {
        if let Some(integers) = set.integers() {
            return self.begin(kind::SET_INTSET).text(&integers.to_redis());
        }
        let packed = set.packed().filter(|_| self.encoder.version != Version::Ten);
        if let Some(packed) = packed {
            self.encoder.need(11);
            return self.begin(kind::SET_LISTPACK).packed(packed);
        }
        let encoder = self.begin(kind::SET);
        encoder.len(set.len() as u64);
        set.for_each(|member| encoder.member(member));
    }

    /// A sorted set of so many members.
    pub fn open_sorted_set(self, count: u64) {
        self.begin(kind::SORTED_SET).len(count);
    }

    fn sorted_set(self, set: SortedSetRef<'_>) {
        if let Some(packed) = set.packed() {
            return self.begin(kind::SORTED_SET_LISTPACK).packed(packed);
        }
        let encoder = self.begin(kind::SORTED_SET);
        encoder.len(set.len() as u64);
        // From the last to the first, so that whoever reads can put each before all others.
        set.visit(0..set.len(), true, |name, score| encoder.scored(name, score));
    }

    /// A hash of so many fields. `is_timed` says whether any of them has a deadline; version 10 has no word for that, and
    /// what is written then is of version 12.
    pub fn open_hash(self, count: u64, is_timed: bool) {
        // The deadlines are not known yet, so they count from the beginning of time.
        self.begin_hash(count, is_timed.then_some(0));
    }

    fn begin_hash(self, count: u64, first_ms: Option<i64>) -> &'a mut Encoder {
        let (kind, fields) = match (first_ms, self.encoder.version) {
            (None, _) => (kind::HASH, Fields::Plain),
            (Some(_), Version::Valkey80) => (kind::HASH_TIMED_VALKEY, Fields::Valkey),
            (Some(first_ms), Version::Ten | Version::Twelve) => (kind::HASH_TIMED, Fields::From(first_ms)),
        };
        self.encoder.fields = fields;
        self.encoder.need(match fields {
            Fields::Plain => 10,
            Fields::From(_) => Version::Twelve.number(),
            Fields::Valkey => Version::Valkey80.number(),
        });
        let encoder = self.begin(kind);
        if let Fields::From(first_ms) = fields {
            encoder.number(first_ms);
        }
        encoder.len(count);
        encoder
    }

    fn hash(self, map: MapRef<'_>, now_ms: i64) {
        if let Some(packed) = map.packed() {
            return self.begin(kind::HASH_LISTPACK).packed(packed);
        }
        let (mut count, mut first_ms) = (map.len() as u64, None);
        if map.due_ms().is_some() {
            count = 0;
            map.for_each_with_deadline(now_ms, |_, _, deadline| {
                count += 1;
                first_ms = first_ms.into_iter().chain(deadline).min();
            });
        }
        let encoder = self.begin_hash(count, first_ms);
        map.for_each_with_deadline(now_ms, |field, value, deadline| encoder.field(field, value, deadline));
    }

    /// A stream of so many blocks.
    pub fn open_stream(self, blocks: u64) {
        let kind = match self.encoder.version {
            Version::Ten => kind::STREAM_2,
            Version::Twelve | Version::Valkey80 => kind::STREAM_3,
        };
        self.encoder.need(if kind == kind::STREAM_3 { 11 } else { 10 });
        self.begin(kind).len(blocks);
    }

    fn stream(self, stream: &Stream) {
        let Self { encoder, key } = self;
        Record { encoder: &mut *encoder, key }.open_stream(stream.blocks_len() as u64);
        for (first, packed) in stream.blocks() {
            encoder.block(first, packed);
        }
        encoder.stream_counters(stream.len(), stream.first_id(), stream.counters(), stream.groups().len() as u64);
        for (name, group) in stream.groups() {
            encoder.whole_group(name, group);
        }
    }
}

/// The parts of large values.
impl Encoder {
    /// A part of a string.
    pub fn string_part(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A pack of a list.
    pub fn pack(&mut self, packed: Packed<'_>) {
        self.len(PACKED);
        self.packed(packed);
    }

    /// A member of a set.
    pub fn member(&mut self, member: ValueRef<'_>) {
        self.string(member);
    }

    /// A member of a sorted set.
    pub fn scored(&mut self, member: ValueRef<'_>, score: f64) {
        self.string(member);
        self.out.extend(score.to_le_bytes());
    }

    /// A field of a hash with its deadline, in milliseconds since the epoch; that of a hash which was opened as one without
    /// deadlines has none.
    pub fn field(&mut self, field: ValueRef<'_>, value: ValueRef<'_>, deadline: Option<i64>) {
        if let Fields::From(first_ms) = self.fields {
            // No deadline is below the first, and none at all is a 0.
            let from_first = deadline.map_or(0, |deadline| deadline.saturating_sub(first_ms).max(0) as u64 + 1);
            self.len(from_first);
        }
        self.string(field);
        self.string(value);
        if self.fields == Fields::Valkey {
            self.number(deadline.unwrap_or(-1));
        }
    }

    /// A block of a stream, and the id under which it stands.
    pub fn block(&mut self, first: StreamId, packed: Packed<'_>) {
        self.text(&raw_id(first));
        self.packed(packed);
    }

    /// What stands behind the blocks of a stream: the number of its entries, the id of the first of them, its counters and the
    /// number of its groups.
    pub fn stream_counters(&mut self, entries: u64, first_id: StreamId, counters: StreamCounters, groups: u64) {
        self.len(entries);
        self.id(counters.last_id);
        self.id(first_id);
        self.id(counters.max_deleted_id);
        self.len(counters.entries_added);
        self.len(groups);
    }

    /// What stands in front of a group: its name, its position, and the number of its pending entries.
    pub fn group(&mut self, name: &[u8], last_id: StreamId, entries_read: Option<u64>, pending: u64) {
        self.text(name);
        self.id(last_id);
        // What cannot be told is -1, which as a length is the largest number.
        self.len(entries_read.unwrap_or(u64::MAX));
        self.len(pending);
    }

    /// A pending entry of a group.
    pub fn pending(&mut self, id: StreamId, pending: Pending) {
        self.raw_id(id);
        self.number(pending.delivered_ms);
        self.len(pending.deliveries);
    }

    /// The number of a group's consumers, behind its pending entries.
    pub fn consumers(&mut self, count: u64) {
        self.len(count);
    }

    /// What stands in front of the entries that a consumer has: its name, its times, and their number.
    pub fn consumer(&mut self, name: &[u8], seen_ms: i64, active_ms: Option<i64>, pending: u64) {
        self.text(name);
        self.number(seen_ms);
        // Version 10 takes it that a consumer was active whenever it was seen.
        if self.version != Version::Ten {
            self.number(active_ms.unwrap_or(-1));
        }
        self.len(pending);
    }

    /// An entry that a consumer has, which is one of the group's pending entries.
    pub fn consumer_pending(&mut self, id: StreamId) {
        self.raw_id(id);
    }

    fn whole_group(&mut self, name: &[u8], group: &StreamGroup) {
        self.group(name, group.last_id, group.entries_read, group.pending_len() as u64);
        group.pending_in(StreamId::MIN..=StreamId::MAX).for_each(|(id, pending)| self.pending(id, pending));
        self.consumers(group.consumers().len() as u64);
        for consumer in group.consumers() {
            let Consumer { name, seen_ms, active_ms, .. } = consumer;
            self.consumer(name, *seen_ms, *active_ms, consumer.pending_len() as u64);
            consumer.pending_from(StreamId::MIN).for_each(|id| self.consumer_pending(id));
        }
    }
}
