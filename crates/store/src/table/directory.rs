//! The directory of a table's segments, and how it grows and shrinks, a segment at a time; see `table`. Changes no entry.
//!
//! A request for an array may move other arrays: the arena's pools are tidied here, because the directory leads to the
//! arrays, and an entry of an array says where in the directory.

use super::arena::{Arena, units};
use super::bucket::{Bucket, Slot};
use super::entry::Entry;
use super::segment::{DEPTH_MAX, LENGTH_MAX, SPLIT_LENGTHS, Segment, length_for, tag_of};
use crate::memory::prefetch::prefetch;
use crate::value::key_hash::{Hash, HashKey};
use std::ops::{Deref, DerefMut};

/// The number of entries up to which two sibling segments become one.
const MERGED_MAX: usize = 3 * LENGTH_MAX;

/// The parameters by which the keys of one shard are placed.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    pub hash_key: HashKey,
    /// The highest bits of a hash, which are the same for all keys of a shard.
    pub shard_bits: u32,
}

impl Placement {
    /// Returns the hash without the bits that chose the shard.
    #[inline]
    pub fn position(&self, hash: Hash) -> u64 {
        hash.0 << self.shard_bits
    }

    pub fn position_of(&self, entry: Entry) -> u64 {
        self.position(self.hash_key.hash(entry.key()))
    }
}

/// The segments of a table, by the highest bits of a position. It derefs to its places; several may lead to one segment.
pub(crate) struct Directory {
    segments: Vec<Segment>,
    segment_bytes: usize,
    arena: Arena,
    /// The number of segments with a depth of `bits`: when there are none, the directory can be halved.
    deepest: u32,
    /// The directory has two to the power of this many places, or none while the table was never used.
    pub bits: u8,
}

impl Deref for Directory {
    type Target = [Segment];

    #[inline(always)]
    fn deref(&self) -> &[Segment] {
        &self.segments
    }
}

impl DerefMut for Directory {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Segment] {
        &mut self.segments
    }
}

impl Directory {
    pub fn new() -> Self {
        Self { segments: Vec::new(), segment_bytes: 0, arena: Arena::new(), deepest: 0, bits: 0 }
    }

    /// Returns the bytes of segments and directory.
    pub fn memory(&self) -> usize {
        self.segment_bytes + self.segments.capacity() * size_of::<Segment>()
    }

    #[inline]
    pub fn index_of(&self, position: u64) -> usize {
        // There are two shifts because a shift by 64, which an empty prefix would need, is not defined.
        ((position >> 1) >> (63 - self.bits)) as usize
    }

    /// Returns the first of the places in the directory that lead to the same segment as this one.
    #[inline]
    pub fn first_index(&self, index: usize) -> usize {
        index >> (self.bits - self.segments[index].depth) << (self.bits - self.segments[index].depth)
    }

    /// Returns the number of places in the directory that lead to the segment at `index`.
    #[inline]
    pub fn spread(&self, index: usize) -> usize {
        1 << (self.bits - self.segments[index].depth)
    }

    /// Makes the first segment.
    pub fn begin(&mut self) {
        self.segment_bytes += size_of::<Bucket>();
        self.segments = vec![Segment::new(&mut self.arena, 1, 0)];
        (self.bits, self.deepest) = (0, 1);
    }

    /// Frees the arrays of all segments, after showing each segment.
    pub fn free(&mut self, mut show: impl FnMut(&Segment)) {
        let mut index = 0;
        while index < self.segments.len() {
            let (segment, spread) = (self.segments[index], self.spread(index));
            show(&segment);
            // SAFETY: the array came from this arena, and a directory that ends has no readers.
            unsafe { segment.free(&mut self.arena) };
            index += spread;
        }
    }

    /// Makes room in the crowded segment with this first index.
    pub fn grow(&mut self, first: usize, placement: &Placement) {
        let segment = self.segments[first];
        // The quarters of the table split at different sizes: hashes fill all segments alike, and if all of them split
        // at once, the table would be half empty after each doubling.
        let quarter = if segment.depth < 2 { 0 } else { first >> (self.bits - 2) };
        if segment.length() >= SPLIT_LENGTHS[quarter] && segment.depth < DEPTH_MAX {
            self.split(first, placement);
        } else {
            self.resize(first, segment.length_above(), placement);
        }
    }

