//! All workers of one engine, as they see each other; and what becomes of a session whose worker has gone on without it.
//!
//! A worker is served by one thread at a time. Where that thread runs a script for long, another takes the worker over
//! ([`super::Worker`]), and the first brings nothing back but the session, which it leaves with the [`Member`]. Any thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::driver::Token;
use crate::messaging::mail::{Letter, Mailbox};
use crate::request::output::Output;
use crate::session::Session;

/// All workers of one engine.
#[derive(Debug)]
pub struct WorkerPool {
    members: Vec<Arc<Member>>,
    /// Members that have not ended.
    serving: AtomicUsize,
    /// The threads that serve, and those that have handed their workers over and are not done.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What others know of a worker.
#[derive(Debug)]
pub(super) struct Member {
    /// Where its letters go.
    pub mailbox: Arc<Mailbox>,
    /// How many clients it has.
    pub clients: AtomicUsize,
    /// Sessions that are back.
    returned: Mutex<VecDeque<Returned>>,
}

/// A session that has run while its worker went on without it.
#[derive(Debug)]
pub(super) struct Returned {
    /// Its connection.
    pub token: Token,
    /// The session.
    pub session: Box<Session>,
    /// What it has written.
    pub output: Output,
}

/// A session that a thread which has handed the worker over still runs.
#[derive(Debug)]
pub(super) struct DetachedSession {
    /// Its connection.
    pub token: Token,
    /// Its client.
    pub id: u64,
    /// Its peer says nothing more: when it is back it is closed behind its replies.
    pub has_ended: bool,
    /// It is closed when it is back, whatever it is owed.
    pub is_killed: bool,
    /// Bytes of the letters that are kept for it.
    pub kept_bytes: usize,
}

impl WorkerPool {
    /// A pool whose members read these mailboxes, in the order of their numbers.
    pub fn new(mailboxes: Vec<Arc<Mailbox>>) -> Arc<Self> {
        let member = |mailbox| Arc::new(Member { mailbox, clients: AtomicUsize::new(0), returned: Mutex::default() });
        let members: Vec<_> = mailboxes.into_iter().map(member).collect();
        Arc::new(Self { serving: AtomicUsize::new(members.len()), members, threads: Mutex::default() })
    }

    /// A member has ended; whether it was the last.
    pub(super) fn leave(&self) -> bool {
        self.serving.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Waits until all workers have ended, and with them all that ran for them.
    pub fn wait(&self) {
        // Who hands a worker over enters the other thread before it ends itself.
        while let Some(thread) = self.last_thread() {
            _ = thread.join();
        }
    }

    fn last_thread(&self) -> Option<JoinHandle<()>> {
        self.threads.lock().pop()
    }

    /// Enters a thread that serves from now on.
    pub(super) fn enter(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Member `number`.
    pub(super) fn member(&self, number: usize) -> &Arc<Member> {
        &self.members[number]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The number of the one with the fewest clients.
    pub(super) fn least_busy(&self) -> usize {
        let clients = |&number: &usize| self.members[number].clients.load(Ordering::Relaxed);
        (0..self.members.len()).min_by_key(clients).unwrap_or(0)
    }
}

impl Member {
    /// Brings a session back.
    pub fn bring_back(&self, returned: Returned) {
        self.returned.lock().push_back(returned);
        self.mailbox.post(Letter::Returned);
    }

    /// A session that is back; each is given once.
    pub fn take_returned(&self) -> Option<Returned> {
        self.returned.lock().pop_front()
    }
}
