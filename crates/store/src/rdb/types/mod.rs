//! The types of values in the format: the one table of them, and the operations on a value of any type.
//!
//! A row names a type and the value that reading it returns. The file of the type implements the rest (`RdbType`). The
//! reader puts values together element by element, as commands would, so that a value is kept as one that was written here.

pub mod hash;
pub mod list;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;

pub(super) use string::STRING;

use super::bad::Bad;
use super::encoder::{Encoder, Version};
use super::limits::Limits;
use super::rdb_type::{Destination, Origin, RdbType};
use super::record::Record;
use super::scan::{Input, Source};
use crate::table::entry::handle::EntryRef;
use crate::types::hash::Map;
use crate::types::list::List;
use crate::types::set::Set;
use crate::types::sorted_set::SortedSet;
use crate::types::stream::Stream;
use crate::types::stream::group::PendingCopy;
use crate::value::Kind;
use crate::value::capture::open_value::OpenValue;
use crate::value::form::Form;

/// The type number of a module's value, which is not supported.
const MODULE: u8 = 6;
const MODULE_2: u8 = 7;

macro_rules! types {
    ($($(#[$doc:meta])+ $name:ident($value:ty),)+) => {
        /// A value that was read.
        #[derive(Clone)]
        pub enum Loaded {
            $($(#[$doc])+ $name($value),)+
        }

        impl Loaded {
            /// Returns the type.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$name(_) => Kind::$name,)+ }
            }

            /// Puts the value, of any type, into its destination; returns the destination's result.
            pub fn put(self, destination: impl Destination) -> bool {
                match self { $(Self::$name(value) => value.put(destination),)+ }
            }

            /// Returns whether the value is empty because all of it was expired.
            pub(crate) fn is_over(&self) -> bool {
                match self { $(Self::$name(value) => value.is_over(),)+ }
            }
        }

        /// Reads the bytes of a value with this type number.
        ///
        /// # Errors
        /// [`Bad`] if the bytes are not a value.
        pub(crate) fn read_value(
            input: &mut impl Source,
            number: u8,
            origin: Origin,
            limits: &Limits,
        ) -> Result<Loaded, Bad> {
            $(if <$value>::has_number(number, origin) {
                let read = <$value>::read(input, number, origin, limits);
                return read.map(Loaded::$name).map_err(|bad| bad.of_type(number));
            })+
            Err(if let MODULE | MODULE_2 = number { Bad::Module } else { Bad::Kind(number) })
        }

        /// Passes over a value with this type number.
        ///
        /// # Errors
        /// [`Bad::End`] if there are not enough bytes, another if the form of the value is not known.
        pub(super) fn pass_value(input: &mut Input<'_>, number: u8, origin: Origin) -> Result<(), Bad> {
            $(if <$value>::has_number(number, origin) {
                return <$value>::pass(input, number, origin);
            })+
            Err(Bad::Kind(number))
        }

        /// Writes the value of an entry, of any type. Fields that are expired at `now_ms` are left out; where `now_ms` is the
        /// least number, all fields are kept.
        pub fn write_entry(record: Record<'_>, entry: &EntryRef<'_>, now_ms: i64) {
            match entry.kind() { $(Kind::$name => <$value>::write(record, entry, now_ms),)+ }
        }

        fn copied(record: Record<'_>, kind: Kind, form: Form, bytes: &[u8], now_ms: i64) {
            match kind { $(Kind::$name => <$value>::write_copied(record, form, bytes, now_ms),)+ }
        }

        /// Begins a large value that a snapshot has opened, in the parts that were announced.
        pub(crate) fn open(record: Record<'_>, open_value: &OpenValue) {
            match open_value.metadata().kind { $(Kind::$name => <$value>::open(record, open_value),)+ }
        }

        /// Writes a part that is an entry of the value's table.
        pub(crate) fn write_member(encoder: &mut Encoder, kind: Kind, entry: &EntryRef<'_>) {
            match kind { $(Kind::$name => <$value>::write_member(encoder, entry),)+ }
        }

        /// Writes a part that is a run of bytes, which stood at this place among the others.
        pub(crate) fn write_part(encoder: &mut Encoder, kind: Kind, place: u128, bytes: &[u8]) {
            match kind { $(Kind::$name => <$value>::write_part(encoder, place, bytes),)+ }
        }

        /// Writes the bytes that stand behind the parts. The pending entries of a stream came in no order.
        pub(crate) fn close(encoder: &mut Encoder, open_value: &OpenValue, pending: Vec<PendingCopy>) {
            match open_value.metadata().kind { $(Kind::$name => <$value>::close(encoder, open_value, pending),)+ }
        }
    };
}

types! {
    /// A string.
    String(Vec<u8>),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A hash.
    Hash(Map),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A stream.
    Stream(Stream),
}

/// Reads the type and the bytes of one value as this server writes them. A collection without elements is [`Bad`], except for
/// a stream, and except for a hash with expired fields alone.
///
/// # Errors
/// [`Bad`] when the bytes are not a value.
pub fn read(input: &mut Input<'_>, origin: Origin, limits: &Limits) -> Result<Loaded, Bad> {
    let number = input.byte()?;
    read_value(input, number, origin, limits)
}

/// Appends the type and the bytes of a value, as a dump has them, in a form that this version knows. Expired fields of hashes
/// are left out. Returns the version of the format that reads it.
pub fn write(out: &mut Vec<u8>, entry: &EntryRef<'_>, now_ms: i64, version: Version) -> u16 {
    let mut encoder = Encoder::new(version, true);
    encoder.out = std::mem::take(out);
    write_entry(Record::new(&mut encoder, None), entry, now_ms);
    let needed = encoder.needed();
    *out = encoder.out;
    needed
}

/// Writes the value of a form and bytes that were copied out of an entry: a short string, an integer or a small collection.
/// Larger values are not in the entry's bytes, and other functions write them. `now_ms` is as in [`write_entry`].
///
/// # Panics
/// If the bytes of this form are no value of a key.
pub fn write_copied(record: Record<'_>, form: Form, bytes: &[u8], now_ms: i64) {
    let kind = form.kind().filter(|_| !matches!(form, Form::Shared | Form::Member | Form::Scored));
    assert!(kind.is_some(), "the bytes of this form are no value of a key");
    if let Some(kind) = kind {
        copied(record, kind, form, bytes, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_belongs_to_two_types() {
        let has_number = [
            <Vec<u8>>::has_number,
            List::has_number,
            Set::has_number,
            Map::has_number,
            SortedSet::has_number,
            Stream::has_number,
        ];
        for origin in [Origin::Redis, Origin::Valkey] {
            for number in 0..=u8::MAX {
                assert!(has_number.iter().filter(|has| has(number, origin)).count() <= 1, "{number} of {origin:?}");
            }
        }
    }
}
