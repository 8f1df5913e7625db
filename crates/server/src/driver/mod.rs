//! The drivers: how bytes reach a worker and leave it.
//!
//! The worker is told what has happened (bytes arrived, a connection came, this one has gone) and hands back outputs. It sees no
//! registration and no partial write; it may say that it takes nothing from a connection for now. There are three, with the same
//! calls (`socket_driver`). Over any of them connections may have their bytes go through shared memory (`rings`).
//!
//! Of `async` nothing is Linux's own, so it would be what is chosen where there is neither epoll nor io_uring. The rest of this
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

/// What carries the bytes of one worker. Belongs to one thread; its [`Waker`] may be used from any.
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
    /// So many drivers of the kind that the option `io` names; where the kernel refuses io_uring, of the kind `hybrid`, and why.
    ///
    /// # Errors
    /// What the kernel says against the kind.
    pub fn chosen(io: &str, count: usize) -> io::Result<(Vec<Self>, Option<io::Error>)> {
        let (made, refusal) = SocketDriver::chosen(io, count)?;
        Ok((made.into_iter().map(Self::from).collect(), refusal))
    }

    /// A driver of the kind `hybrid`, without connections.
    ///
    /// # Errors
    /// What the kernel says, such as too many open files.
    #[cfg(test)]
    pub fn hybrid() -> io::Result<Self> {
        SocketDriver::hybrid().map(Self::from)
    }

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        self.sockets.kind()
    }

    /// What wakes this driver.
    pub fn waker(&self) -> Waker {
        self.sockets.waker()
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        self.sockets.listen(listener)
    }

    /// Stops accepting and lets go of the listeners.
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
    /// What the kernel says; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        self.sockets.adopt(socket)
    }

    /// Hands out memory over a connection's Unix socket: what follows goes through it.
    ///
    /// # Errors
    /// Replies wait that the peer has not read.
    pub fn share_memory(&mut self, token: Token, memory: Fresh) -> io::Result<()> {
        self.rings.begin(&mut self.sockets, token, memory)
    }

    /// The number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        self.sockets.descriptor(token)
    }

    /// Has waits begin with a look from now on, or not.
    #[inline]
    pub fn set_looking(&mut self, looks: bool) {
        self.looks = looks;
    }

    /// Waits until something happens or the time is over; returns how many events [`Driver::event`] has.
    ///
    /// # Errors
    /// What the kernel says; an interruption is no error.
    #[inline]
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        if self.rings.are_all_asleep() {
            if self.looks { self.looking.wait(&mut self.sockets, timeout_ms) } else { self.sockets.wait(timeout_ms) }
        } else {
            self.rings.wait(&mut self.sockets, timeout_ms)
        }
    }

    /// What event `index` of this wake-up was, asked for in their order. Bytes that arrived are at the start of the buffer then.
    #[inline]
    pub fn event(&mut self, index: usize, buffer: &mut [u8]) -> Event {
        if self.rings.is_empty() {
            self.sockets.event(index, buffer)
        } else {
            self.rings.event(&mut self.sockets, index, buffer)
        }
    }

    /// Has [`Driver::receive_into`] receive what comes on a connection from now on, or no longer, where the driver can. Of what
    /// has come already is told (again).
    pub fn receive_apart(&mut self, token: Token, is_apart: bool) {
        if let SocketDriver::Hybrid(driver) = &mut self.sockets
            && self.rings.find(token).is_none()
        {
            driver.receive_apart(token, is_apart);
        }
    }

    /// Receives, upon [`Event::Receivable`], into the room behind what is in `into`, of which there must be some. Where the room
    /// is full then, [`Driver::receive_apart`] follows: there may be more.
    pub fn receive_into(&mut self, token: Token, into: &mut Vec<u8>) -> Event {
        match &mut self.sockets {
            SocketDriver::Hybrid(driver) => driver.receive_into(token, into),
            SocketDriver::Async(_) | SocketDriver::Completion(_) => Event::Nothing,
        }
    }

    /// Takes what is in `output`, behind what already waits, and leaves it empty, even where the connection is broken: the next
    /// connection's replies go into the same buffer.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        match self.rings.get(token) {
            None => self.sockets.send(token, output),
            Some(pair) => pair.send(output),
        }
    }

    /// Sends of each output what can leave at once and is cheaper to send together; returns how many sends that were, and how
    /// many bytes have left. The rest, and what concerns the connections, is for [`Driver::send`].
    #[inline]
    pub fn send_together(&mut self, outputs: &mut [(Token, Output)]) -> (usize, usize) {
        if !self.rings.is_empty() {
            self.rings.send_each(outputs);
        }
        self.sockets.send_together(outputs)
    }

    /// Adds bytes that others are sent too to what waits, without sending: [`Driver::send_queued`] follows.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        if !self.rings.queue(token, bytes) {
            self.sockets.queue(token, bytes);
        }
    }

    /// The connections to which something was queued since the last call; each is for [`Driver::send_queued`].
    pub fn take_queued(&mut self) -> Vec<Token> {
        let mut queued = self.sockets.take_queued();
        self.rings.take_queued(&mut queued);
        queued
    }

    /// Sends what was queued, behind what already waits.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        match self.rings.get(token) {
            None => self.sockets.send_queued(token),
            Some(pair) => pair.send_waiting(),
        }
    }

    /// Has leave at once what [`Sending::Done`] has only promised: asked where nothing else is to follow.
    pub fn flush(&mut self, token: Token) -> Sending {
        match self.rings.get(token) {
            None => self.sockets.flush(token),
            Some(pair) => pair.send_waiting(),
        }
    }

    /// How many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        self.rings.find(token).map_or_else(|| self.sockets.waiting(token), |pair| pair.waiting().len())
    }

    /// How many bytes have not left, also where they only wait for the end of the wake-up.
    pub fn unsent(&self, token: Token) -> usize {
        self.rings.find(token).map_or_else(|| self.sockets.unsent(token), |pair| pair.waiting().len())
    }

    /// Room in the buffers of what waits that holds nothing.
    pub fn spare(&self, token: Token) -> usize {
        self.rings.find(token).map_or_else(|| self.sockets.spare(token), |pair| pair.waiting().spare())
    }

    /// Stops or resumes receiving from a connection; nothing is lost of what it has sent.
    pub fn hold(&mut self, token: Token, held: bool) {
        if !self.rings.hold(token, held) {
            self.sockets.hold(token, held);
        }
    }

    /// Closes a connection and drops what the peer does not take.
    pub fn close(&mut self, token: Token) {
        self.rings.end(token);
        self.sockets.close(token);
    }

    /// Gets ready to be used by another thread than before.
    ///
    /// # Errors
    /// What the kernel says; the same thread may go on with it then.
    pub fn change_thread(&mut self) -> io::Result<()> {
        self.sockets.change_thread()
    }

    /// Has every wait fail from now on, as the kernel does where a descriptor is not what it should be.
    #[cfg(test)]
    pub fn break_wait(&mut self) {
        if let SocketDriver::Hybrid(driver) = &mut self.sockets {
            driver.break_wait();
        }
    }
}
