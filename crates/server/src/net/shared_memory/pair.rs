//! One connection that shares memory with its peer: its incoming bytes, its outgoing bytes, and the times when the bell is
//! rung.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::SendFlags;
use sleeve_rings::memory::Memory;
use sleeve_rings::ring::{Broken, Reader, Writer};
use sleeve_rings::side::{Role, ends};

use crate::net::event::{Event, Sending, Token};
use crate::request::output::Output;

/// Bytes that each of two rings has.
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
    /// Bytes that have not found room.
    waiting: Output,
    /// Reading is paused until the session can go on.
    is_held: bool,
    /// The peer has left a position that is none.
    is_broken: bool,
    /// The socket has ended. So many bytes are taken at most that the peer had written before.
    left: Option<usize>,
    /// The end of the peer has been reported.
    is_end_told: bool,
    /// Stands in the list of those that are looked at.
    pub is_awake: bool,
    /// Stands in the list of those that have something to tell in this wake-up.
    pub is_ready: bool,
    /// Stands in the list of those to which something was queued.
    pub is_queued: bool,
}

impl Pair {
    /// Creates a pair in memory that the peer has just been given; its bell rings over this socket.
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

    /// Returns whether nothing is taken for now.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Takes nothing more for now, or something again.
    pub fn hold(&mut self, held: bool) {
        self.is_held = held;
        // When released, it reports all bytes, and once more the end of the peer.
        self.is_end_told &= held;
    }

    /// Notes that the socket has ended.
    pub fn hang_up(&mut self) {
        self.left.get_or_insert(RING_BYTES);
    }

    /// Notes that the peer need not ring.
    pub fn wake_up(&mut self) {
        self.reader.wake_up();
    }

    /// Returns whether there is something to tell.
    #[inline]
    pub fn has_news(&mut self) -> bool {
        let is_over = (self.is_broken || self.left.is_some()) && !self.is_end_told;
        is_over || (!self.is_held && self.reader.has_bytes().unwrap_or(true) && !self.is_end_told)
    }

    /// Asks the peer to ring from now on. Returns false if there is an event already.
    pub fn fall_asleep(&mut self) -> bool {
        let is_silent = self.is_held || self.is_end_told || self.reader.fall_asleep().unwrap_or(false);
        is_silent && !self.has_news()
    }

    /// Returns its event. Bytes that arrived are at the start of the buffer then.
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

    /// Writes the unsent bytes, as far as there is room.
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

    /// Rings. If the socket takes nothing more, the peer has enough unheard bells, and if it has ended, the peer has gone.
    fn ring(&self) {
        _ = rustix::net::send(self.bell, BELL, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

/// Writes an output as far as there is room, and has the peer ring where there is not enough.
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
