//! The memory into which the kernel receives: a ring of buffers that the kernel takes, and that are given back to it one by
//! one.
//!
//! No connection owns a buffer while it is idle: the kernel chooses one when bytes are there. A chosen buffer belongs to the
//! receiver of the event, until [`Buffers::give_back`]. The layout is that of `io_uring_setup_buf_ring(3)`: an array of
//! entries, with its tail in the unused part of the first entry. Belongs to one thread.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// The number of buffers; a power of two, as the kernel demands.
pub const BUFFERS: u16 = 256;

/// The size of a buffer.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// The distance between the starts of two buffers. It is no multiple of a page, because then the starts would share a few
/// lines of the first-level cache.
const STRIDE: usize = BUFFER_BYTES + 3 * 64;

const PAGE_BYTES: usize = 4096;

/// The buffers, and the ring in which they are handed to the kernel.
#[derive(Debug)]
pub struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    tail: u16,
}

// SAFETY: it owns both pieces of memory, and only it accesses them. The kernel writes only to buffers that it has taken,
// which this code does not read before the kernel has reported that it is done.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Creates all buffers, ready to be taken.
    pub fn new() -> Self {
        let mut buffers =
            Self { entries: allocate(entries_layout()).cast(), memory: allocate(memory_layout()), tail: 0 };
        (0..BUFFERS).for_each(|number| buffers.give_back(number));
        buffers
    }

    /// Returns the address of the ring, for the kernel.
    pub fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    /// Copies the first `count` bytes of a buffer that the kernel has filled to the start of `into`, and gives it back.
    #[inline]
    pub fn take(&mut self, number: u16, count: usize, into: &mut [u8]) -> usize {
        let count = count.min(BUFFER_BYTES).min(into.len());
        if number < BUFFERS {
            let start = self.start(number);
            // SAFETY: the buffer has BUFFER_BYTES bytes, all of them written at least once, and the kernel is done with it;
            // the destination is another slice, with room for them.
            unsafe { std::ptr::copy_nonoverlapping(start, into.as_mut_ptr(), count) };
            self.give_back(number);
        }
        count
    }

    /// Gives a buffer back to the kernel.
    #[inline]
    pub fn give_back(&mut self, number: u16) {
        if number >= BUFFERS {
            return;
        }
        let address = self.start(number) as u64;
        let index = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: the entry is one of the ring's, all of which are initialized, and the kernel does not read it before the
        // tail passes it. The tail lies in the first entry, in a part that the setters leave alone, and the kernel reads it
        // at the same time; hence the atomic store.
        unsafe {
            let entry = self.entries.as_ptr().add(index);
            (*entry).set_addr(address);
            (*entry).set_len(BUFFER_BYTES as u32);
            (*entry).set_bid(number);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    #[inline]
    fn start(&self, number: u16) -> *mut u8 {
        // SAFETY: the memory has room for all buffers, and callers name only these.
        unsafe { self.memory.as_ptr().add(usize::from(number) * STRIDE) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: both were allocated with these layouts. The ring that knew them is gone, and so are all its operations: a
        // caller that cannot be sure of that forgets the buffers instead.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), entries_layout());
            dealloc(self.memory.as_ptr(), memory_layout());
        }
    }
}

fn entries_layout() -> Layout {
    Layout::from_size_align(usize::from(BUFFERS) * size_of::<BufRingEntry>(), PAGE_BYTES).expect("a power of two")
}

fn memory_layout() -> Layout {
    Layout::from_size_align(usize::from(BUFFERS) * STRIDE, PAGE_BYTES).expect("a power of two")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout of this file is empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
