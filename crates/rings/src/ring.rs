//! A ring of bytes from one writer to one reader, in words that both share, and when a bell is due.
//!
//! Positions count bytes from the beginning and never go back: the writer says up to where it has written, the reader up to
//! where it has taken. Each keeps its own position to itself as well and believes the shared one of the other only where it is
//! possible. Who finds nothing to do says so in a word, and looks once more behind a fence; who then makes something to do
//! takes the word back and rings. So nobody sleeps beside bytes or room, and nobody is rung who is awake (Dekker's argument:
//! each writes, fences, and reads what the other has written).
//!
//! Bytes are stored as whole words of the memory, because only those can be shared with a process that keeps to no rules
//! without undefined behaviour.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

/// Words ahead of the bytes: each of the four below has a line of the processor's cache to itself.
pub const HEAD_WORDS: usize = 32;

/// Up to where the writer has written.
const WRITTEN: usize = 0;

/// Up to where the reader has taken.
const TAKEN: usize = 8;

/// Not zero while the reader sleeps.
const READER_SLEEPS: usize = 16;

/// Not zero while the writer waits for room.
const WRITER_WAITS: usize = 24;

const WORD: usize = size_of::<u64>();

/// Words that two processes share. Any of them may change at any time.
pub trait Words {
    /// All of them; the same ones each time.
    fn words(&self) -> &[AtomicU64];
}

impl Words for std::sync::Arc<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// The other side has left a position that is none: what it says cannot be believed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the other side has broken the ring in shared memory")
    }
}

impl std::error::Error for Broken {}

/// Where a ring lies in the memory.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The first word of its head.
    start: usize,
    /// How many words of bytes it has, less one; how many is a power of two.
    mask: usize,
}

impl Place {
    /// The ring whose head begins at word `start` and that has so many words of bytes.
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

    /// The words of bytes, and which of them a position is in.
    fn bytes<M: Words>(self, memory: &M, position: u64) -> (&[AtomicU64], usize) {
        let first = self.start + HEAD_WORDS;
        (&memory.words()[first..=first + self.mask], (position / WORD as u64) as usize & self.mask)
    }
}

/// Rings if the other side has said that it sleeps: takes the word back and says that the bell is due.
fn must_ring(sleeps: &AtomicU64) -> bool {
    fence(SeqCst);
    sleeps.load(Relaxed) != 0 && sleeps.swap(0, AcqRel) != 0
}

/// Says that this side is about to sleep.
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
    /// Up to where the reader was last seen to have taken.
    taken: u64,
}

impl<M: Words> Writer<M> {
    /// The writer of a fresh ring whose head begins at word `start`, with `count` words of bytes.
    ///
    /// # Panics
    /// The count is no power of two, or the memory is too small.
    pub fn new(memory: M, start: usize, count: usize) -> Self {
        let place = Place::new(&memory, start, count);
        Self { memory, place, written: 0, taken: 0 }
    }

    /// Writes as many of these bytes as there is room for, and how many those are. Whether the reader is to be rung is said by
    /// [`Writer::must_ring`], when all that is due together has been written.
    ///
    /// # Errors
    /// The reader has taken what was not written.
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

    /// Whether the reader sleeps, and now has to be rung. Asked behind every write.
    #[inline]
    pub fn must_ring(&mut self) -> bool {
        must_ring(self.place.head(&self.memory, READER_SLEEPS))
    }

    /// Says that this side waits for room. True where there is none: the reader rings when it has taken half of the ring. False
    /// where there is room by now.
    ///
    /// # Errors
    /// As [`Writer::write`].
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

    /// Looks how far the reader has come.
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

/// Puts bytes into a part of a word. What else is in it is written already, or not taken yet where the ring is nearly full.
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
    /// Up to where the writer was last seen to have written.
    written: u64,
    /// It has said that it sleeps, and has not taken that back.
    is_asleep: bool,
    /// The writer has rung since that was asked last, or is about to.
    was_rung: bool,
}

impl<M: Words> Reader<M> {
    /// The reader of a fresh ring whose head begins at word `start`, with `count` words of bytes.
    ///
    /// # Panics
    /// The count is no power of two, or the memory is too small.
    pub fn new(memory: M, start: usize, count: usize) -> Self {
        let place = Place::new(&memory, start, count);
        Self { memory, place, taken: 0, written: 0, is_asleep: false, was_rung: false }
    }

