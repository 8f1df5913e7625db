//! DEBUG DIGEST: one number for all data, equal to that of a redis-server with the same data.
//!
//! A digest is 20 bytes. Two operations build it: `add` combines it with the SHA-1 of some bytes by exclusive or, so that
//! order does not matter; `mix` does the same and then takes the SHA-1 of the digest itself, so that order matters. A key's
//! digest mixes its name, its type and its value and adds a mark if the key has a deadline; a database mixes its number and
//! adds every key's digest. The recipe is that of Redis's `debug.c` (7.0).

use sha1::{Digest as _, Sha1};

/// 20 bytes that stand for data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Begins another database.
    pub fn begin_database(&mut self, number: u32) {
        self.mix(&number.to_be_bytes());
    }

    /// Adds another digest; the order does not matter.
    pub fn combine(&mut self, other: Self) {
        self.add(&other.0);
    }

    /// Returns the digest as forty hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds some bytes; the order does not matter.
    pub fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    /// Mixes some bytes in; the order matters.
    pub fn mix(&mut self, bytes: &[u8]) {
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
