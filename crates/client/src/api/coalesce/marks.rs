//! The keys that are gathered or in flight, and the place of the last call on each.
//!
//! A key is known by a number. When a call was answered its marks stay behind without a meaning, and are removed when there
//! are many. Pure data under its owner's lock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The number of marks from which on meaningless ones are removed.
const PRUNED_MIN: usize = 4096;

/// The place of the last call on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The number of the gathering.
    pub(super) sequence: u64,
    /// The group in the gathering.
    pub(super) group: u32,
    /// The index of the call's element in the group's reply.
    pub(super) place: u32,
}

/// The marks of all keys.
#[derive(Default)]
pub(super) struct Marks {
    places: HashMap<u64, Mark, BuildHasherDefault<Itself>>,
    pruned_at: usize,
}

impl Marks {
    /// Returns the place of the last call on this key.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<Mark> {
        self.places.get(&key).copied()
    }

    /// Sets the place of the last call on this key.
    #[inline]
    pub(super) fn set(&mut self, key: u64, mark: Mark) {
        self.places.insert(key, mark);
    }

    /// Notes that the call in this group needs no further watch, if it is still the last one on its key.
    pub(super) fn forget(&mut self, key: u64, sequence: u64, group: u32) {
        if self.get(key).is_some_and(|mark| mark.sequence == sequence && mark.group == group) {
            self.places.remove(&key);
        }
    }

    /// Notes that all gatherings up to this one are answered.
    pub(super) fn answered(&mut self, sequence: u64, is_last: bool) {
        if is_last {
            self.places.clear();
        } else if self.places.len() > self.pruned_at.max(PRUNED_MIN) {
            self.places.retain(|_, mark| mark.sequence > sequence);
            self.pruned_at = self.places.len() * 2;
        }
    }
}

/// The identity hash, for keys that are hashes already.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_answered_calls_are_removed() {
        let mut marks = Marks::default();
        for sequence in 1..=10 {
            for number in 0..1000 {
                marks.set(sequence * 1000 + number, Mark { sequence, group: 0, place: 0 });
            }
        }
        marks.forget(10_000, 9, 0);
        assert!(marks.get(10_000).is_some());
        marks.forget(10_000, 10, 0);
        assert!(marks.get(10_000).is_none());
        marks.answered(9, false);
        assert_eq!(marks.places.len(), 999);
        marks.answered(10, true);
        assert!(marks.places.is_empty());
    }
}
