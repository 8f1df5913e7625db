//! The forms that the tail of an entry has: what its bytes are. Plain data; `entry` reads and writes them.

use super::Kind;

/// The longest packed collection, in bytes, that is kept in the entry itself. Each change of one copies it, so it is
/// smaller than what strings may have.
pub(crate) const PACKED_INLINE_MAX: usize = 1024;

/// What the tail of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Eight bytes.
    Integer = 0,
    /// A string that was written whole.
    Whole = 1,
    /// A string that was changed in place.
    Edited = 2,
    /// The address of an `Arc<Vec<u8>>`.
    Shared = 3,
    /// The address of an `Object`.
    Object = 4,
    /// The elements of a list, as `listpack` packs them to be walked both ways.
    PackedList = 5,
    /// The members of a set, as `listpack` packs them to be walked forwards.
    PackedSet = 6,
    /// The members of a set, as `intset` packs them.
    PackedIntegers = 7,
    /// Members and scores of a sorted set in turn, packed as those of a set.
    PackedSortedSet = 8,
    /// Fields and values of a hash in turn, packed likewise.
    PackedHash = 9,
    /// The same of a hash that has outgrown the limits for packing.
    WideHash = 10,
    /// Fields, values and deadlines of a hash in turn, likewise.
    TimedHash = 11,
    /// The same of a hash that has outgrown the limits for packing.
    WideTimedHash = 12,
    /// Nothing: the key is all there is, behind a header of two bytes.
    Member = 13,
    /// Eight bytes, behind a header of two.
    Scored = 14,
}

impl Form {
    /// The type of a value of this form; none of an object, which itself says what it is.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Integer | Self::Whole | Self::Edited | Self::Shared | Self::Member | Self::Scored => Kind::String,
            Self::Object => return None,
            Self::PackedList => Kind::List,
            Self::PackedSet | Self::PackedIntegers => Kind::Set,
            Self::PackedSortedSet => Kind::SortedSet,
            Self::PackedHash | Self::WideHash | Self::TimedHash | Self::WideTimedHash => Kind::Hash,
        })
    }
}
