//! Strings in the format. A long one comes in parts, which stay as they are: neither compressed nor an integer.

use super::super::bad::Bad;
use super::super::encoder::Encoder;
use super::super::limits::Limits;
use super::super::pass;
use super::super::rdb_type::{Destination, Origin, RdbType};
use super::super::record::Record;
use super::super::scan::{Input, Source};
use crate::table::entry::handle::EntryRef;
use crate::value::ValueRef;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::pages::Length;
use crate::value::form::Form;

pub(crate) const STRING: u8 = 0;

impl RdbType for Vec<u8> {
    fn has_number(number: u8, _: Origin) -> bool {
        number == STRING
    }

    fn read(input: &mut impl Source, _: u8, _: Origin, _: &Limits) -> Result<Self, Bad> {
        input.owned()
    }

    fn pass(input: &mut Input<'_>, _: u8, _: Origin) -> Result<(), Bad> {
        pass::string(input)
    }

    fn put(self, destination: impl Destination) -> bool {
        destination.string(self)
    }

    fn write(record: Record<'_>, entry: &EntryRef<'_>, _: i64) {
        write_string(record, entry.value());
    }

    fn write_copied(record: Record<'_>, form: Form, bytes: &[u8], _: i64) {
        write_string(
            record,
            match (form, bytes.first_chunk()) {
                (Form::Integer, Some(number)) => ValueRef::Integer(i64::from_ne_bytes(*number)),
                _ => ValueRef::Bytes(bytes),
            },
        );
    }

    fn open(record: Record<'_>, open_value: &OpenValue) {
        open(record, open_value.extra().map_or(0, |Length(length)| *length as u64));
    }

    fn write_part(encoder: &mut Encoder, _: u128, bytes: &[u8]) {
        write_string_part(encoder, bytes);
    }
}

/// Writes a string.
pub fn write_string(record: Record<'_>, value: ValueRef<'_>) {
    record.begin(STRING).string(value);
}

/// Opens a string of so many bytes, which come in parts and stay as they are: neither compressed nor an integer.
pub fn open(record: Record<'_>, length: u64) {
    record.begin(STRING).len(length);
}

/// Writes a part of a string.
pub fn write_string_part(encoder: &mut Encoder, bytes: &[u8]) {
    encoder.out.extend_from_slice(bytes);
}
