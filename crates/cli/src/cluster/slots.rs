//! A set of hash slots, and its text as redis-cli prints it.

use std::fmt;

pub use sleeve_wire::slot::SLOTS;

/// A set of slots: a bit for each.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet {
    bits: Box<[u64; SLOTS as usize / 64]>,
    count: usize,
}

impl Default for SlotSet {
    fn default() -> Self {
        Self { bits: Box::new([0; SLOTS as usize / 64]), count: 0 }
    }
}

impl SlotSet {
    /// Returns whether the slot is in the set.
    pub fn contains(&self, slot: u16) -> bool {
        self.bits.get(usize::from(slot / 64)).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// Adds a slot; a number that is no slot is passed over.
    pub fn insert(&mut self, slot: u16) {
        if !self.contains(slot)
            && let Some(word) = self.bits.get_mut(usize::from(slot / 64))
        {
            *word |= 1 << (slot % 64);
            self.count += 1;
        }
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: u16) {
        if self.contains(slot)
            && let Some(word) = self.bits.get_mut(usize::from(slot / 64))
        {
            *word &= !(1 << (slot % 64));
            self.count -= 1;
        }
    }

    /// Returns the number of slots in the set.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..SLOTS).filter(|slot| self.contains(*slot))
    }

    /// Returns the slots that are not in the set, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = u16> {
        (0..SLOTS).filter(|slot| !self.contains(*slot))
    }

    /// Returns the longest ranges of slots, with both ends.
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl fmt::Display for SlotSet {
    /// Writes `[0-5460],[7000]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.ranges().into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}[{first}]")?,
                false => write!(f, "{comma}[{first}-{last}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_print_as_ranges() {
        let mut set: SlotSet = (0..=5460).chain([7000, SLOTS - 1, SLOTS, u16::MAX]).collect();
        assert_eq!((set.to_string().as_str(), set.len()), ("[0-5460],[7000],[16383]", 5463));
        set.insert(7000);
        set.remove(0);
        set.remove(9000);
        assert_eq!((set.to_string().as_str(), set.len()), ("[1-5460],[7000],[16383]", 5462));
        assert_eq!(SlotSet::default().to_string(), "");
        assert_eq!(set.missing().count(), usize::from(SLOTS) - 5462);
    }
}
