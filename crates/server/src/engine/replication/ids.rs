//! The ids of a server's replication stream.
//!
//! An id is forty random hexadecimal digits. Two servers with streams of the same id have the same bytes at the same offsets.
//! If a replica becomes a primary, its stream continues under a new id, because its old primary may go on too. Its bytes of
//! the old stream stay valid under the old id, which is kept as the second id, with the offset at which it ended. Any thread.

use std::fmt;

use parking_lot::Mutex;

use crate::host::planted::{self, Fault};

/// The highest offset at which a stream is continued. No stream reaches it; it leaves the other half of the range free behind
/// it.
pub const OFFSET_MAX: u64 = i64::MAX as u64 / 2;

/// The name of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id([u8; Id::LEN]);

impl Id {
    /// The number of digits of an id.
    pub const LEN: usize = 40;

    /// Returns the id with the digits that these bytes encode.
    pub fn of_bytes(bytes: [u8; Self::LEN / 2]) -> Self {
        let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
        let mut digits = [0; Self::LEN];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self(digits)
    }

    /// Parses an id that a peer has sent; returns None if it is not forty printable characters, as the ids of all servers
    /// are.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = <[u8; Self::LEN]>::try_from(text).ok()?;
        digits.iter().all(u8::is_ascii_graphic).then_some(Self(digits))
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A position in a stream, which a snapshot or an AOF states for its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The stream's id.
    pub id: Id,
    /// The offset behind the last byte that is in the data.
    pub offset: u64,
    /// The database that is selected there.
    pub database: u32,
}

/// The ids of one server's stream.
#[derive(Debug)]
pub struct Ids(Mutex<Names>);

/// The present id, and the second id with the offset before which its bytes belong to this stream too.
#[derive(Debug, Clone, Copy)]
struct Names {
    id: Id,
    second: Option<(Id, u64)>,
}

impl Ids {
    /// Makes the ids of a stream that has only this one.
    pub fn new(id: Id) -> Self {
        Self(Mutex::new(Names { id, second: None }))
    }

    /// Returns the present id.
    pub fn id(&self) -> Id {
        self.0.lock().id
    }

    /// Returns the second id, and the offset before which its bytes belong to this stream too.
    pub fn second(&self) -> Option<(Id, u64)> {
        self.0.lock().second
    }

    /// Begins a stream that has nothing in common with any other.
    pub fn renew(&self, id: Id) {
        *self.0.lock() = Names { id, second: None };
    }

    /// Continues the stream under a new id from this offset of the journal on; the old id stays valid up to there.
    pub fn shift(&self, id: Id, offset: u64) {
        let mut names = self.0.lock();
        *names = Names { id, second: Some((names.id, offset)) };
    }

    /// Returns whether a stream with this id has the same bytes before this offset.
    pub fn has(&self, id: Id, offset: u64) -> bool {
        let names = *self.0.lock();
        let goes_so_far = |end| offset <= end || planted::has(Fault::ContinuesAhead);
        names.id == id || names.second.is_some_and(|(second, end)| second == id && goes_so_far(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_id_stays_good_up_to_where_it_ended() {
        let (first, next) = (Id::of_bytes([0xab; 20]), Id::of_bytes([7; 20]));
        assert_eq!((first.as_str(), next.to_string()), ("ab".repeat(20).as_str(), "07".repeat(20)));
        let ids = Ids::new(first);
        assert!(ids.has(first, u64::MAX) && !ids.has(next, 0));
        ids.shift(next, 100);
        assert!(ids.has(next, u64::MAX) && ids.has(first, 100) && !ids.has(first, 101));
        assert_eq!((ids.id(), ids.second()), (next, Some((first, 100))));
        ids.renew(first);
        assert!(ids.has(first, 0) && !ids.has(next, 0));
    }

    #[test]
    fn what_a_peer_calls_an_id_has_forty_characters() {
        assert!(Id::parse(&[b'z'; 40]).is_some());
        for text in [b"?".as_slice(), &[b'a'; 39], &[b'a'; 41], &[b'\n'; 40], &[0xff; 40]] {
            assert!(Id::parse(text).is_none());
        }
    }
}
