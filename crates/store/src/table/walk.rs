//! The walks over a table: SCAN, active expiry, a random key, everything.
//!
//! All of them go in the order of positions (see `segment`). A walk stops between two home buckets and remembers that
//! boundary as a position, not as a place; so the table may grow, split, merge and shrink between two steps, and the walk
//! still meets every key that stays exactly once. Entries that overflowed lie behind their home bucket, so a step looks on
//! until a bucket is not full, and skips entries of other intervals.
//!
//! Each step is bounded by the number of buckets that it may visit. Used by the shard, under its lock.

use std::ptr;

use super::bucket::{Bucket, SLOTS, VOLATILE};
use super::entry::Entry;
use super::entry::handle::{EntryRef, Garbage};
use super::segment::{LENGTH_MAX, Segment, fraction, tag_of};
use super::{SlotIndex, Table};
use crate::memory::prefetch;
use crate::memory::prefetch::prefetch;

/// The result of one step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkStep {
    /// The position at which the next step begins; none if the table has been walked to its end.
    pub next: Option<u64>,
    /// The number of entries that were shown.
    pub shown: usize,
    /// Buckets that were looked at.
    pub buckets: usize,
}

/// The result of a step of active expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireReport {
    /// Buckets that were looked at.
    pub buckets: usize,
    /// Keys with a deadline that were looked at, the expired ones among them.
    pub sampled: usize,
    /// Keys that had expired and were removed.
    pub expired: usize,
    /// The sum of the remaining times to live of the sampled keys that had not expired, in milliseconds.
    pub ttl_sum_ms: i64,
    /// True if the step came to the end of the table, so that the next one starts again.
    pub wrapped: bool,
}

impl ExpireReport {
    /// Adds the result of another step.
    pub fn add(&mut self, other: Self) {
        self.buckets += other.buckets;
        self.sampled += other.sampled;
        self.expired += other.expired;
        self.ttl_sum_ms = self.ttl_sum_ms.saturating_add(other.ttl_sum_ms);
        self.wrapped |= other.wrapped;
    }
}

impl Table {
    /// Shows the entries from `position` on: some `wanted` of them, from at most one segment.
    pub fn walk<'a>(&'a self, position: u64, wanted: usize, show: impl FnMut(EntryRef<'a>)) -> WalkStep {
        self.walk_to(position, u64::MAX, wanted, show)
    }

    /// Shows entries as [`Table::walk`] does, up to the position `last`, which is the end of the table or of a slot.
    #[inline(always)]
    fn walk_to<'a>(&'a self, position: u64, last: u64, wanted: usize, mut show: impl FnMut(EntryRef<'a>)) -> WalkStep {
        let Some((number, segment)) = self.directory.lead(position) else {
            return WalkStep { next: None, shown: 0, buckets: 0 };
        };
        let count = self.directory[self.directory.first_index(number)].count as usize;
        let tag = tag_of(position, segment.depth);
        let (start, length) = (segment.home(tag), segment.length());
        let stride = (wanted.min(1 << 32) * length).div_ceil(count.max(1)).clamp(1, length);
        let mut end = (start + stride).min(length);
        let mut interval = fraction(tag, segment.depth)..boundary(segment, end);
        let mut next = end_position(segment, position, end);
        if last != u64::MAX && next.is_none_or(|next| next > last) {
            let tag = tag_of(last, segment.depth);
            interval.end = interval.end.min(fraction(tag, segment.depth) + 1);
            (next, end) = (None, end.min(segment.home(tag) + 1));
        }
        // A merge may have left the beginning in the middle of a tag: then the hash decides.
        let is_exact = position << (segment.depth & !3) << 16 == 0;
        let mut step = WalkStep { next, shown: 0, buckets: 0 };
        let mut at = start;
        loop {
            let bucket = &segment.buckets()[at];
            for slot in bucket.slots.iter().take_while(|slot| !slot.is_empty()) {
                // SAFETY: the entry of a filled slot lives.
                let entry = unsafe { Entry::at(slot.address()) };
                let belongs = interval.contains(&fraction(slot.tag(), segment.depth))
                    && (is_exact || slot.tag() != tag || self.placement.position_of(entry.key()) >= position);
                if belongs {
                    // SAFETY: the entry is not changed while the table is borrowed.
                    show(unsafe { EntryRef::new(entry) });
                    step.shown += 1;
                }
            }
            step.buckets += 1;
            at = segment.next(at);
            if step.buckets >= length || (start + step.buckets >= end && !bucket.is_full()) {
                return step;
            }
        }
    }

