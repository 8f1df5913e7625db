//! Growth and shrinking of the table: a segment at a time, and the directory with them; see `table`. Changes no entry.
//!
//! A request for an array may move other arrays: the arena's pools are tidied here, because the directory leads to the
//! arrays, and an entry of an array says where in the directory.

use super::arena::units;
use super::bucket::{Bucket, Slot};
use super::entry::Entry;
use super::segment::{DEPTH_MAX, LENGTH_MAX, SPLIT_LENGTHS, Segment, length_for, tag_of};
use super::{Table, slots};
use crate::memory::prefetch::prefetch;

/// Two siblings with at most so many entries together become one segment.
const MERGED_MAX: usize = 3 * LENGTH_MAX;

impl Table {
    /// Makes room in the crowded segment with this first index.
    pub(super) fn grow(&mut self, first: usize) {
        let segment = self.directory[first];
        // The quarters of the table split at different sizes: hashes fill all segments alike, and if all of them split
        // at once, the table would be half empty after each doubling.
        let quarter = if segment.depth < 2 { 0 } else { first >> (self.bits - 2) };
        if segment.length() >= SPLIT_LENGTHS[quarter] && segment.depth < DEPTH_MAX {
            self.split(first);
        } else {
            self.resize(first, segment.length_above());
        }
    }

    /// Gives memory back after removals: a smaller array, a merge, a smaller directory.
    pub(super) fn settle(&mut self, first: usize) {
        let mut first = first;
        while self.directory[first].is_sparse() {
            let segment = self.directory[first];
            if let Some(merged) = self.merge(first) {
                first = merged;
                continue;
            }
            let length = length_for(segment.count as usize);
            if length < segment.length() {
                self.resize(first, length);
            }
            break;
        }
        while self.deepest == 0 && self.bits > 0 {
            self.halve_directory();
        }
    }

    fn resize(&mut self, first: usize, length: usize) {
        let mut resized = self.new_segment(length, self.directory[first].depth);
        let segment = self.directory[first];
        for slot in slots(&segment) {
            // SAFETY: the segment is new, and there is no other reference to it.
            unsafe { resized.place(slot) };
        }
        self.replace(&[segment], &[resized], first);
    }

    fn split(&mut self, first: usize) {
        let segment = self.directory[first];
        let (depth, shift) = (segment.depth + 1, 15 - (segment.depth & 3));
        let upper = |slot: Slot| usize::from(slot.tag() >> shift & 1);
        let mut counts = [0; 2];
        slots(&segment).for_each(|slot| counts[upper(slot)] += 1);
        let mut halves = counts.map(|count| self.new_segment(length_for(count), depth));
        let segment = self.directory[first];
        // SAFETY: the segments are new, and there is no other reference to them.
        self.rehome(&segment, depth, |old, new| _ = unsafe { halves[upper(old)].place(new) });
        let mut first = first;
        if depth > self.bits {
            self.directory = self.directory.iter().flat_map(|&segment| [segment, segment]).collect();
            (self.bits, self.deepest, first) = (depth, 0, first * 2);
        }
        self.deepest += if depth == self.bits { 2 } else { 0 };
        self.replace(&[segment], &halves, first);
    }

    /// Joins a segment with its sibling if both together are small. Returns the first index of the result.
    fn merge(&mut self, first: usize) -> Option<usize> {
        let segment = self.directory[first];
        let depth = segment.depth.checked_sub(1)?;
        let sibling = self.directory[first ^ self.spread(first)];
        let count = (segment.count + sibling.count) as usize;
        if sibling.depth != segment.depth || count > MERGED_MAX {
            return None;
        }
        let mut merged = self.new_segment(length_for(count), depth);
        let parts = [first, first ^ self.spread(first)].map(|index| self.directory[index]);
        for part in parts {
            // SAFETY: the segment is new, and there is no other reference to it.
            self.rehome(&part, depth, |_, new| _ = unsafe { merged.place(new) });
        }
        self.deepest -= if segment.depth == self.bits { 2 } else { 0 };
        let first = first & !self.spread(first);
        self.replace(&parts, &[merged], first);
        Some(first)
    }

    /// Calls `place` with each slot of `segment` as it is and as it is in a segment of another depth.
    fn rehome(&self, segment: &Segment, depth: u8, mut place: impl FnMut(Slot, Slot)) {
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
                let position = self.placement.position_of(unsafe { Entry::at(slot.address()) });
                place(slot, slot.with_tag(tag_of(position, depth)));
            }
        }
    }

    /// An empty segment. Other arrays may be moved to make room for its own, so copies of segments are void then.
    fn new_segment(&mut self, length: usize, depth: u8) -> Segment {
        self.tidy(length);
        Segment::new(&mut self.arena, length, depth)
    }

    /// Moves arrays of a pool together until it has room for one of this length, if none has any and that makes some.
    fn tidy(&mut self, length: usize) {
        let Some((pool, mut unit)) = self.arena.untidy(length) else { return };
        while !self.arena.has_room(pool, length)
            && let Some((at, buckets)) = self.arena.buckets_from(pool, unit)
            && let Some(first) = self.owner_of(buckets)
        {
            // SAFETY: the array is in a pool, where it was found, and the directory is told of its new place.
            let moved = unsafe { self.directory[first].moved_down(&mut self.arena) };
            let spread = self.spread(first);
            self.directory[first..first + spread].fill(moved);
            unit = at + units(moved.length());
        }
        self.arena.offer(pool);
    }

    /// Returns the first index of the segment with these buckets; none if it has no entry that could tell.
    fn owner_of(&self, buckets: &[Bucket]) -> Option<usize> {
        let slot = buckets.iter().flat_map(|bucket| bucket.slots).find(|slot| !slot.is_empty())?;
        // SAFETY: the entry of a filled slot lives.
        let position = self.placement.position_of(unsafe { Entry::at(slot.address()) });
        let first = self.first_index(self.index_of(position));
        self.directory[first].begins_at(&buckets[0]).then_some(first)
    }

    /// Frees segments and puts others in their places in the directory, which start at `first`.
    fn replace(&mut self, old: &[Segment], new: &[Segment], first: usize) {
        let mut from = first;
        for segment in new {
            let to = from + (1 << (self.bits - segment.depth));
            self.directory[from..to].fill(*segment);
            self.segment_bytes += segment.bytes();
            from = to;
        }
        for segment in old {
            self.segment_bytes -= segment.bytes();
            // SAFETY: the array came from this arena, and the directory leads to it no longer.
            unsafe { segment.free(&mut self.arena) };
        }
    }

    fn halve_directory(&mut self) {
        self.bits -= 1;
        self.directory = self.directory.iter().step_by(2).copied().collect();
        self.deepest = self.directory.iter().filter(|segment| segment.depth == self.bits).count();
    }
}
