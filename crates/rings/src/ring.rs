//! A ring of bytes from one writer to one reader, in words that both share, and when a bell is due.
//!
//! Positions count bytes from the beginning and never go back: the writer publishes how far it has written, the reader how
//! far it has taken. Each side also keeps its own position privately, and accepts the other's shared position only if it is
//! possible. A side that finds nothing to do announces its sleep in a shared word and looks once more behind a fence. The
//! side that then adds data or room clears the word and rings. So neither side sleeps while there are bytes or room, and no
//! bell is rung for a side that is awake (Dekker's argument: each side writes, fences, and reads the word that the other has
//! written).
//!
//! Bytes are stored as whole words of the memory, because only words can be shared without undefined behaviour with a process
//! that may break every rule.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

/// Words ahead of the bytes: each of the four below has a line of the processor's cache to itself.
pub const HEAD_WORDS: usize = 32;

/// The word with the writer's position: the bytes written so far.
const WRITTEN: usize = 0;

/// The word with the reader's position: the bytes taken so far.
const TAKEN: usize = 8;

/// The word that is not zero while the reader sleeps.
const READER_SLEEPS: usize = 16;

/// The word that is not zero while the writer waits for room.
const WRITER_WAITS: usize = 24;

const WORD: usize = size_of::<u64>();

/// Words that two processes share. Any of them may change at any time.
pub trait Words {
    /// Returns all words; the same slice at each call.
    fn words(&self) -> &[AtomicU64];
}

impl Words for std::sync::Arc<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// The peer published an impossible position. Nothing in the memory can be trusted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the other side has broken the ring in shared memory")
    }
}

impl std::error::Error for Broken {}

/// The place of a ring in the memory.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The first word of its head.
    start: usize,
    /// The number of words for bytes, less one; the number is a power of two.
    mask: usize,
}

impl Place {
    /// Returns the ring with its head at word `start` and with `count` words of bytes.
    fn new(memory: &impl Words, start: usize, count: usize) -> Self {
        assert!(count.is_power_of_two(), "{count} words in a ring");
        assert!(memory.words().len() >= start + HEAD_WORDS + count, "a ring beyond the memory");
        Self { start, mask: count - 1 }
    }

    fn capacity(self) -> u64 {
        ((self.mask + 1) * WORD) as u64
    }

    fn head<M: Words>(self, memory: &M, word: usize) -> &AtomicU64 {
        &memory.words()[self.start + word]
    }

    /// Returns the words that hold bytes, and the index of the word of a position.
    fn bytes<M: Words>(self, memory: &M, position: u64) -> (&[AtomicU64], usize) {
        let first = self.start + HEAD_WORDS;
        (&memory.words()[first..=first + self.mask], (position / WORD as u64) as usize & self.mask)
    }
}

/// Returns whether the other side has announced its sleep, and takes the announcement back: the caller then rings the bell.
fn must_ring(sleeps: &AtomicU64) -> bool {
    fence(SeqCst);
    sleeps.load(Relaxed) != 0 && sleeps.swap(0, AcqRel) != 0
}

/// Announces that this side is about to sleep.
fn say_so(sleeps: &AtomicU64) {
    sleeps.store(1, Relaxed);
    fence(SeqCst);
}

/// The side that writes into a ring. One thread at a time.
#[derive(Debug)]
pub struct Writer<M> {
    memory: M,
    place: Place,
    written: u64,
    /// The reader's position when the writer last looked at it.
    taken: u64,
}

impl<M: Words> Writer<M> {
    /// Returns the writer of a fresh ring with its head at word `start` and with `count` words of bytes.
    ///
    /// # Panics
    /// If `count` is no power of two, or the memory is too small.
    pub fn new(memory: M, start: usize, count: usize) -> Self {
        let place = Place::new(&memory, start, count);
        Self { memory, place, written: 0, taken: 0 }
    }

