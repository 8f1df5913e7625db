//! The parts of a directory by slot: the number of keys in each slot, and the directory of one large slot.
//!
//! A table that is placed by slot begins like any other: a segment holds the keys of many slots, and the directory has a place
//! for each 450 keys or so. But a directory of one level would need as many places for every slot as the largest slot needs,
//! and one hash tag may have millions of keys. So the first level ends where a segment has one slot, after 14 bits with
//! those of the shard; a larger slot gets a directory of its own there, a [`Run`], and the place becomes a signpost to it.
//!
//! Together the shards of one database pay at most 16 bytes for each of 16,384 places, 4 bytes for the count of each
//! slot, and 8 bytes for the count of each group of 64 slots: 322 KiB. Nothing is paid for each key. Segments with no entries,
//! which lie between slots that are filled and slots that are not, have no array.
//!
//! Used by the directory, under the shard's lock.

use std::ptr::NonNull;

use crate::table::segment::Segment;

/// The number of slots that are counted together.
const GROUP: usize = 64;

/// The number of keys in each slot of one table.
///
/// A slot is named by its row: the bits of a position behind those of the shard that are those of the slot.
pub(crate) struct SlotCounts {
    counts: Box<[u32]>,
    /// The sums of each 64 counts, to choose a slot in proportion to its keys without adding up all of them.
    sums: Box<[u64]>,
}

impl SlotCounts {
    pub fn new(slot_bits: u8) -> Self {
        let slots = 1 << slot_bits;
        Self { counts: vec![0; slots].into(), sums: vec![0; slots.div_ceil(GROUP)].into() }
    }

    pub fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.counts) + size_of_val(&*self.sums)
    }

    #[inline]
    pub fn of(&self, row: usize) -> usize {
        self.counts[row] as usize
    }

    #[inline]
    pub fn add(&mut self, row: usize) {
        self.counts[row] += 1;
        self.sums[row / GROUP] += 1;
    }

    #[inline]
    pub fn remove(&mut self, row: usize) {
        self.counts[row] -= 1;
        self.sums[row / GROUP] -= 1;
    }

    /// Returns the row of the key with this rank among all keys in the order of rows, and its rank inside the row. The rank
    /// is below the number of keys.
    pub fn of_rank(&self, rank: usize) -> (usize, usize) {
        let mut rest = rank as u64;
        let mut take = |count: u64| {
            let is_here = rest < count;
            rest -= if is_here { 0 } else { count };
            is_here
        };
        let group = self.sums.iter().position(|&sum| take(sum)).unwrap_or(0);
        let counts = &self.counts[group * GROUP..];
        let row = group * GROUP + counts.iter().position(|&count| take(u64::from(count))).unwrap_or(0);
        (row, rest as usize)
    }
}

/// The directory of one large slot: segments by the bits of a position behind those of the slot.
///
/// It is a plain address with its sizes, as a [`Segment`] is, and lies in the place of one: the signpost is the only copy that
/// is kept.
#[derive(Clone, Copy)]
pub(super) struct Run {
    start: NonNull<Segment>,
    /// The number of segments with a depth of `bits`.
    pub deepest: u32,
    /// The bits of a position that lead to the run.
    base: u8,
    /// The bits of a position that lead to a place of the run, with those that lead to the run.
    pub bits: u8,
}

impl Run {
    /// Returns a run of one segment, whose depth is the number of bits that lead to the run.
    pub fn new(segment: Segment) -> Self {
        Self::of(Box::new([segment]), segment.depth, segment.depth, 1)
    }

    fn of(places: Box<[Segment]>, base: u8, bits: u8, deepest: u32) -> Self {
        debug_assert_eq!(places.len(), 1 << (bits - base));
        let start = NonNull::from(Box::leak(places)).cast();
        Self { start, deepest, base, bits }
    }

    /// Returns the run that a place of the first level leads to; none if it leads to a segment.
    #[inline]
    pub fn behind(place: &Segment) -> Option<Self> {
        let (start, deepest, sizes) = place.as_signpost()?;
        let [base, bits] = sizes.to_le_bytes();
        Some(Self { start: start.cast(), deepest, base, bits })
    }

