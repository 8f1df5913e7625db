//! The driver `epoll`, on epoll: waiting is asynchronous; receiving, executing and sending are not.
//!
//! It does no bookkeeping for which a request would pay: one receive for a readable connection, one send for its replies
//! (many with one system call if they are due together, see `batch_ring`), and `EPOLLOUT` is asked for only while the client
//! does not read. All connections of a worker receive into one buffer, so an idle connection holds none; unsent replies wait
//! in the connection.
//!
//! If a wait has returned several connections, their bytes are received ahead (`batched_receive`), and each connection's
//! bytes are copied to the start of that buffer in its turn. Until then they belong to the driver. If a wake-up ends before
//! they are reported, because another thread has taken the worker over, or because the connection is held by now, they are
//! put aside and reported first in a later wake-up, separately.
//!
//! Connections are edge-triggered, which saves the kernel from checking each of them again in the wait after a receive. A
//! receive that does not fill the buffer has taken all bytes, and later bytes are reported. If bytes may be left (a full
//! buffer, an end of stream after the bytes, an event that was not handled), the kernel is asked to report the connection
//! again, which it does at once if there is something. Wakers and listeners are level-triggered.

mod batch_ring;
mod batched_receive;
mod batched_send;
mod connection;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use crate::net::event::{Event, Sending, Token, Waker};
use crate::net::listeners::acceptor::{Acceptor, LISTENERS};
use crate::net::listeners::listener::Listener;
use crate::request::output::Output;
use batch_ring::BatchRing;
use batched_receive::{BatchedReceive, RECEIVES_MAX, SLICE_BYTES};
use batched_send::BatchedSend;
use connection::{EpollConnection, flush, modify, put_aside, queued_bytes, send_or_keep, sendable};

/// The most events that one wait returns.
const EVENTS_MAX: usize = 1024;

/// The flags that report the end of a stream.
const ENDS: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

const WAKER: u64 = u64::MAX;

/// One epoll instance with the connections that it watches. Belongs to one thread; its [`Waker`] may be used from any.
#[derive(Debug)]
pub struct Epoll {
    poll: OwnedFd,
    wake: Arc<OwnedFd>,
    events: Events,
    /// The number of events that have been handled.
    looked_at: usize,
    acceptor: Acceptor,
    connections: Vec<Option<EpollConnection>>,
    free: Vec<Token>,
    /// The connections for which bytes were queued that have not been sent.
    queued: Vec<Token>,
    /// The connections that were closed in this wake-up: there may still be events for them.
    closed: Vec<Token>,
    ring: BatchRing,
    batched_send: BatchedSend,
    batched_receive: BatchedReceive,
    /// The index of the first event for which no bytes were received ahead.
    ahead: usize,
    /// Received bytes of connections that could not be reported yet.
    aside: Vec<(Token, Vec<u8>)>,
}

/// Room for the events that one wait returns.
struct Events(Vec<epoll::Event>);

// SAFETY: an event's data is a union with a pointer; only its number is ever written or read here.
unsafe impl Send for Events {}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} events", self.0.len())
    }
}

