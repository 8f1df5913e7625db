//! The hash slots of a cluster: the slot of a key.
//!
//! A cluster has 16,384 slots. The slot of a key is its CRC16 (XMODEM: polynomial 0x1021, from 0) modulo their number. If the
//! key has a part in `{...}` that is not empty, only that part counts, so that several keys can be given the same slot. Pure
//! functions; any thread.

/// The number of hash slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// The CRC16 of each byte.
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the slot of a key.
#[inline]
pub fn of_key(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, &byte: &u8| crc << 8 ^ TABLE[usize::from(crc.to_be_bytes()[0] ^ byte)];
    bytes.iter().fold(0, step)
}

/// Returns the part of a key that decides its slot.
fn tag(key: &[u8]) -> &[u8] {
    let inner = || {
        let open = memchr::memchr(b'{', key)?;
        let rest = key.get(open + 1..)?;
        let close = memchr::memchr(b'}', rest)?;
        rest.get(..close).filter(|inner| !inner.is_empty())
    };
    inner().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
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
}
