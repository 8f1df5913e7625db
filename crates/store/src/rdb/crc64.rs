//! The check sum of Redis's formats: CRC-64 with Jones's polynomial, reflected, beginning with 0.
//!
//! Sixteen bytes are taken at a time. A table for each of their places says how the byte there changes the sum once all
//! sixteen have passed. The change by sixteen bytes is the sum of the changes by each of them ("slicing", Kounavis and Berry,
//! "A systematic approach to building high performance software-based CRC generators"). The tables are made by the compiler.
//!
//! Where the processor multiplies polynomials, long runs of bytes are folded first: sixteen bytes are replaced by an
//! equivalent block some way behind, which is a product with a constant (Gopal and others, "Fast CRC computation for generic
//! polynomials using PCLMULQDQ"). The last sixteen go through the tables.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// The number of bytes taken at a time.
const WIDTH: usize = 16;

/// The change of the sum by each byte value, one table for each number of bytes that have passed behind it.
static TABLES: [[u64; 256]; WIDTH] = {
    let (mut tables, mut byte) = ([[0; 256]; WIDTH], 0);
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = sum >> 1 ^ (POLYNOMIAL & 0_u64.wrapping_sub(sum & 1));
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut behind = 1;
    while behind < WIDTH {
        let mut byte = 0;
        while byte < 256 {
            let sum = tables[behind - 1][byte];
            tables[behind][byte] = sum >> 8 ^ tables[0][(sum & 0xff) as usize];
            byte += 1;
        }
        behind += 1;
    }
    tables
};

/// Returns the sum of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    crc64_of_more(0, bytes)
}

/// Returns the sum of earlier bytes, which have the sum `sum`, and of `bytes` behind them.
pub fn crc64_of_more(sum: u64, bytes: &[u8]) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes.len() >= fold::BYTES_MIN && std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has the one instruction that not every x86-64 has.
        let (folded, rest) = unsafe { fold::fold(sum, bytes) };
        return by_tables(by_tables(0, &folded), rest);
    }
    by_tables(sum, bytes)
}

/// Returns the only byte of `length` bytes whose change alone explains the difference of their sum from the right one, and the
/// bits in which it was changed; `None` if no single byte does.
///
/// The sum is linear: the difference is the sum of the changed bits, which have been moved on by each byte behind them. So it is
/// moved back byte by byte, until it is that of one byte. By chance this happens once in 2^56 bytes.
pub fn changed_byte(difference: u64, length: usize) -> Option<(usize, u8)> {
    let mut of_top = [0_u8; 256];
    for (byte, change) in (0..=u8::MAX).zip(&TABLES[0]) {
        of_top[(change >> 56) as usize] = byte;
    }
    let mut state = difference;
    for at in (0..length).rev() {
        // The tables' highest bytes are all distinct, so the last step is known.
        let byte = of_top[(state >> 56) as usize];
        let change = TABLES[0][usize::from(byte)];
        if state == change && byte != 0 {
            return Some((at, byte));
        }
        state = (state ^ change) << 8 | u64::from(byte);
    }
    None
}

