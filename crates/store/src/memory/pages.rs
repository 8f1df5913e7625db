//! The source of slabs and arrays of buckets: pages and chunks of 2 MiB regions, for all stores of the process.
//!
//! A table of millions of keys touches memory at random, so its memory should lie in huge pages; but the kernel takes
//! milliseconds to zero one, and the thread that touches it first waits for that. So a region is made ready by a thread of
//! its own before it is needed: when less than a quarter of a region is free, that thread maps the next one and touches it. A
//! process with little data keeps to ordinary pages and never starts the thread, and one that grows faster than the thread
//! takes an ordinary region instead of waiting. A region that was made ready and is not needed within a second is given back:
//! a process that has stopped growing should not keep it.
//!
//! A region is 64 chunks of 8 pages of 4 KiB. The lowest region that has room is used, so that the others can become empty
//! and be given back. Any thread may call; the lock is held for a search in 64 bytes and two small trees.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The size and alignment of a page, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The size and alignment of a chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = PAGE_BYTES * CHUNK_PAGES;

const CHUNK_PAGES: usize = 8;
const CHUNKS: usize = 64;
const REGION_BYTES: usize = CHUNK_BYTES * CHUNKS;
const REGION_PAGES: usize = CHUNKS * CHUNK_PAGES;

/// The next region is made ready when fewer pages than these are free.
const READY_BELOW_PAGES: usize = REGION_PAGES / 4;

/// The time after which an unused region is given back.
const SPARE_KEPT: Duration = Duration::from_secs(1);

/// A region: a bit for each page that is in use, a byte for each chunk.
struct Region {
    used: [u8; CHUNKS],
}

impl Region {
    /// Takes a page, of a chunk that is in use already if possible.
    fn take_page(&mut self) -> Option<usize> {
        let begun = self.used.iter().position(|&used| used != 0 && used != u8::MAX);
        let chunk = begun.or_else(|| self.used.iter().position(|&used| used == 0))?;
        let page = self.used[chunk].trailing_ones() as usize;
        self.used[chunk] |= 1 << page;
        Some((chunk * CHUNK_PAGES + page) * PAGE_BYTES)
    }

    fn take_chunk(&mut self) -> Option<usize> {
        let chunk = self.used.iter().position(|&used| used == 0)?;
        self.used[chunk] = u8::MAX;
        Some(chunk * CHUNK_BYTES)
    }

    fn has_page(&self) -> bool {
        self.used.iter().any(|&used| used != u8::MAX)
    }

    fn has_chunk(&self) -> bool {
        self.used.contains(&0)
    }

    fn is_empty(&self) -> bool {
        self.used.iter().all(|&used| used == 0)
    }
}

/// The regions of the process, by address.
struct Pool {
    regions: BTreeMap<usize, Region>,
    with_page: BTreeSet<usize>,
    with_chunk: BTreeSet<usize>,
    free_pages: usize,
    /// A ready region that is not used: it was prepared, or has become empty.
    spare: Option<usize>,
    /// The state of the thread that prepares regions: not started, idle, or asked for a region.
    preparer: Preparer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Preparer {
    Unborn,
    Idle,
    Asked,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    regions: BTreeMap::new(),
    with_page: BTreeSet::new(),
    with_chunk: BTreeSet::new(),
    free_pages: 0,
    spare: None,
    preparer: Preparer::Unborn,
});

/// The signal to the thread: a region is needed, or one is to be given back.
static CALLED: Condvar = Condvar::new();

/// Allocates a page, with arbitrary content.
pub(crate) fn allocate_page() -> NonNull<u8> {
    POOL.lock().allocate(1, |pool| &pool.with_page, Region::take_page)
}

/// Allocates a chunk, with arbitrary content.
pub(crate) fn allocate_chunk() -> NonNull<u8> {
    POOL.lock().allocate(CHUNK_PAGES, |pool| &pool.with_chunk, Region::take_chunk)
}

