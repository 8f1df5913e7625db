//! The 80-bit floating point of x86 (64-bit significand) in plain integers, because INCRBYFLOAT is defined by it.
//!
//! Redis reads both numbers with `strtold`, adds them as `long double` and prints `%.17Lf` without trailing zeros: that is
//! how 10.5 + 0.1 is 10.6 and not 10.59999999999999964. A Rust `f64` cannot do it, and C's `long double` differs between
//! machines, so the three operations that are needed are written here: reading (correctly rounded at any length), addition
//! and printing. It is no general arithmetic library.
//!
//! Reading takes time that is quadratic in the text's length, which is limited to [`TEXT_LEN_MAX`]. Pure functions; any
//! thread.

use std::cmp::Ordering;

/// Texts of this length and longer are refused, as Redis refuses them.
pub const TEXT_LEN_MAX: usize = 5 * 1024;

/// Bits of the significand.
const PRECISION: u32 = 64;
/// Exponent of the last bit of the smallest denormal number.
const EXPONENT_MIN: i32 = -16445;
/// Exponent of the last bit of the largest numbers.
const EXPONENT_MAX: i32 = 16383 - 63;
/// Decimal exponents beyond these are far outside of the range, so that no work need be done.
const DECIMAL_EXPONENT_LIMIT: i64 = 5100;

/// A finite or infinite number: `significand * 2^exponent`, infinite when the exponent passes its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    significand: u64,
    exponent: i32,
}

/// A number before it is rounded: `significand * 2^exponent`, or a little more if `sticky`.
#[derive(Clone, Copy)]
struct Unrounded {
    significand: u128,
    exponent: i32,
    sticky: bool,
}

impl LongDouble {
    /// The number zero.
    pub const ZERO: LongDouble = LongDouble { negative: false, significand: 0, exponent: 0 };
    /// The number one.
    pub const ONE: LongDouble = LongDouble { negative: false, significand: 1 << 63, exponent: -63 };
    /// The greatest finite number.
    pub const GREATEST: LongDouble = LongDouble { negative: false, significand: u64::MAX, exponent: EXPONENT_MAX };
    /// The least finite number.
    pub const LEAST: LongDouble = LongDouble { negative: true, ..LongDouble::GREATEST };
    const INFINITY: LongDouble = LongDouble { negative: false, significand: 1 << 63, exponent: EXPONENT_MAX + 1 };

