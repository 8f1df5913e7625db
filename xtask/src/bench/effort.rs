//! How much work a measurement is given.

/// The same for every table of a run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of every comparison.
    pub rounds: u32,
    /// What numbers of requests are divided by.
    pub divisor: u64,
}
