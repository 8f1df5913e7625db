//! The memory of a table's arrays of buckets: 32 KiB pools, one set of them for each table.
//!
//! A growing table frees arrays of one length and asks for arrays of the next, at every time some of each. With a general
//! allocator, which keeps blocks of one size together, a fifth of the table's memory would be such remains. Here all lengths
//! share the pools: a pool has 128 units of four buckets, a word with one bit for each unit, and an array takes the first run
//! of units that is free. In time all free memory lies in pieces that are too small, because arrays grow; then the table has
//! the arrays of one pool moved together ([`Arena::untidy`]). Arrays that are shorter than 20 buckets belong to small tables,
//! and those longer than a pool do not occur in practice; both go to the global allocator, and so do the first few of each
//! table, because a whole pool would be too much for a table of some hundred keys.
//!
//! Used by the table that owns it, under its shard's lock.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::bucket::Bucket;
use crate::memory::pages::{CHUNK_BYTES, allocate_chunk, release_chunk};

const UNIT_BUCKETS: usize = 4;
const POOL_UNITS: u32 = 128;
const POOL_BYTES: usize = POOL_UNITS as usize * UNIT_BUCKETS * size_of::<Bucket>();
const _: () = assert!(POOL_BYTES == CHUNK_BYTES, "a pool is a chunk");

/// The bytes in arrays of the global allocator beyond which a table begins to use pools.
const SMALL_BYTES: usize = 8 * 1024;

/// The lengths, in buckets, of the arrays that pools hold.
const POOLED: std::ops::RangeInclusive<usize> = 20..=64;

const UNITS_MAX: u32 = (*POOLED.end() / UNIT_BUCKETS) as u32;

/// The number of pools among which the one to be tidied is chosen.
const TIDIED_OF: usize = 64;

struct Pool {
    start: NonNull<Bucket>,
    /// A bit for each unit that is in use.
    used: u128,
}

/// The pools of one table, in the order of their addresses.
pub(crate) struct Arena {
    pools: Vec<Pool>,
    /// The bytes of arrays outside of the pools.
    outside_bytes: usize,
    /// For each number of units, the index of the first pool that may have a run of so many free units.
    first_with_room: [u32; UNITS_MAX as usize + 1],
    /// The pool at which the next search for one to be tidied begins.
    next_untidy: usize,
}

fn array_layout(length: usize) -> Layout {
    Layout::array::<Bucket>(length).expect("a segment is far smaller than the address space")
}

/// Returns the number of units of an array; if its length is not a multiple of four buckets, a part of the last unit is lost.
pub(super) fn units(length: usize) -> u32 {
    length.div_ceil(UNIT_BUCKETS) as u32
}

fn run(units: u32) -> u128 {
    (1 << units) - 1
}

/// Returns the first place where so many units in a row are free.
fn first_run(used: u128, units: u32) -> Option<u32> {
    let (mut free, mut length) = (!used, 1);
    while length < units {
        // A run of `length` units, and another that begins inside it or right behind it, make a longer run.
        let step = length.min(units - length);
        free &= free >> step;
        length += step;
    }
    // A run that begins too near the end would have been cut short by the zeros that were shifted in.
    (free != 0).then(|| free.trailing_zeros())
}

impl Arena {
    pub const fn new() -> Self {
        Self { pools: Vec::new(), outside_bytes: 0, first_with_room: [0; UNITS_MAX as usize + 1], next_untidy: 0 }
    }

    fn is_pooled(&self, length: usize) -> bool {
        POOLED.contains(&length) && self.outside_bytes >= SMALL_BYTES
    }

    /// Returns an array of empty buckets. `length` is not zero.
    pub fn allocate(&mut self, length: usize) -> NonNull<Bucket> {
        let array = if self.is_pooled(length) {
            self.allocate_units(units(length))
        } else {
            let layout = array_layout(length);
            self.outside_bytes += layout.size();
            // SAFETY: the layout's size is not zero.
            let block = unsafe { alloc(layout) };
            NonNull::new(block.cast()).unwrap_or_else(|| handle_alloc_error(layout))
        };
        // SAFETY: the array has `length` buckets, and a bucket of zeros is a bucket of empty slots.
        unsafe { array.write_bytes(0, length) };
        array
    }

    fn allocate_units(&mut self, units: u32) -> NonNull<Bucket> {
        match self.find_run(units) {
            Some((index, first)) => self.pools[index].take(first, units),
            None => self.add_region(run(units)),
        }
    }

