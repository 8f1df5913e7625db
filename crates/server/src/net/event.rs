//! The values that a driver and its worker exchange.
//!
//! The driver gives the worker events, and the worker hands back outputs, which the driver owns from then on. Values only;
//! any thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::messaging::mail::Accepted;

/// Names one connection of one driver. Not used again before the wake-up in which it was closed has ended.
pub type Token = usize;

/// An event of a driver.
#[derive(Debug)]
pub enum Event {
    /// Connections were accepted.
    Accepted(Vec<Accepted>),
    /// A connection could not be accepted: none is, until the driver is told to try again.
    AcceptFailed(std::io::Error),
    /// So many bytes of this connection are at the start of the buffer. A connection has one such event, or its end, in a
    /// wake-up: the replies leave before the next.
    Received(Token, usize),
    /// There may be something to receive of this connection, of which that is to be received into room of its own.
    Receivable(Token),
    /// Replies that had to wait have left this connection, or begin to wait; so many bytes still wait.
    Sent(Token, usize),
    /// The peer has gone, or the connection broke.
    Closed(Token),
    /// There is mail.
    Woken,
    /// An event that does not concern the worker.
    Nothing,
}

/// The outcome of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Everything has left, or leaves with the driver's next wait.
    Done,
    /// So many bytes wait for the peer to read.
    Waiting(usize),
    /// The connection is broken.
    Broken,
}

/// Wakes a driver from any thread.
#[derive(Debug, Clone)]
pub enum Waker {
    /// By a counter of the kernel's, which the driver waits for.
    Counter(Arc<OwnedFd>),
    /// By a task of the driver's, which waits for this.
    Task(Arc<Notify>),
}

impl Waker {
    /// Makes the driver's wait return with [`Event::Woken`].
    pub fn wake(&self) {
        match self {
            // A full counter means that a wake-up is already under way.
            Self::Counter(counter) => _ = rustix::io::write(&**counter, &1_u64.to_ne_bytes()),
            Self::Task(notify) => notify.notify_one(),
        }
    }
}
