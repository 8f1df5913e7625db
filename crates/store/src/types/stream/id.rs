//! The ids of stream entries: milliseconds and a sequence number, in this order.
//!
//! Plain numbers; how they are written and read is the business of commands.

use std::fmt;

/// The id of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds, usually since the epoch.
    pub ms: u64,
    /// The sequence number, which distinguishes entries of the same millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The id before every entry; no entry has it.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The last possible id.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// Makes an id of these parts.
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// Returns the next id; none after the last.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// Returns the id before; none before the first.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_each_other_across_milliseconds() {
        assert_eq!(StreamId::new(1, u64::MAX).next(), Some(StreamId::new(2, 0)));
        assert_eq!(StreamId::new(2, 0).previous(), Some(StreamId::new(1, u64::MAX)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    }
}
