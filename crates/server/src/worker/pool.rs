//! The workers of an engine as they see each other: their wanted number, which may change while they serve, and the return of
//! a session to a worker that was handed over.
//!
//! A worker that is not wanted any more **retires**: it accepts no connection and gets none, serves its clients as before,
//! and ends when the last of them has disconnected. If it is wanted again before that, it goes on. It hands no connection
//! over, because blocked clients, replicas and running scripts depend on their worker's mailbox.
//!
//! A worker is served by one thread at a time. If that thread runs a script for long, another takes the worker over
//! ([`super::Worker`]), and the first one brings only the session back, which it leaves with the [`Member`]. Any thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::engine::Engine;
use crate::messaging::mail::{Letter, Mailbox};
use crate::net::{Listener, Token};
use crate::request::output::Output;
use crate::session::Session;

/// The workers that serve the same listeners of an engine.
#[derive(Debug)]
pub struct WorkerPool {
    members: Mutex<Members>,
    /// The threads that serve, and those that have handed their workers over and have not ended.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Members {
    /// The members that have not ended. While the pool serves, there is one for each number below `wanted`.
    all: Vec<Arc<Member>>,
    /// The wanted number of members. A member with a higher number gets no connections, and ends when its last one has ended.
    wanted: usize,
    /// Members are being added that are not wanted yet: no member retires until that is done.
    is_resizing: bool,
    /// The pool has ended for good.
    is_over: bool,
    doors: Doors,
}

/// The listeners at which a pool's members accept connections.
#[derive(Debug)]
pub enum Doors {
    /// The listeners that the engine's options name at the time.
    OfEngine,
    /// These listeners.
    Own(Vec<Arc<Listener>>),
}

/// The facts about a worker for other threads.
#[derive(Debug)]
pub(super) struct Member {
    /// The number of the worker.
    pub number: usize,
    /// The mailbox of the worker.
    pub mailbox: Arc<Mailbox>,
    /// The number of its clients, including connections that were given to it and not taken over yet.
    pub clients: AtomicUsize,
    /// The sessions that threads with long scripts have returned.
    returned: Mutex<VecDeque<Returned>>,
}

/// A session that went on running after its worker was handed over.
#[derive(Debug)]
pub(super) struct Returned {
    /// The connection of the session.
    pub token: Token,
    /// The session.
    pub session: Box<Session>,
    /// The replies that it has written.
    pub output: Output,
}

impl WorkerPool {
    /// Creates a pool without members.
    pub fn new(doors: Doors) -> Arc<Self> {
        let members = Members { all: Vec::new(), wanted: 0, is_resizing: false, is_over: false, doors };
        Arc::new(Self { members: Mutex::new(members), threads: Mutex::default() })
    }

    /// Creates a pool with members that read these mailboxes, in the order of their numbers.
    #[cfg(test)]
    pub fn of(mailboxes: Vec<Arc<Mailbox>>) -> Arc<Self> {
        let pool = Self::new(Doors::OfEngine);
        let count = mailboxes.len();
        mailboxes.into_iter().enumerate().for_each(|(number, mailbox)| pool.admit(number, mailbox));
        pool.end_resizing(count);
        pool
    }

    /// Prepares for so many members. Returns the numbers of those that have to be admitted before
    /// [`WorkerPool::end_resizing`]; None if the pool has ended or is about to end.
    pub fn begin_resizing(&self, count: usize) -> Option<Vec<usize>> {
        let mut members = self.members.lock();
        if members.is_over || members.are_stopped() {
            return None;
        }
        members.is_resizing = true;
        Some((0..count).filter(|&number| members.find(number).is_none()).collect())
    }

    /// Admits a member, which gets no connections yet.
    pub fn admit(&self, number: usize, mailbox: Arc<Mailbox>) {
        let member = Member { number, mailbox, clients: AtomicUsize::new(0), returned: Mutex::default() };
        self.members.lock().all.push(Arc::new(member));
    }

    /// Removes a member with a thread that has not started; returns whether no member is left.
    pub fn dismiss(&self, number: usize) -> bool {
        let mut members = self.members.lock();
        members.all.retain(|member| member.number != number);
        members.all.is_empty()
    }

    /// Sets the wanted number of members, all of which exist, and notifies the affected ones. If the others were told to stop
    /// in the meantime, tells all to stop.
    pub fn end_resizing(&self, count: usize) {
        let mut members = self.members.lock();
        let unchanged = members.wanted.min(count);
        (members.wanted, members.is_resizing) = (count, false);
        let are_stopped = members.are_stopped();
        for member in members.all.iter().filter(|member| are_stopped || member.number >= unchanged) {
            member.mailbox.post(if are_stopped { Letter::Stop } else { Letter::Listen });
        }
    }

