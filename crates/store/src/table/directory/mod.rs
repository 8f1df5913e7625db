//! The directory of a table's segments: the way from a position to its segment. `growth` makes it larger and smaller.
//!
//! # By hash, and by slot
//!
//! A table that is placed by hash has one level: the highest bits of a position are the index of a place, and the place is a
//! copy of its segment. A table that is placed by slot has a second level below the places of large slots (see `by_slot`). To
//! find that out, a look-up by hash would have to ask each place whether it is a segment. Instead it asks what it must ask
//! anyway, whether the directory has this place: `direct` is the number of places that are segments for certain, which is
//! all of them or, by slot, none. All that is behind a failed check is code that a table by hash never reaches. A table is
//! one or the other from its first key on.
//!
//! Other forms: a second type of table behind an enum needs a branch in every call, and all calls twice; a bit in each place
//! that says "go on" needs a branch in every look-up.
//!
//! A place has a number: the index in the first level, or the index in a run and, in the upper 32 bits, one more than the
//! index of the place that leads to the run.

mod by_slot;
mod growth;

use super::arena::Arena;
use super::bucket::{Bucket, Slot};
use super::segment::Segment;
use by_slot::{Run, SlotCounts};
use std::ops::{Index, IndexMut};

/// The bits of a place's number that are its index.
const RUN_SHIFT: u32 = 32;

/// The segments of a table, by the highest bits of a position. Several places may lead to one segment.
pub(crate) struct Directory {
    places: Box<[Segment]>,
    /// The number of places that are known to be segments: all, or none if keys are placed by slot.
    direct: usize,
    /// The bytes of arrays and runs.
    segment_bytes: usize,
    arena: Arena,
    /// The numbers of keys in slots, if keys are placed by slot, from the first key on.
    counts: Option<Box<SlotCounts>>,
    /// The number of segments with a depth of `bits`: when there are none, the directory can be halved.
    deepest: u32,
    /// The directory has two to the power of this many places, or none while the table was never used.
    pub bits: u8,
    /// The bits of a position that are those of the slot; 0 if keys are placed by hash.
    slot_bits: u8,
}

impl Index<usize> for Directory {
    type Output = Segment;

    #[inline(always)]
    fn index(&self, number: usize) -> &Segment {
        match self.direct(number) {
            Some(segment) => segment,
            None => self.indirect(number),
        }
    }
}

impl IndexMut<usize> for Directory {
    #[inline(always)]
    fn index_mut(&mut self, number: usize) -> &mut Segment {
        if number < self.direct {
            // SAFETY: `direct` is at most the number of places.
            return unsafe { self.places.get_unchecked_mut(number) };
        }
        let (places, index) = self.level_mut(number);
        &mut places[index]
    }
}

impl Directory {
    pub fn new(slot_bits: u8) -> Self {
        let (places, arena) = (Box::default(), Arena::new());
        Self { places, direct: 0, segment_bytes: 0, arena, counts: None, deepest: 0, bits: 0, slot_bits }
    }

    /// Returns the bytes of segments and directory.
    pub fn memory(&self) -> usize {
        self.segment_bytes + size_of_val(&*self.places) + self.counts.as_ref().map_or(0, |counts| counts.memory())
    }

    /// Returns the index of a position's place in the first level.
    #[inline]
    pub fn index_of(&self, position: u64) -> usize {
        // There are two shifts because a shift by 64, which an empty prefix would need, is not defined.
        ((position >> 1) >> (63 - self.bits)) as usize
    }

    /// Returns the segment at an index of the first level, if keys are placed by hash and the table was ever used.
    #[inline(always)]
    pub fn direct(&self, index: usize) -> Option<&Segment> {
        // SAFETY: `direct` is at most the number of places.
        (index < self.direct).then(|| unsafe { self.places.get_unchecked(index) })
    }

    /// Returns the segment of a position and the number of its place; none if the table was never used.
    #[inline]
    pub fn lead(&self, position: u64) -> Option<(usize, &Segment)> {
        let index = self.index_of(position);
        let place = self.places.get(index)?;
        Some(match Run::behind(place) {
            None => (index, place),
            Some(run) => {
                // SAFETY: the directory owns the run, and is borrowed for as long as the segment is.
                let (at, places) = (run.index_of(position), unsafe { run.places() });
                ((index + 1) << RUN_SHIFT | at, &places[at])
            }
        })
    }

    /// Does the same as [`Directory::lead`], for a caller that has found no segment by [`Directory::direct`].
    #[cold]
    #[inline(never)]
    pub fn lead_by_slot(&self, position: u64) -> Option<(usize, &Segment)> {
        self.lead(position)
    }

    /// Returns the address of the place in the first level that leads to a position, to be prefetched.
    #[inline]
    pub fn address_of(&self, position: u64) -> *const u8 {
        self.places.as_ptr().wrapping_add(self.index_of(position)).cast()
    }

    /// Returns the run that has the place of this number; none if the place is in the first level.
    #[inline]
    fn run_of(&self, number: usize) -> Option<Run> {
        (number >> RUN_SHIFT).checked_sub(1).and_then(|index| Run::behind(&self.places[index]))
    }

