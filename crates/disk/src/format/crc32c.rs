//! CRC-32C (Castagnoli; polynomial 0x1EDC6F41, reflected 0x82F63B78; RFC 3720, appendix B.4).
//!
//! Each block of the AOF has such a checksum, so it is computed by the processor's own instruction if there is one, and
//! otherwise by eight tables at a time. Pure; any thread.

/// Returns the sum of `bytes` that follow bytes with the sum `sum`; 0 begins.
#[inline]
pub fn update(sum: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has been asked for the one feature that the function needs.
        return unsafe { by_instruction(sum, bytes) };
    }
    by_tables(sum, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_instruction(sum: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let mut wide = u64::from(!sum);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    let mut narrow = wide as u32;
    for byte in rest {
        narrow = _mm_crc32_u8(narrow, *byte);
    }
    !narrow
}

fn by_tables(sum: u32, bytes: &[u8]) -> u32 {
    let mut sum = !sum;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (u64::from_le_bytes(*word) ^ u64::from(sum)).to_le_bytes();
        sum = mixed.iter().zip(TABLES.iter().rev()).fold(0, |all, (byte, table)| all ^ table[usize::from(*byte)]);
    }
    for byte in rest {
        sum = TABLES[0][usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    }
    !sum
}

/// Returns whether a small change explains why the checksum is `sum` and not `other`: one flipped bit among the last `length`
/// bytes, or one different byte if `length` is small, or one wrong digit in the written checksum.
pub fn is_off_by_one_byte(sum: u32, other: u32, length: u64) -> bool {
    /// The length up to which any one different byte is considered. Among more bytes too many checksums could be explained in
    /// this way.
    const FEW_BYTES: u64 = 1 << 16;
    let difference = sum ^ other;
    let is_one_digit = (0..8).any(|digit| difference & !(0xf << (4 * digit)) == 0);
    // The effect of a change on the sum is followed back byte by byte: no two entries of the table have the same highest
    // byte.
    let mut before = difference;
    let mut is_one_byte = false;
    for _ in 0..length {
        let changed = usize::from(CHANGED_BY[(before >> 24) as usize]);
        if TABLES[0][changed] == before && changed != 0 && (length <= FEW_BYTES || changed.is_power_of_two()) {
            is_one_byte = true;
            break;
        }
        before = (before ^ TABLES[0][changed]) << 8 | changed as u32;
    }
    difference != 0 && (is_one_digit || is_one_byte)
}

/// For each highest byte the index of the entry of the first table that has it.
static CHANGED_BY: [u8; 256] = {
    let mut entries = [0; 256];
    let mut index = 0;
    while index < 256 {
        entries[(TABLES[0][index] >> 24) as usize] = index as u8;
        index += 1;
    }
    entries
};

/// `TABLES[n]` has the effect of each byte that stands `n` bytes before the end of the summed bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        tables[0][index] = value;
        index += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut index = 0;
        while index < 256 {
            let before = tables[table - 1][index];
            tables[table][index] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            index += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_the_standard_come_out_both_ways() {
        let ascending: Vec<u8> = (0..32).collect();
        let known: [(&[u8], u32); 5] = [
            (b"", 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
        ];
        for (bytes, sum) in known {
            assert_eq!(update(0, bytes), sum);
            assert_eq!(by_tables(0, bytes), sum);
        }
    }

    #[test]
    fn a_sum_goes_on_where_it_stopped() {
        let bytes: Vec<u8> = (0..1_000_u32).map(|index| (index * 7) as u8).collect();
        for middle in [0, 1, 7, 8, 9, 500, 999, 1_000] {
            let (front, back) = bytes.split_at(middle);
            assert_eq!(update(update(0, front), back), update(0, &bytes));
            assert_eq!(by_tables(by_tables(0, front), back), update(0, &bytes));
        }
    }

    #[test]
    fn one_byte_that_is_another_is_found_by_the_sums() {
        let bytes: Vec<u8> = (0..300_u32).map(|number| (number * 7) as u8).collect();
        let sum = update(9, &bytes);
        for at in [0, 1, 100, 299] {
            for change in [1, 0x80, 0x5a] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                assert!(is_off_by_one_byte(update(9, &changed), sum, 300), "byte {at}");
            }
            let (mut zeros, mut two) = (bytes.clone(), bytes.clone());
            zeros[at / 2..at / 2 + 100].fill(0);
            two[at] ^= 1;
            two[(at + 20) % 300] ^= 4;
            assert!(!is_off_by_one_byte(update(9, &zeros), sum, 300), "zeros at {at}");
            assert!(!is_off_by_one_byte(update(9, &two), sum, 300), "two changes from {at} on");
        }
        assert!(!is_off_by_one_byte(sum, sum, 300));
        assert!(is_off_by_one_byte(sum, sum ^ 0x70, 300), "a digit of the sum");
    }
}
