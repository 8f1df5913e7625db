//! The record of one value, written: its type, its key where it stands in a file, its bytes.
//!
//! A caller that knows the key begins a [`Record`] (`file::Writer::record`). A record is one of these, each in the file of
//! its type:
//!
//! - a whole value: `types::write_entry` from an entry under its lock, `types::write_copied` from the form and the bytes that
//!   were copied out of one;
//! - a large value in parts: `open` of its type, which says how many parts there are, and then exactly so many calls for the
//!   parts, on the encoder. If fewer or more parts come than were announced, the file is broken.
//!
//! | type | parts |
//! | --- | --- |
//! | `string` | `write_string_part`, as many bytes in all as were announced |
//! | `list` | `write_pack` |
//! | `set` | `write_member` |
//! | `sorted_set` | `write_scored` |
//! | `hash` | `write_field` |
//! | `stream` | `write_block` for each, then `write_stream_counters`, then for each group `write_group`, `write_pending` for each pending entry, `write_consumers`, and for each of them `write_consumer` and `write_consumer_pending` for each entry that it has |
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
    /// The key; none in a dump, which has no key.
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
