//! The values that a driver and its worker exchange.
//!
//! The driver gives the worker events, and the worker passes outputs, which the driver owns from then on. Values only; any
//! thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::messaging::mail::Accepted;

/// The name of a connection within its driver. It is not used again before the end of the wake-up in which the connection was
/// closed.
pub type Token = usize;

/// An event of a driver.
#[derive(Debug)]
pub enum Event {
    /// Connections were accepted.
    Accepted(Vec<Accepted>),
    /// A connection could not be accepted. No more are accepted until [`super::driver::Driver::accept_again`] is called.
    AcceptFailed(std::io::Error),
    /// This number of bytes of the connection is at the start of the buffer. In a wake-up a connection has at most one such
    /// event, or its end: the replies to it are sent before the next one.
    Received(Token, usize),
    /// There may be bytes to receive from this connection, which is received into its session's own buffer.
    Receivable(Token),
    /// Waiting replies of this connection were sent, or replies begin to wait; so many bytes still wait.
    Sent(Token, usize),
    /// The client has disconnected, or the connection is broken.
    Closed(Token),
    /// There are letters in the mailbox.
    Woken,
    /// An event that does not concern the worker.
    Nothing,
}

/// The outcome of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// All bytes have been sent, or will be with the driver's next wait.
    Done,
    /// This number of bytes waits for the client to read.
    Waiting(usize),
    /// The connection is broken.
    Broken,
}

/// A handle that wakes a driver from any thread.
#[derive(Debug, Clone)]
pub enum Waker {
    /// A counter of the kernel (eventfd), on which the driver waits.
    Counter(Arc<OwnedFd>),
    /// A notification for which a task of the driver waits.
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
