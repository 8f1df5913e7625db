//! DEBUG DIGEST: one number for all data, equal to that of a redis-server with the same data.
//!
//! A digest is 20 bytes. Two operations build it: `add` combines it with the SHA-1 of some bytes by exclusive or, so
//! that order does not matter; `mix` does the same and then takes the SHA-1 of the digest itself, so that it does. A key's
//! digest mixes its name, its type and its value and adds a mark if the key has a deadline; a database mixes its number
//! and adds every key's digest. The recipe is that of Redis's `debug.c` (7.0).

use sha1::{Digest as _, Sha1};
use sleeve_store::{Digits, EntryRef, Kind, List, ListRef, Map, Set, SortedSet, Stream, StreamId};
use sleeve_wire::number;

/// 20 bytes that stand for data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Begins another database.
    pub fn begin_database(&mut self, number: u32) {
        self.mix(&number.to_be_bytes());
    }

    /// Adds a key of the database that was begun.
    pub fn add_key(&mut self, entry: &EntryRef<'_>) {
        let mut key = Self::default();
        key.mix(entry.key());
        key.mix_entry(entry);
        self.add(&key.0);
    }

    /// The digest of a value and of whether it has a deadline, whatever its key.
    pub fn of_value(entry: &EntryRef<'_>) -> Self {
        let mut digest = Self::default();
        digest.mix_entry(entry);
        digest
    }

    /// Forty hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn mix_entry(&mut self, entry: &EntryRef<'_>) {
        // Redis's number for the type, and what the value adds.
        let (number, value): (u32, fn(&mut Self, &EntryRef<'_>)) = match entry.kind() {
            Kind::String => (0, Self::mix_string),
            Kind::List => (1, Self::mix_list),
            Kind::Set => (2, Self::add_members),
            Kind::SortedSet => (3, Self::add_scored),
            Kind::Hash => (4, Self::add_fields),
            Kind::Stream => (6, Self::mix_entries),
        };
        self.mix(&number.to_be_bytes());
        value(self, entry);
        if entry.deadline().is_some() {
            self.add(b"!!expire!!");
        }
    }

    fn mix_string(&mut self, entry: &EntryRef<'_>) {
        self.mix(entry.value().bytes(&mut Digits::default()));
    }

    /// Fields count in any order, each with its value and with a mark if it has a deadline.
    fn add_fields(&mut self, entry: &EntryRef<'_>) {
        let Some(map) = entry.collection::<Map>() else { return };
        map.for_each_with_deadline(i64::MIN, |field, value, deadline| {
            let mut digest = Self::default();
            digest.mix(field.bytes(&mut Digits::default()));
            digest.mix(value.bytes(&mut Digits::default()));
            if deadline.is_some() {
                digest.add(b"!!hexpire!!");
            }
            self.add(&digest.0);
        });
    }

    fn mix_list(&mut self, entry: &EntryRef<'_>) {
        let elements = entry.collection::<List>().map(ListRef::iter);
        elements.into_iter().flatten().for_each(|element| self.mix(element.bytes(&mut Digits::default())));
    }

    fn add_members(&mut self, entry: &EntryRef<'_>) {
        if let Some(set) = entry.collection::<Set>() {
            set.for_each(|member| self.add(member.bytes(&mut Digits::default())));
        }
    }

    /// Members count in any order, each with its score.
    fn add_scored(&mut self, entry: &EntryRef<'_>) {
        let Some(set) = entry.collection::<SortedSet>() else { return };
        set.visit(0..set.len(), false, |name, score| {
            let (mut digest, mut text) = (Self::default(), Vec::new());
            digest.mix(name.bytes(&mut Digits::default()));
            number::push_f64_17(&mut text, score);
            digest.mix(&text);
            self.add(&digest.0);
        });
    }

    /// The entries of a stream in their order; its groups do not count.
    fn mix_entries(&mut self, entry: &EntryRef<'_>) {
        let Some(stream) = entry.collection::<Stream>() else { return };
        for entry in stream.range(StreamId::MIN, StreamId::MAX) {
            self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.fields() {
                self.mix(name.bytes(&mut Digits::default()));
                self.mix(value.bytes(&mut Digits::default()));
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::digest(self.0).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_depends_on_the_order_and_adding_does_not() {
        let build = |parts: [&[u8]; 2], step: fn(&mut Digest, &[u8])| {
            let mut digest = Digest::default();
            parts.iter().for_each(|part| step(&mut digest, part));
            digest
        };
        assert_eq!(build([b"a", b"b"], Digest::add), build([b"b", b"a"], Digest::add));
        assert_ne!(build([b"a", b"b"], Digest::mix), build([b"b", b"a"], Digest::mix));
        assert_eq!(Digest::default().to_hex(), "0".repeat(40));
    }
}
