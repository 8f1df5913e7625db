//! The hash table of one database in one shard: extendible hashing over segments.
//!
//! A directory, indexed by the highest bits of a key's position, leads to the segment; see `segment` for what happens
//! inside. A segment that is crowded gets a larger array or, at 40 to 64 buckets, is split in two; a sparse one gets a
//! smaller array or is merged with its sibling. So one operation rebuilds at most one segment of some 450 slots, and
//! once in a while copies the directory, which has 16 bytes for each such segment.
//!
//! The table owns the entries and their heap. It does not know the time: whether an entry has expired is its caller's
//! question. Only the shard calls it, under the shard's lock; the longer walks over it are in `walk`.

pub mod arena;
pub mod bucket;
pub mod entry;
pub mod hand_over;
pub mod owed;
pub mod segment;
pub mod walk;

use crate::memory::heap::Heap;
use crate::memory::prefetch::{PrefetchStep, prefetch};
use crate::value::key_hash::{Hash, HashKey};
use arena::Arena;
use bucket::{Bucket, OUTSIDE, SPANS, Slot, VOLATILE};
use entry::Entry;
use entry::body::Body;
use entry::handle::{EntryMut, EntryRef, Garbage, OwnedEntry};
use owed::Owed;
use segment::{DEPTH_MAX, LENGTH_MAX, SPLIT_LENGTHS, Segment, length_for, tag_of};

/// Buckets in which an entry is looked for ahead of need.
const BUCKETS_AHEAD_MAX: usize = 3;

/// Two siblings with at most so many entries together become one segment.
const MERGED_MAX: usize = 3 * LENGTH_MAX;

/// How the keys of one shard are placed.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    pub hash_key: HashKey,
    /// The highest bits of a hash, which are the same for all keys of a shard.
    pub shard_bits: u32,
}

impl Placement {
    /// The hash without the bits that chose the shard.
    #[inline]
    pub fn position(&self, hash: Hash) -> u64 {
        hash.0 << self.shard_bits
    }

    pub fn position_of(&self, entry: Entry) -> u64 {
        self.position(self.hash_key.hash(entry.key()))
    }
}

/// The keys of one database in one shard.
pub(crate) struct Table {
    directory: Vec<Segment>,
    /// The directory has two to the power of this many places, or none while the table was never used.
    bits: u8,
    /// The epoch of all entries but those that a snapshot is still owed.
    epoch: u8,
    /// What is owed to a snapshot, while anything is.
    owed: Option<Box<Owed>>,
    /// The segments whose depth is `bits`: when there are none, the directory can be halved.
    deepest: usize,
    len: usize,
    volatile: usize,
    segment_bytes: usize,
    arena: Arena,
    /// Where the next step of active expiry begins.
    expiry_position: u64,
    placement: Placement,
    heap: Heap,
}

// SAFETY: the table owns everything that its addresses refer to, and shares none of it.
unsafe impl Send for Table {}

/// A slot's place in the table: index in the directory, bucket, index in the bucket.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub segment: usize,
    pub bucket: usize,
    pub index: usize,
}

impl Table {
    pub fn new(placement: Placement) -> Self {
        Self {
            directory: Vec::new(),
            bits: 0,
            epoch: 0,
            owed: None,
            deepest: 0,
            len: 0,
            volatile: 0,
            segment_bytes: 0,
            arena: Arena::new(),
            expiry_position: 0,
            placement,
            heap: Heap::new(),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn volatile_len(&self) -> usize {
        self.volatile
    }

    /// The bytes of entries, segments and directory.
    pub fn memory(&self) -> usize {
        self.heap.bytes() + self.segment_bytes + self.directory.capacity() * size_of::<Segment>()
    }

    #[inline]
    fn index_of(&self, position: u64) -> usize {
        // Two shifts, because the one by 64 that an empty prefix asks for does not exist.
        ((position >> 1) >> (63 - self.bits)) as usize
    }

    /// The first of the places in the directory that lead to the same segment as this one.
    #[inline]
    fn first_index(&self, index: usize) -> usize {
        index >> (self.bits - self.directory[index].depth) << (self.bits - self.directory[index].depth)
    }

    /// How many places in the directory lead to the segment at `index`.
    #[inline]
    fn spread(&self, index: usize) -> usize {
        1 << (self.bits - self.directory[index].depth)
    }

    #[inline]
    pub fn find(&self, position: u64, key: &[u8]) -> Option<EntryRef<'_>> {
        let segment = self.directory.get(self.index_of(position))?;
        let (bucket, index) = segment.find(tag_of(position, segment.depth), key)?;
        // SAFETY: the entry of a filled slot lives and is not changed while the table is borrowed.
        Some(unsafe { EntryRef::new(Entry::at(segment.buckets()[bucket].slots[index].address())) })
    }

    #[inline]
    fn place_of(&self, position: u64, key: &[u8]) -> Option<Place> {
        let at = self.index_of(position);
        let segment = self.directory.get(at)?;
        let (bucket, index) = segment.find(tag_of(position, segment.depth), key)?;
        Some(Place { segment: at, bucket, index })
    }

    #[inline]
    pub fn find_mut(&mut self, position: u64, key: &[u8]) -> Option<EntryMut<'_>> {
        let place = self.place_of(position, key)?;
        if self.owed.is_some() {
            self.take_down(place);
        }
        Some(self.entry_mut(place))
    }