/// Takes a page back.
///
/// # Safety
/// `page` came from [`allocate_page`] and is not used again.
pub(crate) unsafe fn release_page(page: NonNull<u8>) {
    let place = page.addr().get() % REGION_BYTES / PAGE_BYTES;
    let (chunk, bit) = (place / CHUNK_PAGES, place % CHUNK_PAGES);
    POOL.lock().release(page, 1, |region| region.used[chunk] &= !(1 << bit));
}

/// Takes a chunk back.
///
/// # Safety
/// `chunk` came from [`allocate_chunk`] and is not used again.
pub(crate) unsafe fn release_chunk(chunk: NonNull<u8>) {
    let place = chunk.addr().get() % REGION_BYTES / CHUNK_BYTES;
    POOL.lock().release(chunk, CHUNK_PAGES, |region| region.used[place] = 0);
}

impl Pool {
    fn allocate(
        &mut self,
        pages: usize,
        open: impl Fn(&Self) -> &BTreeSet<usize>,
        take: impl Fn(&mut Region) -> Option<usize>,
    ) -> NonNull<u8> {
        let start = match open(self).first() {
            Some(&start) => start,
            None => self.add_region(),
        };
        let region = self.regions.get_mut(&start).expect("an open region is a region");
        let offset = take(region).expect("an open region has room");
        self.note(start);
        self.free_pages -= pages;
        self.ask_if_short();
        NonNull::new(std::ptr::with_exposed_provenance_mut(start + offset)).expect("a region is not at address zero")
    }

    fn release(&mut self, block: NonNull<u8>, pages: usize, clear: impl FnOnce(&mut Region)) {
        let start = block.addr().get() / REGION_BYTES * REGION_BYTES;
        clear(self.regions.get_mut(&start).expect("a block lies in a region"));
        self.free_pages += pages;
        if self.regions.len() > 1 && self.regions[&start].is_empty() {
            self.remove_region(start);
        } else {
            self.note(start);
        }
    }

    /// Brings the sets of regions with room up to date.
    fn note(&mut self, start: usize) {
        let region = &self.regions[&start];
        let (has_page, has_chunk) = (region.has_page(), region.has_chunk());
        for (set, belongs) in [(&mut self.with_page, has_page), (&mut self.with_chunk, has_chunk)] {
            if belongs {
                set.insert(start);
            } else {
                set.remove(&start);
            }
        }
    }

    #[cold]
    fn add_region(&mut self) -> usize {
        let start = self.spare.take().unwrap_or_else(map_region);
        self.regions.insert(start, Region { used: [0; CHUNKS] });
        self.free_pages += REGION_PAGES;
        self.note(start);
        start
    }

    #[cold]
    fn remove_region(&mut self, start: usize) {
        self.regions.remove(&start);
        self.with_page.remove(&start);
        self.with_chunk.remove(&start);
        self.free_pages -= REGION_PAGES;
        if self.spare.is_none() && self.preparer == Preparer::Idle {
            self.spare = Some(start);
            CALLED.notify_one();
        } else {
            unmap_region(start);
        }
    }

    /// Asks the thread for the next region if little of this region is free.
    #[inline]
    fn ask_if_short(&mut self) {
        if self.free_pages < READY_BELOW_PAGES && self.spare.is_none() && self.preparer != Preparer::Asked {
            self.ask();
        }
    }

    #[cold]
    fn ask(&mut self) {
        if self.preparer == Preparer::Unborn {
            let thread = std::thread::Builder::new().name("sleeve-pages".into());
            if thread.spawn(prepare_regions).is_err() {
                // Without the thread all regions have ordinary pages, which are slower.
                return;
            }
        }
        self.preparer = Preparer::Asked;
        CALLED.notify_one();
    }
}

/// The life of the thread that makes regions ready.
fn prepare_regions() {
    let mut pool = POOL.lock();
    loop {
        if pool.preparer == Preparer::Asked {
            let region = MutexGuard::unlocked(&mut pool, map_huge_region);
            pool.spare = Some(region);
            pool.preparer = Preparer::Idle;
        } else if pool.spare.is_none() {
            CALLED.wait(&mut pool);
        } else if CALLED.wait_for(&mut pool, SPARE_KEPT).timed_out()
            && let Some(region) = pool.spare.take()
        {
            MutexGuard::unlocked(&mut pool, || unmap_region(region));
        }
    }
}

