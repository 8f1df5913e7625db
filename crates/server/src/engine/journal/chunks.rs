//! The bytes of the journal that somebody has still to read: a row of chunks behind each other.
//!
//! Only the last chunk grows. Whoever wants to read it has it sealed, from when on nobody changes it and any number may
//! share it: nothing is copied for a reader. A chunk goes when all have read it; who still holds a reference keeps its
//! bytes alive. Not for several threads: the journal's lock guards it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Behind so many bytes a chunk is sealed.
const CHUNK_BYTES: usize = 64 << 10;
/// The least room of a new chunk.
const CHUNK_BYTES_MIN: usize = 512;

/// Bytes that nobody changes any more.
#[derive(Debug)]
pub struct Chunk {
    /// The offset of the first one.
    start: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// A part of the bytes.
    pub fn part(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

/// The chunks from the oldest unread byte to the newest.
#[derive(Debug, Default)]
pub struct Chunks {
    sealed: VecDeque<Arc<Chunk>>,
    /// What the chunk that grows holds.
    last: Vec<u8>,
    /// The offset one past the newest byte.
    end: u64,
    /// Room of the sealed ones.
    sealed_bytes: usize,
    /// What the last sealed chunk held, which is what the next one is expected to hold.
    usual_bytes: usize,
}

impl Chunks {
    /// The offset one past the newest byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of memory that are held.
    pub fn memory_bytes(&self) -> usize {
        self.sealed_bytes + self.last.capacity()
    }

    /// Goes on at an offset. Nothing is held.
    pub fn set_end(&mut self, end: u64) {
        debug_assert!(self.sealed.is_empty() && self.last.is_empty(), "nobody reads");
        self.end = end;
    }

    /// Adds bytes to the end.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.last.len() + bytes.len() > CHUNK_BYTES {
            self.seal();
        }
        if self.last.capacity() == 0 {
            let usual_bytes = self.usual_bytes.next_power_of_two().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES);
            self.last.reserve_exact(usual_bytes.max(bytes.len()));
        }
        self.last.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
    }

    /// Adds bytes to the end. Many are taken over as they are, and `bytes` is left empty in any case.
    pub fn push_all(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() < CHUNK_BYTES {
            self.push(bytes);
            bytes.clear();
        } else {
            self.seal();
            self.end += bytes.len() as u64;
            self.last = std::mem::take(bytes);
            self.seal();
        }
    }

    /// Has the bytes so far change no more.
    fn seal(&mut self) {
        if self.last.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.last);
        self.usual_bytes = bytes.len();
        if bytes.capacity() > 2 * bytes.len().max(CHUNK_BYTES_MIN) {
            bytes.shrink_to_fit();
        }
        self.sealed_bytes += bytes.capacity();
        self.sealed.push_back(Arc::new(Chunk { start: self.end - bytes.len() as u64, bytes }));
    }

    /// The chunks from an offset on, up to `bytes_max` bytes in at most `parts_max` parts; at least one byte if there is one.
    pub fn from(&mut self, offset: u64, bytes_max: usize, parts_max: usize) -> Vec<(Arc<Chunk>, Range<usize>)> {
        if self.sealed.back().is_none_or(|chunk| offset.saturating_add(bytes_max as u64) > chunk.end()) {
            self.seal();
        }
        let first = self.sealed.partition_point(|chunk| chunk.end() <= offset);
        let (mut parts, mut at, mut left) = (Vec::new(), offset, bytes_max.max(1));
        for chunk in self.sealed.range(first..).take(parts_max) {
            let start = (at - chunk.start) as usize;
            let len = left.min(chunk.bytes.len() - start);
            parts.push((Arc::clone(chunk), start..start + len));
            (at, left) = (at + len as u64, left - len);
            if left == 0 {
                break;
            }
        }
        parts
    }

    /// Lets go of what lies before an offset; `freed` gets what may have to be freed, which takes time.
    pub fn free_before(&mut self, offset: u64, freed: &mut Vec<Arc<Chunk>>) {
        while let Some(chunk) = self.sealed.pop_front_if(|chunk| chunk.end() <= offset) {
            self.sealed_bytes -= chunk.bytes.capacity();
            freed.push(chunk);
        }
        if self.sealed.is_empty() && offset == self.end {
            self.last = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(chunks: &mut Chunks, offset: u64, bytes_max: usize) -> Vec<u8> {
        chunks.from(offset, bytes_max, 100).iter().flat_map(|(chunk, range)| chunk.part(range).to_vec()).collect()
    }

    #[test]
    fn bytes_come_back_from_any_offset_and_go_once_they_are_read() {
        let (mut chunks, mut all) = (Chunks::default(), Vec::new());
        chunks.set_end(1_000);
        for number in 0..50_000_u32 {
            let word = number.to_string();
            all.extend_from_slice(word.as_bytes());
            match number % 10_000 {
                7 => {
                    let mut large = vec![b'x'; 70_000];
                    all.extend_from_slice(&large);
                    chunks.push(word.as_bytes());
                    chunks.push_all(&mut large);
                    assert!(large.is_empty());
                }
                _ => chunks.push(word.as_bytes()),
            }
            if number % 777 == 0 {
                let at = all.len().saturating_sub(100);
                assert_eq!(bytes(&mut chunks, 1_000 + at as u64, usize::MAX), &all[at..]);
            }
        }
        assert_eq!(chunks.end(), 1_000 + all.len() as u64);
        for at in [0, 1, 65_535, 65_536, 100_000, all.len() - 1, all.len()] {
            assert_eq!(bytes(&mut chunks, 1_000 + at as u64, 5_000), &all[at..(at + 5_000).min(all.len())]);
        }
        let mut freed = Vec::new();
        chunks.free_before(1_000 + 100_000, &mut freed);
        assert!(!freed.is_empty());
        assert_eq!(bytes(&mut chunks, 1_000 + 100_000, usize::MAX), &all[100_000..]);
        chunks.free_before(chunks.end(), &mut freed);
        assert_eq!(chunks.memory_bytes(), 0);
    }

    #[test]
    fn who_reads_every_byte_by_itself_costs_no_more_memory_than_a_little() {
        let mut chunks = Chunks::default();
        for number in 0..1_000 {
            chunks.push(&[b'x'; 100]);
            assert_eq!(bytes(&mut chunks, 100 * number, usize::MAX).len(), 100);
        }
        // Another reader has seen nothing yet.
        assert!(chunks.memory_bytes() <= 1_000 * 2 * CHUNK_BYTES_MIN, "{}", chunks.memory_bytes());
    }
}
