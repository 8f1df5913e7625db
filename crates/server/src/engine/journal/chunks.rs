//! The kept bytes of the journal, as a sequence of chunks.
//!
//! Only the last chunk grows. Any number of readers share the filled parts of chunks: nothing is copied for a reader. A chunk
//! is released when all readers have read it; a reader that still holds a reference keeps its bytes alive.
//!
//! Under `appendfsync everysec` the bytes of a second are released together, and the next second needs as much memory. The
//! allocator would return it to the system and get it back page by page, so as many chunks as were released last are kept
//! for that ([`Chunks::free_before`]), until the readers have read everything.
//!
//! Some bytes are for replicas alone. They stand among the others, and their ranges are kept separately: a reader for an AOF
//! gets the other bytes, a reader for a replica all bytes. The journal's lock guards the chunks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::chunk::Chunk;

/// The size of a chunk while much is kept, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// The least size of a chunk, in bytes. Each chunk is twice as large as the one before it.
const CHUNK_BYTES_MIN: usize = 512;
/// The most chunks that are kept to be filled again.
const SPARES_MAX: usize = 1_024;

/// Some bytes of a chunk.
pub type Part = (Arc<Chunk>, Range<usize>);

/// The chunks from the oldest unread byte to the newest.
#[derive(Debug, Default)]
pub struct Chunks {
    /// The chunks with bytes; the last one grows.
    filled: VecDeque<Arc<Chunk>>,
    /// Chunks of [`CHUNK_BYTES`] to be filled again, which no reader holds.
    spares: Vec<Chunk>,
    /// The offset one past the newest byte.
    end: u64,
    /// The ranges of bytes that are for replicas alone, in order, none touching the next.
    for_replicas: VecDeque<Range<u64>>,
    /// The memory of the chunks with bytes.
    filled_bytes: usize,
    /// The expected size of the bytes that are kept together: as many as were released when all was read.
    first_bytes: usize,
}

