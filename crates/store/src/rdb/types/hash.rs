//! Hashes in the format: a listpack of fields and values in turn, or field by field in any order. Where fields have deadlines
//! there are words of their own for them, others in Redis than in Valkey.

use super::super::bad::Bad;
use super::super::encoder::{Encoder, Fields, Version};
use super::super::limits::Limits;
use super::super::packed::{Packing, are_distinct, filled, for_each_group, for_each_group_of, is_small, packed};
use super::super::pass;
use super::super::rdb_type::{Destination, Origin, RdbType};
use super::super::record::{Record, collection_of, collection_of_bytes};
use super::super::scan::{Input, Source};
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::table::entry::handle::EntryRef;
use crate::types::hash::fields::AreTimed;
use crate::types::hash::{Map, MapRef};
use crate::value::capture::open_value::OpenValue;
use crate::value::collection::Collection;
use crate::value::form::Form;
use crate::value::{Deadline, ValueRef};

const HASH: u8 = 4;
const HASH_ZIPMAP: u8 = 9;
const HASH_ZIPLIST: u8 = 13;
const HASH_LISTPACK: u8 = 16;
/// The type number of hashes with deadlines in Valkey 9. Redis had the same number before 7.4 was finished.
const HASH_TIMED_VALKEY: u8 = 22;
const HASH_TIMED_EARLY: u8 = 22;
const HASH_TIMED_LISTPACK_EARLY: u8 = 23;
const HASH_TIMED: u8 = 24;
const HASH_TIMED_LISTPACK: u8 = 25;

impl RdbType for Map {
    fn has_number(number: u8, origin: Origin) -> bool {
        match origin {
            _ if matches!(number, HASH | HASH_ZIPMAP | HASH_ZIPLIST | HASH_LISTPACK) => true,
            Origin::Redis => (HASH_TIMED_EARLY..=HASH_TIMED_LISTPACK).contains(&number),
            Origin::Valkey => number == HASH_TIMED_VALKEY,
        }
    }

    fn read(input: &mut impl Source, number: u8, origin: Origin, limits: &Limits) -> Result<Self, Bad> {
        match (number, origin) {
            (HASH, _) => filled(read_hash(input, limits)?),
            (HASH_TIMED_VALKEY, Origin::Valkey) => read_valkey(input, limits),
            (HASH_TIMED | HASH_TIMED_EARLY, _) => read_timed(input, number, limits),
            (HASH_TIMED_LISTPACK | HASH_TIMED_LISTPACK_EARLY, _) => read_timed_packed(input, number, limits),
            _ => filled(read_packed(input, number, limits)?),
        }
    }

    fn pass(input: &mut Input<'_>, number: u8, origin: Origin) -> Result<(), Bad> {
        match (number, origin) {
            (HASH, _) => pass::each(input, pass_field),
            (HASH_TIMED_VALKEY, Origin::Valkey) => {
                pass::each(input, |input| pass_field(input).and_then(|()| pass::bytes(input, 8)))
            }
            (HASH_TIMED, _) => pass::bytes(input, 8).and_then(|()| pass::each(input, pass_timed_field)),
            (HASH_TIMED_EARLY, _) => pass::each(input, pass_timed_field),
            (HASH_TIMED_LISTPACK, _) => pass::bytes(input, 8).and_then(|()| pass::string(input)),
            _ => pass::string(input),
        }
    }

    fn is_over(&self) -> bool {
        self.is_empty()
    }

    fn put(self, destination: impl Destination) -> bool {
        destination.collection(self)
    }

    fn write(record: Record<'_>, entry: &EntryRef<'_>, now_ms: i64) {
        write_hash(record, collection_of::<Self>(entry), now_ms);
    }

    fn write_copied(record: Record<'_>, form: Form, bytes: &[u8], now_ms: i64) {
        write_hash(record, collection_of_bytes::<Self>(form, bytes), now_ms);
    }

    fn open(record: Record<'_>, open_value: &OpenValue) {
        let is_timed = open_value.extra().is_some_and(|AreTimed(is_timed)| *is_timed);
        open(record, open_value.parts_len() as u64, is_timed);
    }

