//! The allocator of the program: mimalloc, with large blocks off the beginning of a page, and the two calls that the server
//! makes to it for MEMORY PURGE and MEMORY MALLOC-STATS.
//!
//! A library cannot know which allocator its program has, so `main` enters this one at the start.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use mimalloc::MiMalloc;
use sleeve_server::host::allocator::{self, Allocator};

/// mimalloc, with large blocks that begin a little behind the beginning of a page.
///
/// mimalloc begins large blocks at a page's beginning, and the kernel begins a socket's memory there, too. The kernel copies
/// between the two with `rep movsb`. That copy is slow on processors that mistake a load for one of recently stored bytes
/// when both addresses have nearly the same place in their pages: a GET of 50 kB took 55 us of CPU instead of 12.
#[derive(Debug)]
pub struct OffPage;

/// The size in bytes from which on a block is large.
const LARGE_MIN: usize = 16 * 1024;

/// The distance in bytes between the beginning of the allocated memory and a large block in it. No larger alignment may be
/// requested.
const OFFSET: usize = 128;

/// Returns the layout that is allocated for a large block; none if the block is not large.
#[inline]
fn widened(layout: Layout) -> Option<Layout> {
    let is_large = layout.size() >= LARGE_MIN && layout.align() <= OFFSET;
    // A size close to the largest possible has no room for the offset. mimalloc refuses it.
    layout
        .size()
        .checked_add(OFFSET)
        .filter(|_| is_large)
        .and_then(|size| Layout::from_size_align(size, layout.align()).ok())
}

// SAFETY: a block is memory of mimalloc, or lies wholly in such memory, `OFFSET` bytes behind its beginning, which is a multiple
// of every alignment for which that is done. Which of the two follows from its layout alone, which is the same when it is given
// back. Nothing here panics.
unsafe impl GlobalAlloc for OffPage {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match widened(layout) {
            // SAFETY: the size is not 0.
            Some(widened) => behind(unsafe { MiMalloc.alloc(widened) }),
            // SAFETY: the caller's promise.
            None => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match widened(layout) {
            // SAFETY: the size is not 0.
            Some(widened) => behind(unsafe { MiMalloc.alloc_zeroed(widened) }),
            // SAFETY: the caller's promise.
            None => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match widened(layout) {
            // SAFETY: a block of this layout lies behind the beginning of its memory.
            Some(widened) => unsafe { MiMalloc.dealloc(block.sub(OFFSET), widened) },
            // SAFETY: the caller's promise.
            None => unsafe { MiMalloc.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the alignment is a layout's, and the caller promises that the size is one.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (widened(layout), widened(wanted)) {
            // SAFETY: the caller's promise.
            (None, None) => unsafe { MiMalloc.realloc(block, layout, size) },
            (Some(memory), Some(wanted)) => {
                // SAFETY: a block of this layout lies behind the beginning of its memory.
                behind(unsafe { MiMalloc.realloc(block.sub(OFFSET), memory, wanted.size()) })
            }
            _ => {
                // SAFETY: the size is not 0: the caller's promise.
                let new = unsafe { self.alloc(wanted) };
                if !new.is_null() {
                    // SAFETY: both blocks have so many bytes, no other code has the new one, and the old one is given back
                    // once.
                    unsafe {
                        ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                }
                new
            }
        }
    }
}

/// Returns the beginning of a large block in its memory.
#[inline]
fn behind(memory: *mut u8) -> *mut u8 {
    // SAFETY: the memory is longer than this by the block's length.
    if memory.is_null() { memory } else { unsafe { memory.add(OFFSET) } }
}

/// Tells the server which allocator this program has.
pub fn enter() {
    allocator::enter(Allocator { name: "mimalloc", purge, describe });
}

/// Gives back the pages that hold no block any more: those of this thread's heap and those that no thread owns.
fn purge() {
    // SAFETY: the function takes no pointer and may be called at any time, on any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Returns the allocator's own counters, as JSON.
fn describe() -> String {
    match MiMalloc::stats_json() {
        Ok(stats) => String::from_utf8_lossy(stats.to_bytes()).into_owned(),
        Err(reason) => format!("Stats not available: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_bytes_at_every_alignment() {
        let sizes = [1, 100, LARGE_MIN - 1, LARGE_MIN, LARGE_MIN + 1, 65_536, 1 << 20];
        for align in [1, 8, OFFSET, 2 * OFFSET, 4096] {
            for (old, new) in sizes.iter().flat_map(|old| sizes.map(|new| (*old, new))) {
                let layout = Layout::from_size_align(old, align).expect("a layout");
                // SAFETY: the sizes are not 0; each block is used within its size, and given back once with its layout.
                unsafe {
                    let block = OffPage.alloc_zeroed(layout);
                    assert!(block.addr().is_multiple_of(align) && (0..old).all(|at| *block.add(at) == 0));
                    (0..old).for_each(|at| *block.add(at) = at as u8);
                    let block = OffPage.realloc(block, layout, new);
                    assert!(block.addr().is_multiple_of(align), "{old} to {new} at {align}");
                    assert!((0..old.min(new)).all(|at| *block.add(at) == at as u8), "{old} to {new} at {align}");
                    (0..new).for_each(|at| *block.add(at) = 7);
                    OffPage.dealloc(block, Layout::from_size_align(new, align).expect("a layout"));
                }
            }
        }
    }

    #[test]
    fn allocations_beyond_all_memory_are_refused() {
        let layout = Layout::from_size_align(isize::MAX as usize - 7, 8).expect("a layout");
        // SAFETY: the size is not 0.
        assert!(unsafe { OffPage.alloc(layout) }.is_null());
    }
}
