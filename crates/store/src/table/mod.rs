//! The hash table of one database in one shard: extendible hashing over segments.
//!
//! A directory, indexed by the highest bits of a key's position, leads to the segment; `segment` explains its inside, and
//! `value/key_hash` what a position is. A segment that is crowded gets a larger array or, at 40 to 64 buckets, is split in
//! two; a sparse one gets a smaller array or is merged with its sibling. So one operation rebuilds at most one segment of some
//! 450 slots, for which it may move the arrays of two pools of 32 KiB, and once in a while copies the directory, which has 16
//! bytes for each such segment.
//!
//! The table owns the entries and their heap. It does not know the time: where it matters whether an entry has expired, its
//! caller passes the time. Only the shard calls it, under the shard's lock. `walk` has the longer walks over the
//! table, and `directory` makes it larger or smaller.

pub mod arena;
pub mod before_images;
pub mod bucket;
pub mod capture;
pub mod directory;
pub mod entry;
pub mod segment;
pub mod walk;

use crate::memory::heap::Heap;
use crate::memory::prefetch::{PrefetchStep, prefetch};
use crate::value::is_expired;
use crate::value::key_hash::{HashKey, Placement};
use before_images::BeforeImages;
use bucket::{OUTSIDE, SPANS, Slot, VOLATILE};
use directory::{Directory, slots};
use entry::Entry;
use entry::body::Body;
use entry::handle::{EntryMut, EntryRef, Garbage, OwnedEntry};
use segment::{Segment, tag_of};

/// The number of buckets in which an entry is looked for by a prefetch.
const BUCKETS_AHEAD_MAX: usize = 3;

/// The keys of one database in one shard.
pub(crate) struct Table {
    directory: Directory,
    /// The epoch of all entries but those that a snapshot still lacks.
    epoch: u8,
    /// The before-images that a snapshot still lacks, while it does.
    before_images: Option<Box<BeforeImages>>,
    len: usize,
    volatile: usize,
    /// The position at which the next step of active expiry begins.
    expiry_position: u64,
    placement: Placement,
    heap: Heap,
}

// SAFETY: the table owns everything that its addresses refer to, and shares none of it.
unsafe impl Send for Table {}

/// The result of looking up a key that may have expired.
#[derive(Debug)]
pub enum Lookup<E> {
    /// The key does not exist.
    Missing,
    /// The deadline of the key has passed. If the key may vanish it has been removed, and this is its memory to be freed.
    Expired(Option<Garbage>),
    /// The key is there.
    Live(E),
}

/// A slot's place in the table: the number of its segment's place in the directory, the index of the slot in the segment.
#[derive(Clone, Copy)]
pub(crate) struct SlotIndex {
    pub segment: usize,
    pub slot: usize,
}

impl Table {
    pub fn new(placement: Placement) -> Self {
        Self {
            directory: Directory::new(placement.slot_bits()),
            epoch: 0,
            before_images: None,
            len: 0,
            volatile: 0,
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

    /// Returns the bytes of entries, segments and directory.
    pub fn memory(&self) -> usize {
        self.heap.bytes() + self.directory.memory()
    }

    /// Returns the slot of a key, and its entry, to be used before the table changes. Always inline, for the reason that
    /// [`find`](segment::Segment::find) of a segment gives.
    #[inline(always)]
    fn locate(&self, position: u64, key: &[u8]) -> Option<(SlotIndex, Entry)> {
        let at = self.directory.index_of(position);
        let (at, segment) = match self.directory.direct(at) {
            Some(segment) => (at, segment),
            None => self.directory.lead_by_slot(position)?,
        };
        let (index, slot) = segment.find(tag_of(position, segment.depth), key)?;
        // SAFETY: the entry of a filled slot lives and is not changed until the table is.
        Some((SlotIndex { segment: at, slot: index }, unsafe { Entry::at(slot.address()) }))
    }

    #[inline]
    pub fn find(&self, position: u64, key: &[u8]) -> Option<EntryRef<'_>> {
        // SAFETY: the table does not change while it is borrowed.
        self.locate(position, key).map(|(_, entry)| unsafe { EntryRef::new(entry) })
    }

    /// Looks a key up, and takes it out if its deadline is before `now_ms` and it may vanish.
    #[inline]
    pub fn lookup(
        &mut self,
        position: u64,
        key: &[u8],
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
    ) -> Lookup<EntryRef<'_>> {
        match self.locate(position, key) {
            None => Lookup::Missing,
            Some((_, entry)) if is_expired(entry.deadline(), now_ms) => self.take_out_if(may_vanish(), position, key),
            // SAFETY: the table does not change while it is borrowed.
            Some((_, entry)) => Lookup::Live(unsafe { EntryRef::new(entry) }),
        }
    }

