//! Letters between threads: how a command reaches a session that another thread owns.
//!
//! A letter never waits for its effect. The owner of the [`Mailbox`] is woken and reads its letters when it has finished its
//! present work: a worker between two wake-ups, an embedded session at its next exchange. It is woken by the first letter in
//! an empty box only, because it takes all that it finds. Any thread may post, holding no lock.

use std::fmt;
use std::mem::discriminant;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use sleeve_rings::memory::Fresh;

use super::message::Message;
use crate::request::output::Output;

/// A request of one thread to a session's owner.
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
        /// See [`crate::engine::clients::blocking::Waiter::ticket`].
        ticket: u64,
        /// The reply, whole.
        reply: Output,
        /// The reply is an error that ended the waiting in place of a result, and is yet to be counted.
        is_refused: bool,
    },
    /// A published message; the subscribers among the owner's clients get it.
    Message(Arc<Message>),
    /// The client with this id is owed these bytes, which answer no request.
    Push {
        /// The client's id.
        id: u64,
        /// The bytes, in its protocol.
        bytes: Arc<Vec<u8>>,
    },
    /// The client with this id has read keys that have changed: an array of them, or nothing for all keys.
    Invalidate {
        /// The client's id.
        id: u64,
        /// The array as it goes out.
        keys: Option<Arc<Vec<u8>>>,
    },
    /// The invalidation of another client, which redirects to the client with this id.
    Redirected {
        /// The client's id.
        id: u64,
        /// The array as it goes out.
        keys: Arc<Vec<u8>>,
    },
    /// The client with this id has said CLIENT JOURNAL ON.
    FollowJournal(u64),
    /// The client with this id is handed memory through which it goes on.
    ShareMemory {
        /// The client's id.
        id: u64,
        /// The memory, and the descriptor that goes to the client.
        memory: Fresh,
    },
    /// The engine's listening sockets have changed: watch those that there are now.
    Listen,
    /// The permissions of users have shrunk: close clients with subscriptions that their users may not have.
    Users,
    /// Paused clients may go on, if nothing holds them any more.
    Resume,
    /// A session that another thread was running is back.
    Returned,
    /// More of the journal has outlived the process: replies that waited for that may leave.
    Durable,
    /// The disk has more of the journal, or no thread knows any more how much it has: the followers of the journal may be
    /// notified.
    Synced,
    /// There is more for the owner's replicas.
    Stream,
    /// The client with this id has become a replica.
    Feed(u64),
    /// The replica with this id may be shown that its primary lives, if it has not been sent anything of its snapshot by now.
    SignOfLife(u64),
    /// Do nothing until the end of DEBUG SLEEP.
    Sleep,
    /// Say so when this is read.
    Answer(Arc<AtomicBool>),
    /// Close everything and return.
    Stop,
}

impl Letter {
    /// Returns whether its kind is all that it says.
    fn is_bare(&self) -> bool {
        use Letter::{Durable, Listen, Resume, Returned, Sleep, Stop, Stream, Synced, Users};
        matches!(self, Listen | Users | Resume | Returned | Durable | Synced | Stream | Sleep | Stop)
    }
}

/// An accepted connection that has no worker yet.
#[derive(Debug)]
pub struct Accepted {
    /// The non-blocking stream socket.
    pub socket: OwnedFd,
    /// The peer's address as CLIENT LIST prints it.
    pub address: String,
    /// Our own end's address as CLIENT LIST prints it.
    pub local_address: String,
    /// Whether it speaks TLS.
    pub is_tls: bool,
}

