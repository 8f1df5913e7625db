//! Sets of hash slots.

use std::fmt;

pub use sleeve_wire::slot::SLOTS;

/// The number of a hash slot, below [`SLOTS`].
pub type Slot = u16;

/// A set of hash slots. Its bytes are those of the bus: bit `slot % 8` of byte `slot / 8`.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u8; SlotSet::BYTES]>);

impl SlotSet {
    /// The bytes of a set.
    pub const BYTES: usize = SLOTS as usize / 8;

    /// Returns the set of these bytes.
    pub fn of_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        Self(Box::new(*bytes))
    }

    /// Returns the bytes of the set.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Returns whether the slot is in the set. A number that is no slot is in no set.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0.get(usize::from(slot / 8)).is_some_and(|byte| byte & 1 << (slot % 8) != 0)
    }

    /// Adds a slot. Returns whether it is new. A number that is no slot is not added.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let is_new = slot < SLOTS && !self.contains(slot);
        if let Some(byte) = self.0.get_mut(usize::from(slot / 8)) {
            *byte |= 1 << (slot % 8);
        }
        is_new
    }

    /// Removes a slot. Returns whether it was in the set.
    pub fn remove(&mut self, slot: Slot) -> bool {
        let was_in = self.contains(slot);
        if let Some(byte) = self.0.get_mut(usize::from(slot / 8)) {
            *byte &= !(1 << (slot % 8));
        }
        was_in
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        let (words, _) = self.0.as_chunks();
        words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        *self.0 == [0; Self::BYTES]
    }

    /// Adds the slots from `first` to `last`, both included. Numbers that are no slots are not added.
    pub fn insert_range(&mut self, first: Slot, last: Slot) {
        let last = last.min(SLOTS - 1);
        if first > last {
            return;
        }
        let (from, to) = (usize::from(first / 8), usize::from(last / 8));
        let (head, tail): (u8, u8) = (0xff << (first % 8), 0xff >> (7 - last % 8));
        match self.0.get_mut(from..=to) {
            Some([byte]) => *byte |= head & tail,
            Some([first, middle @ .., last]) => {
                *first |= head;
                middle.fill(0xff);
                *last |= tail;
            }
            _ => {}
        }
    }

    /// Adds all slots of the other set.
    pub fn insert_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(byte, other)| *byte |= other);
    }

    /// Removes the slots of the other set. Returns those that were in both.
    pub fn remove_all(&mut self, other: &Self) -> Self {
        let mut removed = Self::default();
        for ((byte, other), removed) in self.0.iter_mut().zip(other.0.iter()).zip(removed.0.iter_mut()) {
            *removed = *byte & other;
            *byte &= !other;
        }
        removed
    }

    /// Returns the slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let bytes = (0..).zip(self.0.iter()).filter(|(_, byte)| **byte != 0);
        bytes.flat_map(|(at, byte)| (0..8).filter(move |bit| byte & 1 << bit != 0).map(move |bit| at * 8 + bit))
    }

    /// Returns the ranges of slots in ascending order, as first and last slot.
    pub fn ranges(&self) -> Vec<(Slot, Slot)> {
        let mut ranges: Vec<(Slot, Slot)> = Vec::new();
        let mut add = |first: Slot, last: Slot| match ranges.last_mut() {
            Some((_, end)) if *end + 1 == first => *end = last,
            _ => ranges.push((first, last)),
        };
        for (at, byte) in (0..).zip(self.0.iter()) {
            match *byte {
                0 => {}
                0xff => add(at * 8, at * 8 + 7),
                byte => (0..8).filter(|bit| byte & 1 << bit != 0).for_each(|bit| add(at * 8 + bit, at * 8 + bit)),
            }
        }
        ranges
    }
}

impl Default for SlotSet {
    fn default() -> Self {
        Self(Box::new([0; Self::BYTES]))
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| _ = set.insert(slot));
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_gaps() {
        let set: SlotSet = [0, 1, 2, 5, 16_382, 16_383].into_iter().collect();
        assert_eq!(set.ranges(), [(0, 2), (5, 5), (16_382, 16_383)]);
        assert_eq!(set.len(), 6);
    }

    #[test]
    fn a_range_adds_the_same_slots_as_each_slot_alone() {
        for (first, last) in
            [(0, 0), (0, 7), (3, 4), (3, 12), (8, 23), (5, 16_383), (16_383, 16_383), (9, 8), (16_380, 40_000)]
        {
            let mut set: SlotSet = [1, 15].into_iter().collect();
            let mut alone = set.clone();
            set.insert_range(first, last);
            (first..=last.min(SLOTS - 1)).for_each(|slot| _ = alone.insert(slot));
            assert_eq!(set, alone, "{first} to {last}");
            assert_eq!(set.iter().collect::<SlotSet>(), set);
        }
    }

    #[test]
    fn removing_a_set_returns_the_slots_of_both() {
        let mut set: SlotSet = (0..100).collect();
        let removed = set.remove_all(&(90..200).collect());
        assert_eq!((set.ranges(), removed.ranges()), (vec![(0, 89)], vec![(90, 99)]));
        set.insert_all(&removed);
        assert_eq!(set.ranges(), [(0, 99)]);
    }

    #[test]
    fn numbers_beyond_the_last_slot_are_in_no_set() {
        let mut set = SlotSet::default();
        assert!(!set.insert(SLOTS) && !set.insert(u16::MAX));
        assert!(set.is_empty() && !set.contains(u16::MAX) && !set.remove(SLOTS));
    }

    #[test]
    fn the_lowest_bit_of_a_byte_is_its_lowest_slot() {
        let set: SlotSet = [9].into_iter().collect();
        assert_eq!(set.bytes()[..2], [0, 2]);
    }
}