    fn entry_mut(&mut self, place: Place) -> EntryMut<'_> {
        // SAFETY: while the table is borrowed nobody else has buckets of it. `place` is that of a filled slot, and heap and
        // count belong to the same table.
        unsafe {
            let slot = &mut self.directory[place.segment].buckets_mut()[place.bucket].slots[place.index];
            EntryMut::new(slot, &mut self.heap, &mut self.volatile)
        }
    }

    /// Adds a key that is not in the table.
    pub fn insert(
        &mut self,
        position: u64,
        key: &[u8],
        body: Body<'_>,
        deadline: Option<i64>,
        clock: u32,
    ) -> EntryMut<'_> {
        let entry = Entry::create(&mut self.heap, key, body, deadline, clock, self.epoch);
        if self.directory.is_empty() {
            self.segment_bytes += size_of::<Bucket>();
            self.directory = vec![Segment::new(&mut self.arena, 1, 0)];
            (self.bits, self.deepest) = (0, 1);
        }
        let mut first = self.first_index(self.index_of(position));
        while self.directory[first].is_crowded() {
            self.grow(first);
            first = self.first_index(self.index_of(position));
        }
        let segment = &mut self.directory[first];
        let slot = Slot::new(tag_of(position, segment.depth), entry.address(), entry.slot_flags());
        // SAFETY: while the table is borrowed nobody else has buckets of it.
        let (bucket, index) = unsafe { segment.place(slot) };
        self.len += 1;
        self.volatile += usize::from(deadline.is_some());
        self.entry_mut(Place { segment: first, bucket, index })
    }

    /// Takes a key out; what it leaves to be freed, or None if it is not there.
    pub fn remove(&mut self, position: u64, key: &[u8]) -> Option<Garbage> {
        let entry = self.take_entry(position, key)?;
        // SAFETY: the entry is of this heap, it is in no slot any more, and what was lent is gone while `self` is borrowed.
        Some(Garbage::new(unsafe { entry.destroy(&mut self.heap) }))
    }

    /// Takes a key out; its value, deadline and clock, to be put elsewhere.
    pub fn take(&mut self, position: u64, key: &[u8]) -> Option<OwnedEntry> {
        let entry = self.take_entry(position, key)?;
        let (deadline, clock) = (entry.deadline(), entry.clock());
        // SAFETY: the entry is of this heap, it is in no slot any more, and what was lent is gone while `self` is borrowed. Its
        // block ends when the value has been copied.
        unsafe {
            let owned = OwnedEntry::new(entry.take_body(&mut self.heap), deadline, clock);
            entry.destroy_taken(&mut self.heap);
            Some(owned)
        }
    }

    /// Takes a key out and frees it; whether it was there.
    pub fn discard(&mut self, position: u64, key: &[u8]) -> bool {
        self.remove(position, key).is_some()
    }

    /// Takes a key out. The entry is the caller's to destroy, in this table's heap.
    fn take_entry(&mut self, position: u64, key: &[u8]) -> Option<Entry> {
        let place = self.place_of(position, key)?;
        let place = Place { segment: self.first_index(place.segment), ..place };
        let entry = self.remove_at(place);
        self.settle(place.segment);
        Some(entry)
    }

    /// The secret with which the keys are hashed.
    pub fn hash_key(&self) -> HashKey {
        self.placement.hash_key
    }

    /// Whether some entries are owed to a snapshot.
    #[inline]
    pub fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// The position of a key that has not been hashed yet.
    #[inline]
    pub fn position(&self, key: &[u8]) -> u64 {
        self.placement.position(self.placement.hash_key.hash(key))
    }

    /// Takes the entry at `place` out, whose segment is given by its first index. The table stays as large as it is, and the
    /// entry is the caller's to destroy, in this table's heap.
    fn remove_at(&mut self, place: Place) -> Entry {
        if self.owed.is_some() {
            self.take_down(place);
        }
        let segment = &mut self.directory[place.segment];
        let slot = segment.buckets()[place.bucket].slots[place.index];
        // SAFETY: while the table is borrowed nobody else has buckets of it.
        unsafe { segment.remove(place.bucket, place.index) };
        self.len -= 1;
        self.volatile -= usize::from(slot.has(VOLATILE));
        // SAFETY: the slot was that of a living entry.
        unsafe { Entry::at(slot.address()) }
    }

    fn grow(&mut self, first: usize) {
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
    fn settle(&mut self, first: usize) {
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
        let segment = self.directory[first];
        let mut resized = Segment::new(&mut self.arena, length, segment.depth);
        for slot in slots(&segment) {
            // SAFETY: the segment is new, and nobody else has it.
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
        let mut halves = counts.map(|count| Segment::new(&mut self.arena, length_for(count), depth));
        // SAFETY: the segments are new, and nobody else has them.
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
        let mut merged = Segment::new(&mut self.arena, length_for(count), depth);
        for part in [segment, sibling] {
            // SAFETY: the segment is new, and nobody else has it.
            self.rehome(&part, depth, |_, new| _ = unsafe { merged.place(new) });
        }
        self.deepest -= if segment.depth == self.bits { 2 } else { 0 };
        let first = first & !self.spread(first);
        self.replace(&[segment, sibling], &[merged], first);
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

    /// Takes a step towards the entry of a key, ahead of looking for it.
    #[inline]
    pub fn prefetch(&self, position: u64, step: PrefetchStep) {
        let index = self.index_of(position);
        if step == PrefetchStep::Segment {
            return prefetch(self.directory.as_ptr().wrapping_add(index).cast());
        }
        let Some(segment) = self.directory.get(index) else { return };
        let tag = tag_of(position, segment.depth);
        if step == PrefetchStep::Bucket {
            return prefetch(segment.home_address(tag));
        }
        let mut at = segment.home(tag);
        for _ in 0..BUCKETS_AHEAD_MAX {
            let bucket = &segment.buckets()[at];
            if let Some(index) = bucket.matches(tag).next() {
                let slot = bucket.slots[index];
                prefetch(slot.address() as *const u8);
                if slot.has(SPANS) {
                    prefetch((slot.address() + 64) as *const u8);
                }
                return;
            }
            if !bucket.is_full() {
                return;
            }
            // What came when its home was full lies behind it.
            at = segment.next(at);
        }
    }
}

impl Clone for Table {
    /// A copy of all entries, each with its deadline and clock.
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.placement);
        self.for_each(|entry| {
            copy.insert(self.position(entry.key()), entry.key(), entry.copy_body(), entry.deadline(), entry.clock());
        });
        copy
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.owed.is_some() && self.give_away() {
            return;
        }
        let mut index = 0;
        while index < self.directory.len() {
            let (segment, spread) = (self.directory[index], self.spread(index));
            for slot in slots(&segment).filter(|slot| slot.has(OUTSIDE)) {
                // SAFETY: the entry of a filled slot lives, and is of this heap; nobody looks at a table that ends. Cells are
                // freed with the heap, what lies outside of them must be freed here.
                drop(unsafe { Entry::at(slot.address()).destroy(&mut self.heap) });
            }
            // SAFETY: the array came from this arena, and nobody uses a directory that ends.
            unsafe { segment.free(&mut self.arena) };
            index += spread;
        }
    }
}

/// The filled slots of a segment, in the order of its buckets.
fn slots(segment: &Segment) -> impl Iterator<Item = Slot> {
    segment.buckets().iter().flat_map(|bucket| bucket.slots).filter(|slot| !slot.is_empty())
}
