//! What can be wrong with foreign bytes that should be a value, in sentences for an operator.
//!
//! Whoever reads a value returns it; `file/fault` adds at which byte of a file, and in whose record, it was found.

use std::fmt;

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// They end too soon.
    End,
    /// Whoever gives them out has failed; it knows why.
    Unreadable,
    /// A length, or the form of a string, is none that there is.
    Length,
    /// A compressed string does not become as long as it says.
    Compressed,
    /// A run of packed elements contradicts itself.
    Packed,
    /// A collection has no elements.
    Empty,
    /// An element stands in a collection twice.
    Twice,
    /// A score is no number.
    Score,
    /// A deadline is no time.
    Deadline,
    /// The counters, ids or groups of a stream contradict its entries.
    Stream,
    /// What a stream knows of producers that number their messages contradicts itself.
    Producers,
    /// A value of a module.
    Module,
    /// No value has this type.
    Kind(u8),
}

impl fmt::Display for Bad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::End => "the bytes end in the middle of it",
            Self::Unreadable => "the bytes cannot be read",
            Self::Length => "a length has none of the forms that lengths have",
            Self::Compressed => "a compressed string does not become as long as it says",
            Self::Packed => "packed elements (listpack, ziplist, intset or zipmap) contradict themselves",
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
