//! Copies of entries, one behind the other in one buffer.
//!
//! An entry is copied as its block lies, behind one word that says how many words it takes; a long string's buffer is counted
//! once more instead of being copied, and kept beside. The contents of a block are `entry`'s business. Plain data.

use std::ptr::NonNull;
use std::sync::Arc;

/// Copies of entries, in the order of their capture.
#[derive(Debug, Default)]
pub struct EntryBatch {
    words: Vec<u64>,
    /// The buffers to which copied entries refer, kept for as long as the copies.
    buffers: Vec<Arc<Vec<u8>>>,
    buffers_bytes: usize,
    len: usize,
}

impl EntryBatch {
    /// Makes a batch with room for so many blocks of such a length, or for `bytes` and one block more if that is less.
    pub fn for_blocks(blocks: usize, block_bytes: usize, bytes: usize) -> Self {
        let block_words = 1 + block_bytes.div_ceil(size_of::<u64>());
        let words = blocks.saturating_mul(block_words).min(bytes / size_of::<u64>() + block_words);
        Self { words: Vec::with_capacity(words), ..Self::default() }
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the batch has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes that the batch keeps in memory while it waits, with the buffers to which its entries refer.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>() + self.buffers_bytes
    }

    /// Adds a copy of a block, and a reference to the buffer to which it refers. Returns the number of bytes copied.
    pub fn push(&mut self, block: &[u8], buffer: Option<Arc<Vec<u8>>>) -> usize {
        let (start, words) = (self.words.len(), block.len().div_ceil(size_of::<u64>()));
        self.words.reserve(1 + words);
        self.words.push(words as u64);
        let (chunks, rest) = block.as_chunks::<{ size_of::<u64>() }>();
        self.words.extend(chunks.iter().map(|chunk| u64::from_ne_bytes(*chunk)));
        if !rest.is_empty() {
            let mut last = [0; size_of::<u64>()];
            last[..rest.len()].copy_from_slice(rest);
            self.words.push(u64::from_ne_bytes(last));
        }
        debug_assert_eq!(self.words.len(), start + 1 + words);
        if let Some(buffer) = buffer {
            self.buffers_bytes += buffer.len();
            self.buffers.push(buffer);
        }
        self.len += 1;
        (1 + words) * size_of::<u64>()
    }

    /// Returns the addresses of the copied blocks, each aligned to eight bytes. They live as long as the batch is borrowed,
    /// and may be written to.
    pub fn blocks(&mut self) -> impl Iterator<Item = NonNull<u8>> {
        let (start, words) = (NonNull::from(self.words.as_mut_slice()).cast::<u64>(), self.words.len());
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= words {
                return None;
            }
            // SAFETY: `push` has written at `at` how many words follow, and that many are there.
            let (block, length) = unsafe { (start.add(at + 1), start.add(at).read()) };
            at += 1 + length as usize;
            Some(block.cast())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_in_order_and_padded() {
        let mut batch = EntryBatch::default();
        let blocks: Vec<Vec<u8>> = (1..40_u8).map(|length| (0..length).map(|byte| byte ^ length).collect()).collect();
        blocks.iter().for_each(|block| _ = batch.push(block, None));
        assert_eq!(batch.len(), blocks.len());
        let lengths: Vec<usize> = blocks.iter().map(Vec::len).collect();
        for (at, (block, length)) in batch.blocks().zip(lengths).enumerate() {
            assert!(block.addr().get().is_multiple_of(8));
            // SAFETY: so many bytes were pushed.
            assert_eq!(unsafe { std::slice::from_raw_parts(block.as_ptr(), length) }, blocks[at]);
        }
    }

    #[test]
    fn a_buffer_is_kept_and_counted() {
        let mut batch = EntryBatch::default();
        let buffer = Arc::new(vec![7; 100]);
        assert_eq!(batch.push(&[1; 9], Some(Arc::clone(&buffer))), 24);
        assert_eq!((batch.bytes(), Arc::strong_count(&buffer)), (124, 2));
        drop(batch);
        assert_eq!(Arc::strong_count(&buffer), 1);
    }
}