impl Epoll {
    /// Creates a driver without connections.
    ///
    /// # Errors
    /// The errors of the kernel, such as too many open files.
    pub fn new() -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&poll, &wake, EventData::new_u64(WAKER), EventFlags::IN)?;
        Ok(Self {
            poll,
            wake,
            events: Events(Vec::with_capacity(EVENTS_MAX)),
            looked_at: 0,
            acceptor: Acceptor::default(),
            connections: Vec::new(),
            free: Vec::new(),
            queued: Vec::new(),
            closed: Vec::new(),
            ring: BatchRing::default(),
            batched_send: BatchedSend::default(),
            batched_receive: BatchedReceive::default(),
            ahead: 0,
            aside: Vec::new(),
        })
    }

    /// Returns a waker of this driver.
    pub fn waker(&self) -> Waker {
        Waker::Counter(Arc::clone(&self.wake))
    }

    /// Begins to accept from a listener that other drivers may watch too.
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

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// The errors of the kernel; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let token = self.free.pop().unwrap_or(self.connections.len());
        if token == self.connections.len() {
            self.connections.push(None);
        }
        let connection = EpollConnection::new(socket);
        let data = EventData::new_u64(token as u64);
        if let Err(error) = epoll::add(&self.poll, &connection.socket, data, connection.interest()) {
            self.free.push(token);
            return Err(error.into());
        }
        self.connections[token] = Some(connection);
        Ok(token)
    }

    /// Returns the number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        self.connections[token].as_ref().map_or(-1, |connection| connection.socket.as_raw_fd())
    }

    /// Waits until there is an event or until the timeout; returns how many events [`Epoll::event`] has.
    ///
    /// # Errors
    /// The errors of the kernel; an interruption is no error.
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        self.forget_events();
        self.free.append(&mut self.closed);
        if self.fetch_aside() {
            return Ok(self.events.0.len());
        }
        let timeout =
            Timespec { tv_sec: (timeout_ms / 1_000) as i64, tv_nsec: (timeout_ms % 1_000 * 1_000_000) as i64 };
        match epoll::wait(&self.poll, spare_capacity(&mut self.events.0), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.0.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes every wait fail from now on, as the kernel does if a descriptor is invalid.
    #[cfg(test)]
    pub fn break_wait(&mut self) {
        let other = std::fs::File::open("/dev/null").expect("a file that is no epoll");
        rustix::io::dup2(&other, &mut self.poll).expect("a descriptor in place of another");
    }

    /// Returns event `index` of this wake-up. If it is received bytes, they are at the start of the buffer.
    pub fn event(&mut self, index: usize, buffer: &mut [u8]) -> Event {
        let Some(&epoll::Event { flags, data }) = self.events.0.get(index) else { return Event::Nothing };
        self.looked_at = index + 1;
        match data.u64() {
            WAKER => {
                _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                Event::Woken
            }
            data if data & LISTENERS != 0 => self.acceptor.accept(&self.poll, (data & !LISTENERS) as usize),
            token => {
                let token = token as Token;
                if index >= self.ahead && index + 1 < self.events.0.len() && !self.ring.is_missing() {
                    self.receive_ahead(index);
                }
                if index < self.ahead && self.batched_receive.is_next(index) {
                    self.ahead_event(token, flags, buffer)
                } else {
                    self.connection_event(token, flags, buffer)
                }
            }
        }
    }

    /// Forgets the events of the last wake-up. Some may not have been handled, if the driver has changed threads: the kernel
    /// is asked to report these again.
    fn forget_events(&mut self) {
        for index in self.looked_at..self.events.0.len() {
            let token = self.events.0[index].data.u64() as Token;
            let bytes = if self.batched_receive.is_next(index) { self.batched_receive.take() } else { &[] };
            if let Some(connection) = self.connections.get_mut(token).and_then(Option::as_mut) {
                put_aside(&mut self.aside, token, connection, bytes);
                _ = modify(&self.poll, token, connection);
            }
        }
        self.events.0.clear();
        self.batched_receive.clear();
        (self.looked_at, self.ahead) = (0, 0);
    }

    /// Reports bytes that were put aside as if they had just arrived, unless their connection is held; returns whether there
    /// are any.
    fn fetch_aside(&mut self) -> bool {
        let Self { aside, connections, events, batched_receive, .. } = self;
        aside.retain(|(token, bytes)| {
            let Some(connection) = &mut connections[*token] else { return false };
            if connection.held || batched_receive.is_full() {
                return true;
            }
            connection.has_aside = false;
            batched_receive.put(events.0.len(), bytes);
            events.0.push(epoll::Event { flags: EventFlags::IN, data: EventData::new_u64(*token as u64) });
            false
        });
        self.ahead = self.events.0.len();
        self.ahead != 0
    }

    /// Receives for this event and some of those after it.
    fn receive_ahead(&mut self, index: usize) {
        self.ahead = self.events.0.len().min(index + RECEIVES_MAX);
        let (events, connections) = (&self.events.0, &self.connections);
        let events = (index..self.ahead).filter_map(|index| {
            let epoll::Event { flags, data } = events[index];
            let connection = connections.get(data.u64() as usize)?.as_ref()?;
            let is_plain = !(connection.held || connection.apart || connection.has_aside || connection.says_much);
            (is_plain && !flags.contains(EventFlags::OUT)).then_some((index, connection.socket.as_fd()))
        });
        self.batched_receive.receive(&mut self.ring, events);
    }

    /// Reports bytes that were received ahead, or puts them aside.
    #[inline]
    fn ahead_event(&mut self, token: Token, flags: EventFlags, buffer: &mut [u8]) -> Event {
        let bytes = self.batched_receive.take();
        let Some(connection) = &mut self.connections[token] else { return Event::Nothing };
        if connection.held {
            put_aside(&mut self.aside, token, connection, bytes);
            return Event::Nothing;
        }
        let is_filled = bytes.len() == SLICE_BYTES;
        let (bytes, rest) = bytes.split_at(bytes.len().min(buffer.len()));
        buffer[..bytes.len()].copy_from_slice(bytes);
        put_aside(&mut self.aside, token, connection, rest);
        connection.says_much = is_filled;
        let mut received = bytes.len();
        if is_filled && rest.is_empty() {
            let more = net::recv(&connection.socket, &mut buffer[received..], RecvFlags::empty());
            received += more.map_or(0, |(count, _)| count);
        }
        if is_filled || flags.intersects(ENDS) {
            _ = modify(&self.poll, token, connection);
        }
        Event::Received(token, received)
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn accept_again(&mut self) {
        self.acceptor.again(&self.poll);
    }

    #[inline]
    fn connection_event(&mut self, token: Token, flags: EventFlags, buffer: &mut [u8]) -> Event {
        let Some(connection) = &mut self.connections[token] else { return Event::Nothing };
        if flags.contains(EventFlags::OUT) {
            return match flush(connection) {
                Sending::Broken => Event::Closed(token),
                Sending::Waiting(count) => {
                    _ = modify(&self.poll, token, connection);
                    Event::Sent(token, count)
                }
                Sending::Done => {
                    connection.waiting = Output::default();
                    connection.full = false;
                    _ = modify(&self.poll, token, connection);
                    Event::Sent(token, 0)
                }
            };
        }
        if connection.held && flags.contains(EventFlags::RDHUP) {
            return Event::Closed(token);
        }
        if connection.has_aside {
            // Bytes that are put aside are reported first, and then this event again.
            _ = modify(&self.poll, token, connection);
            return Event::Nothing;
        }
        if connection.apart {
            connection.ending = flags.intersects(ENDS);
            return Event::Receivable(token);
        }
        match net::recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => Event::Closed(token),
            Ok((received, _)) => {
                if received == buffer.len() || flags.intersects(ENDS) {
                    _ = modify(&self.poll, token, connection);
                }
                connection.says_much = received >= SLICE_BYTES;
                Event::Received(token, received)
            }
            Err(Errno::AGAIN) => Event::Nothing,
            Err(Errno::INTR) => {
                _ = modify(&self.poll, token, connection);
                Event::Nothing
            }
            Err(_) => Event::Closed(token),
        }
    }

    /// Switches [`Epoll::receive_into`] on or off for a connection; bytes that have arrived are reported again.
    pub fn receive_apart(&mut self, token: Token, is_apart: bool) {
        if let Some(connection) = &mut self.connections[token] {
            connection.apart = is_apart;
            _ = modify(&self.poll, token, connection);
        }
    }

    /// Receives into the free room of `into`. If no room is left afterwards, the caller has to ask again with
    /// [`Epoll::receive_apart`].
    pub fn receive_into(&mut self, token: Token, into: &mut Vec<u8>) -> Event {
        let Some(connection) = &self.connections[token] else { return Event::Nothing };
        let before = into.len();
        match net::recv(&connection.socket, spare_capacity(into), RecvFlags::empty()) {
            Ok(_) if into.len() == before => Event::Closed(token),
            Ok(_) => {
                if connection.ending {
                    _ = modify(&self.poll, token, connection);
                }
                Event::Received(token, into.len() - before)
            }
            Err(Errno::AGAIN) => Event::Nothing,
            Err(Errno::INTR) => {
                _ = modify(&self.poll, token, connection);
                Event::Nothing
            }
            Err(_) => Event::Closed(token),
        }
    }

    /// Sends the bytes of `output`, after those that already wait, and leaves it empty, even if the connection is broken: the
    /// next connection's replies go into the same buffer.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        // Nearly always the kernel takes a short output whole, at the first attempt.
        if let Some(connection) = &self.connections[token]
            && connection.waiting.is_empty()
            && let Some(bytes) = output.plain()
            && let Ok(count) = net::send(&connection.socket, bytes, SendFlags::NOSIGNAL)
        {
            output.advance(count);
            if output.is_empty() {
                return Sending::Done;
            }
        }
        self.send_or_keep(token, output)
    }

    /// Sends of an output the bytes that were not sent at the first attempt, or keeps them.
    #[cold]
    fn send_or_keep(&mut self, token: Token, output: &mut Output) -> Sending {
        let sending = match &mut self.connections[token] {
            Some(connection) => send_or_keep(&self.poll, token, connection, output),
            None => Sending::Broken,
        };
        if matches!(sending, Sending::Broken) {
            output.clear();
        }
        sending
    }

    /// Adds bytes that several connections share to the unsent bytes, without sending. The caller calls
    /// [`Epoll::send_queued`] later.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        let Some(connection) = self.connections.get_mut(token).and_then(Option::as_mut) else { return };
        connection.waiting.push_shared(bytes);
        if !std::mem::replace(&mut connection.queued, true) {
            self.queued.push(token);
        }
    }

    /// Sends of each output the bytes that can be sent at once, several outputs with one system call; returns the number of
    /// sends and of sent bytes. [`Epoll::send`] handles the rest, and the state of the connections.
    pub fn send_together(&mut self, outputs: &mut [(Token, Output)]) -> (usize, usize) {
        let connections = &self.connections;
        let ready = |(token, output): &(Token, Output)| sendable(connections, *token, output).is_some();
        let sends: Vec<_> =
            outputs.iter().filter_map(|(token, output)| sendable(connections, *token, output)).collect();
        let sent = self.batched_send.send(&mut self.ring, &sends);
        for (output, sent) in outputs.iter_mut().filter(|output| ready(output)).zip(sent) {
            output.1.advance(*sent);
        }
        (sent.len(), sent.iter().sum())
    }

    /// Returns the connections for which bytes were queued since the last call. If there are several, sends much of the bytes
    /// here, with one system call; [`Epoll::send_queued`] handles the rest, and the state of the connections.
    pub fn take_queued(&mut self) -> Vec<Token> {
        let queued = std::mem::take(&mut self.queued);
        if queued.len() > 1 {
            let sends: Vec<_> = queued.iter().filter_map(|&token| queued_bytes(&self.connections, token)).collect();
            let mut sent = self.batched_send.send(&mut self.ring, &sends).iter();
            for &token in &queued {
                if queued_bytes(&self.connections, token).is_some()
                    && let (Some(connection), Some(&sent)) = (&mut self.connections[token], sent.next())
                {
                    connection.waiting.advance(sent);
                }
            }
        }
        queued
    }

    /// Sends the queued bytes, behind those that already wait.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        let Some(connection) = self.connections.get_mut(token).and_then(Option::as_mut) else {
            return Sending::Waiting(0);
        };
        connection.queued = false;
        if connection.full {
            return Sending::Waiting(connection.waiting.len());
        }
        match flush(connection) {
            Sending::Done => {
                connection.waiting = Output::default();
                Sending::Done
            }
            Sending::Waiting(count) => {
                connection.full = true;
                modify(&self.poll, token, connection).map_or(Sending::Broken, |()| Sending::Waiting(count))
            }
            Sending::Broken => Sending::Broken,
        }
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        self.connections[token].as_ref().map_or(0, |connection| connection.waiting.len())
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self, token: Token) -> usize {
        self.connections[token].as_ref().map_or(0, |connection| connection.waiting.spare())
    }

    /// Stops or resumes receiving from a connection; bytes that the client sends in the meantime stay with the kernel.
    pub fn hold(&mut self, token: Token, held: bool) {
        if let Some(connection) = &mut self.connections[token]
            && connection.held != held
        {
            connection.held = held;
            _ = modify(&self.poll, token, connection);
        }
    }

    /// Closes a connection and drops the unsent bytes.
    pub fn close(&mut self, token: Token) {
        if let Some(connection) = self.connections[token].take() {
            _ = epoll::delete(&self.poll, &connection.socket);
            self.closed.push(token);
            if connection.has_aside {
                self.aside.retain(|(other, _)| *other != token);
            }
        }
    }
}
