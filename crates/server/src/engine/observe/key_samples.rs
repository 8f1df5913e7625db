//! The keys that are used most of late, from a sample that is always taken: every 128th key on average, at random distances,
//! so that no rhythm of the requests deceives it.
//!
//! Keys are sampled after the lookup of a group of requests, as they arrive from clients. Not among them are keys that
//! scripts use without naming them, commands of a primary, and MEMORY USAGE, which uses nothing. As long as no key of a group
//! is due this costs a subtraction a group. Samples go into counters of the executing thread ([`KeySamples`]); all of them
//! are halved from time to time.

use super::heavy_hitters::HeavyHitters;
use crate::host::dice::Dice;

/// The sampling rate: on average a key in so many is sampled.
pub const SAMPLE_RATIO: usize = 128;

/// After so many milliseconds a sample counts half.
pub const HALF_LIFE_MS: u64 = 10_000;

/// A key with more than this part of a thread's sample is always among those that it keeps.
const SHARES: usize = 256;

/// The samples of one thread.
pub type KeySamples = HeavyHitters<SHARES>;

/// Chooses the keys to sample; there is one for each thread.
#[derive(Debug)]
pub struct Sampler {
    /// Keys that pass before the next that is looked at.
    left: usize,
    dice: Dice,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { left: SAMPLE_RATIO, dice: Dice::new(SAMPLE_RATIO as u64) }
    }
}

impl Sampler {
    /// Returns whether any of the next `keys` is to be looked at; if so, [`Sampler::take`] says which.
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

    /// Shows the places of those of `keys` that are to be looked at.
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