    /// Writes as many of these bytes as there is room for, and returns their number. After all bytes that are due together,
    /// the caller asks [`Writer::must_ring`] whether to ring the reader.
    ///
    /// # Errors
    /// The reader's position is beyond the bytes that were written.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if self.seen_room() < bytes.len() as u64 {
            self.look()?;
        }
        let count = bytes.len().min(self.seen_room() as usize);
        if count > 0 {
            self.copy(&bytes[..count]);
            self.written += count as u64;
            self.place.head(&self.memory, WRITTEN).store(self.written, Release);
        }
        Ok(count)
    }

    /// Returns whether the reader sleeps and has to be rung now. The writer asks this after every write.
    #[inline]
    pub fn must_ring(&mut self) -> bool {
        must_ring(self.place.head(&self.memory, READER_SLEEPS))
    }

    /// Announces that this side waits for room. Returns true if there is none: the reader rings when it has taken half of the
    /// ring. Returns false if there is room by now.
    ///
    /// # Errors
    /// The errors of [`Writer::write`].
    pub fn wait_for_room(&mut self) -> Result<bool, Broken> {
        let waits = self.place.head(&self.memory, WRITER_WAITS);
        say_so(waits);
        self.look()?;
        let is_full = self.seen_room() < self.place.capacity() / 2;
        if !is_full {
            self.place.head(&self.memory, WRITER_WAITS).store(0, Relaxed);
        }
        Ok(is_full)
    }

    fn seen_room(&self) -> u64 {
        self.place.capacity() - (self.written - self.taken)
    }

    /// Reads the reader's shared position.
    fn look(&mut self) -> Result<(), Broken> {
        let taken = self.place.head(&self.memory, TAKEN).load(Acquire);
        if taken < self.taken || taken > self.written {
            return Err(Broken);
        }
        self.taken = taken;
        Ok(())
    }

    fn copy(&mut self, mut bytes: &[u8]) {
        let (words, mut at) = self.place.bytes(&self.memory, self.written);
        let within = (self.written % WORD as u64) as usize;
        if within != 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(WORD - within));
            put(&words[at], within, head);
            if rest.is_empty() {
                return;
            }
            at = (at + 1) & self.place.mask;
            bytes = rest;
        }
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let (first, second) = whole.split_at(whole.len().min(words.len() - at));
        for (to, from) in words[at..].iter().zip(first).chain(words.iter().zip(second)) {
            to.store(u64::from_le_bytes(*from), Relaxed);
        }
        if !rest.is_empty() {
            put(&words[(at + whole.len()) & self.place.mask], 0, rest);
        }
    }
}

/// Writes bytes into a part of a word. The rest of the word holds bytes that were written earlier, or bytes that the reader
/// has not taken yet if the ring is nearly full.
fn put(word: &AtomicU64, within: usize, bytes: &[u8]) {
    let mut whole = word.load(Relaxed).to_le_bytes();
    whole[within..within + bytes.len()].copy_from_slice(bytes);
    word.store(u64::from_le_bytes(whole), Relaxed);
}

/// The side that reads from a ring. One thread at a time.
#[derive(Debug)]
pub struct Reader<M> {
    memory: M,
    place: Place,
    taken: u64,
    /// The writer's position when the reader last looked at it.
    written: u64,
    /// The reader's own position when it last looked whether the writer waits.
    asked: u64,
    /// True from the reader's announcement that it sleeps until it takes that back.
    is_asleep: bool,
    /// True if the writer has rung since this was last asked, or is about to ring.
    was_rung: bool,
}

impl<M: Words> Reader<M> {
    /// Returns the reader of a fresh ring with its head at word `start` and with `count` words of bytes.
    ///
    /// # Panics
    /// If `count` is no power of two, or the memory is too small.
    pub fn new(memory: M, start: usize, count: usize) -> Self {
        let place = Place::new(&memory, start, count);
        Self { memory, place, taken: 0, written: 0, asked: 0, is_asleep: false, was_rung: false }
    }

