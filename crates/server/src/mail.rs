//! Letters between threads: how a command reaches a session that another thread owns.
//!
//! A letter never waits for its effect. The owner of the [`Mailbox`] is woken and reads its letters when it is done with
//! what it does: a worker between two wake-ups, an embedded session at its next exchange. Any thread may post.

use std::fmt;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;

/// What one thread may ask of a session's owner.
#[derive(Debug)]
pub enum Letter {
    /// Serve this accepted connection.
    Adopt(Accepted),
    /// Close the client with this id.
    Close(u64),
    /// The engine's doors have changed: watch those that there are now.
    Listen,
    /// Paused clients may go on, if nothing holds them any more.
    Resume,
    /// Close everything and return.
    Stop,
}

/// A connection that was accepted and belongs to nobody yet.
#[derive(Debug)]
pub struct Accepted {
    /// The non-blocking stream socket.
    pub socket: OwnedFd,
    /// The peer's address as CLIENT LIST prints it.
    pub address: String,
    /// Our own end's address as CLIENT LIST prints it.
    pub local_address: String,
}

/// One owner's letters.
pub struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("letters", &self.letters).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// A mailbox whose owner is woken by `wake`, which must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { letters: Mutex::default(), wake: Box::new(wake) }
    }

    /// Posts a letter and wakes the owner.
    pub fn post(&self, letter: Letter) {
        self.letters.lock().push(letter);
        (self.wake)();
    }

    /// Takes all letters, oldest first.
    pub fn collect(&self) -> Vec<Letter> {
        std::mem::take(&mut *self.letters.lock())
    }
}