    #[cold]
    fn take_out_if<E>(&mut self, may_vanish: bool, position: u64, key: &[u8]) -> Lookup<E> {
        Lookup::Expired(if may_vanish { self.remove(position, key) } else { None })
    }

    #[inline]
    fn entry_mut(&mut self, place: SlotIndex) -> EntryMut<'_> {
        // SAFETY: while the table is borrowed there is no other reference to its buckets. `place` is that of a filled slot,
        // and heap and count belong to the same table.
        unsafe {
            let slot = self.directory[place.segment].slot_mut(place.slot);
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
        let first = self.directory.make_room(position, &self.placement);
        let segment = &mut self.directory[first];
        let slot = Slot::new(tag_of(position, segment.depth), entry.address(), entry.slot_flags());
        // SAFETY: while the table is borrowed there is no other reference to its buckets.
        let slot = unsafe { segment.place(slot) };
        self.len += 1;
        self.volatile += usize::from(deadline.is_some());
        self.entry_mut(SlotIndex { segment: first, slot })
    }

    /// Takes a key out, and returns its memory to be freed, or None if it is not there.
    pub fn remove(&mut self, position: u64, key: &[u8]) -> Option<Garbage> {
        self.occupied(position, key).map(|found| found.remove())
    }

    /// Takes a key out, and returns its value, deadline and clock, to be put elsewhere.
    pub fn take(&mut self, position: u64, key: &[u8]) -> Option<OwnedEntry> {
        let (place, _) = self.locate(position, key)?;
        let entry = self.take_found(place);
        let (deadline, clock) = (entry.deadline(), entry.clock());
        // SAFETY: the entry is of this heap, it is in no slot any more, and references that were lent are gone while `self`
        // is borrowed. Its block ends when the value has been copied.
        unsafe {
            let owned = OwnedEntry::new(entry.take_body(&mut self.heap), deadline, clock);
            entry.destroy_taken(&mut self.heap);
            Some(owned)
        }
    }

    /// Takes a key out and frees it; returns whether it existed.
    pub fn discard(&mut self, position: u64, key: &[u8]) -> bool {
        self.remove(position, key).is_some()
    }

    /// Takes out the key that was found at this place. The caller destroys the entry in this table's heap.
    fn take_found(&mut self, place: SlotIndex) -> Entry {
        let place = SlotIndex { segment: self.directory.first_index(place.segment), ..place };
        let entry = self.remove_at(place);
        self.directory.settle(place.segment, &self.placement);
        entry
    }