    /// Shows all entries.
    pub fn for_each<'a>(&'a self, mut show: impl FnMut(EntryRef<'a>)) {
        let mut position = Some(0);
        while let Some(from) = position {
            position = self.walk(from, usize::MAX, &mut show).next;
        }
    }

    /// Returns an entry chosen by a random number; all entries are equally likely. None if there are none.
    pub fn random(&self, random: u64) -> Option<EntryRef<'_>> {
        if self.len() == 0 {
            return None;
        }
        if self.directory.slot_counts().is_some() {
            return self.random_by_slot(random);
        }
        let slot = self.draws(random).map(|(bucket, index)| bucket.slots[index]).find(|slot| !slot.is_empty());
        // SAFETY: the entry of a filled slot lives and is not changed while the table is borrowed.
        let drawn = slot.map(|slot| unsafe { EntryRef::new(Entry::at(slot.address())) });
        drawn.or_else(|| self.first_from(random)).or_else(|| self.first_from(0))
    }

    /// Returns an entry as [`Table::random`] does, of a table with keys that is placed by slot: first the slot is drawn.
    #[cold]
    fn random_by_slot(&self, random: u64) -> Option<EntryRef<'_>> {
        let (row, rank) = self.row_of_random(random)?;
        let (first, bits) = (self.first_of(row), self.directory.slot_bits());
        let mut found = None;
        if let Some(depth) = self.directory.depth_in_row(row) {
            let area = Area { first, bits, depth };
            let slot = self.draws_in(area, random).map(|(bucket, index)| bucket.slots[index]);
            // SAFETY: the entry of a filled slot lives and is not changed while the table is borrowed.
            found =
                { slot }.find(|slot| !slot.is_empty()).map(|slot| unsafe { EntryRef::new(Entry::at(slot.address())) });
        }
        let (mut position, mut at) = (Some(first), 0);
        while let (Some(from), None) = (position, found) {
            // The slot shares its segment with others, so it has few keys; or the tries have found only empty places.
            position = self.walk_slot(row, from, usize::MAX, |entry| {
                found = if at == rank { Some(entry) } else { found };
                at += 1;
            });
        }
        found
    }

    /// Returns the row of a slot that is drawn in proportion to its keys, and a rank among these; none if there are no keys,
    /// or if they are not placed by slot.
    fn row_of_random(&self, random: u64) -> Option<(usize, usize)> {
        let counts = self.directory.slot_counts().filter(|_| self.len() > 0)?;
        // The highest bits have chosen the shard.
        let mixed = scramble(random.rotate_left(32));
        Some(counts.of_rank(((u128::from(mixed) * self.len() as u128) >> 64) as usize))
    }

    /// Returns the first position of a slot.
    fn first_of(&self, row: usize) -> u64 {
        (row as u64) << (64 - self.directory.slot_bits())
    }

    /// Returns the number of keys in the slot of this row.
    pub fn slot_len(&self, row: usize) -> usize {
        self.directory.slot_counts().map_or(0, |counts| counts.of(row))
    }

    /// Shows entries of the slot of this row, in which `position` is, from there on: some `wanted` of them, from at most one
    /// segment. Returns the position at which the next step begins; none if the slot has been walked to its end.
    pub fn walk_slot<'a>(
        &'a self,
        row: usize,
        position: u64,
        wanted: usize,
        show: impl FnMut(EntryRef<'a>),
    ) -> Option<u64> {
        let last = self.first_of(row) | u64::MAX >> self.directory.slot_bits();
        // The walk takes the last position of all for the end of the table, and the end of the last slot is that too.
        self.walk_to(position.clamp(self.first_of(row), last), last, wanted, show).next
    }

    /// Returns the slots at which [`Table::random`] looks until one is filled; all slots are equally likely.
    fn draws(&self, random: u64) -> impl Iterator<Item = (&Bucket, usize)> {
        self.draws_in(Area { first: 0, bits: 0, depth: self.directory.bits }, random)
    }

    /// Returns slots as [`Table::draws`] does, from the segments of one area.
    #[inline(always)]
    fn draws_in(&self, area: Area, mut random: u64) -> impl Iterator<Item = (&Bucket, usize)> {
        let segment_at = move |random: u64| {
            let position = area.first | random >> area.bits;
            self.directory.lead(position).map(|(_, segment)| segment)
        };
        let weight_max = match area.depth - area.bits {
            0 => segment_at(0).map_or(0, |segment| segment.length() as u64),
            bits => (LENGTH_MAX as u64) << bits,
        };
        (0..RANDOM_TRIES).filter_map(move |_| {
            random = scramble(random);
            let segment = segment_at(random)?;
            let chosen = scramble(random ^ RANDOM_TRIES);
            // The random number decides three times: its upper half chooses the bucket, the lowest bits the slot, and those
            // between whether the slot is taken. A position finds a segment the more easily the fewer bits the segment fixes,
            // however few buckets it has. This weight makes up for that, so that every slot of the table is equally likely.
            let weight = (segment.length() as u64) << (segment.depth - area.bits);
            if (u128::from(chosen as u32) * u128::from(weight_max)) >> 32 >= u128::from(weight) {
                return None;
            }
            let bucket = ((chosen >> 32) as usize * segment.length()) >> 32;
            Some((&segment.buckets()[bucket], chosen as usize % SLOTS))
        })
    }

    /// Takes a prefetch step towards the entry that [`Table::random`] will choose.
    pub fn prefetch_random(&self, random: u64, step: prefetch::PrefetchStep) {
        if self.directory.slot_counts().is_some() {
            return;
        }
        let looks = self.draws(random).take(LOOKS_AHEAD);
        match step {
            prefetch::PrefetchStep::Segment => prefetch(self.directory.address_of(scramble(random))),
            prefetch::PrefetchStep::Bucket => looks.for_each(|(bucket, _)| prefetch(ptr::from_ref(bucket).cast())),
            prefetch::PrefetchStep::Entry => {
                let slot = looks.map(|(bucket, index)| bucket.slots[index]).find(|slot| !slot.is_empty());
                if let Some(slot) = slot {
                    prefetch(slot.address() as *const u8);
                }
            }
        }
    }

    /// Returns an entry with a deadline near a place that `random` chooses; none if the search meets none there, although
    /// there may be some.
    pub fn random_volatile(&self, random: u64) -> Option<EntryRef<'_>> {
        if self.volatile_len() == 0 {
            return None;
        }
        let scrambled = scramble(random);
        let start = self
            .row_of_random(random)
            .map_or(scrambled, |(row, _)| self.first_of(row) | scrambled >> self.directory.slot_bits());
        let (mut position, mut found, mut met) = (Some(start), None, 0);
        for _ in 0..VOLATILE_STEPS_MAX {
            // Behind the end of the table is its beginning.
            let step = self.walk(position.unwrap_or(0), 1, |entry| {
                // Entries that lie together are equally likely; otherwise new ones would hide old ones.
                met += u32::from(entry.deadline().is_some());
                if entry.deadline().is_some() && scramble(random.rotate_left(met)).is_multiple_of(u64::from(met)) {
                    found = Some(entry);
                }
            });
            if found.is_some() {
                return found;
            }
            position = step.next;
        }
        None
    }

    /// Returns the first entry that a walk from `position` meets.
    fn first_from(&self, position: u64) -> Option<EntryRef<'_>> {
        let (mut position, mut found) = (Some(position), None);
        while let (Some(from), None) = (position, found) {
            position = self.walk(from, 1, |entry| found = found.or(Some(entry))).next;
        }
        found
    }

    /// Looks at up to `budget_buckets` buckets, from where the last step ended, and removes the keys with a deadline before
    /// `now_ms`. `on_expired` receives each such key and its memory to be freed.
    pub fn expire_step(
        &mut self,
        now_ms: i64,
        budget_buckets: usize,
        on_expired: &mut dyn FnMut(&[u8], Garbage),
    ) -> ExpireReport {
        let mut report = ExpireReport::default();
        while report.buckets < budget_buckets && self.volatile_len() > 0 {
            let position = self.expiry_position;
            let Some((number, _)) = self.directory.lead(position) else { break };
            let first = self.directory.first_index(number);
            let segment = self.directory[first];
            let start = segment.home(tag_of(position, segment.depth));
            let end = (start + budget_buckets - report.buckets).min(segment.length());
            let expired_before = report.expired;
            for bucket in start..end {
                self.prefetch_volatile(&segment, bucket + 2);
                self.expire_bucket(first, bucket, now_ms, &mut report, on_expired);
            }
            let next = end_position(&segment, position, end);
            self.expiry_position = next.unwrap_or(0);
            if report.expired > expired_before {
                self.directory.settle(first, &self.placement);
            }
            if next.is_none() {
                report.wrapped = true;
                return report;
            }
        }
        report.wrapped = self.volatile_len() == 0;
        report
    }

    fn prefetch_volatile(&self, segment: &Segment, bucket: usize) {
        let slots = segment.buckets().get(bucket).into_iter().flat_map(|bucket| bucket.slots);
        slots.filter(|slot| slot.has(VOLATILE)).for_each(|slot| prefetch(slot.address() as *const u8));
    }

    fn expire_bucket(
        &mut self,
        segment: usize,
        bucket: usize,
        now_ms: i64,
        report: &mut ExpireReport,
        on_expired: &mut dyn FnMut(&[u8], Garbage),
    ) {
        report.buckets += 1;
        let mut index = 0;
        while index < SLOTS {
            let slot = self.directory[segment].buckets()[bucket].slots[index];
            if slot.is_empty() {
                return;
            }
            index += 1;
            if !slot.has(VOLATILE) {
                continue;
            }
            // SAFETY: the entry of a filled slot lives.
            let entry = unsafe { Entry::at(slot.address()) };
            let remaining_ms = entry.deadline().map_or(i64::MAX, |deadline| deadline.saturating_sub(now_ms));
            report.sampled += 1;
            if remaining_ms >= 0 {
                report.ttl_sum_ms = report.ttl_sum_ms.saturating_add(remaining_ms);
                continue;
            }
            // Removing the entry has moved another one into this slot: look at the slot again.
            index -= 1;
            report.expired += 1;
            let entry = self.remove_at(SlotIndex { segment, slot: bucket * SLOTS + index });
            // SAFETY: the entry is of this heap, it is in no slot any more, and references that were lent are gone while
            // `self` is borrowed.
            unsafe { entry.destroy_with(&mut self.heap, |key, outside| on_expired(key, Garbage::new(outside))) };
        }
    }
}

