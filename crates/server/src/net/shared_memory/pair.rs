//! A connection that shares memory with its client: its incoming bytes, its outgoing bytes, and the ringing of the bell.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::SendFlags;
use sleeve_rings::memory::Memory;
use sleeve_rings::ring::{Broken, Reader, Writer};
use sleeve_rings::side::{Role, ends};

use crate::net::event::{Event, Sending, Token};
use crate::request::output::Output;

/// The size of each of the two rings, in bytes.
pub const RING_BYTES: usize = 64 * 1024;

/// The bytes of the bell.
const BELL: &[u8] = b"!";

/// A pair of rings, of which this side writes into one and reads from the other.
#[derive(Debug)]
pub struct Pair {
    writer: Writer<Memory>,
    reader: Reader<Memory>,
    /// The connection's socket, which the driver keeps open for longer than this pair.
    bell: BorrowedFd<'static>,
    /// The bytes for which the ring has no room yet.
    waiting: Output,
    /// Reading is paused until the session can go on.
    is_held: bool,
    /// The client has written an invalid position.
    is_broken: bool,
    /// The socket has ended; so many bytes that the client has written before are still taken at most.
    left: Option<usize>,
    /// The client's end has been reported.
    is_end_told: bool,
    /// The pair is in the list of those that are checked before each wait.
    pub is_awake: bool,
    /// The pair is in the list of those with an event in this wake-up.
    pub is_ready: bool,
    /// The pair is in the list of those for which bytes were queued.
    pub is_queued: bool,
}

impl Pair {
    /// Makes a pair in memory that the client has just been sent; its bell rings over this socket.
    pub fn new(memory: Memory, bell: BorrowedFd<'static>) -> Self {
        let (writer, reader) = ends(memory, Role::Server);
        Self {
            writer,
            reader,
            bell,
            waiting: Output::default(),
            is_held: false,
            is_broken: false,
            left: None,
            is_end_told: false,
            is_awake: false,
            is_ready: false,
            is_queued: false,
        }
    }

    /// Returns the bytes that wait for the peer to read.
    pub fn waiting(&self) -> &Output {
        &self.waiting
    }

    /// Returns whether reading is paused.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Pauses or resumes reading.
    pub fn hold(&mut self, held: bool) {
        self.is_held = held;
        // When it is resumed, it reports all bytes, and again the client's end.
        self.is_end_told &= held;
    }

    /// Notes that the socket has ended.
    pub fn hang_up(&mut self) {
        self.left.get_or_insert(RING_BYTES);
    }

    /// Notes that the client need not ring.
    pub fn wake_up(&mut self) {
        self.reader.wake_up();
    }

    /// Returns whether there is an event.
    #[inline]
    pub fn has_news(&mut self) -> bool {
        let is_over = (self.is_broken || self.left.is_some()) && !self.is_end_told;
        is_over || (!self.is_held && self.reader.has_bytes().unwrap_or(true) && !self.is_end_told)
    }

    /// Asks the client to ring from now on. Returns false if there is an event already.
    pub fn fall_asleep(&mut self) -> bool {
        let is_silent = self.is_held || self.is_end_told || self.reader.fall_asleep().unwrap_or(false);
        is_silent && !self.has_news()
    }

    /// Returns the pair's event. If it is received bytes, they are at the start of the buffer.
    #[inline]
    pub fn event(&mut self, token: Token, buffer: &mut [u8]) -> Event {
        self.is_ready = false;
        let before = self.waiting.len();
        if before != 0 && self.push() == Sending::Broken {
            return self.tell_end(token);
        }
        if !self.is_held && !self.is_broken {
            let room = self.left.map_or(buffer.len(), |left| left.min(buffer.len()));
            match self.reader.read(&mut buffer[..room]) {
                Ok(0) => {}
                Ok(count) => {
                    self.left = self.left.map(|left| left - count);
                    if self.reader.must_ring() {
                        self.ring();
                    }
                    return Event::Received(token, count);
                }
                Err(Broken) => self.is_broken = true,
            }
        }
        if self.is_broken || self.left.is_some() {
            return self.tell_end(token);
        }
        if self.waiting.len() != before { Event::Sent(token, self.waiting.len()) } else { Event::Nothing }
    }

    fn tell_end(&mut self, token: Token) -> Event {
        if std::mem::replace(&mut self.is_end_told, true) { Event::Nothing } else { Event::Closed(token) }
    }

    /// Takes the bytes of an output, behind those that already wait.
    #[inline]
    pub fn send(&mut self, output: &mut Output) -> Sending {
        if self.is_broken {
            output.clear();
            return Sending::Broken;
        }
        if !self.waiting.is_empty() {
            output.move_to(&mut self.waiting);
            return self.push();
        }
        let written = write_all(&mut self.writer, output);
        if !output.is_empty() {
            output.move_to(&mut self.waiting);
        }
        self.sent(written)
    }

    /// Adds bytes to the unsent ones; returns whether they are the first that are queued.
    pub fn queue(&mut self, bytes: &Arc<Vec<u8>>) -> bool {
        self.waiting.push_shared(bytes);
        !std::mem::replace(&mut self.is_queued, true)
    }

    /// Writes the unsent bytes into the ring, as far as there is room.
    pub fn send_waiting(&mut self) -> Sending {
        if self.is_broken {
            self.waiting.clear();
            return Sending::Broken;
        }
        self.push()
    }

    fn push(&mut self) -> Sending {
        let written = write_all(&mut self.writer, &mut self.waiting);
        self.sent(written)
    }

    #[inline]
    fn sent(&mut self, written: Result<(), Broken>) -> Sending {
        if self.writer.must_ring() {
            self.ring();
        }
        match written {
            Ok(()) if self.waiting.is_empty() => Sending::Done,
            Ok(()) => Sending::Waiting(self.waiting.len()),
            Err(Broken) => {
                self.is_broken = true;
                self.waiting.clear();
                Sending::Broken
            }
        }
    }

    /// Rings the client's bell. If the socket takes no more bytes, the client has enough unread bells; if it has ended, the
    /// client has disconnected.
    fn ring(&self) {
        _ = rustix::net::send(self.bell, BELL, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

/// Writes an output into the ring as far as there is room; if there is not enough, asks the client to ring when there is.
#[inline]
fn write_all(writer: &mut Writer<Memory>, output: &mut Output) -> Result<(), Broken> {
    while !output.is_empty() {
        let count = match output.plain() {
            Some(bytes) => writer.write(bytes)?,
            None => {
                let pieces = output.pieces();
                pieces.iter().find(|piece| !piece.is_empty()).map_or(Ok(0), |piece| writer.write(piece))?
            }
        };
        if count == 0 && writer.wait_for_room()? {
            return Ok(());
        }
        output.advance(count);
    }
    Ok(())
}