    /// Looks for a key that is to be changed or taken out.
    #[inline]
    pub fn occupied(&mut self, position: u64, key: &[u8]) -> Option<Occupied<'_>> {
        let (place, _) = self.locate(position, key)?;
        Some(Occupied { table: self, place })
    }

    /// Returns the entry of a key, to be changed.
    #[inline(always)]
    pub fn find_mut(&mut self, position: u64, key: &[u8]) -> Option<EntryMut<'_>> {
        self.occupied(position, key).map(Occupied::into_entry)
    }

    /// Looks a key up as [`Table::lookup`] does, to change it or to take it out.
    #[inline]
    pub fn lookup_occupied(
        &mut self,
        position: u64,
        key: &[u8],
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
    ) -> Lookup<Occupied<'_>> {
        let Some((place, entry)) = self.locate(position, key) else { return Lookup::Missing };
        if is_expired(entry.deadline(), now_ms) {
            return Lookup::Expired(if may_vanish() { Some(self.remove_found(place)) } else { None });
        }
        Lookup::Live(Occupied { table: self, place })
    }

    /// Returns the entry of a key, to be changed. A missing key is added. A key with a deadline before `now_ms` is replaced,
    /// and its memory is returned to be freed.
    #[inline]
    pub fn entry_or_insert(
        &mut self,
        (position, key): (u64, &[u8]),
        body: Body<'_>,
        now_ms: i64,
        clock: u32,
    ) -> (EntryMut<'_>, Option<Garbage>) {
        let expired = match self.locate(position, key) {
            Some((place, entry)) if !is_expired(entry.deadline(), now_ms) => return (self.entry_at(place), None),
            Some((place, _)) => Some(self.remove_found(place)),
            None => None,
        };
        (self.insert(position, key, body, None, clock), expired)
    }

    /// Returns the entry at a place where a key was found, to be changed.
    #[inline]
    fn entry_at(&mut self, place: SlotIndex) -> EntryMut<'_> {
        if self.before_images.is_some() {
            self.capture(place);
        }
        self.entry_mut(place)
    }

    fn remove_found(&mut self, place: SlotIndex) -> Garbage {
        let entry = self.take_found(place);
        // SAFETY: the entry is of this heap, it is in no slot any more, and references that were lent are gone while `self`
        // is borrowed.
        Garbage::new(unsafe { entry.destroy(&mut self.heap) })
    }

    /// Returns the secret with which the keys are hashed.
    pub fn hash_key(&self) -> HashKey {
        self.placement.hash_key
    }

    /// Returns whether a snapshot still lacks entries.
    #[inline]
    pub fn is_captured_from(&self) -> bool {
        self.before_images.is_some()
    }

    /// Returns the position of a member that has not been hashed yet.
    #[inline]
    pub fn position(&self, key: &[u8]) -> u64 {
        self.placement.position(self.placement.hash_key.hash(key))
    }

    /// Takes out the entry at `place`, which names its segment by the first index. The table stays as large as it is, and the
    /// caller destroys the entry in this table's heap.
    fn remove_at(&mut self, place: SlotIndex) -> Entry {
        if self.before_images.is_some() {
            self.capture(place);
        }
        let segment = &mut self.directory[place.segment];
        let slot = segment.slot(place.slot);
        // SAFETY: while the table is borrowed there is no other reference to its buckets.
        unsafe { segment.remove(place.slot) };
        self.directory.note_removed(place.segment, slot.tag());
        self.len -= 1;
        self.volatile -= usize::from(slot.has(VOLATILE));
        // SAFETY: the slot was that of a living entry.
        unsafe { Entry::at(slot.address()) }
    }

    /// Takes a prefetch step towards the entries of several keys that will be looked up soon.
    #[inline]
    pub fn prefetch(&self, positions: impl Iterator<Item = u64>, step: PrefetchStep) {
        match step {
            PrefetchStep::Segment => positions.for_each(|position| self.prefetch_segment(position)),
            PrefetchStep::Bucket => positions.for_each(|position| self.prefetch_bucket(position)),
            PrefetchStep::Entry => positions.for_each(|position| self.prefetch_entry(position)),
        }
    }

    #[inline]
    fn prefetch_segment(&self, position: u64) {
        prefetch(self.directory.address_of(position));
    }

    #[inline]
    fn prefetch_bucket(&self, position: u64) {
        match self.directory.direct(self.directory.index_of(position)) {
            Some(segment) => prefetch(segment.home_address(tag_of(position, segment.depth))),
            None => self.prefetch_by_slot(position, PrefetchStep::Bucket),
        }
    }

    #[inline]
    fn prefetch_entry(&self, position: u64) {
        match self.directory.direct(self.directory.index_of(position)) {
            Some(segment) => prefetch_entry_in(segment, position),
            None => self.prefetch_by_slot(position, PrefetchStep::Entry),
        }
    }

    /// Takes a later step of a prefetch in a table that is placed by slot, or was never used.
    #[cold]
    #[inline(never)]
    fn prefetch_by_slot(&self, position: u64, step: PrefetchStep) {
        match (self.directory.lead(position), step) {
            (Some((_, segment)), PrefetchStep::Entry) => prefetch_entry_in(segment, position),
            (Some((_, segment)), _) => prefetch(segment.home_address(tag_of(position, segment.depth))),
            (None, _) => {}
        }
    }
}

#[inline(always)]
fn prefetch_entry_in(segment: &Segment, position: u64) {
    let tag = tag_of(position, segment.depth);
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
        // An entry that was added when its home bucket was full lies behind that bucket.
        at = segment.next(at);
    }
}

/// A key that was found in a table to be changed, taken out, or both in turn: it is looked up once. The table is borrowed for as
/// long, so the place of the key stays its own.
pub(crate) struct Occupied<'t> {
    table: &'t mut Table,
    place: SlotIndex,
}

impl<'t> Occupied<'t> {
    /// Returns the entry of the key, to be changed.
    #[inline]
    pub fn entry(&mut self) -> EntryMut<'_> {
        self.table.entry_at(self.place)
    }

    /// Returns the entry of the key, to be changed, for as long as the table is lent.
    #[inline]
    pub fn into_entry(self) -> EntryMut<'t> {
        self.table.entry_at(self.place)
    }

    /// Takes the key out, and returns its memory to be freed.
    #[inline]
    pub fn remove(self) -> Garbage {
        self.table.remove_found(self.place)
    }
}

impl Clone for Table {
    /// Returns a copy of all entries, each with its deadline and clock.
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.placement);
        self.for_each(|entry| {
            let position = self.placement.position_of(entry.entry().key());
            copy.insert(position, entry.key(), entry.copy_body(), entry.deadline(), entry.clock());
        });
        copy
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.before_images.is_some() && self.give_away() {
            return;
        }
        let Self { directory, heap, .. } = self;
        directory.free(|segment| {
            for slot in slots(segment).filter(|slot| slot.has(OUTSIDE)) {
                // SAFETY: the entry of a filled slot lives, and is of this heap; a table that ends has no readers. Cells are
                // freed with the heap, memory outside of them must be freed here.
                drop(unsafe { Entry::at(slot.address()).destroy(heap) });
            }
        });
    }
}
