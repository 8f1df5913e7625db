//! An array of buckets for one interval of hashes: the part of the table that is rebuilt as a whole.
//!
//! The position of a key is its hash without the bits that chose the shard. A segment of depth `d` holds the positions that
//! begin with the same `d` bits, and an entry's home bucket is proportional to the rest of its position. So the whole table
//! is in the order of positions, for any sizes of its segments: growing, splitting and merging never change the order, on
//! which SCAN's cursor rests.
//!
//! A slot's tag is the 16 bits of the position that start at bit `d & !3`: enough to find the home bucket in any segment of
//! depth `d & !3` to `d | 3`. Rebuilding therefore reads no entry, except when a split or merge steps from one multiple of
//! four to the next. A full bucket overflows into the next one, cyclically. A removal pulls entries back, so that a search
//! ends at the first bucket with a free slot.
//!
//! A [`Segment`] is a plain address with its sizes, because the table's directory holds copies of it. So a function that
//! changes the array or frees it is unsafe: the compiler does not see the references that other copies lend. Only the table
//! calls, under its shard's lock.

use std::ptr::NonNull;

use super::arena::Arena;
use super::bucket::{Bucket, SLOTS, Slot};
use super::entry::Entry;

/// Numbers of buckets. Below 20, where arrays come from the global allocator, the lengths are such that size classes fit even
/// if the allocator needs 63 bytes more to align a block; from there on they are the lengths that an arena offers.
const LENGTHS: [usize; 19] = [1, 2, 4, 5, 6, 8, 9, 11, 13, 16, 20, 24, 28, 32, 36, 40, 48, 56, LENGTH_MAX];

/// The buckets of the largest segment, unless it cannot be split.
pub(crate) const LENGTH_MAX: usize = 64;

/// The lengths at which the segments of the table's four quarters are split rather than enlarged.
pub(crate) const SPLIT_LENGTHS: [usize; 4] = [LENGTH_MAX, 56, 48, 40];

/// The depth of a place that leads to the directory of one slot instead of a segment; see `by_slot`.
const SIGNPOST: u8 = u8::MAX;

/// The array of every segment that has none of its own, because it has no entries. It is never changed.
static VACANT: Bucket = Bucket { slots: [Slot::EMPTY; SLOTS] };

/// The array of buckets for the positions that begin with the same `depth` bits.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    buckets: NonNull<Bucket>,
    /// The number of entries. Only the first of a segment's copies in the directory keeps it up to date.
    pub count: u32,
    length: u16,
    pub depth: u8,
}

/// Returns the tag of a position in a segment of this depth.
#[inline]
pub(crate) fn tag_of(position: u64, depth: u8) -> u16 {
    ((position << (depth & !3)) >> 48) as u16
}

/// Returns the part of a tag that the segment's depth does not fix, as a fraction of 65,536.
#[inline]
pub(crate) fn fraction(tag: u16, depth: u8) -> usize {
    usize::from(tag << (depth & 3))
}

/// Returns the smallest length for `count` entries that leaves some 15% of the slots free.
pub(crate) fn length_for(count: usize) -> usize {
    LENGTHS.into_iter().find(|length| 5 * count <= 34 * length).unwrap_or(LENGTH_MAX)
}

impl Segment {
    /// Returns an empty segment. `length` is at least 1 and at most 32,768.
    pub fn new(arena: &mut Arena, length: usize, depth: u8) -> Self {
        Self { buckets: arena.allocate(length), count: 0, length: length as u16, depth }
    }

    /// Returns a segment without entries or an array. It must not be changed: the first entry needs another segment.
    pub fn vacant(depth: u8) -> Self {
        Self { buckets: NonNull::from(&VACANT), count: 0, length: 1, depth }
    }

    /// Returns whether the segment has no array.
    #[inline]
    pub fn is_vacant(&self) -> bool {
        std::ptr::eq(self.buckets.as_ptr(), &VACANT)
    }

    /// Returns a place that is no segment: an address, and two numbers that its user knows.
    pub fn signpost(address: NonNull<u8>, number: u32, sizes: u16) -> Self {
        Self { buckets: address.cast(), count: number, length: sizes, depth: SIGNPOST }
    }

    /// Returns the parts of a signpost; none if this is a segment.
    #[inline]
    pub fn as_signpost(&self) -> Option<(NonNull<u8>, u32, u16)> {
        (self.depth == SIGNPOST).then(|| (self.buckets.cast(), self.count, self.length))
    }

    /// Frees the array, but not the entries that its slots refer to.
    ///
    /// # Safety
    /// The segment was made in `arena`. Neither it nor a copy of it is used afterwards.
    pub(super) unsafe fn free(self, arena: &mut Arena) {
        if self.is_vacant() {
            return;
        }
        // SAFETY: the array came from this arena with the same length.
        unsafe { arena.release(self.buckets, self.length()) };
    }

    #[inline]
    pub fn length(&self) -> usize {
        usize::from(self.length)
    }

    /// Returns the bytes of the array.
    pub fn bytes(&self) -> usize {
        if self.is_vacant() { 0 } else { self.length() * size_of::<Bucket>() }
    }

