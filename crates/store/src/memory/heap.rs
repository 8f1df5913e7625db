//! The memory of entries: cells of equal size in slabs of one page, one heap for each table.
//!
//! General allocators round a small block up to 16 bytes; with one block for each key that is a tenth of the memory of a
//! store of small values. Here cells come in steps of 8 bytes up to 256, and beyond, up to a quarter of a slab, in the sizes
//! of which 15, 14 and so on to four fill one: packed collections are of that size. A heap belongs to one table and is used
//! under its shard's lock, so that neither side of an allocation costs an atomic operation, and emptying a table frees whole
//! slabs. Larger blocks go to the global allocator, and so do the first few KiB of each heap: a slab for each size would be
//! too much for a small table, of which there may be very many. The heap counts the bytes in use, and is told about memory
//! that entries own elsewhere. It does not know the contents of a cell.
//!
//! A slab is aligned to its size, so a cell's address leads to its slab. Each size has two lists of slabs: those with a free
//! cell and those without. A slab that becomes empty is given back unless it is the last one with room.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::pages::{PAGE_BYTES as SLAB_BYTES, allocate_page, release_page};

/// The bytes in blocks of the global allocator beyond which a heap begins to use slabs.
const SMALL_BYTES: usize = 8192;
const HEADER_BYTES: usize = size_of::<Slab>();
const FINE_MAX: usize = 256;
const CELL_MAX: usize = shared_bytes(FEWEST_CELLS);
const CELL_MIN: usize = 16;
const FINE_CLASSES: usize = (FINE_MAX - CELL_MIN) / 8 + 1;
const CLASSES: usize = FINE_CLASSES + MOST_CELLS - FEWEST_CELLS + 1;

/// The least and the greatest number of larger cells that share a slab.
const FEWEST_CELLS: usize = 4;
const MOST_CELLS: usize = 15;

/// Returns the size of the largest cell of which so many fit into a slab.
const fn shared_bytes(cells: usize) -> usize {
    ((SLAB_BYTES - HEADER_BYTES) / cells) & !7
}

/// The start of a slab. Cells follow; a free cell that was used before holds the offset of the next one.
#[repr(C)]
struct Slab {
    next: *mut Slab,
    previous: *mut Slab,
    /// Offset of the first cell that was freed; 0 if there is none.
    free: u16,
    /// Offset of the first cell that was never used.
    fresh: u16,
    used: u16,
}

/// The slabs of one size.
#[derive(Clone, Copy)]
struct SizeClass {
    partial: *mut Slab,
    full: *mut Slab,
}

/// The cells of one table.
pub(crate) struct Heap {
    classes: [SizeClass; CLASSES],
    bytes: usize,
    /// The bytes of blocks of the global allocator that could be cells.
    small_bytes: usize,
    /// The watch of the entries' buffers, if there is one; one word, because every table has the field and hardly any uses
    /// it.
    watch: Option<Box<Box<dyn Watch>>>,
}

/// A watch that is told of changes to the buffers that entries own outside of the heap.
pub(crate) trait Watch: Send {
    /// Learns that these bytes of a buffer are about to change, or to be added.
    fn change(&mut self, buffer: &Arc<Vec<u8>>, touched: Range<usize>);

    /// Learns that an entry releases a buffer.
    fn let_go(&mut self, buffer: &Arc<Vec<u8>>);

    /// Returns itself as `Any`, to be downcast.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// A block, and whether it is a cell; other blocks come from the global allocator.
pub(crate) struct Block {
    pub start: NonNull<u8>,
    pub is_cell: bool,
}

/// The bytes that a block of `size` bytes really takes.
#[inline]
pub(crate) fn block_bytes(size: usize) -> usize {
    if size <= FINE_MAX {
        size.max(CELL_MIN).next_multiple_of(8)
    } else if size <= CELL_MAX {
        shared_bytes(cells_of(size))
    } else {
        // There are eight steps for each doubling; the size classes of the usual allocators are among them.
        let step = 1 << (usize::BITS - 1 - (size - 1).leading_zeros() - 3);
        size.next_multiple_of(step)
    }
}

/// Returns the number of larger cells, each with room for `size` bytes, that share a slab.
#[inline]
fn cells_of(size: usize) -> usize {
    (SLAB_BYTES - HEADER_BYTES) / size.next_multiple_of(8)
}

#[inline]
fn class_of(size: usize) -> usize {
    if size <= FINE_MAX { size.max(CELL_MIN).div_ceil(8) - 2 } else { FINE_CLASSES + MOST_CELLS - cells_of(size) }
}

#[inline]
fn cell_bytes(class: usize) -> usize {
    if class < FINE_CLASSES { CELL_MIN + class * 8 } else { shared_bytes(MOST_CELLS - (class - FINE_CLASSES)) }
}

fn block_layout(size: usize) -> Layout {
    Layout::from_size_align(block_bytes(size), 8).expect("a block is smaller than the address space")
}

impl Heap {
    pub const fn new() -> Self {
        let classes = [SizeClass { partial: ptr::null_mut(), full: ptr::null_mut() }; CLASSES];
        Self { classes, bytes: 0, small_bytes: 0, watch: None }
    }

