//! Key specifications: a row's statement of where its command's keys stand, in Redis's terms. `keys` reads them. Constants
//! and pure functions only; any thread.

use std::ops::Deref;

use super::flags::KeyFlags;

/// Where one run of keys stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The command's effect on these keys.
    pub flags: KeyFlags,
    /// Where they begin.
    pub begin: Begin,
    /// Which arguments from there on are keys.
    pub find: Find,
    /// A remark that COMMAND INFO prints, or nothing.
    pub notes: &'static str,
}

/// Where a run of keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u8),
    /// After this word, sought from an argument on (from the end backwards when negative).
    Keyword(&'static str, i8),
    /// Cannot be told.
    Unknown,
}

/// Which arguments from the beginning on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th up to `last`, which counts from the beginning, or from the end when negative. A `limit` above 1
    /// with `last` -1 stops after that fraction of the arguments.
    Range {
        /// The last key.
        last: i8,
        /// Distance between keys.
        step: u8,
        /// Divides the number of the remaining arguments.
        limit: u8,
    },
    /// As many as an argument says; offsets count from the beginning.
    Count {
        /// Offset of the argument with the number of keys.
        count: u8,
        /// Offset of the first key.
        first: u8,
        /// Distance between keys.
        step: u8,
    },
    /// Cannot be told.
    Unknown,
}

/// Where the keys of a command stand: its specifications, which it derefs to.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The specifications.
    pub specs: &'static [KeySpec],
    /// The index of the only key, for the many commands that always have one at the same place.
    pub lone: Option<u8>,
}

impl Keys {
    pub(super) const fn new(specs: &'static [KeySpec]) -> Keys {
        let lone = match specs {
            [KeySpec { flags, begin: Begin::Index(index), find: Find::Range { last: 0, .. }, .. }]
                if !flags.contains(KeyFlags::NOT_KEY) =>
            {
                Some(*index)
            }
            _ => None,
        };
        Keys { specs, lone }
    }
}

impl Deref for Keys {
    type Target = [KeySpec];

    #[inline]
    fn deref(&self) -> &[KeySpec] {
        self.specs
    }
}
