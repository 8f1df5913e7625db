//! The driver `uring`, on io_uring: the kernel receives by itself, and one system call a wake-up sends the due bytes and
//! waits for the next events.
//!
//! The worker's calls ask nothing of the kernel: a connection is noted as changed ([`UringConnections`]), and the next wait
//! starts the operations that its state then lacks, in one place (`ask`). One operation receives from a connection for its
//! whole life, into buffers that belong to the ring (`buffers`). Its replies gather in its output, which is sent at most once
//! a wake-up, by an operation that is tried when it is handed over and never waits; so between two waits the kernel uses no
//! bytes of the server. Outputs that are long or share values are sent at once. If the client does not read, the kernel is
//! asked to report when it does.
//!
//! Listeners are watched by an epoll instance, for which the ring waits (`listeners/acceptor` says why).
//!
//! A held connection goes on receiving until bytes have arrived. These are put aside; only then receiving is cancelled, until
//! all of them have been taken. So a client that waits for a key and sends nothing costs nothing. Bytes beyond the worker's
//! buffer in one wake-up are put aside in the same way, so that a client that sends more than is taken occupies no buffers of
//! others, and has to wait. If a connection is closed, its operations are cancelled with the next wait, and its token is used
//! again when all of them have ended.

mod buffers;
mod connections;
mod ring;

#[cfg(test)]
pub use buffers::{BUFFER_BYTES, BUFFERS};

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use super::event::{Event, Sending, Token, Waker};
use super::listeners::acceptor::Acceptor;
use super::listeners::listener::Listener;
use crate::request::output::Output;
use connections::{UringConnection, UringConnections};
use ring::{Completion, Ring, RingOperation};

/// The length above which replies are sent at once.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// A ring with the connections that it carries. Belongs to one thread; its [`Waker`] may be used from any.
#[derive(Debug)]
pub struct Uring {
    ring: Box<Ring>,
    wake: Arc<OwnedFd>,
    /// A read of the waker is under way.
    is_awaiting_waker: bool,
    acceptor: Acceptor,
    /// The epoll instance that watches the listeners.
    poll: OwnedFd,
    /// A wait for that epoll instance is under way.
    is_awaiting_poll: bool,
    connections: UringConnections,
    /// Events that the worker has not taken.
    events: VecDeque<Happened>,
    /// The number of these that belong to this wake-up; later ones are for the next.
    events_left: usize,
    /// The number of this wake-up.
    wake_up: u64,
    /// The connections for which bytes were queued that have not been sent.
    queued: Vec<Token>,
    /// The connections for which a send is being handed over.
    sending: Vec<Token>,
    /// The completions of the kernel that are not handled yet.
    completed: Vec<Completion>,
}

/// An event that the worker has not taken.
#[derive(Debug)]
enum Happened {
    /// This number of bytes is in this buffer of the ring.
    Received(Token, u16, usize),
    /// The bytes that were put aside for a connection can be taken.
    PutAside(Token),
    Sent(Token),
    Closed(Token),
    /// A connection may wait at one of the listeners.
    Accept(usize),
    Woken,
}

impl Happened {
    /// Returns the token of the event's connection, if it belongs to one.
    fn token(&self) -> Option<Token> {
        match *self {
            Self::Received(token, ..) | Self::PutAside(token) | Self::Sent(token) | Self::Closed(token) => Some(token),
            Self::Accept(_) | Self::Woken => None,
        }
    }
}

impl Uring {
    /// Creates a driver without connections.
    ///
    /// # Errors
    /// The errors of the kernel: it knows no such ring, does not let this process have one, or has too many files open.
    pub fn new() -> io::Result<Self> {
        let ring = Box::new(Ring::new()?);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok(Self {
            ring,
            wake,
            is_awaiting_waker: false,
            acceptor: Acceptor::default(),
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            is_awaiting_poll: false,
            connections: UringConnections::default(),
            events: VecDeque::new(),
            events_left: 0,
            wake_up: 0,
            queued: Vec::new(),
            sending: Vec::new(),
            completed: Vec::new(),
        })
    }

