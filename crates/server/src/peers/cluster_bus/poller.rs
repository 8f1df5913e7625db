//! The thread's wait for its sockets and for other threads, by epoll.
//!
//! Level-triggered: a socket that was not read to its end is reported again, so each link gets its turn.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// The most events of one wait.
const EVENTS_MAX: usize = 256;

/// The key of the eventfd.
const WAKER: u64 = u64::MAX;

/// Wakes the thread from its wait. Any thread may call it; it never blocks.
#[derive(Debug, Clone)]
pub(super) struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Makes the wait return.
    pub fn wake(&self) {
        // A full counter means that a wake-up is already under way.
        _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// A socket that can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ready {
    /// The key with which the socket was added.
    pub key: u64,
    /// Bytes have arrived, or the connection has ended.
    pub can_read: bool,
    /// Bytes can be sent, or the connection is established or was refused.
    pub can_write: bool,
}

/// The sockets that the thread waits for.
#[derive(Debug)]
pub(super) struct Poller {
    poll: OwnedFd,
    wake: Arc<OwnedFd>,
}

impl Poller {
    /// Makes a poller without sockets.
    ///
    /// # Errors
    /// The errors of the kernel, such as too many open files.
    pub fn new() -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&poll, &wake, EventData::new_u64(WAKER), EventFlags::IN)?;
        Ok(Self { poll, wake })
    }

    /// Returns a handle with which any thread ends the wait.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// Adds a socket, under a key that is not in use.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn add(&self, socket: impl AsFd, key: u64, writes: bool) -> io::Result<()> {
        Ok(epoll::add(&self.poll, socket, EventData::new_u64(key), interest(writes))?)
    }

    /// Sets whether the wait for a socket ends when it can be written to.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn watch(&self, socket: impl AsFd, key: u64, writes: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.poll, socket, EventData::new_u64(key), interest(writes))?)
    }

    /// Waits until a socket is ready, another thread wakes this one, or the timeout passes. Closed sockets are not reported.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn wait(&self, timeout: Duration) -> io::Result<Vec<Ready>> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match epoll::wait(&self.poll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        if events.iter().any(|event| event.data.u64() == WAKER) {
            _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        }
        let ends = EventFlags::ERR | EventFlags::HUP | EventFlags::RDHUP;
        let ready = |event: &epoll::Event| {
            let flags = event.flags;
            let (can_read, can_write) = (EventFlags::IN | ends, EventFlags::OUT | ends);
            Ready {
                key: event.data.u64(),
                can_read: flags.intersects(can_read),
                can_write: flags.intersects(can_write),
            }
        };
        Ok(events.iter().filter(|event| event.data.u64() != WAKER).map(ready).collect())
    }
}

fn interest(writes: bool) -> EventFlags {
    if writes { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}
