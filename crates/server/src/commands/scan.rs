//! The shared part of the commands that walk over a database or a collection: cursor, filter, and the treatment of expired
//! keys.

use sleeve_store::EntryRef;
use sleeve_wire::reply::Writer;
use sleeve_wire::request::Args;
use sleeve_wire::{number, pattern};

use crate::request::error::Error;

/// The keys that a walk shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanFilter<'a> {
    /// The glob-style pattern that the name matches; none admits every name.
    pub pattern: Option<&'a [u8]>,
    /// The name of the type, in any case; none admits every type, an unknown name admits nothing.
    pub kind: Option<&'a [u8]>,
}

impl<'a> ScanFilter<'a> {
    /// Returns whether this key is shown.
    pub fn admits(&self, entry: &EntryRef<'_>) -> bool {
        self.pattern.is_none_or(|pattern| pattern == b"*" || pattern::matches(pattern, entry.key(), false))
            && self.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(entry.kind().name().as_bytes()))
    }

    /// Returns the pattern, if it matches itself and nothing else: then there is no need to walk.
    pub fn literal(&self) -> Option<&'a [u8]> {
        self.pattern.filter(|pattern| !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')))
    }
}

/// Reads a cursor as Redis does, with C's `strtoul`: a sign is allowed, a minus counts down from 2^64, and a text without
/// digits is 0.
pub fn parse_cursor(text: &[u8]) -> Result<u64, Error> {
    let invalid = Error::fixed("ERR invalid cursor");
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(invalid);
    }
    let add = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = digits.iter().try_fold(0, add).ok_or(invalid)?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// Reads COUNT, the number of keys that one step is to show; it is at least 1.
pub fn parse_count(text: &[u8]) -> Result<usize, Error> {
    let count = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Error::SYNTAX)
}

/// The kind of collection that a walk covers, with the option that only this kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    /// A database: TYPE.
    Keys,
    /// A hash: NOVALUES.
    Hash,
    /// A set.
    Set,
    /// A sorted set: NOSCORES.
    SortedSet,
}

/// The options of a walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    /// The filter of the names that are shown; its pattern is None if it would match every name.
    pub filter: ScanFilter<'a>,
    /// The number of elements that a step is to show.
    pub count: usize,
    /// NOVALUES or NOSCORES: a hash's values or a sorted set's scores are not shown.
    pub only_names: bool,
}

impl<'a> Walk<'a> {
    /// Reads `[MATCH pattern] [COUNT count]` and the other options of this kind of walk.
    pub fn parse(options: Args<'a>, walked: Walked) -> Result<Self, Error> {
        let mut walk = Self { filter: ScanFilter::default(), count: 10, only_names: false };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match option.to_ascii_lowercase().as_slice() {
                b"count" => walk.count = parse_count(options.next().ok_or(Error::SYNTAX)?)?,
                b"match" => {
                    let pattern = options.next().ok_or(Error::SYNTAX)?;
                    walk.filter.pattern = (pattern != b"*").then_some(pattern);
                }
                b"type" if walked == Walked::Keys => walk.filter.kind = Some(options.next().ok_or(Error::SYNTAX)?),
                b"novalues" if walked == Walked::Hash => walk.only_names = true,
                b"novalues" => return Err(Error::fixed("ERR NOVALUES option can only be used in HSCAN")),
                b"noscores" if walked == Walked::SortedSet => walk.only_names = true,
                b"noscores" => return Err(Error::fixed("ERR NOSCORES option can only be used in ZSCAN")),
                _ => return Err(Error::SYNTAX),
            }
        }
        Ok(walk)
    }
}

/// Writes the head of the reply to a step: the next cursor, and the number of elements that follow.
pub fn write_step(reply: &mut Writer<'_>, next: u64, count: usize) {
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(count);
}

/// Returns whether a key has expired.
pub fn is_due(entry: &EntryRef<'_>, now_ms: i64) -> bool {
    entry.deadline().is_some_and(|deadline_ms| now_ms > deadline_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_strtoul_reads_it() {
        for (text, value) in
            [("", 0), ("0", 0), ("+5", 5), ("007", 7), ("-1", u64::MAX), ("18446744073709551615", u64::MAX)]
        {
            assert_eq!(parse_cursor(text.as_bytes()), Ok(value), "{text:?}");
        }
        for text in [" 1", "1 ", "x", "-", "+", "1.5", "18446744073709551616"] {
            assert!(parse_cursor(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_pattern_without_signs_is_literal() {
        let literal = |pattern| ScanFilter { pattern: Some(pattern), kind: None }.literal();
        assert_eq!(literal(b"user:1"), Some(b"user:1".as_slice()));
        for pattern in [b"a*".as_slice(), b"a?", b"[a]", b"a\\b"] {
            assert_eq!(literal(pattern), None);
        }
    }
}
