//! The hash slots of a cluster: the slot of a key.
//!
//! A cluster has 16,384 slots. The slot of a key is its CRC16 (XMODEM: polynomial 0x1021, from 0) modulo their number. If the
//! key has a part in `{...}` that is not empty, only that part counts, so that several keys can be given the same slot. Pure
//! functions; any thread.

/// The number of hash slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// The bytes of a key that one step takes.
const STEP: usize = 8;

/// The CRC16 of each byte with so many bytes of zero behind it.
static TABLES: [[u16; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let (mut behind, mut byte) = (0, 0);
    while behind < STEP {
        let mut crc = if behind == 0 { (byte as u16) << 8 } else { tables[behind - 1][byte] };
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        tables[behind][byte] = crc;
        byte = (byte + 1) % 256;
        behind += (byte == 0) as usize;
    }
    tables
};

/// Returns the slot of a key.
#[inline]
pub fn of_key(key: &[u8]) -> u16 {
    let (crc, has_brace) = crc16(key);
    if has_brace { of_tagged(key) } else { crc % SLOTS }
}

/// Returns the slot of a key that has an opening brace, and so perhaps a part that alone decides its slot.
#[inline(never)]
fn of_tagged(key: &[u8]) -> u16 {
    let tag = || {
        let open = memchr::memchr(b'{', key)?;
        let rest = key.get(open + 1..)?;
        let close = memchr::memchr(b'}', rest)?;
        rest.get(..close).filter(|inner| !inner.is_empty())
    };
    crc16(tag().unwrap_or(key)).0 % SLOTS
}

/// Returns the CRC16 of some bytes, and whether an opening brace is among them. It takes eight bytes a step, because a
/// cluster's node does this for every key: one byte a step takes three times as long for a key of 16 bytes.
#[inline(always)]
fn crc16(bytes: &[u8]) -> (u16, bool) {
    // Zeros in front change nothing, because the CRC begins with 0: so the first step takes what the others leave over.
    let left = bytes.len() % STEP;
    let (mut crc, mut braces) = (0, 0);
    if left > 0 {
        let word = match bytes.first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk) << (64 - 8 * left),
            None => short_word(bytes),
        };
        (crc, braces) = (step(0, word), braces_in(word));
    }
    for chunk in bytes.get(left..).unwrap_or_default().as_chunks().0 {
        let word = u64::from_le_bytes(*chunk);
        (crc, braces) = (step(crc, word), braces | braces_in(word));
    }
    (crc, braces & HIGHEST_BITS != 0)
}

/// Returns the CRC16 of the bytes before, continued by the eight bytes of a word, the lowest first.
#[inline(always)]
fn step(crc: u16, word: u64) -> u16 {
    let bytes = (word ^ u64::from(crc.swap_bytes())).to_le_bytes();
    bytes.iter().rev().zip(&TABLES).fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)])
}

/// Returns up to seven bytes as the high end of a word, the last byte highest.
#[inline(always)]
fn short_word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56)
}

const HIGHEST_BITS: u64 = u64::from_ne_bytes([0x80; STEP]);

/// Returns a word with one of the [`HIGHEST_BITS`] if an opening brace is among the bytes of a word, and none otherwise.
#[inline(always)]
fn braces_in(word: u64) -> u64 {
    let differences = word ^ u64::from_ne_bytes([b'{'; STEP]);
    differences.wrapping_sub(u64::from_ne_bytes([1; STEP])) & !differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_cluster() {
        assert_eq!(crc16(b"123456789").0, 0x31c3);
        // The expected slots are those of CLUSTER KEYSLOT.
        for (key, slot) in [
            ("", 0),
            ("foo", 12182),
            ("123456789", 12739),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("user1000", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("bar", 5061),
            ("{bar", 4015),
        ] {
            assert_eq!(of_key(key.as_bytes()), slot, "{key}");
        }
    }

    /// The bytewise form of the reference: an independent twin for every length of the first step.
    #[test]
    fn whole_steps_and_what_they_leave_over_are_one_crc() {
        let bytes: Vec<u8> = (0..100u32).map(|number| (number * 151 + number / 7) as u8).collect();
        let bytewise = |bytes: &[u8]| {
            bytes.iter().fold(0u16, |crc, &byte| {
                (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
            })
        };
        for length in 0..bytes.len() {
            for start in [0, 1, 5] {
                let part = bytes.get(start..length).unwrap_or_default();
                assert_eq!(crc16(part).0, bytewise(part), "{part:?}");
            }
        }
    }

    #[test]
    fn a_brace_is_seen_at_every_place_of_a_key() {
        for length in 1..40 {
            for at in 0..length {
                let mut key = vec![b'z'; length];
                key[at] = b'{';
                assert!(crc16(&key).1);
                key[at] = b'|';
                assert!(!crc16(&key).1);
            }
        }
    }
}
