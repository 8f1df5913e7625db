//! The operations that the server needs of a type beside its commands.
//!
//! The caller knows the type of the value. These operations change nothing and read no clock.

use std::ops::Range;

use sleeve_store::snapshot::{Bytes, Large, Members, Pendings};
use sleeve_store::{Collection, Digits, EntryRef, ValueRef};

use super::digest::Digest;
use super::request_writer::RequestWriter;

/// One type of values.
pub trait ValueType: Sync {
    /// Returns Redis's number for the type, which stands in digests.
    fn number(&self) -> u32;

    /// Takes a value into a digest.
    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>);

    /// Writes the requests that make a value which is there whole.
    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>);

    /// Begins to write a value that arrives in parts.
    fn begin(&self, large: &Large) -> Box<dyn LargeRequests>;

    /// Returns how many elements a value has for SORT; none if that does not take this type.
    fn elements_len(&self, _entry: &EntryRef<'_>) -> Option<usize> {
        None
    }

    /// Returns the elements in these places of the order that the value itself has; `is_backward` counts the places from its
    /// end, and goes towards its beginning, where there is such an order.
    fn elements(&self, _entry: &EntryRef<'_>, _places: Range<usize>, _is_backward: bool) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Returns whether elements are in an order of their own.
    fn is_ordered(&self) -> bool {
        true
    }
}

/// A large value on its way into requests, part by part.
pub trait LargeRequests: Send {
    /// Members of a set or sorted set, or fields of a hash.
    fn members(&mut self, _writer: &mut RequestWriter, _large: &Large, _members: Members<'_>) {}

    /// Takes a run of bytes, or the whole of a collection that is packed.
    fn part(&mut self, _writer: &mut RequestWriter, _large: &Large, _bytes: &Bytes<'_>) {}

    /// Takes pending entries of a stream's groups.
    fn pending(&mut self, _pending: &Pendings<'_>) {}

    /// Returns the bytes of memory of records that have arrived and are written behind later ones: those that they take, and
    /// those that the requests will take.
    fn held_len(&self) -> usize {
        0
    }

    /// Ends the value: all parts have arrived.
    fn close(self: Box<Self>, _writer: &mut RequestWriter, _large: &Large) {}
}

/// Returns the collection in an entry that holds one of this type.
pub(super) fn collection_of<'a, C: Collection>(entry: &EntryRef<'a>) -> C::Ref<'a> {
    entry.collection::<C>().expect("the type says which collection it is")
}

/// Returns the collection that a packed part of a large value is.
pub(super) fn collection_of_part<'a, C: Collection>(large: &Large, bytes: &Bytes<'a>) -> C::Ref<'a> {
    bytes.collection::<C>(large).expect("the type says which collection it is")
}

/// Returns a copy of an element.
pub(super) fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}
