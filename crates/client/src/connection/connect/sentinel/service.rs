//! The knowledge of a service that the connections of one client share: its Sentinels, the address of its primary, and the
//! tasks to notify when that changes.
//!
//! Each connection's task follows the service for as long as it lives. A task that learns of another primary notifies all the
//! others. Their sockets are shut, so that they find their connections at an end. Their tasks are woken, so that none waits
//! for a server that is no primary any more. No command takes the lock of this state. Any thread; one short lock.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::config::endpoint::write_place;
use crate::config::{Config, Endpoint};
use crate::connection::connect::socket::Socket;
use crate::reactor::TaskWaker;
use crate::sys::lock::Mutex;

/// The largest number of Sentinels that are kept in addition to those of the configuration.
const LEARNED_MAX: usize = 32;

/// The address of a listening server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.host, self.port)
    }
}

/// The known state of a service.
pub(crate) struct Service {
    /// The Sentinels' name of the service.
    pub(super) name: String,
    configured: Vec<Address>,
    state: Mutex<KnownService>,
}

#[derive(Default)]
struct KnownService {
    /// The Sentinels, in the order in which they are asked.
    sentinels: Vec<Address>,
    primary: Option<Address>,
    members: Vec<Arc<Member>>,
    /// The waker of the task that listens for changes.
    watch: Option<TaskWaker>,
}

/// A connection's task that follows the service.
struct Member {
    task_waker: TaskWaker,
    /// The server to which the task is connected, is connecting, or was connected last.
    place: Mutex<Option<Address>>,
    socket: Mutex<Weak<Socket>>,
    /// True if the primary is no longer at that address.
    has_moved: AtomicBool,
}

impl Service {
    /// Creates the service that the configuration names, if it names one.
    pub(crate) fn of(config: &Config) -> Option<Arc<Self>> {
        let Endpoint::Sentinel { sentinels, service } = &config.endpoint else { return None };
        let address = |(host, port): &(String, u16)| Address { host: host.clone(), port: *port };
        let configured: Vec<_> = sentinels.iter().map(address).collect();
        let state = KnownService { sentinels: configured.clone(), ..KnownService::default() };
        Some(Arc::new(Self { name: service.clone(), configured, state: Mutex::new(state) }))
    }

    /// Returns the address of the primary by the last answer.
    pub(crate) fn primary(&self) -> Option<Address> {
        self.state.lock().primary.clone()
    }

    /// Makes the task of this waker follow the service from now on.
    pub(crate) fn follow(self: &Arc<Self>, task_waker: TaskWaker) -> Follower {
        let (place, socket) = (Mutex::new(None), Mutex::new(Weak::new()));
        let member = Arc::new(Member { task_waker, place, socket, has_moved: AtomicBool::new(false) });
        self.state.lock().members.push(Arc::clone(&member));
        Follower { service: Arc::clone(self), member }
    }

    /// Returns the service's Sentinels, in the order in which they are asked.
    pub(super) fn sentinels(&self) -> Vec<Address> {
        self.state.lock().sentinels.clone()
    }

    /// Returns the Sentinel behind this one, in the order in which they are asked; the first behind the last.
    pub(super) fn after(&self, sentinel: &Address) -> Address {
        let state = self.state.lock();
        let next = state.sentinels.iter().position(|one| one == sentinel).map_or(0, |index| index + 1);
        let next = state.sentinels.get(next).or(state.sentinels.first());
        next.unwrap_or(sentinel).clone()
    }

    /// Notes that this Sentinel has led to the primary: it is asked first from now on.
    pub(super) fn prefer(&self, sentinel: &Address) {
        let mut state = self.state.lock();
        state.sentinels.retain(|other| other != sentinel);
        state.sentinels.insert(0, sentinel.clone());
    }