    fn write_member(encoder: &mut Encoder, entry: &EntryRef<'_>) {
        write_field(encoder, ValueRef::Bytes(entry.key()), entry.value(), entry.deadline());
    }
}

fn write_hash(record: Record<'_>, map: MapRef<'_>, now_ms: i64) {
    if let Some(packed) = map.packed() {
        return record.begin(HASH_LISTPACK).packed(packed);
    }
    let (mut count, mut first_ms) = (map.len() as u64, None);
    if map.due_ms().is_some() {
        count = 0;
        map.for_each_with_deadline(now_ms, |_, _, deadline| {
            count += 1;
            first_ms = first_ms.into_iter().chain(deadline).min();
        });
    }
    let encoder = begin_hash(record, count, first_ms);
    map.for_each_with_deadline(now_ms, |field, value, deadline| write_field(encoder, field, value, deadline));
}

/// Opens a hash of `count` fields. `is_timed` says whether any of them has a deadline. Version 10 cannot express that; the
/// bytes written then are of version 12.
pub fn open(record: Record<'_>, count: u64, is_timed: bool) {
    // The deadlines are not known yet, so they count from the beginning of time.
    begin_hash(record, count, is_timed.then_some(0));
}

fn begin_hash<'a>(record: Record<'a>, count: u64, first_ms: Option<i64>) -> &'a mut Encoder {
    let (number, fields) = match (first_ms, record.encoder.version) {
        (None, _) => (HASH, Fields::Plain),
        (Some(_), Version::Valkey80) => (HASH_TIMED_VALKEY, Fields::Valkey),
        (Some(first_ms), Version::Ten | Version::Twelve | Version::Thirteen) => (HASH_TIMED, Fields::From(first_ms)),
    };
    record.encoder.fields = fields;
    record.encoder.need(match fields {
        Fields::Plain => 10,
        Fields::From(_) => Version::Twelve.number(),
        Fields::Valkey => Version::Valkey80.number(),
    });
    let encoder = record.begin(number);
    if let Fields::From(first_ms) = fields {
        encoder.number(first_ms);
    }
    encoder.len(count);
    encoder
}

/// Writes a field of a hash with its deadline, in milliseconds since the epoch. If the hash was opened as one without
/// deadlines, the field has none.
pub fn write_field(encoder: &mut Encoder, field: ValueRef<'_>, value: ValueRef<'_>, deadline: Option<i64>) {
    if let Fields::From(first_ms) = encoder.fields {
        // No deadline is below the first; 0 stands for a field without a deadline.
        let from_first = deadline.map_or(0, |deadline| deadline.saturating_sub(first_ms).max(0) as u64 + 1);
        encoder.len(from_first);
    }
    encoder.string(field);
    encoder.string(value);
    if encoder.fields == Fields::Valkey {
        encoder.number(deadline.unwrap_or(-1));
    }
}

/// Sets a new field. If `at_ms` is 0 it has no deadline. An expired field is left out.
fn set_field(map: &mut Map, field: &[u8], value: &[u8], at_ms: i64, limits: &Limits) -> Result<(), Bad> {
    let deadline = if at_ms == 0 { Deadline::Clear } else { Deadline::At(at_ms) };
    if at_ms != 0 && at_ms <= limits.now_ms {
        return Ok(());
    }
    let is_new = map.set(field, value, deadline, limits.hash, i64::MIN);
    if is_new { Ok(()) } else { Err(Bad::Twice) }
}

fn read_hash(input: &mut impl Source, limits: &Limits) -> Result<Map, Bad> {
    let (mut map, mut field, mut scratch) = (Map::new(limits.hash_key), Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        input.string_into(&mut field)?;
        if !map.add(&field, input.string(&mut scratch)?, limits.hash) {
            return Err(Bad::Twice);
        }
    }
    if map.is_distinct() { Ok(map) } else { Err(Bad::Twice) }
}