    /// Gives memory back after removals: a smaller array, a merge, a smaller directory.
    pub fn settle(&mut self, first: usize, placement: &Placement) {
        let mut first = first;
        while self.segments[first].is_sparse() {
            let segment = self.segments[first];
            if let Some(merged) = self.merge(first, placement) {
                first = merged;
                continue;
            }
            let length = length_for(segment.count as usize);
            if length < segment.length() {
                self.resize(first, length, placement);
            }
            break;
        }
        while self.deepest == 0 && self.bits > 0 {
            self.halve_directory();
        }
    }

    fn resize(&mut self, first: usize, length: usize, placement: &Placement) {
        let mut resized = self.new_segment(length, self.segments[first].depth, placement);
        let segment = self.segments[first];
        for slot in slots(&segment) {
            // SAFETY: the segment is new, and there is no other reference to it.
            unsafe { resized.place(slot) };
        }
        self.replace(&[segment], &[resized], first);
    }

    fn split(&mut self, first: usize, placement: &Placement) {
        let segment = self.segments[first];
        let (depth, shift) = (segment.depth + 1, 15 - (segment.depth & 3));
        let upper = |slot: Slot| usize::from(slot.tag() >> shift & 1);
        let mut counts = [0; 2];
        slots(&segment).for_each(|slot| counts[upper(slot)] += 1);
        let mut halves = counts.map(|count| self.new_segment(length_for(count), depth, placement));
        let segment = self.segments[first];
        // SAFETY: the segments are new, and there is no other reference to them.
        rehome(&segment, depth, placement, |old, new| _ = unsafe { halves[upper(old)].place(new) });
        let mut first = first;
        if depth > self.bits {
            self.segments = self.segments.iter().flat_map(|&segment| [segment, segment]).collect();
            (self.bits, self.deepest, first) = (depth, 0, first * 2);
        }
        self.deepest += if depth == self.bits { 2 } else { 0 };
        self.replace(&[segment], &halves, first);
    }

    /// Joins a segment with its sibling if both together are small. Returns the first index of the result.
    fn merge(&mut self, first: usize, placement: &Placement) -> Option<usize> {
        let segment = self.segments[first];
        let depth = segment.depth.checked_sub(1)?;
        let sibling = self.segments[first ^ self.spread(first)];
        let count = (segment.count + sibling.count) as usize;
        if sibling.depth != segment.depth || count > MERGED_MAX {
            return None;
        }
        let mut merged = self.new_segment(length_for(count), depth, placement);
        let parts = [first, first ^ self.spread(first)].map(|index| self.segments[index]);
        for part in parts {
            // SAFETY: the segment is new, and there is no other reference to it.
            rehome(&part, depth, placement, |_, new| _ = unsafe { merged.place(new) });
        }
        self.deepest -= if segment.depth == self.bits { 2 } else { 0 };
        let first = first & !self.spread(first);
        self.replace(&parts, &[merged], first);
        Some(first)
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
            let moved = unsafe { self.segments[first].moved_down(&mut self.arena) };
            let spread = self.spread(first);
            self.segments[first..first + spread].fill(moved);
            unit = at + units(moved.length());
        }
        self.arena.offer(pool);
    }

    /// Returns the first index of the segment with these buckets; none if the segment has no entry that could tell its place.
    fn owner_of(&self, buckets: &[Bucket], placement: &Placement) -> Option<usize> {
        let slot = buckets.iter().flat_map(|bucket| bucket.slots).find(|slot| !slot.is_empty())?;
        // SAFETY: the entry of a filled slot lives.
        let position = placement.position_of(unsafe { Entry::at(slot.address()) });
        let first = self.first_index(self.index_of(position));
        self.segments[first].begins_at(&buckets[0]).then_some(first)
    }

    /// Frees segments and puts others in their places in the directory, which start at `first`.
    fn replace(&mut self, old: &[Segment], new: &[Segment], first: usize) {
        let mut from = first;
        for segment in new {
            let to = from + (1 << (self.bits - segment.depth));
            self.segments[from..to].fill(*segment);
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
        self.segments = self.segments.iter().step_by(2).copied().collect();
        self.deepest = self.segments.iter().filter(|segment| segment.depth == self.bits).count() as u32;
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
            let position = placement.position_of(unsafe { Entry::at(slot.address()) });
            place(slot, slot.with_tag(tag_of(position, depth)));
        }
    }
}

/// Returns the filled slots of a segment, in the order of its buckets.
pub fn slots(segment: &Segment) -> impl Iterator<Item = Slot> {
    segment.buckets().iter().flat_map(|bucket| bucket.slots).filter(|slot| !slot.is_empty())
}
