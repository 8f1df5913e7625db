//! The trait of a type in the format: the numbers of its values, and how they are read, passed over and written.
//!
//! A file in `types` implements it for one type, on the value that reading returns; the table there finds the right one. The
//! caller knows which type it is. Nothing here opens a file, and nothing keeps anything between two calls.

use super::bad::Bad;
use super::encoder::Encoder;
use super::limits::Limits;
use super::record::Record;
use super::scan::{Input, Source};
use crate::table::entry::handle::EntryRef;
use crate::types::stream::group::PendingCopy;
use crate::value::capture::open_value::OpenValue;
use crate::value::collection::Collection;
use crate::value::form::Form;

/// The project that numbers the types: the types that came after version 11 of the format do not have the same numbers
/// everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Redis.
    #[default]
    Redis,
    /// Valkey, from 9 on.
    Valkey,
}

/// The destination of a value that was read. Each method returns whether the value is there now.
pub trait Destination {
    /// Stores a string at the destination.
    fn string(self, bytes: Vec<u8>) -> bool;

    /// Stores a collection at the destination. The collection is empty if it is a hash with only expired fields.
    fn collection<C: Collection>(self, collection: C) -> bool;
}

/// A type of values in the format.
pub(super) trait RdbType: Sized {
    /// Returns whether its values stand under this number.
    fn has_number(number: u8, origin: Origin) -> bool;

    /// Reads a value with this type number. A collection without elements is [`Bad::Empty`], except for a stream, and except
    /// for a hash with fields that have all expired.
    fn read(input: &mut impl Source, number: u8, origin: Origin, limits: &Limits) -> Result<Self, Bad>;

    /// Passes over a value with this type number. It ends where reading would end, unless reading would fail before.
    fn pass(input: &mut Input<'_>, number: u8, origin: Origin) -> Result<(), Bad>;

    /// Returns whether the value that was read is empty because all of it was expired.
    fn is_over(&self) -> bool {
        false
    }

    /// Puts the value that was read into its destination.
    fn put(self, destination: impl Destination) -> bool;

    /// Writes the value of an entry. Parts that are expired at `now_ms` are left out.
    fn write(record: Record<'_>, entry: &EntryRef<'_>, now_ms: i64);

    /// Writes a value from the form and the bytes that were copied out of an entry; parts that are expired at `now_ms` are
    /// left out. For a type that is never packed it does nothing.
    fn write_copied(_record: Record<'_>, _form: Form, _bytes: &[u8], _now_ms: i64) {}

    /// Begins a large value that comes in the parts that were announced.
    fn open(record: Record<'_>, open_value: &OpenValue);

    /// Writes a part that is an entry of the value's table. For a type without a table it does nothing.
    fn write_member(_encoder: &mut Encoder, _entry: &EntryRef<'_>) {}

    /// Writes a part that is a run of bytes, which stood at this place among the parts. For a type with a table it does
    /// nothing.
    fn write_part(_encoder: &mut Encoder, _place: u128, _bytes: &[u8]) {}

    /// Writes the bytes that stand behind the parts. The pending entries of a stream came in no order.
    fn close(_encoder: &mut Encoder, _opening: &OpenValue, _pending: Vec<PendingCopy>) {}
}
