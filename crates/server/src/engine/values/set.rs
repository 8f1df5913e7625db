//! Sets: their digest, the SADDs that recreate one from the AOF, their members for SORT, which have no order.

use std::ops::Range;

use sleeve_store::snapshot::{Bytes, Large, Members};
use sleeve_store::{Digits, EntryRef, Set, SetRef, ValueRef};

use super::digest::Digest;
use super::request_writer::RequestWriter;
use super::value_type::{LargeRequests, ValueType, collection_of, collection_of_part, text};

/// The operations of sets.
pub struct SetType;

impl ValueType for SetType {
    fn number(&self) -> u32 {
        2
    }

    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>) {
        collection_of::<Set>(entry).for_each(|member| digest.add(member.bytes(&mut Digits::default())));
    }

    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>) {
        add(writer, entry.key(), collection_of::<Set>(entry));
    }

    fn begin(&self, _: &Large) -> Box<dyn LargeRequests> {
        Box::new(LargeSet)
    }

    fn elements_len(&self, entry: &EntryRef<'_>) -> Option<usize> {
        Some(collection_of::<Set>(entry).len())
    }

    fn elements(&self, entry: &EntryRef<'_>, places: Range<usize>, _: bool) -> Vec<Vec<u8>> {
        let (mut elements, mut place) = (Vec::new(), 0);
        collection_of::<Set>(entry).for_each(|member| {
            elements.extend(places.contains(&place).then(|| text(member)));
            place += 1;
        });
        elements
    }

    fn is_ordered(&self) -> bool {
        false
    }
}

struct LargeSet;

impl LargeRequests for LargeSet {
    fn members(&mut self, writer: &mut RequestWriter, large: &Large, members: Members<'_>) {
        writer.elements(b"SADD", large.key(), |request| {
            members.for_each(|entry| request.add(ValueRef::Bytes(entry.key())));
        });
    }

    fn part(&mut self, writer: &mut RequestWriter, large: &Large, bytes: &Bytes<'_>) {
        add(writer, large.key(), collection_of_part::<Set>(large, bytes));
    }
}

fn add(writer: &mut RequestWriter, key: &[u8], set: SetRef<'_>) {
    writer.elements(b"SADD", key, |request| set.for_each(|member| request.add(member)));
}
