//! The driver: a worker's only way to its sockets.
//!
//! A call goes to the backend of the sockets, or, if the connection shares memory with its client, to `shared_memory`. A
//! driver belongs to one thread; its [`Waker`] may be used from any.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::busy_poll::BusyPoll;
use super::epoll::Epoll;
use super::event::{Event, Sending, Token, Waker};
use super::listeners::listener::Listener;
use super::shared_memory::{Pair, SharedMemory};
use super::tokio::Tokio;
use super::uring::Uring;
use crate::request::output::Output;
use sleeve_rings::memory::Fresh;

/// The carrier of the bytes of one worker.
#[derive(Debug)]
pub struct Driver {
    backend: Backend,
    /// The connections that share memory with their clients; None until there is the first.
    pub(super) shared: Option<Box<SharedMemory>>,
    busy_poll: BusyPoll,
    /// A wait begins with a busy poll.
    is_busy_polling: bool,
}

/// The carrier of bytes between the sockets of one worker and the worker.
#[derive(Debug)]
enum Backend {
    /// Epoll: the driver waits for ready sockets, and receives and sends by itself.
    Epoll(Epoll),
    /// io_uring: the kernel receives and sends.
    Uring(Uring),
    /// Tokio: tasks receive and send.
    Tokio(Tokio),
}

/// A kind of driver, as the option `io` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// Waits with epoll, and receives and sends by itself.
    Epoll,
    /// Lets io_uring receive and send.
    Uring,
    /// Lets tasks of tokio receive and send.
    Tokio,
}

impl DriverKind {
    /// The kinds, in the order of the numbers of the option `io`.
    pub const ALL: [Self; 3] = [Self::Epoll, Self::Uring, Self::Tokio];

    /// Returns the word of the option `io` for this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Uring => "uring",
            Self::Tokio => "tokio",
        }
    }

    /// Returns the name of the interface that reports readiness.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            other => other.name(),
        }
    }

    fn backend(self) -> io::Result<Backend> {
        match self {
            Self::Epoll => Epoll::new().map(Backend::Epoll),
            Self::Uring => Uring::new().map(Backend::Uring),
            Self::Tokio => Tokio::new().map(Backend::Tokio),
        }
    }
}

/// Makes the same call on each backend.
macro_rules! any {
    ($backend:expr, $name:ident => $call:expr) => {
        match $backend {
            Backend::Epoll($name) => $call,
            Backend::Uring($name) => $call,
            Backend::Tokio($name) => $call,
        }
    };
}

impl Driver {
    /// Creates `count` drivers of this kind. If the kernel refuses io_uring, they are of the kind `epoll`, and the reason is
    /// returned.
    ///
    /// # Errors
    /// The errors of the kernel about the kind.
    pub fn create(kind: DriverKind, count: usize) -> io::Result<(Vec<Self>, Option<io::Error>)> {
        let all = |kind: DriverKind| (0..count).map(|_| Self::new(kind)).collect::<io::Result<Vec<_>>>();
        match all(kind) {
            Err(refusal) if kind == DriverKind::Uring => Ok((all(DriverKind::Epoll)?, Some(refusal))),
            drivers => Ok((drivers?, None)),
        }
    }

    /// Creates a driver without connections.
    ///
    /// # Errors
    /// The errors of the kernel, such as too many open files, or that it knows no io_uring as new as 6.1.
    pub fn new(kind: DriverKind) -> io::Result<Self> {
        Ok(Self { backend: kind.backend()?, shared: None, busy_poll: BusyPoll::default(), is_busy_polling: true })
    }

    /// Returns the driver's kind.
    pub fn kind(&self) -> DriverKind {
        match self.backend {
            Backend::Epoll(_) => DriverKind::Epoll,
            Backend::Uring(_) => DriverKind::Uring,
            Backend::Tokio(_) => DriverKind::Tokio,
        }
    }

    /// Returns a waker of this driver.
    pub fn waker(&self) -> Waker {
        any!(&self.backend, backend => backend.waker())
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        any!(&mut self.backend, backend => backend.listen(listener))
    }

