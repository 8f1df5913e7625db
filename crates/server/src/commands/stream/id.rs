//! Stream ids as commands read and write them: `ms-seq`, with `-`, `+`, `(` and `*` where each command allows them.

use sleeve_store::StreamId;

use crate::request::error::Error;

/// An argument that should be an id and is not.
pub(super) const INVALID: Error = Error::fixed("ERR Invalid stream ID specified as stream command argument");

/// The length from which on the text of an id is refused, as in Redis.
const TEXT_LEN_MAX: usize = 128;

/// Reads an id. If the text has no sequence number, it is `missing_seq`.
pub(super) fn strict(text: &[u8], missing_seq: u64) -> Result<StreamId, Error> {
    if text.len() >= TEXT_LEN_MAX {
        return Err(INVALID);
    }
    let (ms, seq) = split(text);
    let seq = seq.map_or(Some(missing_seq), number);
    number(ms).zip(seq).map(|(ms, seq)| StreamId { ms, seq }).ok_or(INVALID)
}

/// Reads an id, or `-` or `+`, which stand for the least and the greatest id.
pub(super) fn relaxed(text: &[u8], missing_seq: u64) -> Result<StreamId, Error> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict(text, missing_seq),
    }
}

/// Reads the first id of an interval; a `(` before it excludes the id itself.
pub(super) fn start(text: &[u8]) -> Result<StreamId, Error> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, 0)?.next().ok_or(Error::fixed("ERR invalid start ID for the interval"))
        }
        _ => relaxed(text, 0),
    }
}

/// Reads the last id of an interval; a `(` before it excludes the id itself.
pub(super) fn end(text: &[u8]) -> Result<StreamId, Error> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, u64::MAX)?.previous().ok_or(Error::fixed("ERR invalid end ID for the interval"))
        }
        _ => relaxed(text, u64::MAX),
    }
}

/// The id that XADD gives for the new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewId {
    /// `*`: the present time, or the id right after the last one.
    Auto,
    /// `ms-*`: the next free sequence number of this millisecond.
    Within(u64),
    /// `ms-seq`: this id.
    Exactly(StreamId),
}

impl NewId {
    /// Reads the id of a new entry.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        match split(text) {
            (b"*", None) => Ok(Self::Auto),
            (ms, Some(b"*")) if text.len() < TEXT_LEN_MAX => number(ms).map(Self::Within).ok_or(INVALID),
            _ => strict(text, 0).map(Self::Exactly),
        }
    }

    /// Returns the id of the new entry after the stream's last id; None if it would not be greater than that.
    pub fn after(self, last: StreamId, now_ms: i64) -> Option<StreamId> {
        let id = match self {
            Self::Auto if now_ms as u64 > last.ms => Some(StreamId::new(now_ms as u64, 0)),
            Self::Auto => last.next(),
            Self::Within(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| StreamId::new(ms, seq)),
            Self::Within(ms) => Some(StreamId::new(ms, 0)),
            Self::Exactly(id) => Some(id),
        };
        id.filter(|id| *id > last)
    }
}

fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Reads an unsigned number as leniently as C's `strtoull` does: leading white space and a plus sign are allowed.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_each_place_allows() {
        let id = StreamId::new;
        assert_eq!(strict(b"5-3", 0), Ok(id(5, 3)));
        assert_eq!(
            (strict(b"5", 7), strict(b"18446744073709551615-18446744073709551615", 0)),
            (Ok(id(5, 7)), Ok(StreamId::MAX))
        );
        for wrong in [&b""[..], b"-", b"+", b"a", b"1-", b"-1", b"1-*", b"1-2-3", b"18446744073709551616", b"(1", b"$"]
        {
            assert_eq!(strict(wrong, 0), Err(INVALID), "{}", wrong.escape_ascii());
        }
        assert_eq!((relaxed(b"-", 0), relaxed(b"+", 0)), (Ok(StreamId::MIN), Ok(StreamId::MAX)));
        assert_eq!((start(b"(5-3"), end(b"(5-3"), end(b"5")), (Ok(id(5, 4)), Ok(id(5, 2)), Ok(id(5, u64::MAX))));
        assert_eq!((start(b"("), start(b"(-").is_err()), (Err(INVALID), true));
        assert!(start(b"(18446744073709551615-18446744073709551615").is_err() && end(b"(0-0").is_err());
    }

    #[test]
    fn new_ids_only_grow() {
        let id = StreamId::new;
        assert_eq!((NewId::parse(b"*"), NewId::parse(b"7-*")), (Ok(NewId::Auto), Ok(NewId::Within(7))));
        assert_eq!(NewId::Auto.after(id(5, 5), 9), Some(id(9, 0)));
        assert_eq!(NewId::Auto.after(id(9, u64::MAX), 9), Some(id(10, 0)), "time may stand still");
        assert_eq!((NewId::Within(5).after(id(5, 5), 0), NewId::Within(4).after(id(5, 5), 0)), (Some(id(5, 6)), None));
        assert_eq!((NewId::Exactly(id(5, 5)).after(id(5, 5), 0), NewId::Auto.after(StreamId::MAX, 0)), (None, None));
    }
}
