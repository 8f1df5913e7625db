//! The amount of work that a measurement is given.

/// The amount of work, the same for every table.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The number of rounds of every comparison.
    pub rounds: u32,
    /// The divisor of the numbers of requests.
    pub divisor: u64,
}
