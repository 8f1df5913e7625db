//! The limit of a pack in a list: the option `list-max-listpack-size`, and the sums that Redis compares with it; and which
//! packs are kept compressed, the option `list-compress-depth`.
//!
//! Pure arithmetic, usable from any thread.

use crate::packed::listpack::Packed;
use crate::value::ValueRef;

/// The largest size of a list's pack, and the rule that says which packs are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit {
    bytes: usize,
    count: Option<usize>,
    compress_depth: usize,
    /// The size in bytes from which an element has a pack of its own, if it is not `bytes`.
    alone_from: Option<usize>,
}

/// The most bytes in a pack that is limited by a count.
const BYTES_SAFE: usize = 8192;

/// The bytes that Redis adds to an element's text when it checks whether a pack has room for it.
const ELEMENT_EXTRA_BYTES: usize = 8;

impl ListLimit {
    /// Reads the option `list-max-listpack-size`: a positive number is a count of elements, -1 to -5 are 4, 8, 16, 32 and 64 KiB.
    pub fn new(option: i64) -> Self {
        let (bytes, count) = match usize::try_from(option) {
            Ok(count) => (BYTES_SAFE, Some(count.max(1))),
            Err(_) => (4096 << (option.max(-5).unsigned_abs() - 1), None),
        };
        Self { bytes, count, compress_depth: 0, alone_from: None }
    }

    /// Sets the number of packs at each end that stay uncompressed (`list-compress-depth`); with 0 no pack is compressed.
    pub fn compressed_beyond(self, depth: usize) -> Self {
        Self { compress_depth: depth, ..self }
    }

    /// Sets the size in bytes from which an element has a pack of its own, instead of the pack's limit.
    pub fn alone_from(self, bytes: usize) -> Self {
        Self { alone_from: Some(bytes), ..self }
    }

    pub(crate) fn compress_depth(self) -> usize {
        self.compress_depth
    }

    /// Returns whether a pack of this many elements may have this many bytes, counted as Redis does; a list within the limit
    /// needs no chain.
    pub(crate) fn allows(self, redis_bytes: usize, count: usize) -> bool {
        redis_bytes <= self.bytes && self.count.is_none_or(|limit| count <= limit)
    }

    /// Returns whether a pack may be a part of a chain: it is within the limit, or it is one element that is too large for
    /// any other pack.
    pub(crate) fn allows_pack(self, packed: Packed<'_>) -> bool {
        let has_large = || packed.iter().any(|element| self.is_large(element));
        let count = packed.len();
        if count == 1 { true } else { self.allows(packed.redis_bytes(), count) && !has_large() }
    }

    /// Returns whether a chain of one pack is small enough to become a packed list again: half of the limit.
    pub(crate) fn allows_return(self, packed: Packed<'_>) -> bool {
        let is_small = match self.count {
            Some(limit) => packed.len() <= limit / 2,
            None => packed.redis_bytes() <= self.bytes / 2,
        };
        is_small && !packed.first().is_some_and(|first| self.is_large(first))
    }

    /// Returns whether an element is too large to share a pack with others.
    pub(crate) fn is_large(self, value: ValueRef<'_>) -> bool {
        self.alone_from.map_or(value.len() > self.bytes, |bytes| value.len() >= bytes)
    }

    /// Returns whether a pack of so many elements has room for `value`.
    pub(crate) fn takes(self, packed: Packed<'_>, count: usize, value: ValueRef<'_>) -> bool {
        self.allows(packed.redis_bytes() + value.len() + ELEMENT_EXTRA_BYTES, count + 1)
    }
}
