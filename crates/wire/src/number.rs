//! Numbers as text, exactly as Redis reads and writes them.
//!
//! Integers follow `string2ll`: an optional `-`, no `+`, no spaces, no leading zeros, no `-0`, the range of `i64`. Doubles
//! follow `strtod` over the whole argument (no spaces before, nothing after, no NaN, no overflow, no underflow to zero)
//! and are written with the fewest digits that read back the same. INCRBYFLOAT's 80-bit arithmetic is in
//! [`crate::long_double`]. Pure functions; any thread.

/// Most bytes that an `i64` takes as text.
pub const INTEGER_LEN_MAX: usize = 20;

/// Reads a signed 64-bit integer.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() >= INTEGER_LEN_MAX || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits never pass the range of u64.
        magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

const PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut table = [0; 200];
    let mut n = 0;
    while n < 100 {
        table[2 * n] = b'0' + (n / 10) as u8;
        table[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    table
}

/// The text of an integer, on the stack.
#[derive(Clone, Copy)]
pub struct Digits {
    bytes: [u8; INTEGER_LEN_MAX],
    start: u8,
}

impl Digits {
    /// Returns the decimal digits of `value`.
    #[inline]
    pub fn new(value: i64) -> Digits {
        let mut bytes = [0; INTEGER_LEN_MAX];
        let start = write_before(&mut bytes, INTEGER_LEN_MAX, value) as u8;
        Digits { bytes, start }
    }

    /// Returns the text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start as usize..).unwrap_or_default()
    }
}

/// Writes `value` in decimal so that it ends right before `end`, and returns where it begins. `buffer` must have
/// [`INTEGER_LEN_MAX`] bytes before `end`.
#[inline]
pub(crate) fn write_before<const N: usize>(buffer: &mut [u8; N], end: usize, value: i64) -> usize {
    let mut at = end;
    let mut rest = value.unsigned_abs();
    while rest >= 100 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        at -= 2;
        (buffer[at], buffer[at + 1]) = (PAIRS[pair], PAIRS[pair + 1]);
    }
    if rest >= 10 {
        let pair = rest as usize * 2;
        at -= 2;
        (buffer[at], buffer[at + 1]) = (PAIRS[pair], PAIRS[pair + 1]);
    } else {
        at -= 1;
        buffer[at] = b'0' + rest as u8;
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    at
}

/// Appends `value` in decimal.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    if (0..10).contains(&value) {
        out.push(b'0' + value as u8);
    } else {
        out.extend_from_slice(Digits::new(value).as_bytes());
    }
}

/// Reads a double as Redis's `string2d` does. Hexadecimal (`0x1.8p3`) and `inf`/`infinity` are numbers, as to `strtod`.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let value = match magnitude {
        [b'0', b'x' | b'X', ..] => crate::long_double::parse_hexadecimal_f64(magnitude)?,
        [b'0'..=b'9' | b'.', ..] => std::str::from_utf8(magnitude).ok()?.parse().ok()?,
        word if crate::long_double::is_infinity(word) => {
            return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        _ => return None,
    };
    let underflow = value == 0.0 && has_nonzero_digit(magnitude);
    if value.is_infinite() || underflow {
        return None;
    }
    Some(if negative { -value } else { value })
}

/// Returns whether a digit of the significand is not zero.
fn has_nonzero_digit(magnitude: &[u8]) -> bool {
    let (digits, exponent) = match magnitude {
        [b'0', b'x' | b'X', rest @ ..] => (rest, b"pP"),
        rest => (rest, b"eE"),
    };
    let significand = digits.split(|byte| exponent.contains(byte)).next().unwrap_or_default();
    significand.iter().any(|byte| !matches!(byte, b'0' | b'.'))
}

/// Appends a double as replies carry it: the fewest digits that read back the same, scientific only where Redis (7.2) is:
/// below 1e-7 or so and when more than six zeros would follow the digits. `inf`, `-inf` and `nan` for the others.
pub fn push_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    let magnitude = value.abs();
    if magnitude <= INTEGRAL_MAX && magnitude.fract() == 0.0 && !is_negative_zero(value) {
        return push_i64(out, value as i64);
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if magnitude == 0.0 {
        return out.push(b'0');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    let (digits, exponent) = shortest(magnitude);
    push_decimal(out, &digits, exponent);
}

fn is_negative_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
}

/// The largest magnitude, 2^62, up to which a double without fraction is written as an integer.
const INTEGRAL_MAX: f64 = 4_611_686_018_427_387_904.0;

/// Returns the shortest digits of a positive finite double and the power of ten of the last one. Where two shortest texts are
/// equally near (values beyond 2^49 with a fraction of one or three quarters), Redis's choice of the last digit is an
/// accident of its algorithm and may be the other one; both read back the same.
fn shortest(value: f64) -> (Vec<u8>, i32) {
    let text = format!("{value:e}");
    let (significand, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: Vec<u8> = significand.bytes().filter(u8::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let last = exponent - (digits.len() as i32 - 1);
    (digits, last)
}

fn push_decimal(out: &mut Vec<u8>, digits: &[u8], last: i32) {
    let count = digits.len() as i32;
    let exponent = last + count - 1;
    if last >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        out.resize(out.len() + last as usize, b'0');
    } else if last < 0 && (last > -7 || exponent.abs() < 4) {
        let whole = count + last;
        if whole <= 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + whole.unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        } else {
            let (integer, fraction) = digits.split_at(whole as usize);
            out.extend_from_slice(integer);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    } else {
        push_scientific(out, digits, exponent);
    }
}

fn push_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if let Some((first, rest)) = digits.split_first() {
        out.push(*first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    push_i64(out, i64::from(exponent.abs()));
}

/// Appends a double with seventeen significant digits and without trailing zeros, as C's `%.17g` prints it. Redis prints
/// scores so where it does not search for the shortest form.
pub fn push_f64_17(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        return push_f64(out, value);
    }
    let text = format!("{value:.16e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        let plain = format!("{value:.decimals$}");
        let short = if decimals > 0 { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
        return out.extend_from_slice(short.as_bytes());
    }
    out.extend_from_slice(digits.trim_end_matches('0').trim_end_matches('.').as_bytes());
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.push(b'0');
    }
    push_i64(out, i64::from(exponent.abs()));
}
