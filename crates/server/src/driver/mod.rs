//! The drivers: how bytes reach a worker and leave it.
//!
//! The worker gets events (bytes arrived, a connection was accepted or has gone) and hands back outputs. It sees no
//! registration and no partial write; it may say that it takes nothing from a connection for now. There are three drivers,
//! with the same calls (`socket_driver`). Over any of them the bytes of a connection may go through shared memory (`rings`).
//!
//! Nothing in `async` is Linux's own, so it would be the choice where there is neither epoll nor io_uring. The rest of this
//! crate is for Linux, and is refused elsewhere as it is compiled; so no other system has ever run it.

mod accepting;
mod aside;
mod asynchronous;
mod completion;
mod epoll;
mod event;
mod listen;
pub mod listeners;
mod looking;
pub mod outgoing;
mod rings;
mod send_pieces;
mod socket_driver;
mod spare_outputs;
#[cfg(test)]
pub(crate) mod tests;
pub mod tls;

pub use event::{Event, Sending, Token, Waker};
pub use listen::{Listener, bind_tcp, bind_unix};
pub use rings::RING_BYTES;
pub use socket_driver::Kind;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use sleeve_rings::memory::Fresh;

use crate::request::output::Output;
use looking::Looking;
use rings::Rings;
use socket_driver::SocketDriver;

/// The carrier of the bytes of one worker. Belongs to one thread; its [`Waker`] may be used from any.
#[derive(Debug)]
pub struct Driver {
    sockets: SocketDriver,
    rings: Rings,
    looking: Looking,
    /// Whether it looks for a moment before it sleeps.
    looks: bool,
}

impl From<SocketDriver> for Driver {
    fn from(sockets: SocketDriver) -> Self {
        Self { sockets, rings: Rings::default(), looking: Looking::default(), looks: true }
    }
}

impl Driver {
    /// Creates so many drivers of the kind that the option `io` names. If the kernel refuses io_uring, they are of the kind
    /// `hybrid`, and the reason is returned.
    ///
    /// # Errors
    /// Those of the kernel about the kind.
    pub fn chosen(io: &str, count: usize) -> io::Result<(Vec<Self>, Option<io::Error>)> {
        let (made, refusal) = SocketDriver::chosen(io, count)?;
        Ok((made.into_iter().map(Self::from).collect(), refusal))
    }

