//! The operations that the server needs of a type in addition to its commands.
//!
//! The caller knows the type of the value. These operations change nothing and read no clock.

use std::ops::Range;

use sleeve_store::snapshot::{Bytes, Large, Members, Pendings};
use sleeve_store::{Collection, Digits, EntryRef, ValueRef};

use super::digest::Digest;
use super::request_writer::RequestWriter;

/// The operations of one type of values.
pub trait ValueType: Sync {
    /// Returns Redis's number of the type, for digests.
    fn number(&self) -> u32;

    /// Adds a value to a digest.
    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>);

    /// Writes the requests that recreate a value which is complete in memory.
    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>);

    /// Begins to write a value that arrives in parts.
    fn begin(&self, large: &Large) -> Box<dyn LargeRequests>;

    /// Returns how many elements a value has for SORT; None if SORT refuses this type.
    fn elements_len(&self, _entry: &EntryRef<'_>) -> Option<usize> {
        None
    }

    /// Returns the elements at these positions of the value's own order. If it has such an order, `is_backward` counts the
    /// positions from its end, and returns the elements backwards.
    fn elements(&self, _entry: &EntryRef<'_>, _places: Range<usize>, _is_backward: bool) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Returns whether the elements have an order of their own.
    fn is_ordered(&self) -> bool {
        true
    }
}

/// A large value on its way into requests, part by part.
pub trait LargeRequests: Send {
    /// Takes members of a set or sorted set, or fields of a hash.
    fn members(&mut self, _writer: &mut RequestWriter, _large: &Large, _members: Members<'_>) {}

    /// Takes a run of bytes, or a whole packed collection.
    fn part(&mut self, _writer: &mut RequestWriter, _large: &Large, _bytes: &Bytes<'_>) {}

    /// Takes pending entries of a stream's groups.
    fn pending(&mut self, _pending: &Pendings<'_>) {}

    /// Returns the memory, in bytes, of records that have arrived and will be written after later ones: their own, and that
    /// of their requests.
    fn held_len(&self) -> usize {
        0
    }

    /// Ends the value, of which all parts have arrived.
    fn close(self: Box<Self>, _writer: &mut RequestWriter, _large: &Large) {}
}

/// Returns the collection of this type in an entry.
pub(super) fn collection_of<'a, C: Collection>(entry: &EntryRef<'a>) -> C::Ref<'a> {
    entry.collection::<C>().expect("the type says which collection it is")
}

/// Returns the collection in a packed part of a large value.
pub(super) fn collection_of_part<'a, C: Collection>(large: &Large, bytes: &Bytes<'a>) -> C::Ref<'a> {
    bytes.collection::<C>(large).expect("the type says which collection it is")
}

/// Returns a copy of an element.
pub(super) fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}
