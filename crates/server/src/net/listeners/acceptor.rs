//! Accepting: the listeners that an epoll instance watches, and the connections that arrive at them.
//!
//! The drivers `epoll` and `uring` use it, although io_uring can accept by itself. If a process is killed, an operation in a
//! ring keeps its socket open for some tens of milliseconds, and the next process would find the address in use. Belongs to
//! one thread.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::listener::Listener;
use crate::net::event::Event;

/// The bit by which the data of a listener's event is recognised; the other bits are the listener's number.
pub const LISTENERS: u64 = 1 << 62;

/// The listeners of one driver.
#[derive(Debug, Default)]
pub struct Acceptor {
    listeners: Vec<Arc<Listener>>,
    /// The listeners are not watched, because accepting has failed.
    is_resting: bool,
}

impl Acceptor {
    /// Begins to accept from a listener that other drivers may watch too.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn listen(&mut self, poll: &OwnedFd, listener: Arc<Listener>) -> rustix::io::Result<()> {
        self.listeners.push(listener);
        self.watch(poll, self.listeners.len() - 1).inspect_err(|_| _ = self.listeners.pop())
    }

    /// Stops accepting and releases the listeners.
    pub fn stop(&mut self, poll: &OwnedFd) {
        self.is_resting = false;
        for listener in self.listeners.drain(..) {
            _ = epoll::delete(poll, listener.as_fd());
        }
    }

    /// Returns how many listeners there are.
    pub fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Accepts the connections that wait at listener `index`.
    pub fn accept(&mut self, poll: &OwnedFd, index: usize) -> Event {
        let Some(listener) = self.listeners.get(index) else { return Event::Nothing };
        match listener.accept_some() {
            Ok(accepted) if accepted.is_empty() => Event::Nothing,
            Ok(accepted) => Event::Accepted(accepted),
            Err(error) => {
                self.rest(poll);
                Event::AcceptFailed(error)
            }
        }
    }

    /// Stops watching the listeners: otherwise a connection that cannot be accepted would be reported again at once, for
    /// ever.
    fn rest(&mut self, poll: &OwnedFd) {
        self.is_resting = true;
        for listener in &self.listeners {
            _ = epoll::delete(poll, listener.as_fd());
        }
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn again(&mut self, poll: &OwnedFd) {
        if std::mem::take(&mut self.is_resting) {
            for index in 0..self.listeners.len() {
                self.is_resting |= self.watch(poll, index).is_err();
            }
        }
    }

    /// Registers a listener with epoll: each new connection is reported to one of the drivers that watch it.
    fn watch(&self, poll: &OwnedFd, index: usize) -> rustix::io::Result<()> {
        let data = EventData::new_u64(LISTENERS | index as u64);
        match epoll::add(poll, self.listeners[index].as_fd(), data, EventFlags::IN | EventFlags::EXCLUSIVE) {
            Err(Errno::EXIST) => Ok(()),
            result => result,
        }
    }
}