    /// Tells all members to stop, and lets none be added; returns their mailboxes.
    pub fn stop(&self) -> Vec<Arc<Mailbox>> {
        let mut members = self.members.lock();
        members.is_over = true;
        let mailboxes: Vec<_> = members.all.iter().map(|member| Arc::clone(&member.mailbox)).collect();
        mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Stop));
        mailboxes
    }

    /// Returns the mailboxes of the members that are wanted.
    pub fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.members.lock().wanted().map(|member| Arc::clone(&member.mailbox)).collect()
    }

    /// Returns how many members are wanted.
    pub fn wanted(&self) -> usize {
        self.members.lock().wanted
    }

    /// Returns the number of members that are not wanted any more and have not ended.
    pub fn retiring(&self) -> usize {
        let members = self.members.lock();
        members.all.len() - members.wanted().count()
    }

    /// Returns the listeners at which connections are accepted now.
    pub fn doors(&self, engine: &Engine) -> Vec<Arc<Listener>> {
        match &self.members.lock().doors {
            Doors::OfEngine => engine.network.listeners.all(),
            Doors::Own(listeners) => listeners.clone(),
        }
    }

    /// Returns whether the members accept at the listeners that the engine's options name.
    pub fn is_at_engines_doors(&self) -> bool {
        matches!(self.members.lock().doors, Doors::OfEngine)
    }

    /// Removes a member that has ended; returns whether it was the last.
    pub(super) fn leave(&self, leaving: &Arc<Member>) -> bool {
        let mut members = self.members.lock();
        let was_there = members.strike_out(leaving);
        let is_last = was_there && members.all.is_empty();
        if is_last {
            members.is_over = true;
            // The pool accepts no more, so its listeners are closed.
            members.doors = Doors::Own(Vec::new());
        }
        is_last
    }

    /// Removes a member that is not wanted and has no clients, including connections that were given to it; returns whether
    /// it was removed.
    pub(super) fn retire(&self, leaving: &Arc<Member>) -> bool {
        let mut members = self.members.lock();
        let is_free = leaving.number >= members.wanted && leaving.clients.load(Ordering::Relaxed) == 0;
        let is_over = is_free && !members.is_resizing && members.strike_out(leaving);
        drop(members);
        if is_over {
            leaving.mailbox.post(Letter::Stop);
        }
        is_over
    }

    /// Waits until all workers and their threads have ended.
    pub fn wait(&self) {
        // A thread that hands a worker over, or adds one, enters the other thread before it ends itself.
        while let Some(thread) = self.last_thread() {
            _ = thread.join();
        }
    }

    fn last_thread(&self) -> Option<JoinHandle<()>> {
        self.threads.lock().pop()
    }

    /// Enters a thread that serves a worker.
    pub(super) fn enter(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Returns member `number`, which has been admitted.
    pub(super) fn member(&self, number: usize) -> Arc<Member> {
        Arc::clone(self.members.lock().find(number).expect("it has been admitted"))
    }

    /// Returns the wanted member with the fewest clients, and counts one more client for it. While the first members begin,
    /// any member may be chosen. None if all have ended.
    pub(super) fn choose(&self) -> Option<Arc<Member>> {
        let members = self.members.lock();
        let clients = |member: &&Arc<Member>| member.clients.load(Ordering::Relaxed);
        let chosen = members.wanted().min_by_key(clients).or_else(|| members.all.iter().min_by_key(clients))?;
        chosen.clients.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(chosen))
    }
}

impl Members {
    fn find(&self, number: usize) -> Option<&Arc<Member>> {
        self.all.iter().find(|member| member.number == number)
    }

    /// Returns the members that are wanted.
    fn wanted(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.all.iter().filter(|member| member.number < self.wanted)
    }

    /// Returns whether all members have been told to stop. A new member may not have been told yet.
    fn are_stopped(&self) -> bool {
        self.all.iter().any(|member| member.mailbox.is_stopped())
    }

    fn strike_out(&mut self, leaving: &Arc<Member>) -> bool {
        let count = self.all.len();
        self.all.retain(|member| !Arc::ptr_eq(member, leaving));
        self.all.len() < count
    }
}

impl Member {
    /// Brings a session back.
    pub fn bring_back(&self, returned: Returned) {
        self.returned.lock().push_back(returned);
        self.mailbox.post(Letter::Returned);
    }

    /// Takes a session that the thread with its long script has returned.
    pub fn take_returned(&self) -> Option<Returned> {
        self.returned.lock().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> Arc<Mailbox> {
        Arc::new(Mailbox::new(|| ()))
    }

    #[test]
    fn who_comes_while_the_first_members_begin_is_given_to_one_of_them() {
        let pool = WorkerPool::new(Doors::OfEngine);
        assert_eq!(pool.begin_resizing(2), Some(vec![0, 1]));
        (0..2).for_each(|number| pool.admit(number, mailbox()));
        let chosen = [(); 2].map(|()| pool.choose().expect("there are some").number);
        assert_eq!(chosen, [0, 1]);
    }

    #[test]
    fn a_member_retires_unless_it_is_wanted_or_clients_are_on_the_way() {
        let pool = WorkerPool::of(vec![mailbox(), mailbox()]);
        let [first, second] = [0, 1].map(|number| pool.member(number));
        assert!(!pool.retire(&second), "it is wanted");
        assert_eq!([pool.choose(), pool.choose()].map(|member| member.expect("one").number), [0, 1]);
        assert_eq!(pool.begin_resizing(1), Some(Vec::new()));
        pool.end_resizing(1);
        assert_eq!((pool.wanted(), pool.retiring(), pool.choose().expect("one").number), (1, 1, 0));
        assert!(!pool.retire(&second) && !pool.retire(&first), "it has a client");
        second.clients.store(0, Ordering::Relaxed);
        assert_eq!(pool.begin_resizing(2), Some(Vec::new()), "it is used again");
        assert!(!pool.retire(&second), "it is about to be wanted");
        pool.end_resizing(1);
        assert!(pool.retire(&second) && second.mailbox.is_stopped() && !pool.leave(&second));
        assert_eq!((pool.retiring(), pool.begin_resizing(2)), (0, Some(vec![1])));
        pool.end_resizing(1);
        assert!(pool.leave(&first), "it was the last");
        assert!(pool.begin_resizing(2).is_none() && pool.choose().is_none());
    }

    #[test]
    fn who_is_added_while_all_are_told_to_stop_is_told_too() {
        let pool = WorkerPool::of(vec![mailbox()]);
        pool.begin_resizing(2).expect("it serves");
        pool.admit(1, mailbox());
        pool.member(0).mailbox.post(Letter::Stop);
        pool.end_resizing(2);
        assert!(pool.member(1).mailbox.is_stopped() && pool.begin_resizing(3).is_none());
    }
}
