//! The seeded source of the choices that a power cut makes about files that were not synced: the same seed gives the same
//! cut, so that a failure can be repeated.
//!
//! One thread at a time.

/// SplitMix64 (Steele, Lea and Flood, 2014): the remains of a cut follow from its seed.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        (self.bits() >> 16) % bound
    }
}
