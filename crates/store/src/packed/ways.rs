//! The directions in which a run of packed elements can be walked, which decides its form.
//!
//! A list is reached from both ends, so each of its elements has its length behind it too, as in Redis. The other types are
//! searched from the front, and do without: a byte an element, which is a tenth of a small collection. The two are told apart
//! by the type of a run alone, and a backward walk does not compile for the other.

use std::fmt::Debug;

/// The directions in which a run can be walked.
pub trait Ways: Copy + Debug {
    /// True if the run can be walked from its end, by the length that each element has behind it.
    const BACKWARDS: bool;
}

/// Runs that are walked from the front and from the end: lists, and the blocks of streams.
#[derive(Clone, Copy, Debug)]
pub enum BothWays {}

/// Runs that are walked from the front only: sets, hashes and sorted sets.
#[derive(Clone, Copy, Debug)]
pub enum Forwards {}

impl Ways for BothWays {
    const BACKWARDS: bool = true;
}

impl Ways for Forwards {
    const BACKWARDS: bool = false;
}