    /// Creates a driver of the kind `hybrid`, without connections.
    ///
    /// # Errors
    /// Those of the kernel, such as too many open files.
    #[cfg(test)]
    pub fn hybrid() -> io::Result<Self> {
        SocketDriver::hybrid().map(Self::from)
    }

    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        self.sockets.kind()
    }

    /// Returns a waker of this driver.
    pub fn waker(&self) -> Waker {
        self.sockets.waker()
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        self.sockets.listen(listener)
    }

    /// Stops accepting and releases the listeners.
    pub fn stop_listening(&mut self) {
        self.sockets.stop_listening();
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn accept_again(&mut self) {
        self.sockets.accept_again();
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// Those of the kernel; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        self.sockets.adopt(socket)
    }

    /// Hands out memory over a connection's Unix socket: later bytes go through it.
    ///
    /// # Errors
    /// Replies wait that the peer has not read.
    pub fn share_memory(&mut self, token: Token, memory: Fresh) -> io::Result<()> {
        self.rings.begin(&mut self.sockets, token, memory)
    }

    /// Returns the number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        self.sockets.descriptor(token)
    }

    /// Sets whether waits begin with a busy poll from now on.
    #[inline]
    pub fn set_looking(&mut self, looks: bool) {
        self.looks = looks;
    }

    /// Waits until something happens or until the timeout; returns how many events [`Driver::event`] has.
    ///
    /// # Errors
    /// Those of the kernel; an interruption is no error.
    #[inline]
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        if self.rings.are_all_asleep() {
            if self.looks { self.looking.wait(&mut self.sockets, timeout_ms) } else { self.sockets.wait(timeout_ms) }
        } else {
            self.rings.wait(&mut self.sockets, timeout_ms)
        }
    }

    /// Returns event `index` of this wake-up; they are asked for in their order. Bytes that arrived are at the start of the
    /// buffer then.
    #[inline]
    pub fn event(&mut self, index: usize, buffer: &mut [u8]) -> Event {
        if self.rings.is_empty() {
            self.sockets.event(index, buffer)
        } else {
            self.rings.event(&mut self.sockets, index, buffer)
        }
    }

    /// Switches [`Driver::receive_into`] on or off for a connection, where the driver can do that. Bytes that have arrived
    /// already are reported (again).
    pub fn receive_apart(&mut self, token: Token, is_apart: bool) {
        if let SocketDriver::Hybrid(driver) = &mut self.sockets
            && self.rings.find(token).is_none()
        {
            driver.receive_apart(token, is_apart);
        }
    }

    /// Receives, upon [`Event::Receivable`], into the room behind the contents of `into`, of which there must be some. If the
    /// room is full then, [`Driver::receive_apart`] follows: there may be more.
    pub fn receive_into(&mut self, token: Token, into: &mut Vec<u8>) -> Event {
        match &mut self.sockets {
            SocketDriver::Hybrid(driver) => driver.receive_into(token, into),
            SocketDriver::Async(_) | SocketDriver::Completion(_) => Event::Nothing,
        }
    }

    /// Takes the bytes of `output`, behind those that already wait, and leaves it empty, even where the connection is broken:
    /// the next connection's replies go into the same buffer.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        match self.rings.get(token) {
            None => self.sockets.send(token, output),
            Some(pair) => pair.send(output),
        }
    }

    /// Sends of each output the bytes that can leave at once and are cheaper to send together; returns how many sends that
    /// were, and how many bytes have left. The rest, and the state of the connections, are for [`Driver::send`].
    #[inline]
    pub fn send_together(&mut self, outputs: &mut [(Token, Output)]) -> (usize, usize) {
        if !self.rings.is_empty() {
            self.rings.send_each(outputs);
        }
        self.sockets.send_together(outputs)
    }

    /// Adds bytes that other connections share to the unsent bytes, without sending: [`Driver::send_queued`] follows.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        if !self.rings.queue(token, bytes) {
            self.sockets.queue(token, bytes);
        }
    }

    /// Returns the connections to which something was queued since the last call; each is for [`Driver::send_queued`].
    pub fn take_queued(&mut self) -> Vec<Token> {
        let mut queued = self.sockets.take_queued();
        self.rings.take_queued(&mut queued);
        queued
    }

    /// Sends the queued bytes, behind those that already wait.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        match self.rings.get(token) {
            None => self.sockets.send_queued(token),
            Some(pair) => pair.send_waiting(),
        }
    }

    /// Sends at once the bytes that [`Sending::Done`] has only promised: called where nothing else is to follow.
    pub fn flush(&mut self, token: Token) -> Sending {
        match self.rings.get(token) {
            None => self.sockets.flush(token),
            Some(pair) => pair.send_waiting(),
        }
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        self.rings.find(token).map_or_else(|| self.sockets.waiting(token), |pair| pair.waiting().len())
    }

    /// Returns how many bytes have not left, also where they only wait for the end of the wake-up.
    pub fn unsent(&self, token: Token) -> usize {
        self.rings.find(token).map_or_else(|| self.sockets.unsent(token), |pair| pair.waiting().len())
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self, token: Token) -> usize {
        self.rings.find(token).map_or_else(|| self.sockets.spare(token), |pair| pair.waiting().spare())
    }

    /// Stops or resumes receiving from a connection; no bytes that it has sent are lost.
    pub fn hold(&mut self, token: Token, held: bool) {
        if !self.rings.hold(token, held) {
            self.sockets.hold(token, held);
        }
    }

    /// Closes a connection and drops the bytes that the peer does not take.
    pub fn close(&mut self, token: Token) {
        self.rings.end(token);
        self.sockets.close(token);
    }

    /// Prepares the driver for another thread than before.
    ///
    /// # Errors
    /// Those of the kernel; the same thread may go on with the driver then.
    pub fn change_thread(&mut self) -> io::Result<()> {
        self.sockets.change_thread()
    }

    /// Makes every wait fail from now on, as the kernel does where a descriptor is not as it should be.
    #[cfg(test)]
    pub fn break_wait(&mut self) {
        if let SocketDriver::Hybrid(driver) = &mut self.sockets {
            driver.break_wait();
        }
    }
}
