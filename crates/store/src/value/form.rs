//! The forms of an entry's tail: the meaning of its bytes. Plain data; `entry` reads and writes them.

use super::Kind;

/// The length of the longest packed collection that is kept in the entry itself, in bytes. Each change of one copies it, so
/// the limit is lower than that of strings.
pub(crate) const PACKED_INLINE_MAX: usize = 1024;

/// The form of an entry's tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// An integer of eight bytes.
    Integer = 0,
    /// A string that was written whole.
    Whole = 1,
    /// A string that was changed in place.
    Edited = 2,
    /// A long string: the address of an `Arc<Vec<u8>>`.
    Shared = 3,
    /// A large collection: the address of an `Object`.
    Object = 4,
    /// The elements of a list, as `listpack` packs them to be walked both ways.
    PackedList = 5,
    /// The members of a set, as `listpack` packs them to be walked forwards.
    PackedSet = 6,
    /// The members of a set, as `intset` packs them.
    PackedIntegers = 7,
    /// Members and scores of a sorted set in turn, packed as those of a set.
    PackedSortedSet = 8,
    /// Fields and values of a hash in turn, packed as those of a set.
    PackedHash = 9,
    /// A hash as in `PackedHash` that has outgrown the limits for packing.
    WideHash = 10,
    /// Fields, values and deadlines of a hash in turn, packed as those of a set.
    TimedHash = 11,
    /// A hash as in `TimedHash` that has outgrown the limits for packing.
    WideTimedHash = 12,
    /// An empty tail: the entry is only a key, behind a header of two bytes.
    Member = 13,
    /// A score of eight bytes, behind a header of two bytes.
    Scored = 14,
}

impl Form {
    /// Returns the type of a value of this form; none for an object, which itself knows its type.
    #[inline]
    pub const fn kind(self) -> Option<Kind> {
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