    /// Stops accepting and releases the listeners.
    pub fn stop_listening(&mut self) {
        any!(&mut self.backend, backend => backend.stop_listening());
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn accept_again(&mut self) {
        any!(&mut self.backend, backend => backend.accept_again());
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// The errors of the kernel; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        any!(&mut self.backend, backend => backend.adopt(socket))
    }

    /// Gives the client memory over the connection's Unix socket: later bytes go through that memory.
    ///
    /// # Errors
    /// There are replies that the client has not read.
    #[cold]
    pub fn share_memory(&mut self, token: Token, memory: Fresh) -> io::Result<()> {
        if self.pair(token).is_some() || self.flush(token) != Sending::Done || self.unsent(token) != 0 {
            return Err(io::Error::other("something waits to be read ahead of it"));
        }
        let socket = self.descriptor(token);
        self.shared.get_or_insert_default().begin(socket, token, memory)
    }

    /// Returns the pair of rings of a connection, if it shares memory with its client.
    #[inline]
    fn pair(&self, token: Token) -> Option<&Pair> {
        self.shared.as_ref()?.find(token)
    }

    /// Returns the number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        any!(&self.backend, backend => backend.descriptor(token))
    }

    /// Sets whether waits begin with a busy poll from now on.
    #[inline]
    pub fn set_busy_polling(&mut self, is_on: bool) {
        self.is_busy_polling = is_on;
    }

    /// Waits until there is an event or until the timeout; returns how many events [`Driver::event`] has.
    ///
    /// # Errors
    /// The errors of the kernel; an interruption is no error.
    #[inline]
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        let backend = &mut self.backend;
        // Under the other drivers, replies are sent only by the next wait, so no wait may be skipped.
        let may_skip = matches!(backend, Backend::Epoll(_));
        // Tokio waits in its own way.
        let may_poll = self.is_busy_polling && !matches!(backend, Backend::Tokio(_));
        let mut wait = |timeout_ms| any!(&mut *backend, backend => backend.wait(timeout_ms));
        if let Some(shared) = &mut self.shared
            && !shared.are_all_asleep()
        {
            shared.wait(wait, may_skip, timeout_ms)
        } else if may_poll {
            self.busy_poll.wait(wait, timeout_ms)
        } else {
            wait(timeout_ms)
        }
    }

    /// Returns event `index` of this wake-up; the caller takes the events in order. If the event is received bytes, they are
    /// at the start of the buffer.
    #[inline]
    pub fn event(&mut self, index: usize, buffer: &mut [u8]) -> Event {
        let backend = &mut self.backend;
        let mut next = |buffer: &mut [u8]| match backend {
            Backend::Epoll(driver) => driver.event(index, buffer),
            Backend::Uring(driver) => driver.event(buffer),
            Backend::Tokio(driver) => driver.event(buffer),
        };
        let event = match &mut self.shared {
            Some(shared) if !shared.is_empty() => shared.event(next, index, buffer),
            _ => next(buffer),
        };
        self.busy_poll.note(&event);
        event
    }

    /// Switches [`Driver::receive_into`] on or off for a connection, if the driver can do that. Bytes that have arrived
    /// already are reported, even if they were reported before.
    pub fn receive_apart(&mut self, token: Token, is_apart: bool) {
        if self.pair(token).is_none()
            && let Backend::Epoll(driver) = &mut self.backend
        {
            driver.receive_apart(token, is_apart);
        }
    }

    /// Receives after [`Event::Receivable`] into the free room of `into`, of which there must be some. If that room is full
    /// afterwards, there may be more bytes, and the caller has to call [`Driver::receive_apart`] again.
    pub fn receive_into(&mut self, token: Token, into: &mut Vec<u8>) -> Event {
        match &mut self.backend {
            Backend::Epoll(driver) => driver.receive_into(token, into),
            Backend::Tokio(_) | Backend::Uring(_) => Event::Nothing,
        }
    }

    /// Takes the bytes of `output`, to be sent after those that already wait, and leaves it empty, even if the connection is
    /// broken: the next connection's replies go into the same buffer.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        match pair_of(&mut self.shared, token) {
            None => any!(&mut self.backend, backend => backend.send(token, output)),
            Some(pair) => pair.send(output),
        }
    }

    /// Sends of each output the bytes that can be sent at once, if that is cheaper for several together; returns the number
    /// of sends and of sent bytes. [`Driver::send`] handles the rest, and the state of the connections.
    #[inline]
    pub fn send_together(&mut self, outputs: &mut [(Token, Output)]) -> (usize, usize) {
        if let Some(shared) = &mut self.shared {
            shared.send_each(outputs);
        }
        match &mut self.backend {
            Backend::Epoll(driver) => driver.send_together(outputs),
            Backend::Tokio(_) | Backend::Uring(_) => (0, 0),
        }
    }

    /// Adds bytes that several connections share to the unsent bytes, without sending. The caller calls
    /// [`Driver::send_queued`] later.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        if !self.shared.as_mut().is_some_and(|shared| shared.queue(token, bytes)) {
            any!(&mut self.backend, backend => backend.queue(token, bytes));
        }
    }

    /// Returns the connections for which bytes were queued since the last call. The caller calls [`Driver::send_queued`] for
    /// each.
    pub fn take_queued(&mut self) -> Vec<Token> {
        let mut queued = any!(&mut self.backend, backend => backend.take_queued());
        if let Some(shared) = &mut self.shared {
            shared.take_queued(&mut queued);
        }
        queued
    }

    /// Sends the queued bytes, behind those that already wait.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        match pair_of(&mut self.shared, token) {
            None => any!(&mut self.backend, backend => backend.send_queued(token)),
            Some(pair) => pair.send_waiting(),
        }
    }

    /// Sends at once the bytes for which [`Sending::Done`] only promised that: called if no further bytes are to follow.
    pub fn flush(&mut self, token: Token) -> Sending {
        match (pair_of(&mut self.shared, token), &mut self.backend) {
            (Some(pair), _) => pair.send_waiting(),
            (None, Backend::Epoll(_)) => Sending::Done,
            (None, Backend::Uring(driver)) => driver.flush(token),
            (None, Backend::Tokio(driver)) => driver.flush(token),
        }
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        match self.pair(token) {
            None => any!(&self.backend, backend => backend.waiting(token)),
            Some(pair) => pair.waiting().len(),
        }
    }

    /// Returns how many bytes have not been sent, including those that only wait for the end of the wake-up.
    pub fn unsent(&self, token: Token) -> usize {
        match (self.pair(token), &self.backend) {
            (Some(pair), _) => pair.waiting().len(),
            (None, Backend::Epoll(driver)) => driver.waiting(token),
            (None, Backend::Uring(driver)) => driver.unsent(token),
            (None, Backend::Tokio(driver)) => driver.unsent(token),
        }
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self, token: Token) -> usize {
        match self.pair(token) {
            None => any!(&self.backend, backend => backend.spare(token)),
            Some(pair) => pair.waiting().spare(),
        }
    }

    /// Stops or resumes receiving from a connection; no bytes that it has sent are lost.
    pub fn hold(&mut self, token: Token, held: bool) {
        if !self.shared.as_mut().is_some_and(|shared| shared.hold(token, held)) {
            any!(&mut self.backend, backend => backend.hold(token, held));
        }
    }

    /// Closes a connection and drops the bytes that the peer does not take.
    pub fn close(&mut self, token: Token) {
        if let Some(shared) = &mut self.shared {
            shared.end(token);
        }
        any!(&mut self.backend, backend => backend.close(token));
    }

    /// Prepares the driver for another thread than before.
    ///
    /// # Errors
    /// The errors of the kernel; the same thread may go on with the driver then.
    pub fn change_thread(&mut self) -> io::Result<()> {
        match &mut self.backend {
            Backend::Tokio(_) | Backend::Epoll(_) => Ok(()),
            Backend::Uring(driver) => driver.change_thread(),
        }
    }

    /// Makes every wait fail from now on, as the kernel does if a descriptor is invalid.
    #[cfg(test)]
    pub fn break_wait(&mut self) {
        if let Backend::Epoll(driver) = &mut self.backend {
            driver.break_wait();
        }
    }
}

