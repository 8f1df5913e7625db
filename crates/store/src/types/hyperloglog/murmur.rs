//! MurmurHash64A, little-endian on every machine: the hash that HyperLogLogs share with Redis.
//!
//! It has no secret and serves no other purpose: a client that chooses the input can choose the result. A pure function,
//! usable from any thread. Algorithm: Austin Appleby, MurmurHash2, 64-bit version for 64-bit platforms.

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Hashes `bytes` with a seed.
pub(crate) fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = chunk.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk)).wrapping_mul(MULTIPLIER);
        word = (word ^ word >> SHIFT).wrapping_mul(MULTIPLIER);
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_the_last_word_counts() {
        let bytes: Vec<u8> = (1..=24).collect();
        let hashes: std::collections::BTreeSet<u64> = (0..=24).map(|length| murmur64a(&bytes[..length], 7)).collect();
        assert_eq!(hashes.len(), 25);
        assert_eq!(murmur64a(b"", 0), 0);
    }
}