    /// Takes as many bytes as are there and fit into `room`, and returns their number. Afterwards the caller asks
    /// [`Reader::must_ring`] whether to ring the writer.
    ///
    /// # Errors
    /// If the writer says that it has written more than fits, or less than it had.
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> Result<usize, Broken> {
        if self.written - self.taken < room.len() as u64 {
            self.look()?;
        }
        let count = room.len().min((self.written - self.taken) as usize);
        if count > 0 {
            self.copy(&mut room[..count]);
            self.taken += count as u64;
            self.place.head(&self.memory, TAKEN).store(self.taken, Release);
        }
        Ok(count)
    }

    /// Returns whether there are bytes to take.
    ///
    /// # Errors
    /// The errors of [`Reader::read`].
    #[inline]
    pub fn has_bytes(&mut self) -> Result<bool, Broken> {
        if self.written == self.taken {
            self.look()?;
        }
        Ok(self.written != self.taken)
    }

    /// Returns whether the writer waits for room, there is enough of it, and the bell is due now. Called after every read.
    ///
    /// A writer waits only after it wrote more than half of a ring beyond the position up to which it saw bytes taken. It saw
    /// that position when this side last checked for a waiting writer, or this side noticed the wait itself. So up to half of
    /// a ring is read between two checks, and most reads need no fence.
    #[inline]
    pub fn must_ring(&mut self) -> bool {
        let half = self.place.capacity() / 2;
        if self.written - self.asked <= half || self.written - self.taken > half {
            return false;
        }
        self.asked = self.taken;
        must_ring(self.place.head(&self.memory, WRITER_WAITS))
    }

    /// Announces that this side is about to sleep. Returns true if no bytes are left: the writer rings when there are some.
    /// Returns false if bytes have arrived by now, and this side stays awake.
    ///
    /// # Errors
    /// The errors of [`Reader::read`].
    #[inline]
    pub fn fall_asleep(&mut self) -> Result<bool, Broken> {
        if !self.is_asleep {
            say_so(self.place.head(&self.memory, READER_SLEEPS));
            self.is_asleep = true;
        }
        if self.has_bytes()? {
            self.wake_up();
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes back the announcement of a sleep: the writer need not ring.
    #[inline]
    pub fn wake_up(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.was_rung |= self.place.head(&self.memory, READER_SLEEPS).swap(0, AcqRel) == 0;
        }
    }

    /// Returns whether the writer has rung since the last call, or is about to. If so, a byte is on the socket or will arrive
    /// there.
    #[inline]
    pub fn take_ring(&mut self) -> bool {
        std::mem::take(&mut self.was_rung)
    }

    /// Reads the writer's shared position.
    #[inline]
    fn look(&mut self) -> Result<(), Broken> {
        let written = self.place.head(&self.memory, WRITTEN).load(Acquire);
        if written < self.written || written - self.taken > self.place.capacity() {
            return Err(Broken);
        }
        self.written = written;
        Ok(())
    }

    fn copy(&self, mut room: &mut [u8]) {
        let (words, mut at) = self.place.bytes(&self.memory, self.taken);
        let within = (self.taken % WORD as u64) as usize;
        if within != 0 {
            let (head, rest) = room.split_at_mut(room.len().min(WORD - within));
            let word = words[at].load(Relaxed).to_le_bytes();
            head.copy_from_slice(&word[within..within + head.len()]);
            at = (at + 1) & self.place.mask;
            room = rest;
        }
        let (whole, rest) = room.as_chunks_mut::<WORD>();
        let count = whole.len();
        let (first, second) = whole.split_at_mut(count.min(words.len() - at));
        for (from, to) in words[at..].iter().zip(first).chain(words.iter().zip(second)) {
            *to = from.load(Relaxed).to_le_bytes();
        }
        if !rest.is_empty() {
            let word = words[(at + count) & self.place.mask].load(Relaxed).to_le_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }
}
