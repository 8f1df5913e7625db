//! Sizes in bytes, with the units that configuration files use: how they are read, and how CONFIG REWRITE writes them.
//!
//! Pure functions; any thread.

/// Reads bytes from digits and one of the units `b k kb m mb g gb` (`k` is 1,000, `kb` 1,024 and so on); returns `None` if
/// the word is no size. As in Redis, a word without digits is 0, and a size that does not fit is the greatest that fits.
pub fn parse(word: &[u8]) -> Option<u64> {
    let digits_len = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = word.split_at_checked(digits_len)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = digits.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    // Redis keeps the digits in 128 bytes.
    (digits.len() < 128).then_some(number.saturating_mul(factor))
}

/// Returns a size as CONFIG REWRITE writes it: in the largest unit that divides it.
pub fn show(bytes: u64) -> String {
    for (unit, shift) in [("gb", 30), ("mb", 20), ("kb", 10)] {
        let whole = bytes >> shift;
        if whole != 0 && whole << shift == bytes {
            return format!("{whole}{unit}");
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_in_any_case_and_saturate() {
        let cases: [(&str, Option<u64>); 12] = [
            ("1", Some(1)),
            ("1b", Some(1)),
            ("2k", Some(2_000)),
            ("2KB", Some(2_048)),
            ("3m", Some(3_000_000)),
            ("3Mb", Some(3 << 20)),
            ("1g", Some(1_000_000_000)),
            ("1gB", Some(1 << 30)),
            ("", Some(0)),
            ("-1", None),
            ("1tb", None),
            ("18446744073709551616", Some(u64::MAX)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(parse(&[b'9'; 128]), None);
    }

    #[test]
    fn a_size_is_written_in_the_largest_unit_that_divides_it() {
        let cases = [
            (0, "0"),
            (1_000, "1000"),
            (1_024, "1kb"),
            (3 << 20, "3mb"),
            (5 << 30, "5gb"),
            ((1 << 30) + 1, "1073741825"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(show(bytes), expected);
        }
    }
}