    /// Returns a waker of this driver.
    pub fn waker(&self) -> Waker {
        Waker::Counter(Arc::clone(&self.wake))
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        Ok(self.acceptor.listen(&self.poll, listener)?)
    }

    /// Stops accepting and releases the listeners.
    pub fn stop_listening(&mut self) {
        self.acceptor.stop(&self.poll);
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn accept_again(&mut self) {
        self.acceptor.again(&self.poll);
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// None; the other drivers have some.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        Ok(self.connections.enter(socket))
    }

    /// Returns the number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        self.connections.get(token).map_or(-1, UringConnection::descriptor)
    }

    /// Hands over the due operations, and waits until there is an event or until the timeout; returns how many events
    /// [`Uring::event`] has.
    ///
    /// # Errors
    /// The errors of the kernel; an interruption is no error.
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        let events = &self.events;
        self.connections.free_closed(|token| events.iter().any(|happened| happened.token() == Some(token)));
        self.ask()?;
        let timeout_ms = if self.events.is_empty() { timeout_ms } else { 0 };
        self.ring.wait(timeout_ms, &mut self.completed)?;
        self.look_through();
        (self.wake_up, self.events_left) = (self.wake_up + 1, self.events.len());
        Ok(self.events_left)
    }

    /// Starts the operations that the state of connections and listeners needs and lacks.
    fn ask(&mut self) -> io::Result<()> {
        if !self.is_awaiting_waker {
            self.ring.await_waker(self.wake.as_fd())?;
            self.is_awaiting_waker = true;
        }
        if !self.is_awaiting_poll {
            self.ring.poll(RingOperation::Accept, self.poll.as_fd(), libc::POLLIN)?;
            self.is_awaiting_poll = true;
        }
        self.connections.cancel_closed(&mut self.ring)?;
        let changed = self.connections.take_changed();
        for &token in &changed {
            let Some(connection) = self.connections.ask(token, &mut self.ring)? else { continue };
            if let Some(bytes) = connection.sendable() {
                // SAFETY: nothing touches the output before the wait that follows has returned.
                unsafe { self.ring.send(token, connection.socket.as_fd(), bytes)? };
                self.sending.push(token);
            }
        }
        self.connections.keep_list(changed);
        Ok(())
    }

    /// Handles the completions of the kernel.
    fn look_through(&mut self) {
        let mut completed = std::mem::take(&mut self.completed);
        completed.drain(..).for_each(|completed| self.look_at(completed));
        self.completed = completed;
        for token in std::mem::take(&mut self.sending).drain(..) {
            if self.connections.end_send(token) {
                self.events.push_back(Happened::Sent(token));
            }
        }
    }

    fn look_at(&mut self, completed: Completion) {
        let Completion { operation, result, is_last, buffer } = completed;
        match operation {
            RingOperation::Receive(token) => {
                if is_last {
                    self.connections.end_operation(operation);
                }
                match (result, buffer) {
                    (Ok(count), Some(buffer)) if count != 0 => {
                        self.events.push_back(Happened::Received(token, buffer, count as usize));
                    }
                    (Ok(_), buffer) => {
                        buffer.into_iter().for_each(|buffer| self.ring.buffers().give_back(buffer));
                        self.events.push_back(Happened::Closed(token));
                    }
                    // The operation will be started again.
                    (Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN), _) => {}
                    (Err(_), _) => self.events.push_back(Happened::Closed(token)),
                }
            }
            RingOperation::Send(token) => self.connections.note_sent(token, result),
            RingOperation::AwaitRoom(token) => {
                self.connections.end_operation(operation);
                if result.is_ok() {
                    self.events.push_back(Happened::Sent(token));
                }
            }
            RingOperation::AwaitEnd(token) => {
                self.connections.end_operation(operation);
                if result.is_ok() && self.connections.get(token).is_some_and(|connection| connection.held) {
                    self.events.push_back(Happened::Closed(token));
                }
            }
            RingOperation::Accept => {
                self.is_awaiting_poll = false;
                self.events.extend((0..self.acceptor.len()).map(Happened::Accept));
            }
            RingOperation::Wake => {
                self.is_awaiting_waker = false;
                if result.is_ok() {
                    self.events.push_back(Happened::Woken);
                }
            }
            RingOperation::Cancel => {}
        }
    }

    /// Returns the next event of this wake-up. If it is received bytes, they are at the start of the buffer.
    pub fn event(&mut self, buffer: &mut [u8]) -> Event {
        match self.next_event() {
            None => Event::Nothing,
            Some(Happened::Received(token, number, count)) => self.received(token, number, count, buffer),
            Some(Happened::PutAside(token)) => self.take_aside(token, buffer),
            Some(Happened::Sent(token)) => self.flush_waiting(token),
            Some(Happened::Closed(token)) => self.ended(token),
            Some(Happened::Accept(index)) => self.acceptor.accept(&self.poll, index),
            Some(Happened::Woken) => Event::Woken,
        }
    }

    #[inline]
    fn next_event(&mut self) -> Option<Happened> {
        self.events_left = self.events_left.checked_sub(1)?;
        self.events.pop_front()
    }

    #[inline]
    fn received(&mut self, token: Token, number: u16, count: usize, buffer: &mut [u8]) -> Event {
        let Some(connection) = self.connections.get_mut(token) else {
            self.ring.buffers().give_back(number);
            return Event::Nothing;
        };
        let is_aside = !connection.aside.is_empty();
        if is_aside || connection.held || connection.told_in == self.wake_up {
            connection.aside.put(count, |room| _ = self.ring.buffers().take(number, count, room));
            if !is_aside && !connection.held {
                self.events.push_back(Happened::PutAside(token));
            }
            self.connections.note(token);
            return Event::Nothing;
        }
        connection.told_in = self.wake_up;
        let mut filled = self.ring.buffers().take(number, count, buffer);
        // Bytes that arrived in several pieces are reported in one event.
        while self.events_left > 0
            && let Some(&Happened::Received(other, number, count)) = self.events.front()
            && other == token
            && count <= buffer.len() - filled
        {
            self.next_event();
            filled += self.ring.buffers().take(number, count, &mut buffer[filled..]);
        }
        Event::Received(token, filled)
    }

    /// Takes the bytes that were put aside.
    fn take_aside(&mut self, token: Token, buffer: &mut [u8]) -> Event {
        let Some(connection) = self.connections.get_mut(token) else { return Event::Nothing };
        if connection.held || connection.aside.is_empty() {
            return Event::Nothing;
        }
        if connection.told_in == self.wake_up {
            self.events.push_back(Happened::PutAside(token));
            return Event::Nothing;
        }
        connection.told_in = self.wake_up;
        let count = connection.aside.take(buffer);
        if connection.aside.is_empty() {
            self.connections.note(token);
        } else {
            self.events.push_back(Happened::PutAside(token));
        }
        Event::Received(token, count)
    }

    /// Handles the end of the client's bytes, or a broken connection. For a held connection the end is reported when its
    /// replies have been sent; for any other, after the bytes that the client has sent.
    fn ended(&mut self, token: Token) -> Event {
        let Some(connection) = self.connections.get_mut(token) else { return Event::Nothing };
        let has_said_more = !connection.held && !connection.aside.is_empty();
        if has_said_more || connection.told_in == self.wake_up {
            self.events.push_back(Happened::Closed(token));
            return Event::Nothing;
        }
        connection.has_ended |= connection.held;
        if connection.held && connection.is_full { Event::Nothing } else { Event::Closed(token) }
    }

    /// Sends the unsent bytes when a connection takes bytes again, or after a send that did not send all.
    fn flush_waiting(&mut self, token: Token) -> Event {
        if self.connections.get(token).is_none() {
            return Event::Nothing;
        }
        match self.flush(token) {
            Sending::Broken => Event::Closed(token),
            Sending::Waiting(count) => Event::Sent(token, count),
            Sending::Done => {
                if self.connections.get_mut(token).is_some_and(|connection| connection.has_ended) {
                    self.events.push_back(Happened::Closed(token));
                }
                Event::Sent(token, 0)
            }
        }
    }

    /// Takes the bytes of `output`, to be sent after those that already wait, and leaves it empty, even if the connection is
    /// broken: the next connection's replies go into the same buffer. A short output is sent with the next wait.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        let Some(connection) = self.connections.get_mut(token) else {
            output.clear();
            return Sending::Broken;
        };
        output.move_to(&mut connection.waiting);
        self.connections.spare_outputs.refill(output);
        self.send_waiting(token)
    }

    /// Sends the unsent bytes: with the next wait if they are short, and otherwise at once.
    #[inline]
    fn send_waiting(&mut self, token: Token) -> Sending {
        let Some(connection) = self.connections.get_mut(token) else { return Sending::Waiting(0) };
        if connection.is_full {
            return Sending::Waiting(connection.waiting.len());
        }
        if connection.waiting.plain().is_some_and(|bytes| bytes.len() <= GATHERED_BYTES_MAX) {
            self.connections.note(token);
            return Sending::Done;
        }
        self.flush(token)
    }

    /// Sends at once as many of the unsent bytes as the connection takes.
    pub fn flush(&mut self, token: Token) -> Sending {
        self.connections.flush(token)
    }

    /// Adds bytes that several connections share to the unsent bytes. The caller calls [`Uring::send_queued`] later.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        if self.connections.queue(token, bytes) {
            self.queued.push(token);
        }
    }

    /// Returns the connections to which something was queued since the last call.
    pub fn take_queued(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.queued)
    }

    /// Sends the queued bytes, behind those that already wait.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.queued = false;
        }
        self.send_waiting(token)
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        self.connections
            .get(token)
            .map_or(0, |connection| if connection.is_full { connection.waiting.len() } else { 0 })
    }

    /// Returns how many bytes have not been sent, including those that are sent with the next wait.
    pub fn unsent(&self, token: Token) -> usize {
        self.connections.get(token).map_or(0, |connection| connection.waiting.len())
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self, token: Token) -> usize {
        self.connections.get(token).map_or(0, |connection| connection.waiting.spare())
    }

    /// Stops or resumes receiving from a connection; bytes that the peer sends in between stay with the kernel, or are put
    /// aside.
    pub fn hold(&mut self, token: Token, held: bool) {
        let Some(connection) = self.connections.get_mut(token).filter(|connection| connection.held != held) else {
            return;
        };
        connection.held = held;
        connection.has_ended = false;
        if !held && !connection.aside.is_empty() {
            self.events.push_back(Happened::PutAside(token));
        }
        self.connections.note(token);
    }

    /// Closes a connection, after the bytes that can be sent at once.
    pub fn close(&mut self, token: Token) {
        self.connections.close(token);
    }

    /// Prepares the driver for another thread. Bytes that have arrived are kept.
    ///
    /// # Errors
    /// The kernel gives no other ring; the present one goes on.
    pub fn change_thread(&mut self) -> io::Result<()> {
        let fresh = Ring::new()?;
        self.ring.end_all(&mut self.completed)?;
        self.look_through();
        for happened in &mut self.events {
            if let Happened::Received(token, number, count) = *happened {
                let buffers = self.ring.buffers();
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.aside.put(count, |room| _ = buffers.take(number, count, room));
                }
                *happened = Happened::PutAside(token);
            }
        }
        *self.ring = fresh;
        Ok(())
    }
}
