//! The kept bytes of the journal, as a sequence of chunks.
//!
//! Only the last chunk grows. If a reader wants to read it, it is sealed, and from then on any number of readers may share
//! it: nothing is copied for a reader. A chunk is released when all readers have read it; a reader that still holds a
//! reference keeps its bytes alive. If the AOF is written after each command, small chunks are sealed, and most of them are
//! released at once. Chunks that another reader still needs are joined once no reader holds them, so that bytes that are kept
//! for long take little more memory than their own size. The journal's lock guards the chunks.
//!
//! Some bytes are for replicas alone. They stand among the others, and their ranges are kept separately: a reader for an AOF
//! gets the other bytes, a reader for a replica all bytes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The size at which a chunk is sealed, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// The least capacity of a new chunk.
const CHUNK_BYTES_MIN: usize = 512;
/// The size up to which a chunk is joined to the one before it when it is sealed.
const JOINED_BYTES_MAX: usize = CHUNK_BYTES / 4;

/// Bytes that do not change as long as a reader holds them.
#[derive(Debug)]
pub struct Chunk {
    /// The offset of the first byte.
    start: u64,
    bytes: Vec<u8>,
}

/// Some bytes of a chunk.
pub type Part = (Arc<Chunk>, Range<usize>);

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Returns a part of the bytes.
    pub fn part(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

/// The chunks from the oldest unread byte to the newest.
#[derive(Debug, Default)]
pub struct Chunks {
    sealed: VecDeque<Arc<Chunk>>,
    /// The bytes of the chunk that grows.
    last: Vec<u8>,
    /// The offset one past the newest byte.
    end: u64,
    /// The ranges of bytes that are for replicas alone, in order, none touching the next.
    for_replicas: VecDeque<Range<u64>>,
    /// The memory of the sealed chunks, in bytes.
    sealed_bytes: usize,
    /// The size of the last sealed chunk, which is the expected size of the next one.
    usual_bytes: usize,
}

impl Chunks {
    /// Returns the offset one past the newest byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the memory of all chunks, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.sealed_bytes + self.last.capacity()
    }

    /// Continues at an offset. No bytes are kept.
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

    /// Adds bytes to the end, and empties `bytes`. If they are many, the buffer itself is taken over.
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

    /// Marks a range of existing bytes as being for replicas alone. It lies behind all ranges that were marked before.
    pub fn mark_for_replicas(&mut self, range: Range<u64>) {
        match self.for_replicas.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.for_replicas.push_back(range),
        }
    }

    /// Seals the growing chunk: its bytes change no more.
    fn seal(&mut self) {
        if self.last.is_empty() {
            return;
        }
        self.usual_bytes = self.last.len();
        if self.join() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.last);
        if bytes.capacity() > bytes.len() + (bytes.len() / 4).max(CHUNK_BYTES_MIN) {
            bytes.shrink_to_fit();
        }
        self.sealed_bytes += bytes.capacity();
        self.sealed.push_back(Arc::new(Chunk { start: self.end - bytes.len() as u64, bytes }));
    }

    /// Moves the bytes of the growing chunk to the chunk before it, if they are few and no reader holds that chunk. Returns
    /// whether it did.
    fn join(&mut self) -> bool {
        let Some(before) = self.sealed.back_mut().and_then(Arc::get_mut) else { return false };
        let bytes = &mut before.bytes;
        let len = bytes.len() + self.last.len();
        if self.last.len() > JOINED_BYTES_MAX || len > CHUNK_BYTES {
            return false;
        }
        self.sealed_bytes -= bytes.capacity();
        if len > bytes.capacity() {
            let room = (2 * bytes.capacity()).clamp(len.max(CHUNK_BYTES_MIN), CHUNK_BYTES);
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.append(&mut self.last);
        self.sealed_bytes += bytes.capacity();
        true
    }

    /// Returns the bytes for an AOF from an offset on: up to `bytes_max` bytes in at most `chunks_max` chunks, and at least
    /// one byte if there is one. Also returns the offset behind them.
    pub fn from(&mut self, offset: u64, bytes_max: usize, chunks_max: usize) -> (Vec<Part>, u64) {
        if self.sealed.back().is_none_or(|chunk| offset.saturating_add(bytes_max as u64) > chunk.end()) {
            self.seal();
        }
        let first = self.sealed.partition_point(|chunk| chunk.end() <= offset);
        let (mut parts, mut at, mut left) = (Vec::new(), offset, bytes_max.max(1));
        for chunk in self.sealed.range(first..).take(chunks_max) {
            let start = (at - chunk.start) as usize;
            let len = left.min(chunk.bytes.len() - start);
            self.add_part(&mut parts, chunk, start..start + len);
            (at, left) = (at + len as u64, left - len);
            if left == 0 {
                break;
            }
        }
        (parts, at)
    }

    /// Adds a part of a chunk without the bytes that are for replicas alone. If it has such bytes, the others are copied.
    fn add_part(&self, parts: &mut Vec<Part>, chunk: &Arc<Chunk>, range: Range<usize>) {
        let (start, end) = (chunk.start + range.start as u64, chunk.start + range.end as u64);
        let first = self.for_replicas.partition_point(|marked| marked.end <= start);
        if self.for_replicas.get(first).is_none_or(|marked| marked.start >= end) {
            return parts.push((Arc::clone(chunk), range));
        }
        let (mut bytes, mut at) = (Vec::new(), start);
        let mut keep = |from: u64, to: u64| {
            let (from, to) = ((from - chunk.start) as usize, (to - chunk.start) as usize);
            bytes.extend_from_slice(chunk.part(&(from..to)));
        };
        for marked in self.for_replicas.range(first..).take_while(|marked| marked.start < end) {
            keep(at, marked.start.max(at));
            at = marked.end.min(end);
        }
        keep(at, end);
        if !bytes.is_empty() {
            let range = 0..bytes.len();
            parts.push((Arc::new(Chunk { start, bytes }), range));
        }
    }

    /// Appends up to `bytes_max` bytes from an offset on, including those for replicas alone. Nothing is sealed.
    pub fn copy(&self, offset: u64, bytes_max: usize, into: &mut Vec<u8>) {
        let first = self.sealed.partition_point(|chunk| chunk.end() <= offset);
        let (mut at, mut left) = (offset, bytes_max);
        let last_start = self.end - self.last.len() as u64;
        let sealed = self.sealed.range(first..).map(|chunk| (chunk.start, chunk.bytes.as_slice()));
        for (start, bytes) in sealed.chain([(last_start, self.last.as_slice())]) {
            let bytes = bytes.get((at - start) as usize..).unwrap_or_default();
            let bytes = &bytes[..left.min(bytes.len())];
            into.extend_from_slice(bytes);
            (at, left) = (at + bytes.len() as u64, left - bytes.len());
            if left == 0 {
                break;
            }
        }
    }

    /// Releases the chunks before an offset; `freed` receives those that the caller has to free, which takes time.
    pub fn free_before(&mut self, offset: u64, freed: &mut Vec<Arc<Chunk>>) {
        while let Some(chunk) = self.sealed.pop_front_if(|chunk| chunk.end() <= offset) {
            self.sealed_bytes -= chunk.bytes.capacity();
            freed.push(chunk);
        }
        while self.for_replicas.pop_front_if(|marked| marked.end <= offset).is_some() {}
        if self.sealed.is_empty() && offset == self.end {
            self.last = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(chunks: &mut Chunks, offset: u64, bytes_max: usize) -> Vec<u8> {
        let (parts, end) = chunks.from(offset, bytes_max, 100);
        let bytes: Vec<u8> = parts.iter().flat_map(|(chunk, range)| chunk.part(range).to_vec()).collect();
        assert_eq!(end, offset + bytes.len() as u64);
        bytes
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
    fn what_is_for_replicas_alone_is_copied_and_no_log_sees_it() {
        let mut chunks = Chunks::default();
        chunks.set_end(10);
        let (mut all, mut logged) = (Vec::new(), Vec::new());
        for number in 0..20_000_u32 {
            let word = format!("{number} ");
            let start = chunks.end();
            chunks.push(word.as_bytes());
            all.extend_from_slice(word.as_bytes());
            if number % 7 < 3 {
                chunks.mark_for_replicas(start..chunks.end());
            } else {
                logged.extend_from_slice(word.as_bytes());
            }
        }
        for at in [0, 1, 65_000, all.len() - 3, all.len()] {
            let mut copied = Vec::new();
            chunks.copy(10 + at as u64, 70_000, &mut copied);
            assert_eq!(copied, &all[at..(at + 70_000).min(all.len())]);
        }
        let (mut seen, mut at) = (Vec::new(), 10);
        while at < chunks.end() {
            let (parts, end) = chunks.from(at, 1_234, 100);
            parts.iter().for_each(|(chunk, range)| seen.extend_from_slice(chunk.part(range)));
            assert!(end > at && end <= at + 1_234);
            at = end;
        }
        assert_eq!(seen, logged);
        chunks.free_before(chunks.end(), &mut Vec::new());
        assert!(chunks.for_replicas.is_empty());
    }

    #[test]
    fn who_reads_every_byte_by_itself_costs_little_more_memory_than_the_bytes() {
        let mut chunks = Chunks::default();
        let mut held = Vec::new();
        for number in 0..10_000 {
            chunks.push(&[b'x'; 40]);
            let (parts, _) = chunks.from(40 * number, usize::MAX, 100);
            assert_eq!(parts.iter().map(|(_, range)| range.len()).sum::<usize>(), 40);
            if number == 5_000 {
                // One reader is slow: its chunks stay as they are.
                held.extend(parts);
            }
        }
        // Another reader has seen nothing yet.
        assert!(chunks.memory_bytes() <= 500_000, "{}", chunks.memory_bytes());
        assert!(held.iter().all(|(chunk, range)| chunk.part(range) == [b'x'; 40]));
        assert_eq!(bytes(&mut chunks, 7, usize::MAX).len(), 400_000 - 7);
        chunks.free_before(chunks.end(), &mut Vec::new());
        assert_eq!(chunks.memory_bytes(), 0);
    }
}