    /// Returns the first pool with so many free units in a row, and the first of these.
    fn find_run(&mut self, units: u32) -> Option<(usize, u32)> {
        let start = self.first_with_room[units as usize] as usize;
        let found =
            (start..self.pools.len()).find_map(|index| Some((index, first_run(self.pools[index].used, units)?)));
        self.first_with_room[units as usize] = found.map_or(self.pools.len(), |(index, _)| index) as u32;
        found
    }

    /// Returns a pool to be tidied before an array of this length is requested, and the first free unit in it: its arrays can
    /// be moved together to make room, and no pool has room now. Looks at a few pools and takes the one with the most free
    /// units.
    pub fn untidy(&mut self, length: usize) -> Option<(usize, u32)> {
        if !self.is_pooled(length) || self.find_run(units(length)).is_some() {
            return None;
        }
        let count = self.pools.len().min(TIDIED_OF);
        let looked_at = (0..count).map(|step| (self.next_untidy + step) % self.pools.len());
        let best = looked_at.min_by_key(|&index| self.pools[index].used.count_ones())?;
        self.next_untidy += count;
        let used = self.pools[best].used;
        (POOL_UNITS - used.count_ones() >= units(length)).then(|| (best, used.trailing_ones()))
    }

    /// Returns whether a pool has room for an array of this length.
    pub fn has_room(&self, pool: usize, length: usize) -> bool {
        first_run(self.pools[pool].used, units(length)).is_some()
    }

    /// Returns the first unit of a pool, from this one on, that is in use, and the buckets in use from there on: an array,
    /// and others that lie against it.
    pub fn buckets_from(&self, pool: usize, unit: u32) -> Option<(u32, &[Bucket])> {
        let Pool { start, used } = self.pools[pool];
        let rest = used.checked_shr(unit).filter(|&rest| rest != 0)?;
        let first = unit + rest.trailing_zeros();
        let length = (used >> first).trailing_ones() as usize * UNIT_BUCKETS;
        // SAFETY: units in use are arrays of buckets, inside the pool.
        Some((first, unsafe { std::slice::from_raw_parts(start.add(first as usize * UNIT_BUCKETS).as_ptr(), length) }))
    }

    /// Moves an array down to the first free unit of its pool, and returns its new address.
    ///
    /// # Safety
    /// `array` is in a pool of this arena, and came with the same length. Those in front of it in the pool have been moved
    /// down. It is used at its new place only.
    pub unsafe fn move_down(&mut self, array: NonNull<Bucket>, length: usize) -> NonNull<Bucket> {
        let (index, unit) = self.place_of(array).expect("the array is in a pool");
        let (pool, units) = (&mut self.pools[index], units(length));
        pool.used &= !(run(units) << unit);
        let moved = pool.take(pool.used.trailing_ones(), units);
        // SAFETY: from the first free unit to the end of the array there is nothing else.
        unsafe { moved.copy_from(array, length) };
        moved
    }

    /// Returns the pool in which an array lies, and the first of its units.
    fn place_of(&self, array: NonNull<Bucket>) -> Option<(usize, u32)> {
        let index = self.pools.partition_point(|pool| pool.start <= array).checked_sub(1)?;
        let bytes = array.addr().get() - self.pools[index].start.addr().get();
        (bytes < POOL_BYTES).then(|| (index, (bytes / size_of::<Bucket>() / UNIT_BUCKETS) as u32))
    }

    /// Lets searches begin at the pool `index` again, for all lengths that it has room for.
    pub fn offer(&mut self, index: usize) {
        for units in 1..=UNITS_MAX {
            let first = &mut self.first_with_room[units as usize];
            if index < *first as usize {
                if first_run(self.pools[index].used, units).is_none() {
                    return;
                }
                *first = index as u32;
            }
        }
    }

    #[cold]
    fn add_region(&mut self, used: u128) -> NonNull<Bucket> {
        let start: NonNull<Bucket> = allocate_chunk().cast();
        let index = self.pools.partition_point(|pool| pool.start < start);
        self.pools.insert(index, Pool { start, used });
        // The pools behind it have moved one place on, so that a search begins one place early at worst.
        self.offer(index);
        start
    }

    /// Takes a released array back.
    ///
    /// # Safety
    /// `array` came from `allocate` of this arena with the same length and is not used again.
    pub unsafe fn release(&mut self, array: NonNull<Bucket>, length: usize) {
        let Some((index, unit)) = self.place_of(array) else {
            let layout = array_layout(length);
            self.outside_bytes -= layout.size();
            // SAFETY: an array that is in no pool came from `alloc` with this layout.
            return unsafe { dealloc(array.as_ptr().cast(), layout) };
        };
        let pool = &mut self.pools[index];
        pool.used &= !(run(units(length)) << unit);
        if pool.used == 0 && self.pools.len() > 1 {
            self.pools.remove(index).free();
            // The pools behind it have moved one place back.
            self.first_with_room.iter_mut().filter(|first| **first as usize > index).for_each(|first| *first -= 1);
        } else {
            self.offer(index);
        }
    }
}

