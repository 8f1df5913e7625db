//! The drivers: how bytes reach a worker and leave it.
//!
//! The worker is told what has happened (bytes arrived, a connection came, this one has gone) and hands back bytes to send. It
//! sees no registration and no partial write; it may say that it takes nothing from a connection for now. There is one driver,
//! on epoll; another would have the same calls and be chosen here.

mod batched_send;
mod epoll;
mod listen;
pub mod listeners;
pub mod outgoing;
pub mod tls;

pub use epoll::Driver;
pub use listen::{Listener, bind_tcp, bind_unix};

use std::sync::Arc;

use crate::messaging::mail::Accepted;

/// Names one connection of one driver. Not used again before the wake-up in which it was closed has ended.
pub type Token = usize;

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// Connections came.
    Accepted(Vec<Accepted>),
    /// A connection came and could not be accepted: nothing is, until the driver is told to try again.
    AcceptFailed(std::io::Error),
    /// So many bytes of this connection are at the start of the buffer.
    Received(Token, usize),
    /// Replies that had to wait have left this connection; so many bytes still wait.
    Sent(Token, usize),
    /// The peer has gone, or the connection broke.
    Closed(Token),
    /// There is mail.
    Woken,
    /// Nothing that concerns the worker.
    Nothing,
}

/// How sending went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Everything has left.
    Done,
    /// So many bytes wait for the peer to read.
    Waiting(usize),
    /// The connection is broken.
    Broken,
}

/// Wakes a driver from any thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<std::os::fd::OwnedFd>);

impl Waker {
    /// Makes the driver's wait return with [`Event::Woken`].
    pub fn wake(&self) {
        // A full counter means that a wake-up is already under way.
        _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}