    #[cold]
    #[inline(never)]
    fn indirect(&self, number: usize) -> &Segment {
        match self.run_of(number) {
            None => &self.places[number],
            Some(run) => {
                // SAFETY: the directory owns the run, and is borrowed for as long as the segment is.
                let places = unsafe { run.places() };
                &places[number as u32 as usize]
            }
        }
    }

    /// Returns the places of the level that has the place of this number, and its index there.
    #[cold]
    #[inline(never)]
    fn level_mut(&mut self, number: usize) -> (&mut [Segment], usize) {
        match self.run_of(number) {
            None => (&mut self.places, number),
            // SAFETY: the directory owns the run, and is borrowed for as long as the places are.
            Some(run) => (unsafe { run.places_mut() }, number as u32 as usize),
        }
    }

    /// Returns the bits of a position that lead to the place of this number, and to the first place of its level.
    fn bits_of(&self, number: usize) -> (u8, u8) {
        self.run_of(number).map_or((self.bits, 0), |run| (run.bits, self.slot_bits))
    }

    /// Returns the number of the first of the places that lead to the same segment as this one.
    #[inline]
    pub fn first_index(&self, number: usize) -> usize {
        let spread = match self.direct(number) {
            Some(segment) => self.bits - segment.depth,
            None => self.spread_bits(number),
        };
        number >> spread << spread
    }

    #[cold]
    #[inline(never)]
    fn spread_bits(&self, number: usize) -> u8 {
        self.bits_of(number).0 - self[number].depth
    }

    /// Returns the number of places that lead to the segment at this one.
    fn spread(&self, number: usize) -> usize {
        1 << self.spread_bits(number)
    }

    /// Makes the first segment.
    #[cold]
    fn begin(&mut self) {
        if self.slot_bits > 0 {
            self.counts = Some(Box::new(SlotCounts::new(self.slot_bits)));
            self.set_places(Box::new([Segment::vacant(0)]));
        } else {
            self.segment_bytes += size_of::<Bucket>();
            let first = Segment::new(&mut self.arena, 1, 0);
            self.set_places(Box::new([first]));
        }
        (self.bits, self.deepest) = (0, 1);
    }

    fn set_places(&mut self, places: Box<[Segment]>) {
        self.direct = if self.slot_bits == 0 { places.len() } else { 0 };
        self.places = places;
    }

    /// Frees the arrays of all segments, after showing each segment.
    pub fn free(&mut self, mut show: impl FnMut(&Segment)) {
        let mut index = 0;
        while index < self.places.len() {
            let place = self.places[index];
            let Some(run) = Run::behind(&place) else {
                let spread = self.spread(index);
                show(&place);
                // SAFETY: the array came from this arena, and a directory that ends has no readers.
                unsafe { place.free(&mut self.arena) };
                index += spread;
                continue;
            };
            let mut at = 0;
            while at < run.length() {
                // SAFETY: the directory owns the run, and frees it below.
                let segment = unsafe { run.places() }[at];
                show(&segment);
                // SAFETY: as above.
                unsafe { segment.free(&mut self.arena) };
                at += 1 << (run.bits - segment.depth);
            }
            // SAFETY: a directory that ends has no readers.
            unsafe { run.free() };
            index += 1;
        }
    }

    /// Returns the row of the slot that a position is in.
    pub fn row_of(&self, position: u64) -> usize {
        ((position >> 1) >> (63 - self.slot_bits)) as usize
    }

    /// Returns the row of the slot that an entry is in, by the place of its segment and its tag: the tag has all bits of the
    /// slot that the place does not tell.
    fn row_at(&self, number: usize, tag: u16) -> usize {
        if let Some(row) = (number >> RUN_SHIFT).checked_sub(1) {
            return row;
        }
        let known = self.places[number].depth & !3;
        let place = (number as u64) << 1 << (63 - self.bits);
        let position = place & !(u64::MAX >> known) | u64::from(tag) << 48 >> known;
        self.row_of(position)
    }

    /// Notes that an entry with this tag has been taken out of the segment at a place.
    #[inline]
    pub fn note_removed(&mut self, number: usize, tag: u16) {
        if self.counts.is_some() {
            self.count_removed(number, tag);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_removed(&mut self, number: usize, tag: u16) {
        let row = self.row_at(number, tag);
        if let Some(counts) = &mut self.counts {
            counts.remove(row);
        }
    }

    /// Returns the numbers of keys in slots; none if keys are placed by hash, or the table was never used.
    pub fn slot_counts(&self) -> Option<&SlotCounts> {
        self.counts.as_deref()
    }

    /// Returns the bits of a position that are those of the slot; 0 if keys are placed by hash.
    pub fn slot_bits(&self) -> u8 {
        self.slot_bits
    }

    /// Returns the largest depth of a segment of this slot; none if the slot shares its segment with others.
    pub fn depth_in_row(&self, row: usize) -> Option<u8> {
        let place = self.places.get(row).filter(|_| self.bits == self.slot_bits)?;
        match Run::behind(place) {
            Some(run) => Some(run.bits),
            None => (place.depth == self.slot_bits).then_some(self.slot_bits),
        }
    }
}

/// Returns the filled slots of a segment, in the order of its buckets.
pub fn slots(segment: &Segment) -> impl Iterator<Item = Slot> {
    segment.buckets().iter().flat_map(|bucket| bucket.slots).filter(|slot| !slot.is_empty())
}
