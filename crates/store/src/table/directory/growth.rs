//! How a directory grows and shrinks, a segment at a time. Changes no entry.
//!
//! A request for an array may move other arrays: the arena's pools are tidied here, because the directory leads to the
//! arrays, and an entry of an array says where in the directory.
//!
//! # Skew
//!
//! Where a segment holds many slots, the keys of one of them begin in the same few buckets. A slot that has 32 keys more
//! than its share of the array is moved into a segment of its own, by splitting until there is one. So a look-up never passes
//! through many keys of another slot, whatever tags the keys have, unless several such slots are neighbours; and such a
//! crowd has at most 448 keys.

use super::by_slot::Run;
use super::{Directory, RUN_SHIFT, slots};
use crate::memory::prefetch::prefetch;
use crate::table::arena::units;
use crate::table::bucket::{Bucket, SLOTS, Slot};
use crate::table::entry::Entry;
use crate::table::segment::{LENGTH_MAX, SPLIT_LENGTHS, Segment, length_for, tag_of};
use crate::value::key_hash::Placement;

/// The number of entries up to which two sibling segments become one.
const MERGED_MAX: usize = 3 * LENGTH_MAX;

/// The number of keys that a slot may have, beyond its share, in a segment that it shares with other slots; and the number
/// with which two segments may be merged.
const CROWD_MAX: usize = 32;
const CROWD_MERGED_MAX: usize = CROWD_MAX / 2;

/// The number of places up to which a segment by slot gives up its array with its last entry. To write more places for each
/// key that comes and goes takes longer than it is worth, and few segments have so many.
const VACATED_SPREAD_MAX: usize = 64;

impl Directory {
    /// Makes room for one more key, which is added at once, and returns the number of its segment's first place.
    #[inline]
    pub fn make_room(&mut self, position: u64, placement: &Placement) -> usize {
        loop {
            let index = self.index_of(position);
            let Some(segment) = self.direct(index) else { return self.make_room_by_slot(position, placement) };
            let spread = self.bits - segment.depth;
            let first = index >> spread << spread;
            if !self[first].is_crowded() {
                return first;
            }
            self.grow(first, placement);
        }
    }

    /// Makes room in a table that was never used, or is placed by slot; there the key is also counted.
    #[cold]
    #[inline(never)]
    fn make_room_by_slot(&mut self, position: u64, placement: &Placement) -> usize {
        if self.places.is_empty() {
            self.begin();
        }
        if self.slot_bits == 0 {
            return self.first_index(self.index_of(position));
        }
        let row = self.row_of(position);
        loop {
            let number = self.lead(position).map_or(0, |(number, _)| number);
            let first = self.first_index(number);
            let segment = self[first];
            if segment.is_vacant() {
                self.resize(first, 1, placement);
            } else if self.has_crowd(row, segment.length(), segment.depth, CROWD_MAX) {
                self.split(first, placement);
            } else if segment.is_crowded() {
                self.grow(first, placement);
            } else {
                if let Some(counts) = &mut self.counts {
                    counts.add(row);
                }
                return first;
            }
        }
    }

    /// Returns whether a slot has more than `beyond` keys beyond its share of an array that it shares with other slots.
    fn has_crowd(&self, row: usize, length: usize, depth: u8, beyond: usize) -> bool {
        let shared = || self.slot_bits.checked_sub(depth).filter(|&bits| bits > 0);
        self.counts.as_ref().zip(shared()).is_some_and(|(counts, bits)| {
            let share = (SLOTS * length) >> bits;
            counts.of(row) > share + beyond
        })
    }

    /// Makes room in the crowded segment with this first place.
    fn grow(&mut self, first: usize, placement: &Placement) {
        let segment = self[first];
        let (bits, base) = self.bits_of(first);
        // The quarters of a level split at different sizes: hashes fill all segments alike, and if all of them split
        // at once, the table would be half empty after each doubling.
        let quarter = if segment.depth < base + 2 { 0 } else { first as u32 as usize >> (bits - base - 2) };
        if segment.length() >= SPLIT_LENGTHS[quarter] && segment.depth < placement.depth_max() {
            self.split(first, placement);
        } else {
            self.resize(first, segment.length_above(), placement);
        }
    }

    /// Gives memory back after removals: a smaller array, a merge, a smaller directory.
    #[inline]
    pub fn settle(&mut self, first: usize, placement: &Placement) {
        if self[first].is_sparse() {
            self.settle_sparse(first, placement);
        }
    }

    #[inline(never)]
    fn settle_sparse(&mut self, first: usize, placement: &Placement) {
        let mut first = first;
        while self[first].is_sparse() {
            let segment = self[first];
            if let Some(merged) = self.merge(first, placement) {
                first = self.shrink(merged);
                continue;
            }
            let length = length_for(segment.count as usize);
            if self.slot_bits > 0 && segment.count == 0 && self.spread(first) <= VACATED_SPREAD_MAX {
                self.replace(&[segment], &[Segment::vacant(segment.depth)], first);
            } else if length < segment.length() {
                self.resize(first, length, placement);
            }
            break;
        }
    }

