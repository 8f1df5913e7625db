//! The keys with the greatest shares of a stream of weights, in bounded memory, for any stream.
//!
//! Misra and Gries's counters with weights: each key that occurs gets a counter. If there are twice as many counters as
//! `SHARES`, the value of the median counter is subtracted from all, and those with nothing left are removed, so that half of
//! them stay: one pass for at least `SHARES` new keys. (Anderson et al., "A High-Performance Algorithm for Identifying
//! Frequent Items in Data Streams", 2017.) With N the sum of all weights:
//!
//! - a key with a weight of more than N / `SHARES` has a counter;
//! - a counter is never more than its key's weight, and less by N / `SHARES` at most.
//!
//! Keys are distinguished by their keyed hashes, which are known anyway; of a long name the beginning is kept. One thread at
//! a time.

use std::collections::BTreeMap;

use sleeve_store::Key;

/// The most bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 1_024;

/// The counters of the keys that have more than one in `SHARES` of all weight, and of others as long as there is room.
#[derive(Debug, Clone, Default)]
pub struct HeavyHitters<const SHARES: usize> {
    counters: BTreeMap<u64, Counter>,
    total: u64,
}

#[derive(Debug, Clone)]
struct Counter {
    weight: u64,
    name: Box<[u8]>,
}

impl<const SHARES: usize> HeavyHitters<SHARES> {
    /// Adds to the weight of a key.
    pub fn add(&mut self, key: Key<'_>, weight: u64) {
        self.total = self.total.saturating_add(weight);
        if let Some(counter) = self.counters.get_mut(&key.hash.0) {
            counter.weight = counter.weight.saturating_add(weight);
        } else if weight != 0 {
            self.insert(key.hash.0, Counter { weight, name: kept(key.name) });
        }
    }

    /// Adds the counters of another stream, as if its weights had been added here too.
    pub fn merge(&mut self, other: &Self) {
        for (hash, counter) in &other.counters {
            if let Some(own) = self.counters.get_mut(hash) {
                own.weight = own.weight.saturating_add(counter.weight);
            } else {
                self.insert(*hash, counter.clone());
            }
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// Halves all weights, so that older ones count for less.
    pub fn halve(&mut self) {
        self.total /= 2;
        self.counters.retain(|_, counter| {
            counter.weight /= 2;
            counter.weight != 0
        });
    }

    /// Returns the keys with the greatest weights, the greatest first, at most `count` of them. Of a long name it returns the
    /// beginning, with a note of how much is missing.
    pub fn top(&self, count: usize) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> =
            self.counters.values().map(|counter| (&*counter.name, counter.weight)).collect();
        all.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        all.truncate(count);
        all
    }

    /// Returns the sum of all added weights.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn insert(&mut self, hash: u64, counter: Counter) {
        if self.counters.len() >= 2 * SHARES {
            self.make_room();
        }
        self.counters.insert(hash, counter);
    }

    /// Subtracts the median counter from all, so that at most `SHARES` stay. The losses of all counters together are more
    /// than `SHARES` times the loss of one. Therefore no counter loses more than one in `SHARES` of all weight.
    #[cold]
    fn make_room(&mut self) {
        let mut weights: Vec<u64> = self.counters.values().map(|counter| counter.weight).collect();
        let middle = weights.len() - 1 - SHARES;
        let (_, &mut lost, _) = weights.select_nth_unstable(middle);
        self.counters.retain(|_, counter| {
            counter.weight = counter.weight.saturating_sub(lost);
            counter.weight != 0
        });
    }
}

