//! The limit of a pack in a list: the option `list-max-listpack-size`, and the sums that Redis compares with it.
//!
//! Pure arithmetic, usable from any thread.

use crate::listpack::Packed;
use crate::value::ValueRef;

/// How large a pack of a list may be: the option `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit {
    bytes: usize,
    count: Option<usize>,
}

/// The most bytes in a pack that is limited by a count.
const BYTES_SAFE: usize = 8192;

/// What Redis takes an element to need beyond its text, in bytes, when it asks whether a pack has room for it.
const ELEMENT_EXTRA_BYTES: usize = 8;

impl ListLimit {
    /// Reads the option: a positive number is a count of elements, -1 to -5 are 4, 8, 16, 32 and 64 KiB.
    pub fn new(option: i64) -> Self {
        match usize::try_from(option) {
            Ok(count) => Self { bytes: BYTES_SAFE, count: Some(count.max(1)) },
            Err(_) => Self { bytes: 4096 << (option.max(-5).unsigned_abs() - 1), count: None },
        }
    }

    /// Whether a pack of this many elements may have this many bytes, counted as Redis does.
    pub(crate) fn allows(self, redis_bytes: usize, count: usize) -> bool {
        redis_bytes <= self.bytes && self.count.is_none_or(|limit| count <= limit)
    }

    /// Whether a list of one pack is small enough to be packed again: half of the limit.
    pub(crate) fn allows_return(self, packed: Packed<'_>) -> bool {
        match self.count {
            Some(limit) => packed.len() <= limit / 2 && !packed.first().is_some_and(|first| self.is_large(first)),
            None => packed.redis_bytes() <= self.bytes / 2,
        }
    }

    /// Whether an element is too large to share a pack with others.
    pub(crate) fn is_large(self, value: ValueRef<'_>) -> bool {
        value.len() > self.bytes
    }

    /// Whether a pack of so many elements has room for `value`.
    pub(crate) fn takes(self, packed: Packed<'_>, count: usize, value: ValueRef<'_>) -> bool {
        self.allows(packed.redis_bytes() + value.len() + ELEMENT_EXTRA_BYTES, count + 1)
    }
}
