//! Numbers in the forms of C's `printf` for `%.14g` and `%.17g`, in which Lua and its libraries show them.
//!
//! Pure functions; any thread.

/// Returns `value` with at most `precision` significant digits, without trailing zeros. There is an exponent if it is below
/// -4 or not below the precision.
pub fn general(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let precision = precision.max(1);
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Reads the number at the beginning of a text as C's `strtod` does: decimal, hexadecimal, infinite or not a number. Returns
/// it and its length, or None if the text begins with no number.
pub fn prefix(text: &[u8]) -> Option<(f64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let rest = &text[signed..];
    let (value, len) = if let Some(digits) = strip_ignoring_case(rest, b"0x").filter(|digits| is_hex(digits)) {
        let (value, len) = hexadecimal(digits);
        (value, len + 2)
    } else if strip_ignoring_case(rest, b"infinity").is_some() {
        (f64::INFINITY, 8)
    } else if strip_ignoring_case(rest, b"inf").is_some() {
        (f64::INFINITY, 3)
    } else if strip_ignoring_case(rest, b"nan").is_some() {
        (f64::NAN, 3)
    } else {
        let len = decimal_len(rest)?;
        (std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?, len)
    };
    Some((if text.first() == Some(&b'-') { -value } else { value }, signed + len))
}

fn strip_ignoring_case<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

fn is_hex(digits: &[u8]) -> bool {
    digits.first().is_some_and(u8::is_ascii_hexdigit)
}

fn hexadecimal(digits: &[u8]) -> (f64, usize) {
    let mut value = 0.0;
    let mut len = 0;
    while let Some(digit) = digits.get(len).and_then(|&byte| char::from(byte).to_digit(16)) {
        value = value * 16.0 + f64::from(digit);
        len += 1;
    }
    (value, len)
}

/// Returns the length of a decimal number: digits, a fraction, an exponent.
fn decimal_len(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    let mut fraction = 0;
    if text.get(len) == Some(&b'.') {
        fraction = digits(len + 1);
        if whole + fraction > 0 {
            len += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let exponent = digits((len + 1 + sign).min(text.len()));
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    Some(len)
}

/// Returns the unsigned 32 bits that a double stands for in bit operations: rounded to the nearest integer, modulo 2^32.
pub fn to_bits(value: f64) -> u32 {
    if !value.is_finite() {
        return 0;
    }
    value.round_ties_even().rem_euclid(4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_printf_writes_them() {
        for (value, precision, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (3.25, 14, "3.25"),
            (0.1, 17, "0.10000000000000001"),
            (1e14, 14, "1e+14"),
            (12345678901234.0, 14, "12345678901234"),
            (1e20, 17, "1e+20"),
            (0.00001, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (99999999999999.9, 14, "1e+14"),
            (f64::INFINITY, 14, "inf"),
            (1.5, 1, "2"),
        ] {
            assert_eq!(general(value, precision), text, "{value:e}");
        }
    }

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        for (text, value, len) in [
            ("12,", 12.0, 2),
            ("-1.5e3x", -1500.0, 6),
            ("1e", 1.0, 1),
            ("1.", 1.0, 2),
            (".5", 0.5, 2),
            ("0x1F]", 31.0, 4),
            ("-inf", f64::NEG_INFINITY, 4),
            ("Infinity", f64::INFINITY, 8),
        ] {
            assert_eq!(prefix(text.as_bytes()), Some((value, len)), "{text}");
        }
        for text in ["", ".", "-", "e5", "x"] {
            assert_eq!(prefix(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles_wrap_into_bits() {
        assert_eq!([0.0, -1.0, 4_294_967_296.0, 2.5, 3.5, 1e300].map(to_bits)[..5], [0, u32::MAX, 0, 2, 4]);
    }
}
