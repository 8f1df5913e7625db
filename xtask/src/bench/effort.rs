//! The amount of work that a measurement is given.

/// The amount of work, the same for every table.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The number of rounds of every comparison.
    pub rounds: u32,
    /// The divisor of the numbers of requests.
    pub divisor: u64,
}

impl Effort {
    /// Returns the effort that the command line asks for: five rounds, or one round of a tenth of the requests.
    pub fn new(quick: bool, rounds: Option<u32>) -> Effort {
        Effort { rounds: rounds.unwrap_or(if quick { 1 } else { 5 }), divisor: if quick { 10 } else { 1 } }
    }
}
