//! Key specifications: a row's statement of where its command's keys stand, in Redis's terms. `keys` reads them. Constants
//! and pure functions only; any thread.

use std::ops::Deref;

use super::flags::KeyFlags;

/// The place of a run of keys among a command's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The command's effect on these keys.
    pub flags: KeyFlags,
    /// The argument at which the run begins.
    pub begin: Begin,
    /// The rule that says which arguments from there on are keys.
    pub find: Find,
    /// A remark that COMMAND INFO prints, or nothing.
    pub notes: &'static str,
}

/// The rule that finds the beginning of a run of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u8),
    /// After this word, which is looked for from an argument on (from the end backwards when negative).
    Keyword(&'static str, i8),
    /// The beginning is found by no rule.
    Unknown,
}

/// The rule that says which arguments from the beginning of the run on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// The arguments at every `step`-th place up to `last`, which counts from the beginning, or from the end when negative. A
    /// `limit` above 1 with `last` -1 stops after that fraction of the arguments.
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
    /// The keys are found by no rule.
    Unknown,
}

/// The places of a command's keys: its key specifications, to which this derefs.
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