fn kept(name: &[u8]) -> Box<[u8]> {
    match name.split_at_checked(NAME_BYTES_MAX) {
        Some((head, rest)) if !rest.is_empty() => {
            [head, format!("... ({} more bytes)", rest.len()).as_bytes()].concat().into_boxed_slice()
        }
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use sleeve_store::Hash;

    use super::*;
    use crate::host::dice::Dice;

    const SHARES: usize = 8;

    fn key(name: &[u8]) -> Key<'_> {
        // Any hash that distinguishes the names will do.
        let hash = name.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3_9d25).rotate_left(23)
        });
        Key { name, hash: Hash(hash) }
    }

    /// Checks the guarantees of counters for keys with these true weights.
    fn check(found: &HeavyHitters<SHARES>, truly: &BTreeMap<Vec<u8>, u64>, context: &str) {
        let sum: u64 = truly.values().sum();
        assert_eq!(found.total(), sum, "{context}");
        assert!(found.counters.len() <= 2 * SHARES, "{context}");
        let found: BTreeMap<&[u8], u64> = found.top(usize::MAX).into_iter().collect();
        for (name, &weight) in truly {
            let counted = found.get(name.as_slice()).copied().unwrap_or(0);
            assert!(counted <= weight, "{context}: {counted} of {weight}");
            assert!(weight - counted <= sum / SHARES as u64, "{context}: {counted} of {weight} in {sum}");
            assert!(
                counted != 0 || weight <= sum / SHARES as u64,
                "{context}: a key with {weight} of {sum} is missing"
            );
        }
    }

    #[test]
    fn keys_with_a_share_are_found_and_counted_within_the_bound() {
        let dice = Dice::new(3);
        for round in 0..200 {
            let (mut found, mut truly) = (HeavyHitters::<SHARES>::default(), BTreeMap::<Vec<u8>, u64>::new());
            let keys = 1 + dice.below(200);
            // Squaring the random share makes few keys frequent and most of them rare.
            for step in 0..dice.below(2_000) {
                let name = format!("k{}", (dice.share().powi(1 + round % 5) * keys as f64) as usize).into_bytes();
                let weight = if round % 2 == 0 { 1 } else { dice.below(1 + dice.below(1_000)) as u64 };
                found.add(key(&name), weight);
                *truly.entry(name).or_default() += weight;
                if step % 97 == 0 {
                    check(&found, &truly, &format!("round {round}, step {step}"));
                }
            }
            check(&found, &truly, &format!("round {round}"));
        }
    }

    #[test]
    fn streams_that_are_merged_count_as_one() {
        let dice = Dice::new(4);
        for round in 0..100 {
            let (mut sum, mut truly) = (HeavyHitters::<SHARES>::default(), BTreeMap::<Vec<u8>, u64>::new());
            for _ in 0..1 + dice.below(5) {
                let mut part = HeavyHitters::<SHARES>::default();
                for _ in 0..dice.below(500) {
                    let name = format!("k{}", (dice.share().powi(3) * 100.0) as usize).into_bytes();
                    part.add(key(&name), 1);
                    *truly.entry(name).or_default() += 1;
                }
                sum.merge(&part);
            }
            check(&sum, &truly, &format!("round {round}"));
        }
    }

    #[test]
    fn whoever_comes_once_in_a_crowd_does_not_push_out_the_frequent_one() {
        let mut found = HeavyHitters::<SHARES>::default();
        for other in 0..10_000 {
            found.add(key(format!("other{other}").as_bytes()), 1);
            if other % 4 == 0 {
                found.add(key(b"frequent"), 1);
            }
        }
        assert_eq!(found.top(1)[0].0, b"frequent");
    }

    #[test]
    fn weights_are_halved_and_what_comes_to_nothing_goes() {
        let mut found = HeavyHitters::<SHARES>::default();
        found.add(key(b"a"), 5);
        found.add(key(b"b"), 1);
        found.halve();
        assert_eq!((found.top(9), found.total()), (vec![(b"a".as_slice(), 2)], 3));
    }

    #[test]
    fn long_names_are_kept_in_part() {
        let mut found = HeavyHitters::<SHARES>::default();
        let name = vec![b'x'; NAME_BYTES_MAX + 5];
        found.add(key(&name), 1);
        found.add(key(&name[..NAME_BYTES_MAX]), 2);
        let kept = [&name[..NAME_BYTES_MAX], b"... (5 more bytes)"].concat();
        assert_eq!(found.top(9), [(&name[..NAME_BYTES_MAX], 2), (&kept, 1)]);
    }
}
