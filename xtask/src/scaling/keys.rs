//! Which keys are asked for: all alike, by Zipf's law, or one above all.

use crate::bench::filling::Noise;

/// Keys that there are.
const COUNT: usize = 1_000_000;

/// A distribution over keys, as the sums of their probabilities; without sums all are alike.
#[derive(Debug)]
pub struct Keys {
    sums: Vec<f64>,
}

impl Keys {
    /// Those that are simulated, with their names.
    pub fn all() -> [(&'static str, Keys); 5] {
        [
            ("spread", Keys { sums: Vec::new() }),
            ("Zipf 0.99", Keys::zipf(0.99)),
            ("Zipf 1.2", Keys::zipf(1.2)),
            ("one key has 10 %", Keys::hot(0.10)),
            ("one key has all", Keys::hot(1.0)),
        ]
    }

    /// The key of rank r is asked for in proportion to r to the power of minus the exponent.
    pub fn zipf(exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=COUNT)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Self { sums }
    }

    /// One key has this share, and the others the rest alike.
    fn hot(share: f64) -> Self {
        let rest = (1.0 - share) / (COUNT - 1) as f64;
        Self { sums: (0..COUNT).map(|rank| share + rest * rank as f64).collect() }
    }

    /// Draws the rank of a key, from 0.
    pub fn draw(&self, noise: &mut Noise) -> usize {
        let number = noise.next();
        if self.sums.is_empty() {
            return (number % COUNT as u64) as usize;
        }
        // 53 bits make a fraction.
        let fraction = (number >> 11) as f64 / (1u64 << 53) as f64;
        self.sums.partition_point(|sum| *sum < fraction).min(COUNT - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, Keys};
    use crate::bench::filling::Noise;

    fn share_of_first(keys: &Keys, ranks: usize) -> f64 {
        let mut noise = Noise(1);
        (0..200_000).filter(|_| keys.draw(&mut noise) < ranks).count() as f64 / 200_000.0
    }

    #[test]
    fn the_first_keys_have_the_share_that_the_law_gives_them() {
        // The harmonic number of order 0.99 of a million is 15.39; that of the first ten is 2.96.
        let zipf = Keys::zipf(0.99);
        assert!((share_of_first(&zipf, 1) - 1.0 / 15.39).abs() < 0.003);
        assert!((share_of_first(&zipf, 10) - 2.96 / 15.39).abs() < 0.005);
        assert!((share_of_first(&Keys::hot(0.1), 1) - 0.1).abs() < 0.003);
        assert!((share_of_first(&Keys::hot(1.0), 1) - 1.0).abs() < f64::EPSILON);
        assert!((share_of_first(&Keys { sums: Vec::new() }, COUNT / 4) - 0.25).abs() < 0.005);
    }
}
