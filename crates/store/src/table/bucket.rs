//! A bucket: one cache line of the table with eight slots, and the search for a tag in all of them at once.
//!
//! A slot is one word: 16 bits of the key's hash (the tag), the address of the key's entry, and three flags in the address
//! bits that alignment leaves free. Zero is an empty slot. The filled slots of a bucket always come first, so the last slot
//! alone tells whether the bucket is full. This file knows nothing of probing, of growth or of entries. Only the table calls
//! it, under the shard's lock.

/// Slots in a bucket.
pub(crate) const SLOTS: usize = 8;

/// The flag of an entry that has a deadline.
pub(crate) const VOLATILE: u64 = 1;
/// The flag of an entry that owns memory outside of the table's own heap.
pub(crate) const OUTSIDE: u64 = 2;
/// The entry's first 128 bytes lie on more than one cache line.
pub(crate) const SPANS: u64 = 4;

const FLAGS: u64 = 7;
const TAG_SHIFT: u32 = 48;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1 - FLAGS;

/// A tag, an address and three flags in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Slot(u64);

/// A cache line of slots.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub slots: [Slot; SLOTS],
}

impl Slot {
    pub const EMPTY: Self = Self(0);

    /// Packs a slot. An address that does not fit would corrupt memory, so it ends the process instead; user-space
    /// addresses of the supported machines always fit.
    #[inline]
    pub fn new(tag: u16, address: usize, flags: u64) -> Self {
        let address = address as u64;
        assert!(address & !ADDRESS == 0 && address != 0, "an entry's address must be 48 bits wide and 8-byte aligned");
        Self(u64::from(tag) << TAG_SHIFT | address | flags)
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn tag(self) -> u16 {
        (self.0 >> TAG_SHIFT) as u16
    }

    #[inline]
    pub fn address(self) -> usize {
        (self.0 & ADDRESS) as usize
    }

    #[inline]
    pub fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// Returns the same entry under another tag.
    #[inline]
    pub fn with_tag(self, tag: u16) -> Self {
        Self(u64::from(tag) << TAG_SHIFT | self.0 & (ADDRESS | FLAGS))
    }
}

impl Bucket {
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.slots[SLOTS - 1].is_empty()
    }

    /// Returns the number of filled slots.
    #[inline]
    pub fn filled(&self) -> usize {
        self.slots.iter().position(|slot| slot.is_empty()).unwrap_or(SLOTS)
    }

    /// Puts `slot` into the first free place; false if there is none.
    #[inline]
    pub fn push(&mut self, slot: Slot) -> bool {
        match self.slots.iter_mut().find(|place| place.is_empty()) {
            Some(place) => {
                *place = slot;
                true
            }
            None => false,
        }
    }

    /// Takes slot `index` out and keeps the filled slots together.
    #[inline]
    pub fn remove(&mut self, index: usize) {
        let last = self.filled() - 1;
        self.slots[index] = self.slots[last];
        self.slots[last] = Slot::EMPTY;
    }

    /// Returns one bit for each slot with this tag. For tag 0 the empty slots are among them.
    #[inline]
    pub fn matches(&self, tag: u16) -> Matches {
        #[cfg(target_arch = "x86_64")]
        return Matches(self.matches_sse2(tag));
        #[cfg(not(target_arch = "x86_64"))]
        return Matches(self.matches_portable(tag));
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn matches_portable(&self, tag: u16) -> u32 {
        self.slots.iter().enumerate().fold(0, |mask, (index, slot)| mask | u32::from(slot.tag() == tag) << index)
    }

    /// Gathers the upper halves of the eight slots, narrows them to their tags, and compares all at once.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn matches_sse2(&self, tag: u16) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 belongs to every x86-64 processor. The four loads read the 64 bytes of this bucket, which is
        // aligned to 64 bytes.
        unsafe {
            let lines = self.slots.as_ptr().cast::<__m128>();
            let upper = |index: usize| {
                let (low, high) = (_mm_load_ps(lines.add(index).cast()), _mm_load_ps(lines.add(index + 1).cast()));
                _mm_srai_epi32(_mm_castps_si128(_mm_shuffle_ps(low, high, 0b11_01_11_01)), 16)
            };
            let tags = _mm_packs_epi32(upper(0), upper(2));
            let equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
        }
    }
}

/// The slots of a bucket that a search for a tag has found: an iterator of their indexes.
pub(crate) struct Matches(u32);

impl Iterator for Matches {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let index = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_what_it_is_given() {
        let slot = Slot::new(0xabcd, 0x7fff_ffff_fff8, VOLATILE | SPANS);
        assert_eq!((slot.tag(), slot.address()), (0xabcd, 0x7fff_ffff_fff8));
        assert!(slot.has(VOLATILE) && slot.has(SPANS) && !slot.has(OUTSIDE) && !slot.is_empty());
        let other = slot.with_tag(0);
        assert_eq!((other.tag(), other.address(), other.has(VOLATILE)), (0, 0x7fff_ffff_fff8, true));
    }

    #[test]
    fn both_searches_agree() {
        let tags = [0, 1, 0x7fff, 0x8000, 0xffff, 0x8001, 1, 0];
        let mut bucket = Bucket { slots: [Slot::EMPTY; SLOTS] };
        for filled in 0..=SLOTS {
            for tag in tags {
                let found: Vec<usize> = bucket.matches(tag).collect();
                let portable: Vec<usize> = Matches(bucket.matches_portable(tag)).collect();
                assert_eq!(found, portable, "{filled} filled, tag {tag:x}");
            }
            if filled < SLOTS {
                assert!(!bucket.is_full());
                assert!(bucket.push(Slot::new(tags[filled], 8 * (filled + 1), 0)));
            }
        }
        assert!(bucket.is_full() && !bucket.push(Slot::new(1, 8, 0)));
        bucket.remove(2);
        assert_eq!((bucket.filled(), bucket.slots[2].address()), (7, 64));
    }
}
