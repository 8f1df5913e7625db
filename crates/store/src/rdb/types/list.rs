//! Lists in the format: packs in a row, each a listpack. Older servers wrote element by element, or ziplists.

use super::super::bad::Bad;
use super::super::encoder::Encoder;
use super::super::limits::Limits;
use super::super::packed::{filled, for_each_of_ziplist, packed};
use super::super::pass;
use super::super::rdb_type::{Destination, Origin, RdbType};
use super::super::record::{Record, collection_of, collection_of_bytes};
use super::super::scan::{Input, Source};
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::table::entry::handle::EntryRef;
use crate::types::list::chain::End;
use crate::types::list::{List, ListRef};
use crate::value::ValueRef;
use crate::value::capture::open_value::OpenValue;
use crate::value::collection::Collection;
use crate::value::form::Form;

const LIST: u8 = 1;
const LIST_ZIPLIST: u8 = 10;
const LIST_QUICKLIST: u8 = 14;
const LIST_QUICKLIST_2: u8 = 18;

/// The mark of a node that is one element, too large for a pack.
const PLAIN: u64 = 1;

/// The mark of a node that is a pack.
const PACKED: u64 = 2;

impl RdbType for List {
    fn has_number(number: u8, _: Origin) -> bool {
        matches!(number, LIST | LIST_ZIPLIST | LIST_QUICKLIST | LIST_QUICKLIST_2)
    }

    fn read(input: &mut impl Source, number: u8, _: Origin, limits: &Limits) -> Result<Self, Bad> {
        filled(read_list(input, number, limits)?)
    }

    fn pass(input: &mut Input<'_>, number: u8, _: Origin) -> Result<(), Bad> {
        match number {
            LIST_ZIPLIST => pass::string(input),
            LIST | LIST_QUICKLIST => pass::each(input, pass::string),
            _ => pass::each(input, |input| pass::length(input).and_then(|()| pass::string(input))),
        }
    }

    fn put(self, destination: impl Destination) -> bool {
        destination.collection(self)
    }

    fn write(record: Record<'_>, entry: &EntryRef<'_>, _: i64) {
        write_list(record, collection_of::<Self>(entry));
    }

    fn write_copied(record: Record<'_>, form: Form, bytes: &[u8], _: i64) {
        write_list(record, collection_of_bytes::<Self>(form, bytes));
    }

    fn open(record: Record<'_>, open_value: &OpenValue) {
        open(record, open_value.parts_len() as u64);
    }

    fn write_part(encoder: &mut Encoder, _: u128, bytes: &[u8]) {
        write_pack(encoder, Packed::new(bytes));
    }
}

fn write_list(record: Record<'_>, list: ListRef<'_>) {
    let (count, packs) = list.packs();
    let encoder = record.begin(LIST_QUICKLIST_2);
    encoder.len(count as u64);
    packs.for_each(|pack| write_pack(encoder, pack));
}

/// Opens a list of so many packs.
pub fn open(record: Record<'_>, packs: u64) {
    record.begin(LIST_QUICKLIST_2).len(packs);
}

/// Writes a pack of a list.
pub fn write_pack(encoder: &mut Encoder, packed: Packed<'_>) {
    encoder.len(PACKED);
    encoder.packed(packed);
}

fn read_list(input: &mut impl Source, number: u8, limits: &Limits) -> Result<List, Bad> {
    let (mut list, mut scratch) = (List::new(limits.hash_key), Vec::new());
    let mut push = |element: ValueRef<'_>| {
        list.prepare(element.len(), 1, limits.list);
        list.push(End::Back, element, limits.list);
    };
    match number {
        LIST => {
            for _ in 0..input.length()? {
                push(ValueRef::Bytes(input.string(&mut scratch)?));
            }
        }
        LIST_QUICKLIST_2 => match whole(read_packs(input)?, limits) {
            Ok(whole) => list = whole,
            Err(packs) => packs.iter().for_each(|pack| pack.as_packed().iter().for_each(&mut push)),
        },
        _ => {
            let nodes = if number == LIST_ZIPLIST { 1 } else { input.length()? };
            for _ in 0..nodes {
                for_each_of_ziplist(input.string(&mut scratch)?, |element| push(ValueRef::Bytes(element)))?;
            }
        }
    }
    Ok(list)
}

/// Reads the nodes of a quicklist: packs, and elements that are too large for a pack.
fn read_packs(input: &mut impl Source) -> Result<Vec<Pack>, Bad> {
    let (mut packs, mut scratch): (Vec<Pack>, _) = (Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        packs.push(match input.length()? {
            PACKED => packed(input)?,
            PLAIN => match input.string(&mut scratch)? {
                // An empty element always fits into a pack.
                [] => return Err(Bad::Packed),
                element => [element].into_iter().collect(),
            },
            _ => return Err(Bad::Packed),
        });
    }
    // A node without elements is skipped, as other servers do.
    packs.retain(|pack| !pack.is_empty());
    Ok(packs)
}

/// Returns the list of these packs, if none is larger than these limits allow.
fn whole(packs: Vec<Pack>, limits: &Limits) -> Result<List, Vec<Pack>> {
    if packs.iter().all(|pack| limits.list.allows_pack(pack.as_packed())) {
        return Ok(List::from_packs(packs, limits.list));
    }
    Err(packs)
}