    /// Halves the level of a place as often as no segment needs all of its places, and puts the last segment of a run back
    /// into the first level. Returns the number that the first place of the segment has now.
    fn shrink(&mut self, first: usize) -> usize {
        let mut first = first;
        while let Some(run) = self.run_of(first) {
            let row = (first >> RUN_SHIFT) - 1;
            if run.bits == self.slot_bits {
                self.segment_bytes -= run.bytes();
                // SAFETY: the signpost is overwritten.
                unsafe {
                    self.places[row] = run.places()[0];
                    run.free();
                }
                return row;
            }
            if run.deepest > 0 {
                return first;
            }
            self.segment_bytes -= run.bytes() / 2;
            // SAFETY: the signpost is overwritten.
            self.places[row] = unsafe { run.halved() }.signpost();
            first = first & !(u32::MAX as usize) | ((first as u32 as usize) / 2);
        }
        while self.deepest == 0 && self.bits > 0 {
            self.bits -= 1;
            self.set_places(self.places.iter().step_by(2).copied().collect());
            self.deepest = self.places.iter().filter(|place| place.depth == self.bits).count() as u32;
            // Signposts are as deep as the directory can be.
            first /= 2;
        }
        first
    }

    /// Doubles the level of a place, and returns the number that the place has then.
    fn double(&mut self, number: usize) -> usize {
        let Some(run) = self.run_of(number) else {
            self.set_places(self.places.iter().flat_map(|&place| [place, place]).collect());
            (self.bits, self.deepest) = (self.bits + 1, 0);
            return number * 2;
        };
        self.segment_bytes += run.bytes();
        // SAFETY: the signpost is overwritten.
        self.places[(number >> RUN_SHIFT) - 1] = unsafe { run.doubled() }.signpost();
        number & !(u32::MAX as usize) | ((number as u32 as usize) * 2)
    }

    /// Makes a run of the only segment of a slot, which is to be split, and returns the number of its place there.
    fn open_run(&mut self, row: usize) -> usize {
        let run = Run::new(self.places[row]);
        self.segment_bytes += run.bytes();
        self.places[row] = run.signpost();
        (row + 1) << RUN_SHIFT
    }

    /// Changes the number of segments that need all places of a level.
    fn change_deepest(&mut self, number: usize, change: i32) {
        match self.run_of(number) {
            None => self.deepest = self.deepest.wrapping_add_signed(change),
            Some(mut run) => {
                run.deepest = run.deepest.wrapping_add_signed(change);
                self.places[(number >> RUN_SHIFT) - 1] = run.signpost();
            }
        }
    }

    fn resize(&mut self, first: usize, length: usize, placement: &Placement) {
        let mut resized = self.new_segment(length, self[first].depth, placement);
        let segment = self[first];
        for slot in slots(&segment) {
            // SAFETY: the segment is new, and there is no other reference to it.
            unsafe { resized.place(slot) };
        }
        self.replace(&[segment], &[resized], first);
    }

    fn split(&mut self, first: usize, placement: &Placement) {
        let is_whole_slot = self.slot_bits > 0 && first >> RUN_SHIFT == 0 && self[first].depth == self.slot_bits;
        let mut first = if is_whole_slot { self.open_run(first) } else { first };
        let segment = self[first];
        let (depth, shift) = (segment.depth + 1, 15 - (segment.depth & 3));
        let upper = |slot: Slot| usize::from(slot.tag() >> shift & 1);
        let mut counts = [0; 2];
        slots(&segment).for_each(|slot| counts[upper(slot)] += 1);
        let mut halves = counts.map(|count| self.new_half(count, depth, placement));
        let segment = self[first];
        // SAFETY: the segments are new, there is no other reference to them, and one without an array gets no entry.
        rehome(&segment, depth, placement, |old, new| _ = unsafe { halves[upper(old)].place(new) });
        if depth > self.bits_of(first).0 {
            first = self.double(first);
        }
        if depth == self.bits_of(first).0 {
            self.change_deepest(first, 2);
        }
        self.replace(&[segment], &halves, first);
    }

    /// Returns an empty segment for so many entries, which has no array if it needs none.
    fn new_half(&mut self, count: usize, depth: u8, placement: &Placement) -> Segment {
        if self.slot_bits > 0 && count == 0 {
            return Segment::vacant(depth);
        }
        self.new_segment(length_for(count), depth, placement)
    }

