//! Sorted sets: their digest, the ZADDs that recreate one from the AOF, their members for SORT in the order of scores.

use std::ops::Range;

use sleeve_store::snapshot::{Bytes, Large, Members};
use sleeve_store::{Digits, EntryRef, SortedSet, SortedSetRef, ValueRef};
use sleeve_wire::number;

use super::digest::Digest;
use super::request_writer::RequestWriter;
use super::value_type::{LargeRequests, ValueType, collection_of, collection_of_part, text};

/// The operations of sorted sets.
pub struct SortedSetType;

impl ValueType for SortedSetType {
    fn number(&self) -> u32 {
        3
    }

    /// Adds the members, in any order, each with its score.
    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>) {
        let set = collection_of::<SortedSet>(entry);
        set.visit(0..set.len(), false, |name, score| {
            let (mut member, mut text) = (Digest::default(), Vec::new());
            member.mix(name.bytes(&mut Digits::default()));
            number::push_f64_17(&mut text, score);
            member.mix(&text);
            digest.combine(member);
        });
    }

    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>) {
        add(writer, entry.key(), collection_of::<SortedSet>(entry));
    }

    fn begin(&self, _: &Large) -> Box<dyn LargeRequests> {
        Box::new(LargeSortedSet)
    }

    fn elements_len(&self, entry: &EntryRef<'_>) -> Option<usize> {
        Some(collection_of::<SortedSet>(entry).len())
    }

    fn elements(&self, entry: &EntryRef<'_>, places: Range<usize>, is_backward: bool) -> Vec<Vec<u8>> {
        let (set, mut elements) = (collection_of::<SortedSet>(entry), Vec::new());
        let ranks = if is_backward { set.len() - places.end..set.len() - places.start } else { places };
        set.visit(ranks, is_backward, |member, _| elements.push(text(member)));
        elements
    }
}

struct LargeSortedSet;

impl LargeRequests for LargeSortedSet {
    fn members(&mut self, writer: &mut RequestWriter, large: &Large, members: Members<'_>) {
        writer.elements(b"ZADD", large.key(), |request| {
            members.for_each(|entry| {
                if let ValueRef::Integer(bits) = entry.value() {
                    request.scored(ValueRef::Bytes(entry.key()), f64::from_bits(bits as u64));
                }
            });
        });
    }

    fn part(&mut self, writer: &mut RequestWriter, large: &Large, bytes: &Bytes<'_>) {
        add(writer, large.key(), collection_of_part::<SortedSet>(large, bytes));
    }
}

fn add(writer: &mut RequestWriter, key: &[u8], set: SortedSetRef<'_>) {
    let all = 0..set.len();
    writer.elements(b"ZADD", key, |request| set.visit(all, false, |name, score| request.scored(name, score)));
}
