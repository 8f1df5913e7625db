//! The amount of work that a measurement is given.

/// The length of a run, the same for every table.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of every comparison.
    pub rounds: u32,
    /// The divisor of the numbers of requests.
    pub divisor: u64,
}
