//! Hashes: their digest, the HSETs that recreate one from the AOF, their fields with values and deadlines. Expired fields
//! count too, as long as they exist.

use sleeve_store::snapshot::{Bytes, Large, Members};
use sleeve_store::{Digits, EntryRef, Map, MapRef, ValueRef};

use super::digest::Digest;
use super::request_writer::RequestWriter;
use super::value_type::{LargeRequests, ValueType, collection_of, collection_of_part, text};

/// The operations of hashes.
pub struct HashType;

/// A time at which no field has expired.
const NO_TIME: i64 = i64::MIN;

impl ValueType for HashType {
    fn number(&self) -> u32 {
        4
    }

    /// Adds the fields, in any order, each with its value and with a mark if it has a deadline.
    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>) {
        collection_of::<Map>(entry).for_each_with_deadline(NO_TIME, |name, value, deadline| {
            let mut field = Digest::default();
            field.mix(name.bytes(&mut Digits::default()));
            field.mix(value.bytes(&mut Digits::default()));
            if deadline.is_some() {
                field.add(b"!!hexpire!!");
            }
            digest.combine(field);
        });
    }

    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>) {
        write_hash(writer, entry.key(), collection_of::<Map>(entry));
    }

    fn begin(&self, _: &Large) -> Box<dyn LargeRequests> {
        Box::new(LargeHash)
    }
}

struct LargeHash;

impl LargeRequests for LargeHash {
    fn members(&mut self, writer: &mut RequestWriter, large: &Large, members: Members<'_>) {
        let mut timed = Vec::new();
        writer.elements(b"HMSET", large.key(), |request| {
            members.for_each(|entry| {
                let field = ValueRef::Bytes(entry.key());
                request.pair(field, entry.value());
                timed.extend(timed_field(field, entry.deadline()));
            });
        });
        write_deadlines(writer, large.key(), &timed);
    }

    fn part(&mut self, writer: &mut RequestWriter, large: &Large, bytes: &Bytes<'_>) {
        write_hash(writer, large.key(), collection_of_part::<Map>(large, bytes));
    }
}

fn write_hash(writer: &mut RequestWriter, key: &[u8], map: MapRef<'_>) {
    let mut timed = Vec::new();
    writer.elements(b"HMSET", key, |request| {
        map.for_each_with_deadline(NO_TIME, |field, value, deadline| {
            request.pair(field, value);
            timed.extend(timed_field(field, deadline));
        });
    });
    write_deadlines(writer, key, &timed);
}

fn timed_field(field: ValueRef<'_>, deadline: Option<i64>) -> Option<(Vec<u8>, i64)> {
    deadline.map(|deadline| (text(field), deadline))
}

fn write_deadlines(writer: &mut RequestWriter, key: &[u8], timed: &[(Vec<u8>, i64)]) {
    for (field, deadline) in timed {
        let mut digits = Digits::default();
        writer.request(&[b"HPEXPIREAT", key, digits.write(*deadline), b"FIELDS", b"1", field]);
    }
}