    /// Joins a segment with its sibling if both together are small. Returns the number of the result's first place.
    fn merge(&mut self, first: usize, placement: &Placement) -> Option<usize> {
        let segment = self[first];
        let (bits, base) = self.bits_of(first);
        let depth = segment.depth.checked_sub(1).filter(|&depth| depth >= base)?;
        let spread = self.spread(first);
        let sibling = self[first ^ spread];
        if sibling.depth != segment.depth {
            return None;
        }
        let count = (segment.count + sibling.count) as usize;
        if count > MERGED_MAX || self.would_crowd([first, first ^ spread], length_for(count), depth) {
            return None;
        }
        let mut merged = self.new_half(count, depth, placement);
        let parts = [first, first ^ spread].map(|number| self[number]);
        for part in parts {
            // SAFETY: the segment is new, there is no other reference to it, and one without an array gets no entry.
            rehome(&part, depth, placement, |_, new| _ = unsafe { merged.place(new) });
        }
        if segment.depth == bits {
            self.change_deepest(first, -2);
        }
        let first = first & !spread;
        self.replace(&parts, &[merged], first);
        Some(first)
    }

    /// Returns whether one of the slots in two segments would have too many keys beyond its share of one array for both.
    fn would_crowd(&self, parts: [usize; 2], length: usize, depth: u8) -> bool {
        depth < self.slot_bits
            && parts.into_iter().any(|number| {
                slots(&self[number])
                    .any(|slot| self.has_crowd(self.row_at(number, slot.tag()), length, depth, CROWD_MERGED_MAX))
            })
    }

    /// Returns an empty segment. Other arrays may be moved to make room for its own, so copies of segments are void then.
    fn new_segment(&mut self, length: usize, depth: u8, placement: &Placement) -> Segment {
        self.tidy(length, placement);
        Segment::new(&mut self.arena, length, depth)
    }

    /// Moves arrays of a pool together until it has room for one of this length. Does nothing if a pool has room already, or
    /// if moving would not make room.
    fn tidy(&mut self, length: usize, placement: &Placement) {
        let Some((pool, mut unit)) = self.arena.untidy(length) else { return };
        while !self.arena.has_room(pool, length)
            && let Some((at, buckets)) = self.arena.buckets_from(pool, unit)
            && let Some(first) = self.owner_of(buckets, placement)
        {
            // SAFETY: the array is in a pool, where it was found, and the directory is told of its new place.
            let moved = unsafe { self[first].moved_down(&mut self.arena) };
            self.fill(first, self.spread(first), moved);
            unit = at + units(moved.length());
        }
        self.arena.offer(pool);
    }

    /// Returns the first index of the segment with these buckets; none if the segment has no entry that could tell its place.
    fn owner_of(&self, buckets: &[Bucket], placement: &Placement) -> Option<usize> {
        let slot = buckets.iter().flat_map(|bucket| bucket.slots).find(|slot| !slot.is_empty())?;
        // SAFETY: the entry of a filled slot lives.
        let position = placement.position_of(unsafe { Entry::at(slot.address()) }.key());
        let first = self.first_index(self.lead(position)?.0);
        self[first].begins_at(&buckets[0]).then_some(first)
    }

    /// Frees segments and puts others in their places in the directory, which start at `first`.
    fn replace(&mut self, old: &[Segment], new: &[Segment], first: usize) {
        let (mut from, bits) = (first, self.bits_of(first).0);
        for segment in new {
            let spread = 1 << (bits - segment.depth);
            self.fill(from, spread, *segment);
            self.segment_bytes += segment.bytes();
            from += spread;
        }
        for segment in old {
            self.segment_bytes -= segment.bytes();
            // SAFETY: the array came from this arena, and the directory leads to it no longer.
            unsafe { segment.free(&mut self.arena) };
        }
    }

    /// Writes a segment into so many places.
    fn fill(&mut self, first: usize, spread: usize, segment: Segment) {
        let (places, index) = self.level_mut(first);
        places[index..index + spread].fill(segment);
    }
}

/// Calls `place` with each slot of `segment` as it is and as it is in a segment of another depth.
fn rehome(segment: &Segment, depth: u8, placement: &Placement, mut place: impl FnMut(Slot, Slot)) {
    if depth & !3 == segment.depth & !3 {
        return slots(segment).for_each(|slot| place(slot, slot));
    }
    let buckets = segment.buckets();
    for (index, bucket) in buckets.iter().enumerate() {
        // The keys must be read, and few of them are in a cache: ask for those of a later bucket.
        let later = buckets.get(index + 3).into_iter().flat_map(|bucket| bucket.slots);
        later.for_each(|slot| prefetch(slot.address() as *const u8));
        for slot in bucket.slots.into_iter().take_while(|slot| !slot.is_empty()) {
            // SAFETY: the entry of a filled slot lives.
            let position = placement.position_of(unsafe { Entry::at(slot.address()) }.key());
            place(slot, slot.with_tag(tag_of(position, depth)));
        }
    }
}