impl Chunks {
    /// Returns the offset one past the newest byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the memory of all chunks, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.filled_bytes + self.spares.len() * CHUNK_BYTES
    }

    /// Continues at an offset. No bytes are kept.
    pub fn set_end(&mut self, end: u64) {
        debug_assert!(self.filled.is_empty(), "nobody reads");
        self.end = end;
    }

    /// Adds bytes to the end.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.filled.back().map_or(0, |last| last.room());
        let (now, rest) = bytes.split_at(room.min(bytes.len()));
        self.fill_last(now);
        if !rest.is_empty() {
            self.begin_chunk(rest.len());
            self.fill_last(rest);
        }
    }

    /// Fills the last chunk with bytes that have room there.
    fn fill_last(&mut self, bytes: &[u8]) {
        if let Some(last) = self.filled.back() {
            // SAFETY: only this function fills chunks, and only those of `self`, which it has borrowed alone. A chunk that
            // is taken out of `filled` is not filled again before it is a spare, which no other thread shares.
            unsafe { last.fill(bytes) };
            self.end += bytes.len() as u64;
        }
    }

    /// Adds an empty chunk with room for so many bytes.
    fn begin_chunk(&mut self, bytes_min: usize) {
        let usual = self.filled.back().map_or(self.first_bytes, |last| 2 * last.capacity());
        let capacity = usual.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES).max(bytes_min);
        let spare = if capacity == CHUNK_BYTES { self.spares.pop() } else { None };
        let mut chunk = spare.unwrap_or_else(|| Chunk::new(self.end, Vec::with_capacity(capacity)));
        chunk.reset(self.end);
        self.add_chunk(Arc::new(chunk));
    }

    fn add_chunk(&mut self, chunk: Arc<Chunk>) {
        self.filled_bytes += chunk.capacity();
        self.filled.push_back(chunk);
    }

    /// Adds bytes to the end, and empties `bytes`. If they are many, the buffer itself is taken over.
    pub fn push_all(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() < CHUNK_BYTES {
            self.push(bytes);
            bytes.clear();
        } else {
            let mut taken = std::mem::take(bytes);
            taken.shrink_to_fit();
            let len = taken.len() as u64;
            self.add_chunk(Arc::new(Chunk::new(self.end, taken)));
            self.end += len;
        }
    }

    /// Marks a range of existing bytes as being for replicas alone. It lies behind all ranges that were marked before.
    pub fn mark_for_replicas(&mut self, range: Range<u64>) {
        match self.for_replicas.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.for_replicas.push_back(range),
        }
    }

    /// Returns the bytes for an AOF from an offset on: up to `bytes_max` bytes in at most `chunks_max` chunks, and at least
    /// one byte if there is one. Also returns the offset behind them.
    pub fn from(&self, offset: u64, bytes_max: usize, chunks_max: usize) -> (Vec<Part>, u64) {
        let first = self.filled.partition_point(|chunk| chunk.end() <= offset);
        let (mut parts, mut at, mut left) = (Vec::new(), offset, bytes_max.max(1));
        for chunk in self.filled.range(first..).take(chunks_max) {
            let start = (at - chunk.start()) as usize;
            let len = left.min(chunk.len() - start);
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
        let (start, end) = (chunk.start() + range.start as u64, chunk.start() + range.end as u64);
        let first = self.for_replicas.partition_point(|marked| marked.end <= start);
        if self.for_replicas.get(first).is_none_or(|marked| marked.start >= end) {
            return parts.push((Arc::clone(chunk), range));
        }
        let (mut bytes, mut at) = (Vec::new(), start);
        let mut keep = |from: u64, to: u64| {
            let (from, to) = ((from - chunk.start()) as usize, (to - chunk.start()) as usize);
            bytes.extend_from_slice(chunk.part(&(from..to)));
        };
        for marked in self.for_replicas.range(first..).take_while(|marked| marked.start < end) {
            keep(at, marked.start.max(at));
            at = marked.end.min(end);
        }
        keep(at, end);
        if !bytes.is_empty() {
            let range = 0..bytes.len();
            parts.push((Arc::new(Chunk::new(start, bytes)), range));
        }
    }

    /// Appends up to `bytes_max` bytes from an offset on, including those for replicas alone.
    pub fn copy(&self, offset: u64, bytes_max: usize, into: &mut Vec<u8>) {
        let first = self.filled.partition_point(|chunk| chunk.end() <= offset);
        let (mut at, mut left) = (offset, bytes_max);
        for chunk in self.filled.range(first..) {
            let bytes = chunk.filled().get((at - chunk.start()) as usize..).unwrap_or_default();
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
        let (before, is_all) = (freed.len(), offset == self.end);
        if is_all && let Some(first) = self.filled.front() {
            self.first_bytes = ((offset - first.start()) as usize).min(CHUNK_BYTES).next_power_of_two();
        }
        while let Some(chunk) = self.filled.pop_front_if(|chunk| chunk.end() <= offset) {
            self.filled_bytes -= chunk.capacity();
            freed.push(chunk);
        }
        while self.for_replicas.pop_front_if(|marked| marked.end <= offset).is_some() {}
        if is_all {
            freed.extend(self.spares.drain(..).map(Arc::new));
        } else if freed.len() > before {
            self.keep_spares(freed, before);
        }
    }

    /// Keeps the chunks in `freed` from an index on that can be filled again, and no more spares than these.
    fn keep_spares(&mut self, freed: &mut Vec<Arc<Chunk>>, from: usize) {
        let max = (freed.len() - from).min(SPARES_MAX);
        let surplus = self.spares.len().saturating_sub(max);
        let released = freed.split_off(from);
        freed.extend(self.spares.drain(..surplus).map(Arc::new));
        for chunk in released {
            let is_wanted = self.spares.len() < max && chunk.capacity() == CHUNK_BYTES;
            match if is_wanted { Arc::try_unwrap(chunk) } else { Err(chunk) } {
                Ok(chunk) => self.spares.push(chunk),
                Err(chunk) => freed.push(chunk),
            }
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
    fn what_was_released_is_filled_again_and_goes_when_all_is_read() {
        let (mut chunks, mut freed) = (Chunks::default(), Vec::new());
        let fill = |chunks: &mut Chunks, count: usize| (0..count).for_each(|_| chunks.push(&[b'x'; CHUNK_BYTES / 4]));
        fill(&mut chunks, 400);
        let held = chunks.from(200 * CHUNK_BYTES as u64 / 4, 1, 1).0;
        chunks.free_before(chunks.end() - 1, &mut freed);
        assert!((95..=99).contains(&chunks.spares.len()), "{} spares", chunks.spares.len());
        assert_eq!(held[0].0.part(&held[0].1), b"x", "a chunk that a reader holds is not filled again");
        fill(&mut chunks, 40);
        assert!((85..=90).contains(&chunks.spares.len()), "{} spares", chunks.spares.len());
        chunks.free_before(chunks.end() - 1, &mut freed);
        assert!(chunks.spares.len() <= 12, "no more than were released last: {}", chunks.spares.len());
        assert_eq!(bytes(&mut chunks, 440 * CHUNK_BYTES as u64 / 4 - 1, 10), b"x");
        chunks.free_before(chunks.end(), &mut freed);
        assert_eq!((chunks.spares.len(), chunks.memory_bytes()), (0, 0));
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
