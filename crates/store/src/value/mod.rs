//! The value of a key, as seen from outside: values on their way in, values on their way out, and their names.
//!
//! Nothing here touches memory layout; that is `entry`'s business. The encodings are the ones that Redis 7 reports, and a
//! value is stored by the same rules: a decimal integer of 64 bits as a number, a string that was written whole and has at
//! most 44 bytes as `embstr`, everything else as `raw`. Plain data, usable from any thread.

pub mod capture;
pub mod collection;
pub mod form;
pub mod key_hash;

use std::sync::Arc;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string of bytes, or an integer that reads as one.
    String,
    /// A list of strings.
    List,
    /// Distinct strings.
    Set,
    /// Distinct strings in the order of their scores.
    SortedSet,
    /// Fields with their values.
    Hash,
    /// Entries in the order of their ids, with consumer groups.
    Stream,
}

impl Kind {
    /// Returns the type's name as the TYPE command gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }
}

/// The encoding of a value, as OBJECT ENCODING names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A 64-bit integer.
    Integer,
    /// A string of at most [`EMBEDDED_MAX`] bytes that was written whole.
    Embedded,
    /// A longer string, or one that was changed in place.
    Raw,
    /// A packed sequence of elements: a small collection.
    Listpack,
    /// A packed sequence of fields, values and deadlines: a small hash with fields that expire.
    ListpackEx,
    /// A packed sorted sequence of integers: a small set of nothing else.
    Intset,
    /// A chain of packed sequences: a long list.
    Quicklist,
    /// A hash table: a large hash or set.
    Hashtable,
    /// A structure that is ordered by score and indexed by member: a large sorted set.
    Skiplist,
    /// Packed entries in an ordered map of ids.
    Stream,
}

impl Encoding {
    /// Returns the encoding's name as OBJECT ENCODING gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "int",
            Self::Embedded => "embstr",
            Self::Raw => "raw",
            Self::Listpack => "listpack",
            Self::ListpackEx => "listpackex",
            Self::Intset => "intset",
            Self::Quicklist => "quicklist",
            Self::Hashtable => "hashtable",
            Self::Skiplist => "skiplist",
            Self::Stream => "stream",
        }
    }
}

/// The longest string, in bytes, that is reported as `embstr`.
pub const EMBEDDED_MAX: usize = 44;

/// The effect of a write on the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The write removes the deadline.
    Clear,
    /// The deadline stays; an expired key counts as missing.
    Keep,
    /// The deadline is set to this time, in milliseconds since the epoch.
    At(i64),
}

/// Returns whether a deadline has passed.
#[inline]
pub(crate) fn is_expired(deadline: Option<i64>, now_ms: i64) -> bool {
    deadline.is_some_and(|deadline| now_ms > deadline)
}

/// A value to be stored.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Bytes that become an integer if they read as one, as SET and most commands store them.
    Plain(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// Bytes that stay bytes, as INCRBYFLOAT stores them.
    Bytes(&'a [u8]),
    /// Bytes that are reported as `raw` at any length, as BITOP and SETRANGE store them.
    Raw(&'a [u8]),
    /// This many zero bytes, reported as `raw`: the string from which SETBIT and SETRANGE start.
    Zeros(usize),
    /// Bytes that already have a buffer of their own; a long value keeps it, without copying. Never an integer.
    Shared(Arc<Vec<u8>>),
}

/// A value as it is stored, borrowed from the shard that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRef<'a> {
    /// An integer.
    Integer(i64),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl<'a> ValueRef<'a> {
    /// Returns bytes as an element of a collection: an integer if they read as one.
    #[inline]
    pub fn canonical(bytes: &'a [u8]) -> Self {
        parse_integer(bytes).map_or(Self::Bytes(bytes), Self::Integer)
    }
}

impl ValueRef<'_> {
    /// Returns the length of the value as a string, in bytes.
    pub fn len(&self) -> usize {
        match *self {
            Self::Integer(number) => decimal_len(number),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns whether the value is the empty string.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.is_empty())
    }

    /// Returns the value as an integer, if it is stored as one or reads as one.
    #[inline]
    pub fn integer(&self) -> Option<i64> {
        match *self {
            Self::Integer(number) => Some(number),
            Self::Bytes(bytes) => parse_integer(bytes),
        }
    }

    /// Returns the value as bytes; an integer is written into `digits`.
    pub fn bytes<'b>(&'b self, digits: &'b mut Digits) -> &'b [u8] {
        match self {
            Self::Integer(number) => digits.write(*number),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A buffer for the decimal form of any 64-bit integer.
#[derive(Clone, Debug, Default)]
pub struct Digits([u8; 20]);

impl Digits {
    /// Writes `number` in decimal and returns the digits.
    pub fn write(&mut self, number: i64) -> &[u8] {
        let (mut start, mut rest) = (self.0.len(), number.unsigned_abs());
        loop {
            start -= 1;
            self.0[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            start -= 1;
            self.0[start] = b'-';
        }
        &self.0[start..]
    }
}

fn decimal_len(number: i64) -> usize {
    let magnitude = number.unsigned_abs();
    usize::from(number < 0) + magnitude.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Reads a decimal integer that is written exactly as it would be printed: no plus sign, no leading zero, no space.
#[inline]
pub(crate) fn parse_integer(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, bytes),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(value))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_only_in_their_printed_form() {
        let good = [0, 1, -1, 9, 10, -10, 123456, i64::MAX, i64::MIN, i64::MAX - 1];
        for number in good {
            let text = number.to_string();
            assert_eq!(parse_integer(text.as_bytes()), Some(number));
            assert_eq!(Digits::default().write(number), text.as_bytes());
            assert_eq!(ValueRef::Integer(number).len(), text.len());
        }
        let bad = ["", "-", "-0", "+1", "01", "-01", " 1", "1 ", "1a", "9223372036854775808", "-9223372036854775809"];
        for text in bad.into_iter().chain(["18446744073709551616", "100000000000000000000", "--1"]) {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }
}