impl Pool {
    /// Takes `units` free units from `first` on.
    fn take(&mut self, first: u32, units: u32) -> NonNull<Bucket> {
        self.used |= run(units) << first;
        // SAFETY: a pool has 128 units, and the run ends inside it.
        unsafe { self.start.add(first as usize * UNIT_BUCKETS) }
    }

    fn free(&self) {
        // SAFETY: the pool is a chunk, and its owner has let go of it.
        unsafe { release_chunk(self.start.cast()) };
    }
}

impl Drop for Arena {
    /// Frees the pools with their contents; other arrays must have been released.
    fn drop(&mut self) {
        self.pools.iter().for_each(Pool::free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_to_the_last_unit() {
        assert_eq!(first_run(0, 8), Some(0));
        assert_eq!(first_run(!0, 1), None);
        assert_eq!(first_run(!(0b111 << 125), 3), Some(125));
        assert_eq!(first_run(!(0b111 << 125), 4), None);
        assert_eq!(first_run(0b1_0011, 2), Some(2));
        assert_eq!(first_run(0b1_0011, 3), Some(5));
        for units in 1..=UNITS_MAX {
            assert_eq!(first_run(!(run(units) << 77), units), Some(77));
            assert_eq!(first_run(!(run(units) << 77), units + 1), None);
        }
    }

    /// Releases a third of many arrays, and moves the others until there is room for longer ones: each keeps its contents.
    #[test]
    fn arrays_that_are_moved_together_stay_what_they_are() {
        let mut arena = Arena::new();
        let mut arrays = Vec::new();
        let add = |arena: &mut Arena, arrays: &mut Vec<(NonNull<Bucket>, usize, u64)>, length: usize, number: u64| {
            let array = arena.allocate(length);
            // SAFETY: the array has so many buckets of eight words each.
            unsafe { (0..length * 8).for_each(|word| array.cast::<u64>().add(word).write(number)) };
            arrays.push((array, length, number));
        };
        let lengths = [20, 24, 28, 32, 36, 40, 48, 56];
        (0..400).for_each(|number| add(&mut arena, &mut arrays, lengths[number as usize * 5 % 8], number));
        for at in (0..130).rev() {
            let (array, length, _) = arrays.swap_remove(at * 3);
            // SAFETY: each array is released once.
            unsafe { arena.release(array, length) };
        }
        let (mut number, pools) = (400, arena.pools.len());
        loop {
            if let Some((pool, mut unit)) = arena.untidy(64) {
                while !arena.has_room(pool, 64) {
                    let (at, buckets) = arena.buckets_from(pool, unit).expect("so much is free in the pool");
                    let first = buckets.as_ptr();
                    let moved = arrays.iter_mut().find(|(array, ..)| array.as_ptr().cast_const() == first);
                    let (array, length, _) = moved.expect("an array begins there");
                    // SAFETY: the array is known by its new place alone.
                    *array = unsafe { arena.move_down(*array, *length) };
                    unit = at + units(*length);
                }
                arena.offer(pool);
            } else if arena.find_run(units(64)).is_none() {
                break;
            }
            add(&mut arena, &mut arrays, 64, number);
            number += 1;
        }
        assert!(number > 440 && arena.pools.len() == pools, "{number}");
        for (array, length, number) in arrays {
            // SAFETY: as above.
            unsafe {
                assert!((0..length * 8).all(|word| array.cast::<u64>().add(word).read() == number));
                arena.release(array, length);
            }
        }
    }

    #[test]
    fn arrays_never_overlap_and_regions_are_given_back() {
        let mut arena = Arena::new();
        let mut arrays = Vec::new();
        let mut state = 3u64;
        for round in 0..if cfg!(miri) { 120 } else { 4000 } {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let length = [1, 5, 24, 32, 39, 40, 48, 56, 64, 128][(state >> 33) as usize % 10];
            arrays.push((arena.allocate(length), length));
            if round % 3 > 0 {
                let (array, length) = arrays.swap_remove((state >> 40) as usize % arrays.len());
                // SAFETY: each array is released once.
                unsafe { arena.release(array, length) };
            }
        }
        let mut places: Vec<_> = arrays.iter().map(|&(array, length)| (array.addr().get(), length * 64)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        for (array, length) in arrays {
            // SAFETY: as above.
            unsafe { arena.release(array, length) };
        }
        assert!(arena.pools.len() == 1 && arena.pools[0].used == 0);
    }
}