    /// Reads a number as Redis's `string2ld` does: all of `text`, decimal or hexadecimal or infinity. Returns `None` for text
    /// that is no number, for NaN, and for overflow or underflow to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_LEN_MAX {
            return None;
        }
        let (negative, magnitude) = split_sign(text);
        if is_infinity(magnitude) {
            return Some(LongDouble { negative, ..LongDouble::INFINITY });
        }
        let value = match parse_magnitude(magnitude)? {
            None => LongDouble::ZERO,
            Some(unrounded) => {
                let (significand, exponent) = unrounded.round(PRECISION, EXPONENT_MIN);
                if significand == 0 || exponent > EXPONENT_MAX {
                    return None;
                }
                LongDouble { negative, significand, exponent }
            }
        };
        Some(LongDouble { negative, ..value })
    }

    /// Returns the integer's value, which is always exact.
    pub fn from_i64(value: i64) -> LongDouble {
        let unrounded = Unrounded { significand: u128::from(value.unsigned_abs()), exponent: 0, sticky: false };
        let (significand, exponent) = unrounded.round(PRECISION, EXPONENT_MIN);
        LongDouble { negative: value < 0, significand, exponent }
    }

    /// Returns whether the number is not infinite.
    pub fn is_finite(self) -> bool {
        self.exponent <= EXPONENT_MAX
    }

    /// Returns whether the number is less than zero.
    pub fn is_negative(self) -> bool {
        self.negative && self.significand != 0
    }

    /// Returns the number with the other sign.
    pub fn negated(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }

    /// Returns the sum, rounded to nearest, ties to even. `None` when it is infinite or (infinity minus infinity) no number.
    pub fn checked_add(self, other: LongDouble) -> Option<LongDouble> {
        if !self.is_finite() || !other.is_finite() {
            return None;
        }
        let sum = self.add_finite(other);
        sum.is_finite().then_some(sum)
    }

    fn add_finite(self, other: LongDouble) -> LongDouble {
        if self.significand == 0 {
            return other;
        }
        if other.significand == 0 {
            return self;
        }
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        // The higher number is shifted up as far as there is room; bits that the lower one then loses go into the sticky bit.
        let gap = (high.exponent - low.exponent) as u32;
        let up = gap.min(62);
        let down = gap - up;
        let high_bits = u128::from(high.significand) << up;
        let (low_bits, sticky) = shift_right(u128::from(low.significand), down);
        let exponent = high.exponent - up as i32;
        let (negative, significand) = if high.negative == low.negative {
            (high.negative, high_bits + low_bits)
        } else {
            // A lost remainder of the subtrahend makes the exact difference a bit less than the one computed.
            let lower = low_bits + u128::from(sticky);
            match high_bits.cmp(&lower) {
                Ordering::Equal if !sticky => return LongDouble::ZERO,
                Ordering::Less => (low.negative, lower - high_bits),
                _ => (high.negative, high_bits - lower),
            }
        };
        let (significand, exponent) = Unrounded { significand, exponent, sticky }.round(PRECISION, EXPONENT_MIN);
        LongDouble { negative, significand, exponent }
    }

    /// Appends the number as `%.17Lf` prints it, without trailing zeros and without a negative zero; the form of
    /// INCRBYFLOAT's replies. Infinities are `inf` and `-inf`.
    pub fn push_human(self, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        if !self.is_finite() {
            text.extend_from_slice(b"inf");
        } else if self.exponent >= 0 {
            text = Natural::from_u128(u128::from(self.significand)).shifted_left(self.exponent as u32).to_decimal();
        } else {
            let scaled = u128::from(self.significand) * FRACTION_SCALE;
            let rounded = round_shift(scaled, self.exponent.unsigned_abs(), false);
            text.extend_from_slice((rounded / FRACTION_SCALE).to_string().as_bytes());
            let fraction = format!("{:017}", rounded % FRACTION_SCALE);
            let fraction = fraction.trim_end_matches('0');
            if !fraction.is_empty() {
                text.push(b'.');
                text.extend_from_slice(fraction.as_bytes());
            }
        }
        if self.negative && text != b"0" {
            out.push(b'-');
        }
        out.extend_from_slice(&text);
    }
}

/// Ten to the number of digits printed after the point.
const FRACTION_SCALE: u128 = 100_000_000_000_000_000;

/// Reads an unsigned hexadecimal number (`0x1.8p3`) as a double, rounded once. `None` when it is no number or overflows.
pub(crate) fn parse_hexadecimal_f64(magnitude: &[u8]) -> Option<f64> {
    let Some(unrounded) = parse_magnitude(magnitude)? else { return Some(0.0) };
    let (significand, exponent) = unrounded.round(f64::MANTISSA_DIGITS, -1074);
    if significand == 0 {
        return Some(0.0);
    }
    if significand.ilog2() as i32 + exponent > 1023 {
        return None;
    }
    // Both factors are exact and so is the product: the significand was rounded to the bits that the result can hold.
    let half = exponent / 2;
    Some(significand as f64 * 2f64.powi(half) * 2f64.powi(exponent - half))
}