/// An interval of positions from which slots are drawn: those that begin with the first `bits` bits of `first`, in segments
/// of at most the given depth.
#[derive(Clone, Copy)]
struct Area {
    first: u64,
    bits: u8,
    depth: u8,
}

/// The most steps of a search for an entry with a deadline.
const VOLATILE_STEPS_MAX: usize = 1_000;

/// The number of random slots that are tried before a walk looks for the next entry. Some one in five tries succeeds: a table
/// is rarely less than a third full, and a segment is rarely skipped more often than every second time.
const RANDOM_TRIES: u64 = 200;

/// The number of slots of a random choice that are prefetched: mostly one of two is filled.
const LOOKS_AHEAD: usize = 2;

/// Returns the next of a sequence of well-mixed numbers (the finaliser of SplitMix64).
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns the smallest fraction with its home in the bucket `end`, or behind it.
fn boundary(segment: &Segment, end: usize) -> usize {
    (end << 16).div_ceil(segment.length())
}

/// Returns the position where the bucket `end` of the segment that contains `position` begins; None at the end of the table.
fn end_position(segment: &Segment, position: u64, end: usize) -> Option<u64> {
    let depth = u32::from(segment.depth);
    let start = position & !(u64::MAX >> depth);
    let fraction = boundary(segment, end).next_multiple_of(1 << (depth & 3));
    u64::try_from(u128::from(start) + ((fraction as u128) << (48 - depth))).ok()
}