fn by_tables(sum: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<WIDTH>();
    let sum = blocks.iter().fold(sum, |sum, block| {
        let block = u128::from_le_bytes(*block) ^ u128::from(sum);
        let mut next = 0;
        for (place, table) in TABLES.iter().rev().enumerate() {
            next ^= table[usize::from((block >> (8 * place)) as u8)];
        }
        next
    });
    rest.iter().fold(sum, |sum, &byte| sum >> 8 ^ TABLES[0][usize::from(sum as u8 ^ byte)])
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod fold {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64, _mm_xor_si128,
    };

    use super::POLYNOMIAL;

    /// The least number of bytes for which folding is worth it.
    pub const BYTES_MIN: usize = 128;

    /// The number of blocks that are folded side by side, because one product does not wait for another.
    const LANES: usize = 4;

    /// Returns x to this power, modulo the polynomial, with the bits in the order of the sum.
    const fn power(exponent: u32) -> i64 {
        let (mut product, mut done) = (1_u64 << 63, 0);
        while done < exponent {
            product = product >> 1 ^ (POLYNOMIAL & 0_u64.wrapping_sub(product & 1));
            done += 1;
        }
        product as i64
    }

    /// Returns the factors that move the two halves of a block over `bits` bits: the first is the further away. A product of
    /// two numbers with their bits in this order is one bit short.
    const fn over(bits: u32) -> [i64; 2] {
        [power(bits + 64 - 1), power(bits - 1)]
    }

    const OVER_ONE: [i64; 2] = over(128);
    const OVER_ALL: [i64; 2] = over(128 * LANES as u32);

    #[target_feature(enable = "pclmulqdq")]
    fn block(bytes: &[u8; 16]) -> __m128i {
        let number = u128::from_le_bytes(*bytes);
        _mm_set_epi64x((number >> 64) as i64, number as i64)
    }

    #[target_feature(enable = "pclmulqdq")]
    fn step(state: __m128i, [first, second]: [i64; 2], next: __m128i) -> __m128i {
        let factors = _mm_set_epi64x(second, first);
        let (low, high) = (_mm_clmulepi64_si128::<0x00>(state, factors), _mm_clmulepi64_si128::<0x11>(state, factors));
        _mm_xor_si128(_mm_xor_si128(low, high), next)
    }

    /// Returns sixteen bytes that are equivalent to `sum` and all blocks of `bytes`, and the bytes that are left behind them.
    /// There are at least [`LANES`] blocks.
    #[target_feature(enable = "pclmulqdq")]
    pub fn fold(sum: u64, bytes: &[u8]) -> ([u8; 16], &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        let (groups, single) = blocks.as_chunks::<LANES>();
        let mut state = groups[0].each_ref().map(|bytes| block(bytes));
        state[0] = _mm_xor_si128(state[0], _mm_set_epi64x(0, sum as i64));
        for group in &groups[1..] {
            for (lane, bytes) in state.iter_mut().zip(group) {
                *lane = step(*lane, OVER_ALL, block(bytes));
            }
        }
        let [first, others @ ..] = state;
        let folded = others.into_iter().fold(first, |folded, lane| step(folded, OVER_ONE, lane));
        let folded = single.iter().fold(folded, |folded, bytes| step(folded, OVER_ONE, block(bytes)));
        let (low, high) = (_mm_cvtsi128_si64(folded), _mm_cvtsi128_si64(_mm_unpackhi_epi64(folded, folded)));
        ((u128::from(high as u64) << 64 | u128::from(low as u64)).to_le_bytes(), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the sum as the plain twin: bit by bit.
    fn plain(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |sum, &byte| {
            (0..8).fold(sum ^ u64::from(byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 })
        })
    }

    #[test]
    fn the_sum_of_the_usual_nine_digits_is_the_known_one() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_changed_byte_is_found_by_the_sums_alone() {
        let bytes: Vec<u8> =
            (0..if cfg!(miri) { 40 } else { 1_000_u32 }).map(|number| ((number * 37) >> 3) as u8).collect();
        for at in 0..bytes.len() {
            let bits = (at * 7 + 1) as u8 | 1;
            let mut changed = bytes.clone();
            changed[at] ^= bits;
            assert_eq!(changed_byte(crc64(&bytes) ^ crc64(&changed), bytes.len()), Some((at, bits)));
            changed[at / 2 + 1] ^= 64;
            if at != at / 2 + 1 {
                assert_eq!(changed_byte(crc64(&bytes) ^ crc64(&changed), bytes.len()), None, "two bytes were changed");
            }
        }
        assert_eq!(changed_byte(0, bytes.len()), None);
    }

    #[test]
    fn the_sum_agrees_with_its_twin_however_the_bytes_are_cut() {
        let (mut state, mut bytes) = (7_u64, Vec::new());
        for length in 0..if cfg!(miri) { 70 } else { 700 } {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let cut = (state >> 33) as usize % (length + 1);
            assert_eq!(crc64(&bytes), plain(&bytes));
            assert_eq!(crc64_of_more(crc64(&bytes[..cut]), &bytes[cut..]), plain(&bytes));
            assert_eq!(by_tables(0, &bytes), plain(&bytes));
            bytes.push((state >> 40) as u8);
        }
    }
}