    /// Takes the other Sentinels that a Sentinel has named: a Sentinel that is in neither list any more is forgotten.
    pub(super) fn learn(&self, from: &Address, others: Vec<Address>) {
        let mut state = self.state.lock();
        let is_kept = |one: &Address| one == from || others.contains(one) || self.configured.contains(one);
        state.sentinels.retain(is_kept);
        for other in others {
            if state.sentinels.len() < self.configured.len() + LEARNED_MAX && !state.sentinels.contains(&other) {
                state.sentinels.push(other);
            }
        }
    }

    /// Notes the address of the primary. Tasks with connections to other servers are notified; if the address is new, so are
    /// the tasks that search for the primary.
    pub(super) fn moves(&self, to: &Address) {
        self.tell(&mut self.state.lock(), to);
    }

    /// Notes the primary's address as `moves` does, with the lock held.
    fn tell(&self, state: &mut KnownService, to: &Address) {
        let has_moved = state.primary.as_ref().is_some_and(|before| before != to);
        state.primary = Some(to.clone());
        for member in &state.members {
            let is_elsewhere = member.place.lock().as_ref().map_or(has_moved, |place| place != to);
            if !is_elsewhere {
                continue;
            }
            member.has_moved.store(true, Ordering::Release);
            if let Some(socket) = member.socket.lock().upgrade() {
                socket.shut();
            }
            member.task_waker.wake();
        }
    }

    /// Returns whether any task follows the service.
    pub(super) fn is_followed(&self) -> bool {
        !self.state.lock().members.is_empty()
    }

    /// Notes the task of this waker as the one that listens for changes. Returns false if another task listens already.
    pub(super) fn begin_watch(&self, task_waker: TaskWaker) -> bool {
        let mut state = self.state.lock();
        let is_first = state.watch.is_none();
        state.watch.get_or_insert(task_waker);
        is_first
    }

    /// Ends the watch if no task follows the service any more, and returns whether it has ended.
    pub(super) fn end_watch(&self) -> bool {
        let mut state = self.state.lock();
        let ends = state.members.is_empty();
        if ends {
            state.watch = None;
        }
        ends
    }

    /// Notes that the task that has listened for changes has failed.
    pub(super) fn lose_watch(&self) {
        self.state.lock().watch = None;
    }
}

/// The registration of a connection's task as a follower of the service, until this value is dropped.
pub(crate) struct Follower {
    pub(super) service: Arc<Service>,
    member: Arc<Member>,
}

impl Follower {
    /// Notes that the follower begins to search for the primary, and has no address yet.
    pub(super) fn set_out(&self) {
        // A task that notes another primary holds this lock, so a notification from here on counts for the new search.
        let _state = self.service.state.lock();
        *self.member.place.lock() = None;
        *self.member.socket.lock() = Weak::new();
        self.member.has_moved.store(false, Ordering::Release);
    }

    /// Notes the address of the primary that the follower was given.
    pub(super) fn head_for(&self, place: &Address) {
        let _state = self.service.state.lock();
        *self.member.place.lock() = Some(place.clone());
    }

    /// Notes that the follower is connected to the primary at this address, and notifies the others. Returns false, and does
    /// nothing, if another primary was announced in between.
    pub(super) fn arrive(&self, place: &Address, socket: &Arc<Socket>) -> bool {
        let mut state = self.service.state.lock();
        if self.has_moved() {
            return false;
        }
        *self.member.socket.lock() = Arc::downgrade(socket);
        self.service.tell(&mut state, place);
        true
    }

    /// Returns whether another primary was announced since the follower began its search.
    pub(crate) fn has_moved(&self) -> bool {
        self.member.has_moved.load(Ordering::Acquire)
    }

    /// Returns the text for the end of its connection, if another primary is the reason.
    pub(crate) fn farewell(&self) -> Option<String> {
        let primary = self.service.primary().filter(|_| self.has_moved())?;
        Some(format!("the primary of the service {} is now {primary}", self.service.name))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut state = self.service.state.lock();
        state.members.retain(|member| !Arc::ptr_eq(member, &self.member));
        // This was the last follower: the watch need not go on.
        if let Some(watch) = state.watch.filter(|_| state.members.is_empty()) {
            watch.wake();
        }
    }
}
