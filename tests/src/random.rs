//! A small seeded source of random choices, so that a failing run can be repeated from its seed.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): one addition and a mix per number. It is for tests; nothing that guards
//! anything may use it. One thread uses it at a time.

/// The state of the source.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns a source of choices that depend on `seed` only.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0. The bias of the remainder does not matter to a test.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() >> 16).unwrap_or(0) % bound
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.abs_diff(low).saturating_add(1);
        low.wrapping_add((self.bits() % width).cast_signed())
    }

    /// Returns true once in `times`, on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Returns the seed that `SLEEVE_SEED` names, or `default`: every run is the same unless another seed is asked for.
pub fn seed(default: u64) -> u64 {
    std::env::var("SLEEVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
