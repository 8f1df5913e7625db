//! The record of one value, written: its type, its key where it stands in a file, its bytes.
//!
//! A caller that knows the key begins a [`Record`] (`file::Writer::record`). A record is one of these, each in the file of
//! its type:
//!
//! - a whole value: [`Record::entry`] from an entry under its lock, [`Record::raw`] from the form and the bytes that were
//!   copied out of one, [`Record::string`] from a string;
//! - a large value in parts: an `open_...` that says how many parts there are, and then exactly so many calls on the
//!   [`Encoder`]. If fewer or more parts come than were announced, the file is broken.
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

use super::encoder::Encoder;
use crate::table::entry::handle::EntryRef;
use crate::value::collection::Collection;
use crate::value::form::Form;

/// The reason why a value can be looked at as a collection of its kind.
const KNOWN: &str = "type and form say which collection it is";

/// The record of one value, about to be written.
#[must_use = "nothing is written before the value is"]
pub struct Record<'a> {
    pub(super) encoder: &'a mut Encoder,
    /// None in a dump, where there is no key.
    key: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    pub(super) fn new(encoder: &'a mut Encoder, key: Option<&'a [u8]>) -> Self {
        Self { encoder, key }
    }

    /// Writes the number of the type, and the key.
    pub(super) fn begin(self, number: u8) -> &'a mut Encoder {
        self.encoder.out.push(number);
        if let Some(key) = self.key {
            self.encoder.text(key);
        }
        self.encoder
    }
}

/// Returns the collection in an entry that holds one of this type.
pub(super) fn collection_of<'a, C: Collection>(entry: &EntryRef<'a>) -> C::Ref<'a> {
    entry.collection::<C>().expect(KNOWN)
}

/// Returns the collection that bytes of one of this type's forms are.
pub(super) fn collection_of_bytes<C: Collection>(form: Form, bytes: &[u8]) -> C::Ref<'_> {
    C::view(form, bytes).expect(KNOWN)
}
