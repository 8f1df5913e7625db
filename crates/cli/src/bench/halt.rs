//! The signal that tells the generator's threads that a test ends before all its requests are answered.
//!
//! Each thread has one end of a socket among the connections that it waits for. So even a thread that waits for a silent
//! server wakes at once, and a busy thread needs no extra check.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};

/// The state of a measurement: whether and why it is to end.
#[derive(Debug)]
pub struct Halt {
    state: AtomicU8,
    sender: UnixStream,
    receiver: UnixStream,
}

/// The order that the threads follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Threads go on.
    None,
    /// Threads send no more requests, and wait for the missing replies.
    Soon,
    /// Threads stop at once.
    Now,
}

impl Halt {
    /// Creates a halt that has not been called.
    pub fn new() -> io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        Ok(Self { state: AtomicU8::new(0), sender, receiver })
    }

    /// Orders the threads to send no more requests.
    pub fn soon(&self) {
        self.say(1);
    }

    /// Orders the threads to stop at once.
    pub fn now(&self) {
        self.say(2);
    }

    fn say(&self, state: u8) {
        if self.state.fetch_max(state, Ordering::AcqRel) < state {
            // Two bytes at the most are ever written, and there is room for them.
            let _ = (&self.sender).write(&[state]);
        }
    }

    /// Returns the current order.
    pub fn order(&self) -> Order {
        match self.state.load(Ordering::Acquire) {
            0 => Order::None,
            1 => Order::Soon,
            _ => Order::Now,
        }
    }
}

impl AsFd for Halt {
    /// Returns a descriptor that is readable once an order was given. No thread reads from it: each order is one edge for
    /// every thread that watches.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
