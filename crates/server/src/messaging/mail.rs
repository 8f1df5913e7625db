//! Letters between threads: how a command reaches a session that another thread owns.
//!
//! A thread that posts a letter never waits for its effect. The owner of the [`Mailbox`] is woken and reads its letters when
//! it has finished its present work: a worker between two wake-ups, an embedded session at its next exchange. Only the first
//! letter in an empty box wakes the owner, because it takes all letters that it finds. Any thread may post, holding no lock.

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
    /// End the waiting of the client with this id by this reply, if it still waits with this ticket.
    Unblock {
        /// The client's id.
        id: u64,
        /// See [`crate::engine::clients::blocking::Waiter::ticket`].
        ticket: u64,
        /// The complete reply.
        reply: Output,
        /// The reply is an error that ended the waiting in place of a result, and was not counted yet.
        is_refused: bool,
    },
    /// Send a published message to the subscribers among the owner's clients.
    Message(Arc<Message>),
    /// End the subscriptions of the owner's clients to these shard channels: another node of the cluster serves them.
    ShardChannelsLeft(Arc<[Arc<[u8]>]>),
    /// Send the client with this id these bytes, which answer no request.
    Push {
        /// The client's id.
        id: u64,
        /// The bytes, in the client's protocol.
        bytes: Arc<Vec<u8>>,
    },
    /// Notify the client with this id that keys which it has read have changed: an array of them, or None for all keys.
    Invalidate {
        /// The client's id.
        id: u64,
        /// The array as it is sent.
        keys: Option<Arc<Vec<u8>>>,
    },
    /// Send the client with this id an invalidation that another client redirects to it.
    Redirected {
        /// The client's id.
        id: u64,
        /// The array as it is sent.
        keys: Arc<Vec<u8>>,
    },
    /// The client with this id has sent CLIENT JOURNAL ON.
    FollowJournal(u64),
    /// Give the client with this id memory, through which its later bytes go.
    ShareMemory {
        /// The client's id.
        id: u64,
        /// The memory, and the descriptor that is sent to the client.
        memory: Fresh,
    },
    /// The engine's listening sockets have changed: watch the present ones.
    Listen,
    /// Users may have fewer permissions: close clients with subscriptions that their users may no longer have.
    Users,
    /// Let paused clients go on, if nothing holds them any more.
    Resume,
    /// Take back a session: the thread that ran its long script has returned it.
    Returned,
    /// More of the journal is durable: held replies may be sent.
    Durable,
    /// More of the journal has been fsynced, or the fsynced offset is no longer known: clients of CLIENT JOURNAL may be
    /// notified.
    Synced,
    /// There are more bytes for the owner's replicas.
    Stream,
    /// The client with this id has become a replica.
    Feed(u64),
    /// Send the replica with this id a sign of life, unless it has been sent a part of its snapshot by now.
    SignOfLife(u64),
    /// Do nothing until the end of DEBUG SLEEP.
    Sleep,
    /// Set this flag when the letter is read.
    Answer(Arc<AtomicBool>),
    /// Close all connections and end.
    Stop,
}

impl Letter {
    /// Returns whether the letter has no contents besides its kind.
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
    /// The address of the server's end as CLIENT LIST prints it.
    pub local_address: String,
    /// The connection speaks TLS.
    pub is_tls: bool,
}

/// The letters for one owner.
pub struct Mailbox {
    queue: Mutex<MailQueue>,
    /// The mailbox has letters. The owner may share this flag with threads that check it without the mailbox. It is set
    /// before a thread that has put a letter goes on; if the owner checks it a moment too early, it is woken.
    pub has_letters: Arc<AtomicBool>,
    /// The owner reads seldom, so the bytes of letters that may wait for it are bounded.
    is_bounded: bool,
    /// The number of the worker that owns it, if a worker does.
    worker: Option<usize>,
    /// A letter has told the owner to stop, whether it has been read or not.
    is_stopped: AtomicBool,
    /// The condition for an owner that waits in [`Mailbox::wait`].
    arrival: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct MailQueue {
    letters: Vec<Letter>,
    /// The bytes of the published messages among the letters.
    message_bytes: usize,
    /// The owner has been woken and has not read the letters yet.
    is_woken: bool,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// Makes a mailbox; `wake` wakes its owner, and must not block.
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

    /// Makes the mailbox of the worker with this number.
    pub fn of_worker(number: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { worker: Some(number), ..Self::new(wake) }
    }

    /// Makes a mailbox for an owner that may not read for long: one client, which is closed if too many bytes of published
    /// messages wait for it.
    pub fn bounded(has_letters: Arc<AtomicBool>, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { is_bounded: true, has_letters, ..Self::new(wake) }
    }

    /// Returns the number of the worker that owns it, if a worker does.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns whether the owner has been told to stop, for threads that run a command for it while it cannot read letters.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Posts a letter and wakes the owner. A letter without contents is dropped if another of its kind is in the box, so that
    /// an owner that seldom reads does not find a large number of them.
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

    /// Puts a letter into the box, even with locks held; the caller calls [`Mailbox::ring`] after it has given the locks
    /// back.
    pub fn put(&self, letter: Letter) {
        self.add(&mut self.queue.lock(), letter);
    }

    /// Puts a published message into the box, even with locks held; the caller calls [`Mailbox::ring`] after it has given the
    /// locks back. If the owner is bounded and would have more than `bytes_max` bytes of messages (0 is no bound), it is
    /// closed instead.
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

    /// Wakes the owner, if there are letters of which it was not notified yet.
    pub fn ring(&self) {
        let queue = self.queue.lock();
        if !queue.letters.is_empty() {
            self.wake_unless_woken(queue);
        }
    }

    /// Posts a letter of the owner to itself, without waking it: it reads the box before it waits.
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
