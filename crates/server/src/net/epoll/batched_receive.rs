//! Many receives with one system call: the bytes of several connections, before the first of them is reported.
//!
//! Each has a slice of one room, which stays in the second cache at least. A receive that brought nothing (an end, an error,
//! no ring) is not noted: the next receive finds the reason. Bytes that were received and cannot be reported are for the
//! driver to keep. Belongs to one thread at a time.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{opcode, types};
use rustix::net::RecvFlags;

use super::batch_ring::BatchRing;

/// Receives that one system call does at most.
pub const RECEIVES_MAX: usize = 64;

/// Bytes that one of them takes at most.
pub const SLICE_BYTES: usize = 4 * 1024;

/// From the start of a slice to the next. No multiple of a page: the starts would share a few lines of the nearest cache.
const STRIDE: usize = SLICE_BYTES + 3 * 64;

/// Bytes that were received for events that have not been looked at.
#[derive(Debug, Default)]
pub struct BatchedReceive {
    room: Vec<u8>,
    /// In the order of their events.
    received: Vec<Received>,
    /// How many of these have been taken.
    taken: usize,
}

/// The bytes that were received for one event.
#[derive(Debug)]
struct Received {
    event: usize,
    socket: RawFd,
    /// Where the bytes begin.
    start: usize,
    count: usize,
}

impl BatchedReceive {
    /// Tries to receive once for each of these events, of which there are not too many, from this socket.
    pub fn receive<'a>(&mut self, ring: &mut BatchRing, events: impl Iterator<Item = (usize, BorrowedFd<'a>)>) {
        self.clear();
        for (number, (event, socket)) in events.enumerate() {
            let start = number * STRIDE;
            self.received.push(Received { event, socket: socket.as_raw_fd(), start, count: 0 });
        }
        if self.received.len() < 2 {
            return self.clear();
        }
        self.make_room();
        let mut counts = [0; RECEIVES_MAX];
        let flags = RecvFlags::DONTWAIT.bits() as i32;
        let operations = self.received.iter().zip(self.room.chunks_exact_mut(STRIDE)).map(|(received, slice)| {
            opcode::Recv::new(types::Fd(received.socket), slice.as_mut_ptr(), SLICE_BYTES as u32).flags(flags).build()
        });
        let note = |number: usize, answer| counts[number] = usize::try_from(answer).unwrap_or(0);
        // SAFETY: the sockets are borrowed until this function returns, and so is the room, of which each has a part of its own.
        unsafe { ring.run(operations, note) };
        self.received.iter_mut().zip(counts).for_each(|(received, count)| received.count = count);
        self.received.retain(|received| received.count != 0);
    }

    /// Returns whether something was received for this event that has not been taken.
    #[inline]
    pub fn is_next(&self, event: usize) -> bool {
        self.received.get(self.taken).is_some_and(|received| received.event == event)
    }

    /// Takes the next bytes.
    #[inline]
    pub fn take(&mut self) -> &[u8] {
        let Some(received) = self.received.get(self.taken) else { return &[] };
        self.taken += 1;
        &self.room[received.start..][..received.count]
    }

    /// Adds bytes for an event that comes behind all others.
    pub fn put(&mut self, event: usize, bytes: &[u8]) {
        let (start, count) = (self.received.len() * STRIDE, bytes.len());
        self.received.push(Received { event, socket: -1, start, count });
        self.make_room();
        self.room[start..][..count].copy_from_slice(bytes);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.received.clear();
        self.taken = 0;
    }

    /// Returns whether no more can be put.
    pub fn is_full(&self) -> bool {
        self.received.len() >= RECEIVES_MAX
    }

    fn make_room(&mut self) {
        let wanted = self.received.len() * STRIDE;
        if self.room.len() < wanted {
            self.room.resize(wanted, 0);
        }
    }
}
