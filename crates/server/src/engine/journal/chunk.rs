//! A chunk of the journal: a buffer that is filled from its front while readers share the filled part.
//!
//! If a reader got its bytes only from buffers that change no more, each read would end a buffer, and an AOF that is written
//! after every wake-up of a worker would need a new buffer each time. So a chunk lends its filled part, which never changes,
//! and its owner fills the rest. The owner is [`Chunks`](super::chunks::Chunks), under the journal's lock; any thread reads.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the journal that do not change as long as a reader holds them.
#[derive(Debug)]
pub struct Chunk {
    /// The offset of the first byte.
    start: u64,
    memory: *mut u8,
    capacity: usize,
    /// The number of filled bytes. They are never written to again while the chunk is shared.
    len: AtomicUsize,
}

// SAFETY: the memory belongs to the chunk. Threads that share the chunk read only its filled part, and one thread at a time
// fills the rest (`fill`).
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Makes a chunk that begins at an offset, with the bytes of a buffer and its free room.
    pub fn new(start: u64, bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        Self { start, memory: bytes.as_mut_ptr(), capacity: bytes.capacity(), len: AtomicUsize::new(bytes.len()) }
    }

    /// Returns the offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the number of filled bytes.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the offset behind the last filled byte.
    pub fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    /// Returns the size of the buffer.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of bytes that still have room.
    pub fn room(&self) -> usize {
        self.capacity - self.len()
    }

    /// Fills the next part of the buffer. Bytes without room are not taken.
    ///
    /// # Safety
    /// No other thread fills the chunk at the same time.
    pub unsafe fn fill(&self, bytes: &[u8]) {
        let len = self.len();
        if bytes.len() > self.room() {
            debug_assert!(false, "the owner has checked the room");
            return;
        }
        // SAFETY: the bytes have room behind the filled part. No thread reads there before `len` has grown, and no other
        // thread writes there, as the caller promises.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.add(len), bytes.len()) };
        self.len.store(len + bytes.len(), Ordering::Release);
    }

    /// Empties a chunk that no other thread shares, to begin at another offset.
    pub fn reset(&mut self, start: u64) {
        (self.start, *self.len.get_mut()) = (start, 0);
    }

    /// Returns a part of the filled bytes; none if it is not within them.
    pub fn part(&self, range: &Range<usize>) -> &[u8] {
        if range.start > range.end || range.end > self.len() {
            return &[];
        }
        // SAFETY: the range is within the filled part, which does not change while the chunk is borrowed.
        unsafe { slice::from_raw_parts(self.memory.add(range.start), range.end - range.start) }
    }

    /// Returns the filled bytes.
    pub fn filled(&self) -> &[u8] {
        self.part(&(0..self.len()))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the memory and the capacity are those of the buffer that `new` has taken apart, and nobody else frees it.
        drop(unsafe { Vec::from_raw_parts(self.memory, 0, self.capacity) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn readers_keep_what_is_filled_while_the_rest_is_filled() {
        let chunk = Arc::new(Chunk::new(100, Vec::with_capacity(3_000)));
        let reader = {
            let chunk = Arc::clone(&chunk);
            std::thread::spawn(move || {
                let mut seen = 0;
                while seen < 3_000 {
                    let filled = chunk.filled();
                    assert!(filled.iter().enumerate().all(|(at, byte)| *byte == at as u8));
                    assert!(filled.len() >= seen, "it never shrinks");
                    seen = filled.len();
                }
            })
        };
        for at in 0..1_000 {
            // SAFETY: this is the only thread that fills it.
            unsafe { chunk.fill(&[(3 * at) as u8, (3 * at + 1) as u8, (3 * at + 2) as u8]) };
        }
        reader.join().expect("it has seen all");
        assert!(chunk.room() == chunk.capacity() - 3_000 && chunk.end() == 3_100);
        assert_eq!((chunk.part(&(1..3)), chunk.part(&(2_999..3_001))), (&[1, 2][..], &[][..]));
        let mut chunk = Arc::into_inner(chunk).expect("no reader is left");
        chunk.reset(7);
        assert!(chunk.filled().is_empty() && chunk.start() == 7 && chunk.end() == 7);
    }
}