    /// Returns the place that leads to this run.
    pub fn signpost(&self) -> Segment {
        Segment::signpost(self.start.cast(), self.deepest, u16::from_le_bytes([self.base, self.bits]))
    }

    /// Returns the number of places.
    pub fn length(&self) -> usize {
        1 << (self.bits - self.base)
    }

    /// Returns the bytes of the places.
    pub fn bytes(&self) -> usize {
        self.length() * size_of::<Segment>()
    }

    /// Returns the index of the place that leads to the segment of a position.
    #[inline]
    pub fn index_of(&self, position: u64) -> usize {
        // There are two shifts because a shift by 64, which an empty prefix would need, is not defined.
        ((position << self.base >> 1) >> (63 - (self.bits - self.base))) as usize
    }

    /// Returns the places.
    ///
    /// # Safety
    /// The run has not been freed or replaced, and is neither while the places are lent, nor are they changed.
    #[inline]
    pub unsafe fn places<'a>(&self) -> &'a [Segment] {
        // SAFETY: the run has so many places, and the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length()) }
    }

    /// Returns the places, to be changed.
    ///
    /// # Safety
    /// As for [`Run::places`]; and nothing else lends them at the same time.
    #[inline]
    pub unsafe fn places_mut<'a>(&self) -> &'a mut [Segment] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length()) }
    }

    /// Returns a run with two places for each of this one's, which is freed. No segment has the new depth yet.
    ///
    /// # Safety
    /// As for [`Run::free`].
    pub unsafe fn doubled(self) -> Self {
        // SAFETY: the run lives, and nothing else lends its places: the caller gives it up.
        let places = unsafe { self.places() }.iter().flat_map(|&place| [place, place]).collect();
        // SAFETY: as the caller promises.
        unsafe { self.free() };
        Self::of(places, self.base, self.bits + 1, 0)
    }

    /// Returns a run with one place for each two of this one's, which is freed. No segment needs both.
    ///
    /// # Safety
    /// As for [`Run::free`].
    pub unsafe fn halved(self) -> Self {
        // SAFETY: as for `doubled`.
        let places: Box<[Segment]> = unsafe { self.places() }.iter().step_by(2).copied().collect();
        // SAFETY: as the caller promises.
        unsafe { self.free() };
        let bits = self.bits - 1;
        let deepest = places.iter().filter(|place| place.depth == bits).count() as u32;
        Self::of(places, self.base, bits, deepest)
    }

    /// Frees the places, but not the arrays of the segments.
    ///
    /// # Safety
    /// Neither this run nor a copy of it is used afterwards, and nothing lends its places.
    pub unsafe fn free(self) {
        let places = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.length());
        // SAFETY: the places were leaked by `of` with this length, and the caller gives them up.
        drop(unsafe { Box::from_raw(places) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_leads_to_the_row_that_holds_it() {
        let mut counts = SlotCounts::new(8);
        for (row, times) in [(0, 2), (63, 1), (64, 3), (200, 1)] {
            (0..times).for_each(|_| counts.add(row));
        }
        let found: Vec<_> = (0..7).map(|rank| counts.of_rank(rank)).collect();
        assert_eq!(found, [(0, 0), (0, 1), (63, 0), (64, 0), (64, 1), (64, 2), (200, 0)]);
        counts.remove(64);
        assert_eq!((counts.of(64), counts.of_rank(5)), (2, (200, 0)));
    }

    #[test]
    fn a_run_grows_and_shrinks_behind_its_signpost() {
        let run = Run::new(Segment::vacant(8));
        let place = run.signpost();
        assert!(Run::behind(&Segment::vacant(8)).is_none());
        let run = Run::behind(&place).expect("the place is a signpost");
        // SAFETY: each run is used once, and nothing lends its places.
        let run = unsafe { run.doubled().doubled() };
        assert_eq!((run.length(), run.bits, run.deepest, run.bytes()), (4, 10, 0, 64));
        assert_eq!(run.index_of(0xff80_0000_0000_0000), 2);
        // SAFETY: as above.
        let run = unsafe { run.halved().halved() };
        assert_eq!((run.length(), run.deepest, run.index_of(u64::MAX)), (1, 1, 0));
        // SAFETY: as above.
        unsafe { run.free() };
    }
}
