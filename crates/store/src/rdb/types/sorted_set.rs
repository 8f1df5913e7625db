//! Sorted sets in the format: a listpack of members and scores in turn, or member by member in any order.

use super::super::bad::Bad;
use super::super::encoder::Encoder;
use super::super::limits::Limits;
use super::super::packed::{Packing, are_distinct, filled, for_each_group, for_each_group_of, is_small, packed};
use super::super::pass;
use super::super::rdb_type::{Destination, Origin, RdbType};
use super::super::record::{Record, collection_of, collection_of_bytes};
use super::super::scan::{Input, Source};
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::table::entry::handle::EntryRef;
use crate::types::sorted_set::packed::are_in_order;
use crate::types::sorted_set::{SortedSet, SortedSetRef};
use crate::value::ValueRef;
use crate::value::capture::open_value::OpenValue;
use crate::value::collection::Collection;
use crate::value::form::Form;

/// The type number of sorted sets with scores as text.
const SORTED_SET_TEXT: u8 = 3;
const SORTED_SET: u8 = 5;
const SORTED_SET_ZIPLIST: u8 = 12;
const SORTED_SET_LISTPACK: u8 = 17;

impl RdbType for SortedSet {
    fn has_number(number: u8, _: Origin) -> bool {
        matches!(number, SORTED_SET_TEXT | SORTED_SET | SORTED_SET_ZIPLIST | SORTED_SET_LISTPACK)
    }

    fn read(input: &mut impl Source, number: u8, _: Origin, limits: &Limits) -> Result<Self, Bad> {
        filled(match number {
            SORTED_SET_TEXT | SORTED_SET => read_sorted_set(input, number, limits)?,
            _ => read_packed(input, number, limits)?,
        })
    }

    fn pass(input: &mut Input<'_>, number: u8, _: Origin) -> Result<(), Bad> {
        match number {
            SORTED_SET => pass::each(input, |input| pass::string(input).and_then(|()| pass::bytes(input, 8))),
            SORTED_SET_TEXT => pass::each(input, |input| pass::string(input).and_then(|()| pass_score_text(input))),
            _ => pass::string(input),
        }
    }

    fn put(self, destination: impl Destination) -> bool {
        destination.collection(self)
    }

    fn write(record: Record<'_>, entry: &EntryRef<'_>, _: i64) {
        write_sorted_set(record, collection_of::<Self>(entry));
    }

    fn write_copied(record: Record<'_>, form: Form, bytes: &[u8], _: i64) {
        write_sorted_set(record, collection_of_bytes::<Self>(form, bytes));
    }

    fn open(record: Record<'_>, open_value: &OpenValue) {
        open(record, open_value.parts_len() as u64);
    }

    fn write_member(encoder: &mut Encoder, entry: &EntryRef<'_>) {
        if let ValueRef::Integer(bits) = entry.value() {
            write_scored(encoder, ValueRef::Bytes(entry.key()), f64::from_bits(bits as u64));
        }
    }
}

fn write_sorted_set(record: Record<'_>, set: SortedSetRef<'_>) {
    if let Some(packed) = set.packed() {
        return record.begin(SORTED_SET_LISTPACK).packed(packed);
    }
    let encoder = record.begin(SORTED_SET);
    encoder.len(set.len() as u64);
    // The members are written from the last to the first, so that the reader can put each before all others.
    set.visit(0..set.len(), true, |name, score| write_scored(encoder, name, score));
}

/// Opens a sorted set of so many members.
pub fn open(record: Record<'_>, count: u64) {
    record.begin(SORTED_SET).len(count);
}

/// Writes a member of a sorted set, with its score.
pub fn write_scored(encoder: &mut Encoder, member: ValueRef<'_>, score: f64) {
    encoder.string(member);
    encoder.out.extend(score.to_le_bytes());
}

fn add(set: &mut SortedSet, name: &[u8], score: f64, limits: &Limits) -> Result<(), Bad> {
    if score.is_nan() {
        return Err(Bad::Score);
    }
    if set.set(name, score, limits.sorted_set).is_some() { Err(Bad::Twice) } else { Ok(()) }
}

fn read_sorted_set(input: &mut impl Source, number: u8, limits: &Limits) -> Result<SortedSet, Bad> {
    let (count, mut name) = (input.length()?, Vec::new());
    let expected = usize::try_from(count).unwrap_or(usize::MAX);
    let mut set = SortedSet::with_room(limits.hash_key, expected, 0, limits.sorted_set);
    for _ in 0..count {
        input.string_into(&mut name)?;
        let score = if number == SORTED_SET { input.double()? } else { input.double_text()? };
        add(&mut set, &name, score, limits)?;
    }
    Ok(set)
}

fn read_packed(input: &mut impl Source, number: u8, limits: &Limits) -> Result<SortedSet, Bad> {
    let mut set = SortedSet::new(limits.hash_key);
    let add_pair = |[name, text]: [&[u8]; 2]| {
        let score = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        add(&mut set, name, score.ok_or(Bad::Score)?, limits)
    };
    match number {
        SORTED_SET_LISTPACK => match whole(packed(input)?, limits) {
            Ok(whole) => return Ok(whole),
            Err(pack) => for_each_group_of(pack.as_packed(), add_pair)?,
        },
        _ => for_each_group(input, Packing::Ziplist, add_pair)?,
    }
    Ok(set)
}

/// Returns the sorted set of these members and scores, in turn, or the pack if it cannot be taken over whole.
fn whole(pack: Pack<Forwards>, limits: &Limits) -> Result<SortedSet, Pack<Forwards>> {
    let packed = pack.as_packed();
    let is_one = is_small(packed, limits.sorted_set.entries_max.saturating_mul(2), limits.sorted_set.value_max)
        && are_in_order(packed)
        && are_distinct(packed, 2, limits.hash_key);
    if is_one { Ok(SortedSet::from_packed(limits.hash_key, Form::PackedSortedSet, pack.into_run())) } else { Err(pack) }
}

fn pass_score_text(input: &mut Input<'_>) -> Result<(), Bad> {
    match input.byte()? {
        // The bytes from 253 on stand for "not a number" and the two infinities.
        253.. => Ok(()),
        length => pass::bytes(input, usize::from(length)),
    }
}
