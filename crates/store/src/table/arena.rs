//! Where the arrays of buckets live: 64 KiB pools, one set of them for each table.
//!
//! A growing table frees arrays of one length and asks for arrays of the next, at every time some of each. With a
//! general allocator, which keeps blocks of one size together, a fifth of the table's memory would be such remains.
//! Here all lengths share the pools: a pool has 128 units of eight buckets, a word with one bit for each unit, and
//! an array takes the first run of units that is free. Arrays that are shorter than 24 buckets belong to small tables,
//! and those longer than a pool do not occur in practice; both go to the global allocator, and so do the first few of
//! each table, because a whole pool would be too much for a table of some hundred keys.
//!
//! Used by the table that owns it, under its shard's lock.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::bucket::Bucket;
use crate::memory::pages::{CHUNK_BYTES, allocate_chunk, release_chunk};

const UNIT_BUCKETS: usize = 8;
const POOL_BYTES: usize = 128 * UNIT_BUCKETS * size_of::<Bucket>();
const _: () = assert!(POOL_BYTES == CHUNK_BYTES, "a pool is a chunk");

/// A table begins to use pools when this much lies in arrays of the global allocator.
const SMALL_BYTES: usize = 16 * 1024;

/// The lengths, in buckets, of the arrays that pools hold.
const POOLED: std::ops::RangeInclusive<usize> = 24..=64;

const UNITS_MAX: u32 = (*POOLED.end() / UNIT_BUCKETS) as u32;

struct Pool {
    start: NonNull<Bucket>,
    /// One bit for each unit that is in use.
    used: u128,
}

/// The pools of one table, in the order of their addresses.
pub(crate) struct Arena {
    pools: Vec<Pool>,
    /// The bytes of arrays outside of the pools.
    outside_bytes: usize,
    /// By units: no pool before this one has a run of so many free units.
    first_with_room: [usize; UNITS_MAX as usize + 1],
}

fn array_layout(length: usize) -> Layout {
    Layout::array::<Bucket>(length).expect("a segment is far smaller than the address space")
}

/// A unit of an array that is not a multiple of eight buckets long is lost in part.
fn units(length: usize) -> u32 {
    length.div_ceil(UNIT_BUCKETS) as u32
}

fn run(units: u32) -> u128 {
    (1 << units) - 1
}

/// The first place where so many units in a row are free.
fn first_run(used: u128, units: u32) -> Option<u32> {
    let free = (1..units).fold(!used, |free, shift| free & !used >> shift);
    // A run that begins too near the end would have been cut short by the zeros that were shifted in.
    (free != 0).then(|| free.trailing_zeros())
}

impl Arena {
    pub const fn new() -> Self {
        Self { pools: Vec::new(), outside_bytes: 0, first_with_room: [0; UNITS_MAX as usize + 1] }
    }

    /// Returns an array of empty buckets. `length` is not zero.
    pub fn allocate(&mut self, length: usize) -> NonNull<Bucket> {
        let array = if POOLED.contains(&length) && self.outside_bytes >= SMALL_BYTES {
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
        let start = self.first_with_room[units as usize];
        let found =
            (start..self.pools.len()).find_map(|index| Some((index, first_run(self.pools[index].used, units)?)));
        let Some((index, first)) = found else {
            self.first_with_room[units as usize] = self.pools.len();
            return self.add_region(run(units));
        };
        self.first_with_room[units as usize] = index;
        let pool = &mut self.pools[index];
        pool.used |= run(units) << first;
        // SAFETY: a pool has 128 units, and the run ends inside it.
        unsafe { pool.start.add(first as usize * UNIT_BUCKETS) }
    }

    /// Lets searches begin at the pool `index` again for as many units as it has room for.
    fn offer(&mut self, index: usize) {
        for units in 1..=UNITS_MAX {
            let first = &mut self.first_with_room[units as usize];
            if index < *first {
                if first_run(self.pools[index].used, units).is_none() {
                    return;
                }
                *first = index;
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

    /// Takes an array back.
    ///
    /// # Safety
    /// `array` came from `allocate` of this arena with the same length and is not used again.
    pub unsafe fn release(&mut self, array: NonNull<Bucket>, length: usize) {
        let behind = self.pools.partition_point(|pool| pool.start <= array);
        let inside = self.pools[..behind].last().map(|pool| array.addr().get() - pool.start.addr().get());
        let Some(bytes) = inside.filter(|&bytes| bytes < POOL_BYTES) else {
            let layout = array_layout(length);
            self.outside_bytes -= layout.size();
            // SAFETY: an array that is in no pool came from `alloc` with this layout.
            return unsafe { dealloc(array.as_ptr().cast(), layout) };
        };
        let index = behind - 1;
        let pool = &mut self.pools[index];
        pool.used &= !(run(units(length)) << (bytes / size_of::<Bucket>() / UNIT_BUCKETS));
        if pool.used == 0 && self.pools.len() > 1 {
            self.pools.remove(index).free();
            // The pools behind it have moved one place back.
            self.first_with_room.iter_mut().filter(|first| **first > index).for_each(|first| *first -= 1);
        } else {
            self.offer(index);
        }
    }
}

impl Pool {
    fn free(&self) {
        // SAFETY: the pool is a chunk, and its owner has let go of it.
        unsafe { release_chunk(self.start.cast()) };
    }
}

impl Drop for Arena {
    /// Frees the pools with whatever is in them; other arrays must have been released.
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