fn pair_of(shared: &mut Option<Box<SharedMemory>>, token: Token) -> Option<&mut Pair> {
    shared.as_mut()?.get(token)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::net::tests::{drivers, output, unix_pair};

    /// Answers of a peer that arrive during the busy poll and during the sleep are all received.
    #[test]
    fn whoever_answers_soon_or_late_is_heard() {
        for mut driver in drivers() {
            let (socket, mut peer) = unix_pair();
            let token = driver.adopt(socket).expect("it is open");
            let asking = thread::spawn(move || {
                for round in 0..300_u32 {
                    if round % 3 == 0 {
                        thread::sleep(Duration::from_micros(round.into()));
                    }
                    peer.write_all(b"?").expect("it is open");
                    peer.read_exact(&mut [0]).expect("it is answered");
                }
            });
            let (mut buffer, mut heard) = ([0; 16], 0);
            while heard < 300 {
                for index in 0..driver.wait(1_000).expect("it waits") {
                    if let Event::Received(..) = driver.event(index, &mut buffer) {
                        heard += 1;
                        driver.send(token, &mut output(b"!"));
                        driver.flush(token);
                    }
                }
            }
            while !asking.is_finished() {
                driver.wait(1).expect("it waits");
            }
            asking.join().expect("it was answered");
        }
    }
}