/// Returns whether the word is `inf` or `infinity` in any case, without sign.
pub(crate) fn is_infinity(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity")
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

impl Unrounded {
    /// Rounds to at most `precision` bits and to an exponent of at least `exponent_min`; to nearest, ties to even.
    fn round(self, precision: u32, exponent_min: i32) -> (u64, i32) {
        let bits = u128::BITS - self.significand.leading_zeros();
        let excess = bits.saturating_sub(precision);
        let below = u32::try_from(exponent_min.saturating_sub(self.exponent)).unwrap_or(0);
        let shift = excess.max(below);
        let rounded = round_shift(self.significand, shift, self.sticky);
        let exponent = self.exponent.saturating_add(shift as i32);
        if rounded >> precision == 1 {
            return ((rounded >> 1) as u64, exponent + 1);
        }
        // Few bits may stand at a high exponent: keep them at the left, so that the exponent tells the magnitude.
        let spare = precision - (u128::BITS - rounded.leading_zeros());
        let up = spare.min(u32::try_from(exponent.saturating_sub(exponent_min)).unwrap_or(0));
        if rounded == 0 { (0, 0) } else { ((rounded << up) as u64, exponent - up as i32) }
    }
}

/// Returns `value >> shift`, and whether a one was lost.
fn shift_right(value: u128, shift: u32) -> (u128, bool) {
    match value.checked_shr(shift) {
        Some(kept) => (kept, kept << shift != value),
        None => (0, value != 0),
    }
}

/// Returns `value / 2^shift`, to nearest, ties to even; `sticky` says that the value is a little more than its bits.
fn round_shift(value: u128, shift: u32, sticky: bool) -> u128 {
    if shift == 0 {
        return value;
    }
    let (twice, lost) = shift_right(value, shift - 1);
    let kept = twice >> 1;
    let up = twice & 1 == 1 && (lost || sticky || kept & 1 == 1);
    kept + u128::from(up)
}

/// Reads an unsigned decimal or hexadecimal number. The inner `None` is zero; the outer says that it is no number or so far
/// out of the range that it over- or underflows.
fn parse_magnitude(text: &[u8]) -> Option<Option<Unrounded>> {
    match text {
        [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(rest),
        decimal => parse_decimal(decimal),
    }
}

/// The parts of a number's text.
struct Text {
    /// Values of the significand's digits.
    digits: Vec<u8>,
    /// The number of digits behind the point.
    fraction_len: i64,
    exponent: i64,
}

/// Takes a number apart: digits of `radix`, at most one point, an exponent after `marker`.
fn take_apart(text: &[u8], radix: u32, marker: u8) -> Option<Text> {
    let end = text.iter().position(|byte| byte.to_ascii_lowercase() == marker).unwrap_or(text.len());
    let (significand, exponent) = text.split_at_checked(end)?;
    let exponent = match exponent.split_first() {
        None => 0,
        Some((_, digits)) => parse_exponent(digits)?,
    };
    let mut digits = Vec::with_capacity(significand.len());
    let mut point = None;
    for &byte in significand {
        match char::from(byte).to_digit(radix) {
            Some(digit) => digits.push(digit as u8),
            None if byte == b'.' && point.is_none() => point = Some(digits.len()),
            None => return None,
        }
    }
    if digits.is_empty() {
        return None;
    }
    let fraction_len = point.map_or(0, |point| digits.len() - point) as i64;
    Some(Text { digits, fraction_len, exponent })
}

/// Reads a signed exponent of at least one digit, kept in a range that cannot overflow later.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for &byte in digits {
        let digit = char::from(byte).to_digit(10)?;
        value = (value * 10 + i64::from(digit)).min(1_000_000_000);
    }
    Some(if negative { -value } else { value })
}

fn parse_hexadecimal(text: &[u8]) -> Option<Option<Unrounded>> {
    let Text { digits, fraction_len, exponent } = take_apart(text, 16, b'p')?;
    let mut significand: u128 = 0;
    let mut sticky = false;
    let mut exponent = exponent - 4 * fraction_len;
    for digit in digits {
        if significand >> 120 == 0 {
            significand = significand << 4 | u128::from(digit);
        } else {
            sticky |= digit != 0;
            exponent += 4;
        }
    }
    if significand == 0 {
        return Some(None);
    }
    Some(Some(Unrounded { significand, exponent: exponent.clamp(-1_000_000, 1_000_000) as i32, sticky }))
}

fn parse_decimal(text: &[u8]) -> Option<Option<Unrounded>> {
    let Text { digits, fraction_len, exponent } = take_apart(text, 10, b'e')?;
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = digits.get(zeros..).unwrap_or_default();
    if digits.is_empty() {
        return Some(None);
    }
    let exponent = exponent - fraction_len;
    let magnitude = exponent + digits.len() as i64;
    if magnitude.abs() > DECIMAL_EXPONENT_LIMIT {
        return None;
    }
    let mut numerator = Natural::default();
    digits.iter().for_each(|&digit| numerator.multiply_add(10, u64::from(digit)));
    if exponent >= 0 {
        numerator.multiply_power_of_ten(exponent as u32);
        return Some(Some(numerator.leading()));
    }
    let mut denominator = Natural::from_u128(1);
    denominator.multiply_power_of_ten(exponent.unsigned_abs() as u32);
    Some(Some(divide(numerator, denominator)))
}

