//! The check sum of Redis's formats: CRC-64 with Jones's polynomial, reflected, beginning with 0.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = sum >> 1 ^ (POLYNOMIAL & 0_u64.wrapping_sub(sum & 1));
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// The sum of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_the_usual_nine_digits_is_the_known_one() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
