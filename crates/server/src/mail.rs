//! Letters between threads: how a command reaches a session that another thread owns.
//!
//! A letter never waits for its effect. The owner of the [`Mailbox`] is woken and reads its letters when it is done with
//! what it does: a worker between two wake-ups, an embedded session at its next exchange. It is woken by the first letter
//! in an empty box only, because it takes all that it finds. Any thread may post, holding no lock.

use std::fmt;
use std::mem::discriminant;
use std::os::fd::OwnedFd;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::output::Output;

/// What one thread may ask of a session's owner.
#[derive(Debug)]
pub enum Letter {
    /// Serve this accepted connection.
    Adopt(Accepted),
    /// Close the client with this id.
    Close(u64),
    /// The client with this id waits no longer, if it is still this ticket that it waits with; it is owed this reply.
    Unblock {
        /// The client's id.
        id: u64,
        /// See [`crate::blocking::Waiter::ticket`].
        ticket: u64,
        /// The reply, whole.
        reply: Output,
    },
    /// The engine's doors have changed: watch those that there are now.
    Listen,
    /// Paused clients may go on, if nothing holds them any more.
    Resume,
    /// Close everything and return.
    Stop,
}

impl Letter {
    /// Whether its kind is all that it says.
    fn is_bare(&self) -> bool {
        matches!(self, Self::Listen | Self::Resume | Self::Stop)
    }
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
    /// Wakes an owner that waits in [`Mailbox::wait`].
    arrival: Condvar,
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
        Self { letters: Mutex::default(), arrival: Condvar::new(), wake: Box::new(wake) }
    }

    /// Posts a letter and wakes the owner; unless it says nothing that a letter does not say which still lies there, so
    /// that an owner who seldom looks does not find a heap.
    pub fn post(&self, letter: Letter) {
        let mut letters = self.letters.lock();
        if letter.is_bare() && letters.iter().any(|other| discriminant(other) == discriminant(&letter)) {
            return;
        }
        letters.push(letter);
        let is_first = letters.len() == 1;
        drop(letters);
        if is_first {
            self.arrival.notify_all();
            (self.wake)();
        }
    }

    /// Posts a letter of the owner to itself; it looks into the box before it waits for anything else.
    pub fn post_unheard(&self, letter: Letter) {
        self.letters.lock().push(letter);
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.letters.lock().is_empty()
    }

    /// Waits for a letter, until `deadline` if there is one.
    pub fn wait(&self, deadline: Option<Instant>) {
        let mut letters = self.letters.lock();
        while letters.is_empty() {
            match deadline {
                None => self.arrival.wait(&mut letters),
                Some(deadline) if self.arrival.wait_until(&mut letters, deadline).timed_out() => return,
                Some(_) => {}
            }
        }
    }

    /// Takes all letters, oldest first.
    pub fn collect(&self) -> Vec<Letter> {
        std::mem::take(&mut *self.letters.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_a_letter_says_already_is_not_posted_again() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let mailbox = Mailbox::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
        for _ in 0..1_000 {
            mailbox.post(Letter::Resume);
            mailbox.post(Letter::Close(7));
            mailbox.post(Letter::Resume);
        }
        assert_eq!(woken.load(Ordering::Relaxed), 1, "the owner takes all that it finds");
        assert_eq!(mailbox.collect().iter().filter(|letter| matches!(letter, Letter::Resume)).count(), 1);
        mailbox.post(Letter::Resume);
        assert_eq!((mailbox.collect().len(), woken.load(Ordering::Relaxed)), (1, 2));
    }
}