#[cfg(not(miri))]
use mapped::{map_huge_region, map_region, unmap_region};

/// Regions from the kernel.
#[cfg(not(miri))]
mod mapped {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::REGION_BYTES;

    /// Maps a region of ordinary pages, which take memory when they are touched.
    pub fn map_region() -> usize {
        // Twice the size contains an aligned region; the memory before and behind it is given back.
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: an anonymous mapping at an address that the kernel chooses.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * REGION_BYTES, access, flags) };
        let layout = std::alloc::Layout::new::<[u8; REGION_BYTES]>();
        let mapped = mapped.unwrap_or_else(|_| std::alloc::handle_alloc_error(layout));
        let start = mapped.expose_provenance();
        let aligned = start.next_multiple_of(REGION_BYTES);
        unmap(start, aligned - start);
        unmap(aligned + REGION_BYTES, start + REGION_BYTES - aligned);
        aligned
    }

    /// Maps a region of one huge page, if the kernel has one, and touches it.
    pub fn map_huge_region() -> usize {
        let start = map_region();
        let address = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // SAFETY: the region was mapped a moment ago, and there is no reference to it.
        unsafe {
            if madvise(address.cast(), REGION_BYTES, Advice::LinuxHugepage).is_ok() {
                address.write_volatile(0);
            }
        }
        start
    }

    /// Gives a region back to the kernel.
    pub fn unmap_region(start: usize) {
        unmap(start, REGION_BYTES);
    }

    fn unmap(start: usize, length: usize) {
        if length != 0 {
            // SAFETY: the range belongs to a mapping of this file, and nothing in it is used. Where the kernel refuses,
            // the range stays mapped and is lost, which is no reason to stop.
            _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(start), length) };
        }
    }
}

#[cfg(miri)]
use allocated::{map_huge_region, map_region, unmap_region};

/// Regions from the global allocator, for an interpreter that knows no mappings.
#[cfg(miri)]
mod allocated {
    use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

    use super::REGION_BYTES;

    const LAYOUT: Layout = match Layout::from_size_align(REGION_BYTES, REGION_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("the region's size is a power of two"),
    };

    pub fn map_region() -> usize {
        // SAFETY: the layout's size is not zero.
        let block = unsafe { alloc(LAYOUT) };
        if block.is_null() { handle_alloc_error(LAYOUT) } else { block.expose_provenance() }
    }

    pub fn map_huge_region() -> usize {
        map_region()
    }

    pub fn unmap_region(start: usize) {
        // SAFETY: the region came from `map_region`.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(start), LAYOUT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_chunks_never_overlap_and_come_back() {
        let (mut blocks, mut state) = (Vec::new(), 5u64);
        for round in 0..if cfg!(miri) { 60 } else { 6_000 } {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let is_chunk = state >> 60 == 0;
            let (block, bytes) = match is_chunk {
                true => (allocate_chunk(), CHUNK_BYTES),
                false => (allocate_page(), PAGE_BYTES),
            };
            assert_eq!(block.addr().get() % bytes, 0);
            // SAFETY: the block has so many bytes.
            unsafe { block.write_bytes(round as u8, bytes) };
            blocks.push((block, bytes, round as u8));
            if round % 1_000 > 500 || blocks.len() > 2_500 {
                let (block, bytes, filling) = blocks.swap_remove((state >> 20) as usize % blocks.len());
                // SAFETY: the block is in use and is released once.
                unsafe {
                    assert!(std::slice::from_raw_parts(block.as_ptr(), bytes).iter().all(|&byte| byte == filling));
                    if bytes == CHUNK_BYTES { release_chunk(block) } else { release_page(block) }
                }
            }
        }
        for (block, bytes, filling) in blocks {
            // SAFETY: as above.
            unsafe {
                assert_eq!([block.read(), block.add(bytes - 1).read()], [filling; 2]);
                if bytes == CHUNK_BYTES { release_chunk(block) } else { release_page(block) }
            }
        }
    }
}
