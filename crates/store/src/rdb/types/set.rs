//! Sets in the format: an intset, a listpack (version 11), or member by member in any order.

use super::super::bad::Bad;
use super::super::encoder::{Encoder, Version};
use super::super::limits::Limits;
use super::super::packed::{are_distinct, filled, is_small, packed};
use super::super::pass;
use super::super::rdb_type::{Destination, Origin, RdbType};
use super::super::record::{Record, collection_of, collection_of_bytes};
use super::super::scan::{Input, Source};
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::table::entry::handle::EntryRef;
use crate::types::set::intset::IntegerSet;
use crate::types::set::{Set, SetRef};
use crate::value::ValueRef;
use crate::value::capture::open_value::OpenValue;
use crate::value::collection::Collection;
use crate::value::form::Form;

const SET: u8 = 2;
const SET_INTSET: u8 = 11;
const SET_LISTPACK: u8 = 20;

impl RdbType for Set {
    fn has_number(number: u8, _: Origin) -> bool {
        matches!(number, SET | SET_INTSET | SET_LISTPACK)
    }

    fn read(input: &mut impl Source, number: u8, _: Origin, limits: &Limits) -> Result<Self, Bad> {
        filled(read_set(input, number, limits)?)
    }

    fn pass(input: &mut Input<'_>, number: u8, _: Origin) -> Result<(), Bad> {
        if number == SET { pass::each(input, pass::string) } else { pass::string(input) }
    }

    fn put(self, destination: impl Destination) -> bool {
        destination.collection(self)
    }

    fn write(record: Record<'_>, entry: &EntryRef<'_>, _: i64) {
        write_set(record, collection_of::<Self>(entry));
    }

    fn write_copied(record: Record<'_>, form: Form, bytes: &[u8], _: i64) {
        write_set(record, collection_of_bytes::<Self>(form, bytes));
    }

    fn open(record: Record<'_>, open_value: &OpenValue) {
        open(record, open_value.parts_len() as u64);
    }

    fn write_member(encoder: &mut Encoder, entry: &EntryRef<'_>) {
        write_member(encoder, ValueRef::Bytes(entry.key()));
    }
}

fn write_set(record: Record<'_>, set: SetRef<'_>) {
    if let Some(integers) = set.integers() {
        return record.begin(SET_INTSET).text(&integers.to_redis());
    }
    let packed = set.packed().filter(|_| record.encoder.version != Version::Ten);
    if let Some(packed) = packed {
        record.encoder.need(11);
        return record.begin(SET_LISTPACK).packed(packed);
    }
    let encoder = record.begin(SET);
    encoder.len(set.len() as u64);
    set.for_each(|member| write_member(encoder, member));
}

/// Opens a set of so many members.
pub fn open(record: Record<'_>, count: u64) {
    record.begin(SET).len(count);
}

/// Writes a member of a set.
pub fn write_member(encoder: &mut Encoder, member: ValueRef<'_>) {
    encoder.string(member);
}

fn read_set(input: &mut impl Source, number: u8, limits: &Limits) -> Result<Set, Bad> {
    let (mut set, mut scratch) = (Set::new(limits.hash_key), Vec::new());
    match number {
        SET => {
            let count = input.length()?;
            for place in 0..count {
                let member = input.string(&mut scratch)?;
                if place == 0 {
                    set.prepare(member, usize::try_from(count).unwrap_or(usize::MAX), &limits.set);
                }
                add(&mut set, member, limits)?;
            }
        }
        SET_INTSET => {
            let integers = IntegerSet::from_redis(input.string(&mut scratch)?);
            // No server wrote an empty intset.
            let integers = integers.filter(|set| !set.as_integers().is_empty()).ok_or(Bad::Packed)?;
            match whole_of_integers(integers, limits) {
                Ok(whole) => set = whole,
                Err(integers) => integers.as_integers().iter().try_for_each(|number| add(&mut set, number, limits))?,
            }
        }
        _ => match whole(packed(input)?, limits) {
            Ok(whole) => set = whole,
            Err(pack) => pack.as_packed().iter().try_for_each(|member| add(&mut set, member, limits))?,
        },
    }
    Ok(set)
}

fn add<'v>(set: &mut Set, member: impl Into<ValueRef<'v>>, limits: &Limits) -> Result<(), Bad> {
    if set.add(member, &limits.set) { Ok(()) } else { Err(Bad::Twice) }
}

/// Returns the set of these members, or the pack if it cannot be taken over whole. A pack of integers only is not taken over,
/// because such a set has another form here.
fn whole(pack: Pack<Forwards>, limits: &Limits) -> Result<Set, Pack<Forwards>> {
    let packed = pack.as_packed();
    let is_one = is_small(packed, limits.set.packed_max, limits.set.packed_value_max)
        && packed.iter().any(|member| matches!(member, ValueRef::Bytes(_)))
        && are_distinct(packed, 1, limits.hash_key);
    if is_one { Ok(Set::from_packed(limits.hash_key, Form::PackedSet, pack.into_run())) } else { Err(pack) }
}

/// Returns the set of these integers.
fn whole_of_integers(integers: IntegerSet, limits: &Limits) -> Result<Set, IntegerSet> {
    if integers.as_integers().len() > limits.set.integers_max {
        return Err(integers);
    }
    Ok(Set::from_packed(limits.hash_key, Form::PackedIntegers, integers.into_buffer()))
}