/// One owner's letters.
pub struct Mailbox {
    queue: Mutex<MailQueue>,
    /// Whether letters lie in it, for its owner, which looks often and is woken when it looked a moment too early. It is true
    /// before a thread that has put a letter goes on; the owner may share it with threads that look without the box.
    pub has_letters: Arc<AtomicBool>,
    /// The owner reads seldom: the letters that may wait for it are bounded.
    is_bounded: bool,
    /// The number of the worker that owns it, if a worker does.
    worker: Option<usize>,
    /// A letter has said stop, whether or not it has been read.
    is_stopped: AtomicBool,
    /// Wakes an owner that waits in [`Mailbox::wait`].
    arrival: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct MailQueue {
    letters: Vec<Letter>,
    /// Bytes of the published messages among them.
    message_bytes: usize,
    /// The owner has been woken and has not looked yet.
    is_woken: bool,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// Returns a mailbox; `wake` wakes its owner, and must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            queue: Mutex::default(),
            has_letters: Arc::default(),
            is_bounded: false,
            worker: None,
            is_stopped: AtomicBool::new(false),
            arrival: Condvar::new(),
            wake: Box::new(wake),
        }
    }

    /// Returns a mailbox of the worker that has this number.
    pub fn of_worker(number: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { worker: Some(number), ..Self::new(wake) }
    }

    /// Returns a mailbox for an owner that may not look for long: one client, which is closed when too many bytes of
    /// published messages wait for it.
    pub fn bounded(has_letters: Arc<AtomicBool>, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { is_bounded: true, has_letters, ..Self::new(wake) }
    }

    /// Returns the number of the worker that owns it, if a worker does.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns whether the owner has been told to stop, for threads that run a command for it while it cannot read.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Posts a letter and wakes the owner. A letter that carries nothing is dropped while another of its kind lies there, so
    /// that an owner that seldom looks does not find a heap.
    pub fn post(&self, letter: Letter) {
        if matches!(letter, Letter::Stop) {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        let mut queue = self.queue.lock();
        if letter.is_bare() && queue.letters.iter().any(|other| discriminant(other) == discriminant(&letter)) {
            return;
        }
        self.add(&mut queue, letter);
        self.wake_unless_woken(queue);
    }

    fn add(&self, queue: &mut MailQueue, letter: Letter) {
        queue.letters.push(letter);
        self.has_letters.store(true, Ordering::Release);
    }

    fn wake_unless_woken(&self, mut queue: MutexGuard<'_, MailQueue>) {
        let was_woken = std::mem::replace(&mut queue.is_woken, true);
        drop(queue);
        if !was_woken {
            self.arrival.notify_all();
            (self.wake)();
        }
    }

    /// Puts a letter into the box, also with locks held; [`Mailbox::ring`] follows when they are given back.
    pub fn put(&self, letter: Letter) {
        self.add(&mut self.queue.lock(), letter);
    }

    /// Puts a published message into the box, also with locks held; [`Mailbox::ring`] follows when they are given back.
    /// An owner that is bounded and would have more than `bytes_max` of them (0 is no bound) is closed instead.
    pub fn put_message(&self, message: Arc<Message>, bytes_max: u64) {
        let mut queue = self.queue.lock();
        queue.message_bytes += message.len();
        if self.is_bounded && bytes_max != 0 && queue.message_bytes as u64 > bytes_max {
            queue.letters.retain(|letter| !matches!(letter, Letter::Message(_)));
            self.add(&mut queue, Letter::Stop);
            queue.message_bytes = 0;
        } else {
            self.add(&mut queue, Letter::Message(message));
        }
    }

    /// Wakes the owner, if there is something that it does not know of.
    pub fn ring(&self) {
        let queue = self.queue.lock();
        if !queue.letters.is_empty() {
            self.wake_unless_woken(queue);
        }
    }

    /// Posts a letter of the owner to itself; it looks into the box before it waits for anything else.
    pub fn post_unheard(&self, letter: Letter) {
        self.add(&mut self.queue.lock(), letter);
    }

    /// Waits for a letter, until `deadline` if there is one.
    pub fn wait(&self, deadline: Option<Instant>) {
        let mut queue = self.queue.lock();
        while queue.letters.is_empty() {
            match deadline {
                None => self.arrival.wait(&mut queue),
                Some(deadline) if self.arrival.wait_until(&mut queue, deadline).timed_out() => return,
                Some(_) => {}
            }
        }
    }

    /// Takes all letters, oldest first.
    pub fn collect(&self) -> Vec<Letter> {
        let mut queue = self.queue.lock();
        self.has_letters.store(false, Ordering::Release);
        std::mem::take(&mut *queue).letters
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
