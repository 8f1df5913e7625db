//! The ids of nodes and shards.

use std::fmt;

/// The id of a node or a shard: 20 random bytes, written as 40 lowercase hexadecimal digits. Ids are ordered as their texts
/// are, which decides collisions of epochs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 20]);

impl NodeId {
    /// The number of digits of an id.
    pub const DIGITS: usize = 40;

    /// Returns the id of these bytes, which the caller took from a source of chance.
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Returns the id that these 40 digits stand for. None if a byte is no lowercase hexadecimal digit, or if there are more
    /// or fewer than 40.
    pub fn parse(digits: &[u8]) -> Option<Self> {
        let digits: &[u8; Self::DIGITS] = digits.try_into().ok()?;
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Returns the id as 40 digits.
    pub fn digits(self) -> [u8; Self::DIGITS] {
        let mut digits = [0; Self::DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        digits
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_digits() {
        let text = b"07c37dfeb235213a872192d90877d0cd55635b91";
        let id = NodeId::parse(text).expect("40 digits");
        assert_eq!(&id.digits(), text);
        assert_eq!(id.to_string().as_bytes(), text);
    }

    #[test]
    fn other_lengths_and_other_digits_are_no_id() {
        for text in ["", "07", "07C37dfeb235213a872192d90877d0cd55635b91", "g7c37dfeb235213a872192d90877d0cd55635b91"] {
            assert_eq!(NodeId::parse(text.as_bytes()), None, "{text}");
        }
    }
}
