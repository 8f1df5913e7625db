//! The faults of foreign bytes that should be a value, in sentences for an operator.
//!
//! Each function that reads a value returns them; `file/fault` adds at which byte of a file, and in which record, the fault
//! was found.

use std::fmt;

/// A fault: the bytes are not a value of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes end too soon.
    End,
    /// The source of the bytes has failed; the source keeps the error.
    Unreadable,
    /// A length, or the form of a string, has an encoding that the format does not define.
    Length,
    /// A compressed string does not unpack to its stated length.
    Compressed,
    /// A run of packed elements contradicts itself.
    Packed,
    /// A run of packed elements of a value of this type contradicts itself.
    PackedOf(u8),
    /// An element stands twice among the packed elements of a value of this type.
    TwiceIn(u8),
    /// A collection has no elements.
    Empty,
    /// An element stands in a collection twice.
    Twice,
    /// A consumer stands in a group of a stream twice.
    Consumer,
    /// A score is no number.
    Score,
    /// A deadline is no time.
    Deadline,
    /// The counters, ids or groups of a stream contradict its entries.
    Stream,
    /// A stream's state of producers that number their messages contradicts itself.
    Producers,
    /// A value of a module.
    Module,
    /// A number that is not the number of a type.
    Kind(u8),
}

impl Bad {
    /// Returns the fault as one of a value with this type number: packed elements get the name that the type gives them.
    pub(super) fn of_type(self, number: u8) -> Self {
        match self {
            Self::Packed if pack_name(number).is_some() => Self::PackedOf(number),
            Self::Twice if pack_name(number).is_some_and(|name| !name.starts_with("Stream")) => Self::TwiceIn(number),
            bad => bad,
        }
    }
}

/// Returns the name, in Redis's words, of the packed elements that make up a value of this type; none if the type is not made
/// of packed elements.
fn pack_name(number: u8) -> Option<&'static str> {
    Some(match number {
        9 => "Zipmap",
        10 => "List ziplist",
        11 => "Intset",
        12 => "Zset ziplist",
        13 => "Hash ziplist",
        14 => "Ziplist",
        15 | 19 | 21 | 26 => "Stream listpack",
        16 | 23 | 25 => "Hash listpack",
        17 => "Zset listpack",
        18 => "Listpack",
        20 => "Set listpack",
        _ => return None,
    })
}

impl fmt::Display for Bad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match *self {
            Self::End => "the bytes end in the middle of it",
            Self::Unreadable => "the bytes cannot be read",
            Self::Length => "a length has none of the forms that lengths have",
            Self::Compressed => "a compressed string does not become as long as it says",
            Self::Packed => "packed elements (listpack, ziplist, intset or zipmap) contradict themselves",
            Self::PackedOf(number) => {
                let name = pack_name(number).unwrap_or("Listpack");
                return write!(formatter, "{name} integrity check failed: packed elements contradict themselves");
            }
            Self::TwiceIn(number) => {
                let name = pack_name(number).unwrap_or("Listpack");
                return write!(formatter, "{name} integrity check failed: the same element stands in it twice");
            }
            Self::Consumer => "Duplicate stream consumer detected",
            Self::Empty => "a collection has no elements",
            Self::Twice => "the same element stands in a collection twice",
            Self::Score => "a score is no number",
            Self::Deadline => "a deadline is no time",
            Self::Stream => "a stream's counters, ids or groups contradict its entries",
            Self::Producers => {
                "what a stream knows of its producers' messages (XADD IDMP or IDMPAUTO) contradicts itself"
            }
            Self::Module => "the value belongs to a module, and there are no modules here",
            Self::Kind(kind) => return write!(formatter, "no value has the type {kind}"),
        })
    }
}

impl std::error::Error for Bad {}
