//! What the format has to know of a type: under which numbers its values stand, how they are read, passed over and written.
//!
//! A file in `types` says it for one type, of what a value of it is once it was read; the table there finds the right one.
//! Who calls this knows which type it is. Nothing here opens a file, and nothing keeps anything between two calls.

use super::bad::Bad;
use super::encoder::Encoder;
use super::limits::Limits;
use super::record::Record;
use super::scan::{Input, Source};
use crate::table::entry::handle::EntryRef;
use crate::types::stream::group::PendingCopy;
use crate::value::collection::Collection;
use crate::value::form::Form;
use crate::value::handover::open_value::OpenValue;

/// Who numbers the types: what came after version 11 of the format has not the same numbers everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Redis.
    #[default]
    Redis,
    /// Valkey, from 9 on.
    Valkey,
}

/// Where a value goes that was read. What it answers says whether the value is there now.
pub trait Destination {
    /// Puts a string there.
    fn string(self, bytes: Vec<u8>) -> bool;

    /// Puts a collection there, in which there is nothing if it is a hash whose fields were all over.
    fn collection<C: Collection>(self, collection: C) -> bool;
}

/// One type in the format.
pub(super) trait RdbType: Sized {
    /// Whether its values stand under this number.
    fn has_number(number: u8, origin: Origin) -> bool;

    /// Reads a value that stands under this number. A collection without elements is [`Bad::Empty`], except for a stream, and
    /// except for a hash whose fields are all over.
    fn read(input: &mut impl Source, number: u8, origin: Origin, limits: &Limits) -> Result<Self, Bad>;

    /// Passes over a value that stands under this number. It ends where reading ends, unless that fails before.
    fn pass(input: &mut Input<'_>, number: u8, origin: Origin) -> Result<(), Bad>;

    /// Whether nothing is left of what was read, because the time of all of it was over.
    fn is_over(&self) -> bool {
        false
    }

    /// Puts what was read where it goes.
    fn put(self, destination: impl Destination) -> bool;

    /// Writes the value of an entry. Parts whose time is over at `now_ms` are left out.
    fn write(record: Record<'_>, entry: &EntryRef<'_>, now_ms: i64);

    /// Writes a value whose form and bytes were copied out of an entry, likewise. What is never packed has none.
    fn write_copied(_record: Record<'_>, _form: Form, _bytes: &[u8], _now_ms: i64) {}

    /// Begins a large value that comes in the parts that were announced.
    fn open(record: Record<'_>, open_value: &OpenValue);

    /// Writes a part that is an entry of its table; what is made of no table has none.
    fn write_member(_encoder: &mut Encoder, _entry: &EntryRef<'_>) {}

    /// Writes a part that is a run of bytes, which stood at this place among the others; what is made of a table has none.
    fn write_part(_encoder: &mut Encoder, _place: u128, _bytes: &[u8]) {}

    /// Writes what stands behind the parts. What was pending of a stream came in no order.
    fn close(_encoder: &mut Encoder, _opening: &OpenValue, _pending: Vec<PendingCopy>) {}
}
