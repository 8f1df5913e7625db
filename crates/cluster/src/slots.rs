//! Sets of hash slots.

use std::fmt;

/// The number of a hash slot, below [`SLOTS`].
pub type Slot = u16;

/// The number of hash slots of a cluster.
pub const SLOTS: u16 = 16_384;

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
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Returns the slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..SLOTS).filter(|slot| self.contains(*slot))
    }

    /// Returns the ranges of slots in ascending order, as first and last slot.
    pub fn ranges(&self) -> Vec<(Slot, Slot)> {
        let mut ranges: Vec<(Slot, Slot)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
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