fn read_packed(input: &mut impl Source, number: u8, limits: &Limits) -> Result<Map, Bad> {
    let mut map = Map::new(limits.hash_key);
    let set = |[field, value]: [&[u8]; 2]| set_field(&mut map, field, value, 0, limits);
    match number {
        HASH_LISTPACK => match whole(packed(input)?, limits) {
            Ok(whole) => return Ok(whole),
            Err(pack) => for_each_group_of(pack.as_packed(), set)?,
        },
        HASH_ZIPMAP => for_each_group(input, Packing::Zipmap, set)?,
        _ => for_each_group(input, Packing::Ziplist, set)?,
    }
    Ok(map)
}

/// Returns the hash of these fields and values, in turn, or the pack if it cannot be taken over whole.
fn whole(pack: Pack<Forwards>, limits: &Limits) -> Result<Map, Pack<Forwards>> {
    let packed = pack.as_packed();
    let is_one = packed.len().is_multiple_of(2)
        && is_small(packed, limits.hash.entries_max.saturating_mul(2), limits.hash.value_bytes_max)
        && are_distinct(packed, 2, limits.hash_key);
    if is_one { Ok(Map::from_packed(limits.hash_key, Form::PackedHash, pack.into_run())) } else { Err(pack) }
}

/// Returns the number of fields. If it is 0, the hash is [`Bad::Empty`]; a hash with fields that have all expired has a
/// larger number.
fn some(fields: u64) -> Result<u64, Bad> {
    if fields == 0 { Err(Bad::Empty) } else { Ok(fields) }
}

/// Reads a hash with deadlines as Redis writes it. Deadlines count from the earliest one, plus one; 0 stands for none. Before
/// Redis 7.4 was finished they were written as they are.
fn read_timed(input: &mut impl Source, number: u8, limits: &Limits) -> Result<Map, Bad> {
    let from_ms = if number == HASH_TIMED { input.number()? } else { 1 };
    let (mut map, mut field, mut scratch) = (Map::new(limits.hash_key), Vec::new(), Vec::new());
    for _ in 0..some(input.length()?)? {
        let from_first = i64::try_from(input.length()?).map_err(|_| Bad::Deadline)?;
        let at_ms = match from_first {
            0 => 0,
            _ => from_ms.checked_add(from_first - 1).filter(|&at_ms| at_ms > 0).ok_or(Bad::Deadline)?,
        };
        input.string_into(&mut field)?;
        set_field(&mut map, &field, input.string(&mut scratch)?, at_ms, limits)?;
    }
    Ok(map)
}

fn read_timed_packed(input: &mut impl Source, number: u8, limits: &Limits) -> Result<Map, Bad> {
    if number == HASH_TIMED_LISTPACK {
        // The earliest deadline, which the elements repeat.
        input.number()?;
    }
    let (mut map, mut fields) = (Map::new(limits.hash_key), 0);
    for_each_group(input, Packing::Listpack, |[field, value, at_ms]: [&[u8]; 3]| {
        fields += 1;
        let at_ms = ValueRef::Bytes(at_ms).integer().filter(|&at_ms| at_ms >= 0).ok_or(Bad::Deadline)?;
        set_field(&mut map, field, value, at_ms, limits)
    })?;
    some(fields).map(|_| map)
}

/// Reads a hash with deadlines as Valkey writes it. Deadlines stand behind the values as they are; -1 stands for none.
fn read_valkey(input: &mut impl Source, limits: &Limits) -> Result<Map, Bad> {
    let (mut map, mut field, mut value) = (Map::new(limits.hash_key), Vec::new(), Vec::new());
    for _ in 0..some(input.length()?)? {
        input.string_into(&mut field)?;
        input.string_into(&mut value)?;
        let at_ms = match input.number()? {
            -1 => 0,
            at_ms @ 1.. => at_ms,
            _ => return Err(Bad::Deadline),
        };
        set_field(&mut map, &field, &value, at_ms, limits)?;
    }
    Ok(map)
}

fn pass_field(input: &mut Input<'_>) -> Result<(), Bad> {
    pass::string(input).and_then(|()| pass::string(input))
}

fn pass_timed_field(input: &mut Input<'_>) -> Result<(), Bad> {
    pass::length(input).and_then(|()| pass_field(input))
}