/// Returns the first 66 or more bits of a quotient, by shifting and subtracting.
fn divide(numerator: Natural, denominator: Natural) -> Unrounded {
    let shift = denominator.bits() as i32 - numerator.bits() as i32;
    let mut rest = numerator.shifted_left(shift.max(0) as u32);
    let divisor = denominator.shifted_left((-shift).max(0) as u32);
    let mut significand: u128 = 0;
    let mut exponent = 1 - shift;
    // The first bit may be zero, so one more is taken than rounding needs.
    for _ in 0..PRECISION + 3 {
        significand <<= 1;
        exponent -= 1;
        if rest.subtract_if_not_less(&divisor) {
            significand |= 1;
        }
        rest = rest.shifted_left(1);
    }
    Unrounded { significand, exponent, sticky: !rest.is_zero() }
}

/// A natural number of any size: 64-bit limbs, lowest first, without leading zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Natural {
    limbs: Vec<u64>,
}

impl Natural {
    fn from_u128(value: u128) -> Natural {
        let mut natural = Natural { limbs: vec![value as u64, (value >> 64) as u64] };
        natural.trim();
        natural
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    fn bits(&self) -> u32 {
        self.limbs.last().map_or(0, |top| self.limbs.len() as u32 * 64 - top.leading_zeros())
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.limbs {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        if carry != 0 {
            self.limbs.push(carry as u64);
        }
    }

    fn multiply_power_of_ten(&mut self, exponent: u32) {
        for _ in 0..exponent / 19 {
            self.multiply_add(10u64.pow(19), 0);
        }
        self.multiply_add(10u64.pow(exponent % 19), 0);
    }

    fn shifted_left(&self, shift: u32) -> Natural {
        let mut limbs = vec![0; (shift / 64) as usize];
        let shift = shift % 64;
        let mut carry = 0;
        for &limb in &self.limbs {
            let wide = u128::from(limb) << shift | carry;
            limbs.push(wide as u64);
            carry = wide >> 64;
        }
        limbs.push(carry as u64);
        let mut natural = Natural { limbs };
        natural.trim();
        natural
    }

    /// Subtracts `other` when that leaves no negative number, and says whether it did.
    fn subtract_if_not_less(&mut self, other: &Natural) -> bool {
        let order = self.limbs.len().cmp(&other.limbs.len());
        if order.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev())) == Ordering::Less {
            return false;
        }
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let (less, first) = limb.overflowing_sub(other.limbs.get(index).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (less, first || second);
        }
        self.trim();
        true
    }

    /// Returns the highest 65 to 128 bits, or all there are.
    fn leading(&self) -> Unrounded {
        let low = self.limbs.len().saturating_sub(2);
        let (rest, top) = self.limbs.split_at(low);
        let significand = top.iter().rev().fold(0u128, |value, &limb| value << 64 | u128::from(limb));
        Unrounded { significand, exponent: low as i32 * 64, sticky: rest.iter().any(|&limb| limb != 0) }
    }

    fn to_decimal(&self) -> Vec<u8> {
        let chunk = 10u128.pow(19);
        let mut groups = Vec::new();
        let mut rest = self.clone();
        while !rest.is_zero() {
            let mut remainder: u128 = 0;
            for limb in rest.limbs.iter_mut().rev() {
                let wide = remainder << 64 | u128::from(*limb);
                *limb = (wide / chunk) as u64;
                remainder = wide % chunk;
            }
            rest.trim();
            groups.push(remainder);
        }
        let mut text = String::new();
        for (index, group) in groups.iter().rev().enumerate() {
            text.push_str(&if index == 0 { group.to_string() } else { format!("{group:019}") });
        }
        if text.is_empty() {
            text.push('0');
        }
        text.into_bytes()
    }
}
