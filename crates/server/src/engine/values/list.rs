//! Lists: their digest, the RPUSHes that recreate one from the AOF, their elements for SORT.

use std::ops::Range;

use sleeve_store::snapshot::{Bytes, Large};
use sleeve_store::{Digits, EntryRef, List, ValueRef};

use super::digest::Digest;
use super::request_writer::RequestWriter;
use super::value_type::{LargeRequests, ValueType, collection_of, collection_of_part, text};

/// The operations of lists.
pub struct ListType;

impl ValueType for ListType {
    fn number(&self) -> u32 {
        1
    }

    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>) {
        collection_of::<List>(entry).iter().for_each(|element| digest.mix(element.bytes(&mut Digits::default())));
    }

    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>) {
        push(writer, entry.key(), collection_of::<List>(entry).iter());
    }

    fn begin(&self, _: &Large) -> Box<dyn LargeRequests> {
        Box::new(LargeList)
    }

    fn elements_len(&self, entry: &EntryRef<'_>) -> Option<usize> {
        Some(collection_of::<List>(entry).len())
    }

    fn elements(&self, entry: &EntryRef<'_>, places: Range<usize>, is_backward: bool) -> Vec<Vec<u8>> {
        let list = collection_of::<List>(entry);
        match list.len().checked_sub(places.start + 1) {
            Some(last) if is_backward => list.iter_back_from(last).take(places.len()).map(text).collect(),
            _ => list.iter_from(places.start).take(places.len()).map(text).collect(),
        }
    }
}

struct LargeList;

impl LargeRequests for LargeList {
    fn part(&mut self, writer: &mut RequestWriter, large: &Large, bytes: &Bytes<'_>) {
        if large.is_packed() {
            return push(writer, large.key(), collection_of_part::<List>(large, bytes).iter());
        }
        push(writer, large.key(), bytes.pack().as_packed().iter());
    }
}

fn push<'v>(writer: &mut RequestWriter, key: &[u8], elements: impl Iterator<Item = ValueRef<'v>>) {
    writer.elements(b"RPUSH", key, |request| elements.for_each(|element| request.add(element)));
}