    /// Returns the bytes in use: cells, larger blocks, and memory added by [`Heap::own`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the watch of the entries' buffers, if there is one.
    #[inline]
    pub fn watch(&mut self) -> &mut Option<Box<Box<dyn Watch>>> {
        &mut self.watch
    }

    /// Counts memory that an entry owns outside this heap.
    pub fn own(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Stops counting memory that [`Heap::own`] counted.
    pub fn disown(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Returns a block of at least `size` bytes, aligned to 8, with arbitrary content.
    #[inline]
    pub fn allocate(&mut self, size: usize) -> Block {
        self.bytes += block_bytes(size);
        if size > CELL_MAX || self.small_bytes < SMALL_BYTES {
            return Block { start: self.allocate_outside(size), is_cell: false };
        }
        let class = class_of(size);
        if self.classes[class].partial.is_null() {
            self.add_slab(class);
        }
        let slab = self.classes[class].partial;
        // SAFETY: a slab in a `partial` list is alive and has a free cell: one in its list of freed cells, which store the
        // offset of the next one in their first two bytes, or the one at `fresh`. Offsets stay inside the slab.
        unsafe {
            let offset = if (*slab).free != 0 {
                let offset = (*slab).free;
                (*slab).free = slab.byte_add(usize::from(offset)).cast::<u16>().read();
                offset
            } else {
                let offset = (*slab).fresh;
                (*slab).fresh += cell_bytes(class) as u16;
                offset
            };
            (*slab).used += 1;
            if (*slab).free == 0 && usize::from((*slab).fresh) + cell_bytes(class) > SLAB_BYTES {
                unlink(&mut self.classes[class].partial, slab);
                link(&mut self.classes[class].full, slab);
            }
            Block { start: NonNull::new_unchecked(slab.byte_add(usize::from(offset)).cast()), is_cell: true }
        }
    }

    #[cold]
    fn allocate_outside(&mut self, size: usize) -> NonNull<u8> {
        let layout = block_layout(size);
        if size <= CELL_MAX {
            self.small_bytes += layout.size();
        }
        // SAFETY: the layout's size is not zero.
        let block = unsafe { alloc(layout) };
        NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Takes a released block back.
    ///
    /// # Safety
    /// `block` came from `allocate` of this heap with a size of the same [`block_bytes`], and is not used again.
    #[inline]
    pub unsafe fn release(&mut self, Block { start: block, is_cell }: Block, size: usize) {
        self.bytes -= block_bytes(size);
        if !is_cell {
            let layout = block_layout(size);
            self.small_bytes -= if size <= CELL_MAX { layout.size() } else { 0 };
            // SAFETY: blocks that are no cells come from `alloc` with this layout.
            return unsafe { dealloc(block.as_ptr(), layout) };
        }
        let class = class_of(size);
        let offset = block.addr().get() % SLAB_BYTES;
        // SAFETY: a cell lies in a slab that is aligned to its size, so the slab starts `offset` bytes earlier. The
        // slab is alive while one of its cells is in use, and it is in the list that its state says.
        unsafe {
            let slab = block.as_ptr().sub(offset).cast::<Slab>();
            let was_full = (*slab).free == 0 && usize::from((*slab).fresh) + cell_bytes(class) > SLAB_BYTES;
            block.cast::<u16>().write((*slab).free);
            (*slab).free = offset as u16;
            (*slab).used -= 1;
            let lists = &mut self.classes[class];
            if was_full {
                unlink(&mut lists.full, slab);
                link(&mut lists.partial, slab);
            }
            if (*slab).used == 0 && !((*slab).next.is_null() && (*slab).previous.is_null()) {
                unlink(&mut lists.partial, slab);
                release_page(NonNull::new_unchecked(slab.cast()));
            }
        }
    }

    #[cold]
    fn add_slab(&mut self, class: usize) {
        // SAFETY: a page is large and aligned enough for a slab's header.
        unsafe {
            let slab = allocate_page().as_ptr().cast::<Slab>();
            slab.write(Slab {
                next: ptr::null_mut(),
                previous: ptr::null_mut(),
                free: 0,
                fresh: HEADER_BYTES as u16,
                used: 0,
            });
            link(&mut self.classes[class].partial, slab);
        }
    }
}

impl Drop for Heap {
    /// Frees the slabs with their contents.
    fn drop(&mut self) {
        for first in self.classes.iter().flat_map(|class| [class.partial, class.full]) {
            let mut slab = first;
            while !slab.is_null() {
                // SAFETY: the slabs in the lists are alive, and each is in one list only.
                unsafe {
                    let next = (*slab).next;
                    release_page(NonNull::new_unchecked(slab.cast()));
                    slab = next;
                }
            }
        }
    }
}

/// Puts `slab` at the head of a list.
///
/// # Safety
/// `slab` and the slabs in the list are alive, and `slab` is in no list.
unsafe fn link(head: &mut *mut Slab, slab: *mut Slab) {
    // SAFETY: as the caller promises.
    unsafe {
        (*slab).next = *head;
        (*slab).previous = ptr::null_mut();
        if !(*head).is_null() {
            (**head).previous = slab;
        }
    }
    *head = slab;
}

/// Takes `slab` out of the list that starts at `head`.
///
/// # Safety
/// `slab` and the slabs in the list are alive, and `slab` is in this list.
unsafe fn unlink(head: &mut *mut Slab, slab: *mut Slab) {
    // SAFETY: as the caller promises.
    unsafe {
        let (next, previous) = ((*slab).next, (*slab).previous);
        if previous.is_null() {
            *head = next;
        } else {
            (*previous).next = next;
        }
        if !next.is_null() {
            (*next).previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_classes_agree() {
        for size in 0..=CELL_MAX {
            assert_eq!(cell_bytes(class_of(size)), block_bytes(size));
            assert!(block_bytes(size) >= size && class_of(size) < CLASSES);
        }
        assert_eq!([257, 272, 291, 368, 369, 1016].map(block_bytes), [264, 288, 312, 368, 400, 1016]);
        assert_eq!([1017, 1048, 1153].map(block_bytes), [1024, 1152, 1280]);
    }

    /// Many blocks of all sizes, each filled with its own byte, freed and allocated again in a mixed order.
    #[test]
    fn blocks_never_overlap() {
        let mut heap = Heap::new();
        let mut blocks: Vec<(Block, usize, u8)> = Vec::new();
        let rounds = if cfg!(miri) { 120 } else { 40_000 };
        let mut state = 1u64;
        for round in 0..rounds {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let size = 1 + (state >> 33) as usize % 1200;
            let block = heap.allocate(size);
            // SAFETY: the block has `size` bytes.
            unsafe { block.start.write_bytes(round as u8, size) };
            blocks.push((block, size, round as u8));
            let drops = if round % 1000 > 600 { 2 } else { (state >> 62) as usize % 2 };
            for _ in 0..drops.min(blocks.len()) {
                let (block, size, byte) = blocks.swap_remove((state >> 20) as usize % blocks.len());
                // SAFETY: the block is in use, has `size` bytes, and is released once.
                unsafe {
                    let content = std::slice::from_raw_parts(block.start.as_ptr(), size);
                    assert!(content.iter().all(|&seen| seen == byte));
                    heap.release(block, size);
                }
            }
        }
        let expected: usize = blocks.iter().map(|(_, size, _)| block_bytes(*size)).sum();
        assert_eq!(heap.bytes(), expected);
        for (block, size, _) in blocks {
            // SAFETY: as above.
            unsafe { heap.release(block, size) };
        }
        assert_eq!(heap.bytes(), 0);
        assert!(heap.classes.iter().all(|class| class.full.is_null()));
    }
}