    /// Takes as many bytes as there are and as there is room for; how many. Whether the writer is to be rung is said by
    /// [`Reader::must_ring`].
    ///
    /// # Errors
    /// The writer says that it has written more than fits, or less than it had.
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

    /// Whether there is something to take.
    ///
    /// # Errors
    /// As [`Reader::read`].
    #[inline]
    pub fn has_bytes(&mut self) -> Result<bool, Broken> {
        if self.written == self.taken {
            self.look()?;
        }
        Ok(self.written != self.taken)
    }

    /// Whether the writer waits for room, there is enough, and it has to be rung now. Asked behind every read.
    #[inline]
    pub fn must_ring(&mut self) -> bool {
        self.written - self.taken <= self.place.capacity() / 2 && must_ring(self.place.head(&self.memory, WRITER_WAITS))
    }

    /// Says that this side is about to sleep. True where nothing is left to be taken: the writer rings when there is. False
    /// where something has come by now, and this side stays awake.
    ///
    /// # Errors
    /// As [`Reader::read`].
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

    /// Takes back that it sleeps: the writer need not ring.
    #[inline]
    pub fn wake_up(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.was_rung |= self.place.head(&self.memory, READER_SLEEPS).swap(0, AcqRel) == 0;
        }
    }

    /// Whether the writer has rung since this was asked last, or is about to: then there is, or comes, a byte on the socket.
    #[inline]
    pub fn take_ring(&mut self) -> bool {
        std::mem::take(&mut self.was_rung)
    }

    /// Looks how far the writer has come.
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    type Plain = Arc<[AtomicU64]>;

    fn ring(count: usize) -> (Writer<Plain>, Reader<Plain>) {
        let memory: Plain = (0..HEAD_WORDS + count).map(|_| AtomicU64::new(0)).collect();
        (Writer::new(Arc::clone(&memory), 0, count), Reader::new(memory, 0, count))
    }

    /// What one of the two does.
    #[derive(Debug, Clone)]
    enum Step {
        Write(usize),
        Read(usize),
        FallAsleep,
        WakeUp,
        WaitForRoom,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..100_usize).prop_map(Step::Write),
            (0..100_usize).prop_map(Step::Read),
            Just(Step::FallAsleep),
            Just(Step::WakeUp),
            Just(Step::WaitForRoom),
        ]
    }

    proptest! {
        #[test]
        fn bytes_come_as_they_went_and_who_sleeps_is_rung(
            exponent in 0..5_u32,
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let capacity = (1 << exponent) * WORD;
            let (mut writer, mut reader) = ring(1 << exponent);
            let (mut twin, mut next) = (VecDeque::new(), 0_u8);
            let (mut sleeps, mut waits) = (false, false);
            for step in steps {
                match step {
                    Step::Write(count) => {
                        let bytes: Vec<u8> = (0..count).map(|index| next.wrapping_add(index as u8)).collect();
                        let written = writer.write(&bytes).expect("both keep to the rules");
                        prop_assert_eq!(written, count.min(capacity - twin.len()));
                        twin.extend(&bytes[..written]);
                        next = next.wrapping_add(written as u8);
                        prop_assert_eq!(writer.must_ring(), sleeps);
                        sleeps = false;
                    }
                    Step::Read(count) => {
                        let mut room = vec![0; count];
                        let read = reader.read(&mut room).expect("both keep to the rules");
                        prop_assert_eq!(read, count.min(twin.len()));
                        let expected: Vec<u8> = twin.drain(..read).collect();
                        prop_assert_eq!(&room[..read], &expected[..]);
                        // It may be too early: what was written since the reader looked last is not seen.
                        let rings = reader.must_ring();
                        prop_assert!(rings == waits || (waits && twin.len() > capacity / 2));
                        waits &= !rings;
                    }
                    Step::FallAsleep if !reader.is_asleep => {
                        let falls = reader.fall_asleep().expect("both keep to the rules");
                        prop_assert_eq!(falls, twin.is_empty());
                        prop_assert!(!reader.take_ring(), "nobody wrote meanwhile");
                        sleeps = falls;
                    }
                    Step::FallAsleep => {}
                    Step::WakeUp => {
                        let was_asleep = reader.is_asleep;
                        reader.wake_up();
                        prop_assert_eq!(reader.take_ring(), was_asleep && !sleeps);
                        sleeps = false;
                    }
                    Step::WaitForRoom => {
                        waits = writer.wait_for_room().expect("both keep to the rules");
                        prop_assert_eq!(waits, twin.len() > capacity / 2);
                    }
                }
            }
        }

        /// A hostile side leaves any number in any word between any two steps.
        #[test]
        fn whatever_the_other_side_leaves_there_ends_in_bytes_or_an_error(
            exponent in 0..5_u32,
            steps in prop::collection::vec((step(), 0..HEAD_WORDS, any::<u64>(), any::<bool>()), 1..200),
        ) {
            let (mut writer, mut reader) = ring(1 << exponent);
            for (step, word, number, is_near) in steps {
                let word = reader.place.head(&reader.memory, word);
                word.store(if is_near { word.load(Relaxed).wrapping_add(number % 16) } else { number }, Relaxed);
                match step {
                    Step::Write(count) => _ = writer.write(&vec![1; count]).map(|_| writer.must_ring()),
                    Step::Read(count) => _ = reader.read(&mut vec![0; count]).map(|_| reader.must_ring()),
                    Step::FallAsleep => _ = reader.fall_asleep(),
                    Step::WakeUp => reader.wake_up(),
                    Step::WaitForRoom => _ = writer.wait_for_room(),
                }
            }
        }
    }

    #[test]
    fn positions_that_cannot_be_are_refused() {
        let (mut writer, mut reader) = ring(4);
        assert_eq!(writer.write(&[7; 40]), Ok(32));
        writer.place.head(&writer.memory, TAKEN).store(33, Relaxed);
        assert_eq!(writer.write(b"x"), Err(Broken));
        assert_eq!(reader.read(&mut [0; 8]), Ok(8));
        writer.place.head(&writer.memory, WRITTEN).store(41, Relaxed);
        assert_eq!(reader.read(&mut [0; 64]), Err(Broken), "more than fits");
        writer.place.head(&writer.memory, WRITTEN).store(31, Relaxed);
        assert_eq!(reader.read(&mut [0; 64]), Err(Broken), "less than before");
    }

    /// Two threads that sleep only where they may: if a bell were lost, this would never end.
    #[test]
    fn nobody_sleeps_beside_bytes_or_room() {
        let total = if cfg!(miri) { 200 } else { 300_000_u32 };
        let (mut writer, mut reader) = ring(4);
        let (ring_reader, reader_bell) = std::sync::mpsc::channel();
        let (ring_writer, writer_bell) = std::sync::mpsc::channel();
        let producer = std::thread::spawn(move || {
            for number in 0..total {
                let bytes = number.to_le_bytes();
                let mut left = &bytes[..];
                while !left.is_empty() {
                    let count = writer.write(left).expect("the reader keeps to the rules");
                    left = &left[count..];
                    if writer.must_ring() {
                        ring_reader.send(()).expect("it reads until the end");
                    }
                    if !left.is_empty() && writer.wait_for_room().expect("the reader keeps to the rules") {
                        writer_bell.recv().expect("the reader rings");
                    }
                }
            }
        });
        let mut got = Vec::new();
        while got.len() < total as usize * 4 {
            let mut room = [0; 24];
            let count = reader.read(&mut room).expect("the writer keeps to the rules");
            got.extend_from_slice(&room[..count]);
            if reader.must_ring() {
                // It may have written its last and gone.
                _ = ring_writer.send(());
            }
            if count == 0 && reader.fall_asleep().expect("the writer keeps to the rules") {
                reader_bell.recv().expect("the writer rings");
                reader.wake_up();
            }
        }
        producer.join().expect("it does not panic");
        let (numbers, _) = got.as_chunks::<4>();
        assert!(numbers.iter().enumerate().all(|(index, bytes)| u32::from_le_bytes(*bytes) == index as u32));
    }
}