    /// Returns whether the segment must grow before it takes another entry: at seven eighths, so that a bucket with a free
    /// slot remains.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.count as usize >= 7 * self.length()
    }

    /// Returns whether the entries would fit into a smaller array.
    #[inline]
    pub fn is_sparse(&self) -> bool {
        (self.count as usize) < 3 * self.length()
    }

    /// Returns the next larger length.
    pub fn length_above(&self) -> usize {
        LENGTHS.into_iter().find(|&length| length > self.length()).unwrap_or(2 * self.length())
    }

    /// Returns whether the segment's array begins with this bucket.
    pub fn begins_at(&self, bucket: &Bucket) -> bool {
        std::ptr::eq(self.buckets.as_ptr(), bucket)
    }

    /// Returns the segment after moving its array down to the first free units of its pool.
    ///
    /// # Safety
    /// The array is in a pool of `arena`. Neither the segment nor a copy of it is used afterwards.
    pub(super) unsafe fn moved_down(self, arena: &mut Arena) -> Self {
        // SAFETY: the array came from this arena with the same length, and has no readers at its old place.
        Self { buckets: unsafe { arena.move_down(self.buckets, self.length()) }, ..self }
    }

    #[inline]
    pub fn buckets(&self) -> &[Bucket] {
        // SAFETY: the array has this length. It lives as long as a segment is used, and is not changed while it is lent:
        // callers of the functions that free or change it promise that.
        unsafe { std::slice::from_raw_parts(self.buckets.as_ptr(), self.length()) }
    }

    /// Returns the buckets, to be changed.
    ///
    /// # Safety
    /// No copy of this segment lends its buckets at the same time.
    #[inline]
    pub(super) unsafe fn buckets_mut(&mut self) -> &mut [Bucket] {
        // SAFETY: as above, and as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.buckets.as_ptr(), self.length()) }
    }

    #[inline]
    pub fn home(&self, tag: u16) -> usize {
        (fraction(tag, self.depth) * self.length()) >> 16
    }

    #[inline]
    pub fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.length() { 0 } else { bucket + 1 }
    }

    /// Returns the address of a tag's home bucket, to be prefetched.
    #[inline]
    pub fn home_address(&self, tag: u16) -> *const u8 {
        self.buckets.as_ptr().wrapping_add(self.home(tag)).cast()
    }

    /// Returns the slot at an index, which counts through all buckets.
    #[inline]
    pub fn slot(&self, index: usize) -> Slot {
        self.buckets()[index / SLOTS].slots[index % SLOTS]
    }

    /// Returns the slot at an index, to be changed; see [`Segment::slot`].
    ///
    /// # Safety
    /// As for [`Segment::buckets_mut`].
    #[inline]
    pub(super) unsafe fn slot_mut(&mut self, index: usize) -> &mut Slot {
        // SAFETY: as the caller promises.
        unsafe { &mut self.buckets_mut()[index / SLOTS].slots[index % SLOTS] }
    }

    /// Returns the slot of `key`, and its index. Always inline: a pair would go through memory on every look-up.
    #[inline(always)]
    pub fn find(&self, tag: u16, key: &[u8]) -> Option<(usize, Slot)> {
        let (buckets, home) = (self.buckets(), self.home(tag));
        let mut at = home;
        loop {
            let bucket = &buckets[at];
            for index in bucket.matches(tag) {
                let slot = bucket.slots[index];
                // SAFETY: a filled slot has the address of a living entry.
                if !slot.is_empty() && unsafe { Entry::at(slot.address()) }.has_key(key) {
                    return Some((at * SLOTS + index, slot));
                }
            }
            at = self.next(at);
            if !bucket.is_full() || at == home {
                return None;
            }
        }
    }

    /// Puts a slot into the first bucket with room, from its home bucket on; returns its index.
    ///
    /// # Safety
    /// As for [`Segment::buckets_mut`].
    #[inline]
    pub(super) unsafe fn place(&mut self, slot: Slot) -> usize {
        let mut at = self.home(slot.tag());
        loop {
            // SAFETY: as the caller promises.
            let bucket = unsafe { &mut self.buckets_mut()[at] };
            if !bucket.is_full() {
                let index = bucket.filled();
                bucket.slots[index] = slot;
                self.count += 1;
                return at * SLOTS + index;
            }
            at = self.next(at);
        }
    }

    /// Takes a slot out, and pulls back the entries that lie behind it only because its bucket was full.
    ///
    /// # Safety
    /// As for [`Segment::buckets_mut`].
    pub(super) unsafe fn remove(&mut self, index: usize) {
        let (bucket, index) = (index / SLOTS, index % SLOTS);
        self.count -= 1;
        let mut segment = *self;
        // SAFETY: as the caller promises; `self` lends nothing meanwhile.
        let buckets = unsafe { segment.buckets_mut() };
        let mut was_full = buckets[bucket].is_full();
        buckets[bucket].remove(index);
        let (mut hole, mut at) = (bucket, self.next(bucket));
        while was_full && at != bucket {
            was_full = buckets[at].is_full();
            let gap = self.distance(hole, at);
            let displaced = |slot: &Slot| !slot.is_empty() && self.distance(self.home(slot.tag()), at) >= gap;
            if let Some(index) = buckets[at].slots.iter().position(displaced) {
                let slot = buckets[at].slots[index];
                buckets[at].remove(index);
                let moved = buckets[hole].push(slot);
                debug_assert!(moved, "a hole has room");
                hole = at;
            }
            at = self.next(at);
        }
    }

    /// Returns the number of steps from one bucket on to another.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.length() - from }
    }
}
