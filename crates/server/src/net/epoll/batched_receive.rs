//! Many receives with one system call: the bytes of several connections are received before the first of them is reported.
//!
//! Each connection has a slice of one memory, which is small enough for the second-level cache. A receive that has brought
//! nothing (an end, an error, no ring) is not noted: the next receive finds the reason. Bytes that were received and cannot
//! be reported are kept by the driver. Belongs to one thread at a time.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{opcode, types};
use rustix::net::RecvFlags;

use super::batch_ring::BatchRing;

/// The most receives of one system call.
pub const RECEIVES_MAX: usize = 64;

/// The most bytes that one of these receives takes.
pub const SLICE_BYTES: usize = 4 * 1024;

/// The distance between the starts of two slices. It is no multiple of a page, because then the starts would share a few
/// lines of the first-level cache.
const STRIDE: usize = SLICE_BYTES + 3 * 64;

/// Bytes that were received for events that have not been handled yet.
#[derive(Debug, Default)]
pub struct BatchedReceive {
    room: Vec<u8>,
    /// The received bytes, in the order of their events.
    received: Vec<Received>,
    /// The number of these that have been taken.
    taken: usize,
}

/// The bytes that were received for one event.
#[derive(Debug)]
struct Received {
    event: usize,
    socket: RawFd,
    /// The position at which the bytes begin.
    start: usize,
    count: usize,
}

impl BatchedReceive {
    /// Tries to receive once for each of these events, from its socket. There are not more than [`RECEIVES_MAX`].
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
        // SAFETY: the sockets are borrowed until this function returns, and so is the memory, of which each receive has its
        // own part.
        unsafe { ring.run(operations, note) };
        self.received.iter_mut().zip(counts).for_each(|(received, count)| received.count = count);
        self.received.retain(|received| received.count != 0);
    }

    /// Returns whether bytes were received for this event and not taken yet.
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

    /// Adds bytes for an event that comes after all others.
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

    /// Returns whether no more bytes can be added.
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
