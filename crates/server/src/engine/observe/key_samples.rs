//! The keys that were used most recently and most often, from samples that are always taken: one in 128 keys on average, at
//! random distances, so that a regular pattern of requests does not distort them.
//!
//! Keys are sampled after the lookup of a group of requests, as they arrive from clients. Keys that scripts use without
//! naming them, keys in commands of a primary, and those of MEMORY USAGE, which is no use of a key, are not sampled. If no
//! key of a group is due, this costs one subtraction for the group. Samples go into counters of the executing thread
//! ([`KeySamples`]); all counters are halved from time to time.

use super::heavy_hitters::HeavyHitters;
use crate::host::dice::Dice;

/// The sampling rate: one in so many keys is sampled on average.
pub const SAMPLE_RATIO: usize = 128;

/// The time after which a sample counts half, in milliseconds.
pub const HALF_LIFE_MS: u64 = 10_000;

/// The share of a thread's samples, one in so many, above which a key is always kept.
const SHARES: usize = 256;

/// The samples of one thread.
pub type KeySamples = HeavyHitters<SHARES>;

/// The choice of the keys to sample, for one thread.
#[derive(Debug)]
pub struct Sampler {
    /// The number of keys that are skipped before the next sample.
    left: usize,
    dice: Dice,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { left: SAMPLE_RATIO, dice: Dice::new(SAMPLE_RATIO as u64) }
    }
}

impl Sampler {
    /// Returns whether any of the next `keys` is to be sampled; if so, [`Sampler::take`] says which.
    #[inline]
    pub fn is_due(&mut self, keys: usize) -> bool {
        match self.left.checked_sub(keys) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    /// Calls `show` with the positions of those of `keys` that are to be sampled.
    #[cold]
    pub fn take(&mut self, keys: usize, mut show: impl FnMut(usize)) {
        while self.left < keys {
            show(self.left);
            self.left += 1 + self.dice.below(2 * SAMPLE_RATIO - 1);
        }
        self.left -= keys;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_in_so_many_is_chosen_however_they_come() {
        for group in [1, 3, 63, 64, 65, 1_000] {
            let (mut sampler, mut taken, mut seen) = (Sampler::default(), 0, 0);
            while seen < 1_280_000 {
                if sampler.is_due(group) {
                    sampler.take(group, |at| {
                        assert!(at < group);
                        taken += 1;
                    });
                }
                seen += group;
            }
            assert!((9_500..10_500).contains(&taken), "{taken} with {group} at once");
        }
    }

    #[test]
    fn a_rhythm_of_the_requests_does_not_hide_a_key() {
        let (mut sampler, mut taken) = (Sampler::default(), [0; SAMPLE_RATIO]);
        for _ in 0..20_000 {
            if sampler.is_due(SAMPLE_RATIO) {
                sampler.take(SAMPLE_RATIO, |at| taken[at] += 1);
            }
        }
        assert!(taken.iter().all(|&times| (90..220).contains(&times)), "{taken:?}");
    }
}
