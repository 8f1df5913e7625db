//! Eviction: SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is Simpler than LRU", NSDI 2024).
//!
//! Entries stand in a row in the order of their arrival. A use sets a mark on an entry and moves nothing, so a hit costs one
//! store. A hand goes from the oldest to the newest and round again: it clears each mark that it finds, and evicts the first
//! entry without a mark. A new entry that is never used again is soon found; a used entry stays.
//!
//! The row knows places by number and nothing of the entries. Pure data; the holder of the store has its row.

/// The number that stands for a missing place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    is_used: bool,
}

/// A row of places, and the hand.
pub(super) struct Sieve {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl Default for Sieve {
    fn default() -> Self {
        Self { links: Vec::new(), newest: NONE, oldest: NONE, hand: NONE }
    }
}

impl Sieve {
    /// Adds an empty place to the row: it has got an entry.
    pub(super) fn enter(&mut self, place: u32) {
        let link = Link { newer: NONE, older: self.newest, is_used: false };
        match self.links.get_mut(place as usize) {
            Some(old) => *old = link,
            None => self.links.push(link),
        }
        match self.links.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    /// Removes a place from the row.
    pub(super) fn leave(&mut self, place: u32) {
        let Some(&Link { newer, older, .. }) = self.links.get(place as usize) else { return };
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        if self.hand == place {
            self.hand = newer;
        }
    }

    /// Marks a place as used.
    #[inline]
    pub(super) fn touch(&mut self, place: u32) {
        if let Some(link) = self.links.get_mut(place as usize) {
            link.is_used = true;
        }
    }

    /// Returns the next place to evict; none if the row is empty.
    pub(super) fn next_out(&mut self) -> Option<u32> {
        // One round clears all marks, so the loop ends.
        loop {
            if self.hand == NONE {
                self.hand = self.oldest;
            }
            let link = self.links.get_mut(self.hand as usize)?;
            if !std::mem::take(&mut link.is_used) {
                return Some(self.hand);
            }
            self.hand = link.newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plain model: a row from old to new, with marks, and the place of the hand.
    #[derive(Default)]
    struct Plain {
        row: Vec<(u32, bool)>,
        hand: usize,
    }

    impl Plain {
        fn leave(&mut self, place: u32) {
            let at = self.row.iter().position(|(other, _)| *other == place).expect("it is there");
            self.row.remove(at);
            self.hand -= usize::from(at < self.hand);
        }

        fn next_out(&mut self) -> Option<u32> {
            loop {
                if self.hand >= self.row.len() {
                    self.hand = 0;
                }
                let (place, is_used) = self.row.get_mut(self.hand)?;
                if !std::mem::take(is_used) {
                    return Some(*place);
                }
                self.hand += 1;
            }
        }
    }

    #[test]
    fn the_hand_goes_as_in_the_plainest_words() {
        let (mut sieve, mut plain, mut dice) = (Sieve::default(), Plain::default(), 7u64);
        let mut roll = |sides: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice >> 33) as usize % sides
        };
        let mut free: Vec<u32> = (0..40).rev().collect();
        let mut begun = 0;
        for _ in 0..20_000 {
            match roll(4) {
                0 | 1 if !free.is_empty() => {
                    // The model takes places in turn at first, as the store does.
                    let at = free.iter().rposition(|&place| place <= begun).expect("there is one");
                    let place = free.remove(at);
                    begun = begun.max(place + 1);
                    sieve.enter(place);
                    // A hand that is past the end stays there, because the newest entry is behind it.
                    let was_past = plain.hand >= plain.row.len();
                    plain.row.push((place, false));
                    if was_past {
                        plain.hand = plain.row.len();
                    }
                }
                2 if !plain.row.is_empty() => {
                    let index = roll(plain.row.len());
                    sieve.touch(plain.row[index].0);
                    plain.row[index].1 = true;
                }
                _ => {
                    let (out, other) = (sieve.next_out(), plain.next_out());
                    assert_eq!(out, other);
                    if let Some(place) = out {
                        sieve.leave(place);
                        plain.leave(place);
                        free.push(place);
                    }
                }
            }
        }
    }
}
