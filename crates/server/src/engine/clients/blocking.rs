//! Blocked clients: the keys that each waits for, and the order in which they are served.
//!
//! A blocking command that finds nothing leaves a [`Waiter`] here: under each of its keys with a *narrowed request*, which is
//! the command for that key alone (`BLPOP a b 0` waits on `b` with `BLPOP b 0`). A command that changes a key marks it. After
//! that command `serve_blocked` runs the narrowed requests of the blocked clients, in the order in which they arrived. A
//! waiter leaves in exactly one way (served, timed out, unblocked by another client, disconnected): each goes through
//! [`Waiter::claim`] first.
//!
//! Waiters enter under the locks of all their keys' shards, and a change is made and marked under the lock of its key's
//! shard, so no change is missed. While no client is blocked a write pays one relaxed load. While some are, a write to a key
//! that none waits for nearly always pays one more. This module runs nothing and knows no command. Any thread may call it.
//!
//! Locks are taken in this order: shards, then one waiter's state, then the table of waiters.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use sleeve_store::{Hash, Kind};
use sleeve_wire::commands::Row;
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::request::OwnedArgs;

use super::client_info::ClientInfo;
use crate::acl::User;
use crate::request::Key;

/// The request of a command that found nothing and blocks.
#[derive(Debug)]
pub struct Block<'a> {
    /// The time at which the client stops waiting, in milliseconds of the wall clock; None for never.
    pub deadline_ms: Option<i64>,
    /// The keys of the selected database for which the client waits; empty if it waits for other servers. Their shards are
    /// locked.
    pub waits: Vec<Wait<'a>>,
    /// The reply at the timeout.
    pub on_timeout: OnTimeout,
}

/// A key that a client waits for.
#[derive(Debug)]
pub struct Wait<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The type of value that serves the client; while the key holds another type, the client goes on waiting.
    pub kind: Kind,
    /// The request is also run when the key has been removed or has another type (XREADGROUP, which then fails).
    pub even_gone: bool,
    /// The request that is run when the key has changed: the same command, narrowed to this key. Its row names all keys that
    /// it uses.
    pub request: OwnedArgs,
}

/// The reply at the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// The null that is no value.
    Null,
    /// The null that is no array.
    NullArray,
    /// The number of replicas that have applied the journal up to this offset, which contains the client's changes.
    Replicas(u64),
    /// The number of disks, of this server and of replicas, that have the journal up to this offset.
    Disks(u64),
}

/// The number of servers that have the journal up to an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The number of replicas that have applied it.
    pub applied: usize,
    /// The number of replicas that have fsynced it.
    pub synced: usize,
    /// This server has fsynced it.
    pub own_disk: bool,
}

impl OnTimeout {
    /// Appends the reply. `reached` returns how many servers have the journal up to an offset.
    pub fn write(self, out: &mut Vec<u8>, protocol: Protocol, reached: impl FnOnce(u64) -> Reached) {
        self.put(&mut Writer::new(out, protocol), reached);
    }

    /// Writes the reply as [`OnTimeout::write`] does, into a reply that is being written.
    pub fn put(self, reply: &mut Writer<'_>, reached: impl FnOnce(u64) -> Reached) {
        match self {
            Self::Null => reply.null(),
            Self::NullArray => reply.null_array(),
            Self::Replicas(offset) => reply.integer(reached(offset).applied as i64),
            Self::Disks(offset) => {
                let reached = reached(offset);
                reply.array(2);
                reply.integer(i64::from(reached.own_disk));
                reply.integer(reached.synced as i64);
            }
        }
    }
}

/// A key of one database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseKey {
    /// The database.
    pub database: u32,
    /// The name.
    pub name: Box<[u8]>,
}

/// A blocked client, with the part of its state that its requests use.
#[derive(Debug)]
pub struct Waiter {
    /// The waiter's number, unique and ascending: the order of arrival.
    pub ticket: u64,
    /// The client.
    pub client: Arc<ClientInfo>,
    /// The user as which the client is logged in.
    pub user: Arc<User>,
    /// The command of the blocked client.
    pub row: &'static Row,
    /// The selected database of the blocked client.
    pub database: u32,
    /// The protocol of its replies.
    pub protocol: Protocol,
    /// The client's reads renew no access clock (CLIENT NO-TOUCH).
    pub no_touch: bool,
    /// The time at which the client stops waiting, in monotonic milliseconds.
    pub deadline_ms: Option<u64>,
    /// The reply at the timeout.
    pub on_timeout: OnTimeout,
    /// The time at which its requests are run although no key has changed, because time alone may have made an element
    /// available; monotonic milliseconds, or the largest number if time has no effect.
    look_ms: AtomicU64,
    /// The keys that it waits for, each with its request.
    keys: Vec<WaitedKey>,
    bytes: usize,
    is_done: Mutex<bool>,
}

/// A key of a waiter.
#[derive(Debug)]
struct WaitedKey {
    key: DatabaseKey,
    hash: Hash,
    kind: Kind,
    even_gone: bool,
    request: OwnedArgs,
}

/// The memory of an awaited key in addition to its name, in bytes: an entry of a table that is not full, and a queue.
const WAITED_KEY_BYTES: usize = 400;

/// The exclusive right to end a waiter's waiting. If it is dropped without [`Claim::finish`], the waiting goes on.
#[derive(Debug)]
pub struct Claim<'a> {
    waiter: &'a Arc<Waiter>,
    is_done: MutexGuard<'a, bool>,
}

impl Waiter {
    /// Takes the right to end the waiting; returns None if it has ended already. Other threads that try to take it wait until
    /// this one is dropped, so the holder may lock no further shard.
    pub fn claim(self: &Arc<Self>) -> Option<Claim<'_>> {
        let is_done = self.is_done.lock();
        (!*is_done).then_some(Claim { waiter: self, is_done })
    }

    /// Schedules a run of the waiter's requests at this time, in monotonic milliseconds, unless an earlier one is scheduled.
    pub fn look_at(&self, at_ms: u64) {
        self.look_ms.fetch_min(at_ms, Ordering::Relaxed);
    }

    /// Takes a scheduled run of the requests if it is due. Returns whether it was.
    pub fn takes_look(&self, now_ms: u64) -> bool {
        let is_due = self.look_ms.load(Ordering::Relaxed) <= now_ms;
        if is_due {
            self.look_ms.store(u64::MAX, Ordering::Relaxed);
        }
        is_due
    }

    /// Returns the time at which the client's owner next has work for this waiter, in monotonic milliseconds.
    pub fn due_ms(&self) -> Option<u64> {
        let look_ms = self.look_ms.load(Ordering::Relaxed);
        let next_ms = self.deadline_ms.unwrap_or(u64::MAX).min(look_ms);
        (next_ms != u64::MAX).then_some(next_ms)
    }

    /// Returns whether the client waits for keys or for other servers: not for work that this server has begun for it, such as
    /// SAVE, whose end it is told in any case.
    pub fn waits_for_others(&self) -> bool {
        !self.keys.is_empty() || matches!(self.on_timeout, OnTimeout::Replicas(_) | OnTimeout::Disks(_))
    }

    /// Returns the first of the keys for which the client waits. None if it waits for something else.
    pub fn first_key(&self) -> Option<&DatabaseKey> {
        self.keys.first().map(|waited| &waited.key)
    }

    /// Returns the keys for which the client waits.
    pub fn keys(&self) -> VecDeque<DatabaseKey> {
        self.keys.iter().map(|waited| waited.key.clone()).collect()
    }

    /// Returns the request to be run for one of the keys.
    pub fn request(&self, index: usize) -> &OwnedArgs {
        &self.keys[index].request
    }

    /// Returns the memory of the waiter in bytes, with that of its keys in the engine's table.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the request is worth running for the present value of one of its keys.
    pub fn wants(&self, index: usize, kind: Option<Kind>) -> bool {
        let key = &self.keys[index];
        key.even_gone || kind == Some(key.kind)
    }
}

impl WaitedKey {
    fn bytes(&self) -> usize {
        size_of::<Self>() + WAITED_KEY_BYTES + 2 * self.key.name.len() + self.request.heap_len()
    }
}

impl Claim<'_> {
    /// Ends the waiting for good.
    pub fn finish(mut self, blocking: &Blocking) {
        *self.is_done = true;
        drop(self.is_done);
        self.waiter.client.status.blocked.store(false, Ordering::Relaxed);
        blocking.strike_out(self.waiter);
    }
}

/// The number of cells of the filter, by which a write can see that no client waits for its key.
const FILTER_LEN: usize = 256;

/// The waiters of one engine.
#[derive(Debug)]
pub struct Blocking {
    /// The number of waiters, each counted once for each of its keys.
    waits: AtomicUsize,
    /// The number of awaited keys in each class of keys with the same lowest bits of the hash.
    filter: [AtomicU32; FILTER_LEN],
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    last_ticket: u64,
    queues: HashMap<DatabaseKey, Queue>,
    /// The waiters by client id.
    clients: HashMap<u64, Arc<Waiter>>,
}

/// The waiters for one key, by ticket, each with the index of the key among the waiter's keys.
#[derive(Debug, Default)]
struct Queue {
    waiters: BTreeMap<u64, (Arc<Waiter>, usize)>,
    /// The number of these waiters that are also served when the key has been removed.
    even_gone: usize,
    /// The key is in a thread's list of keys to serve.
    is_marked: bool,
}

impl Default for Blocking {
    fn default() -> Self {
        Self {
            waits: AtomicUsize::new(0),
            filter: [const { AtomicU32::new(0) }; FILTER_LEN],
            waiters: Mutex::default(),
        }
    }
}

/// A client that begins to wait: the parts of it that a [`Waiter`] keeps.
#[derive(Debug)]
pub struct NewWaiter<'a> {
    /// The client.
    pub client: &'a Arc<ClientInfo>,
    /// The user as which the client is logged in.
    pub user: &'a Arc<User>,
    /// The command of the blocked client.
    pub row: &'static Row,
    /// See [`Waiter::database`].
    pub database: u32,
    /// See [`Waiter::protocol`].
    pub protocol: Protocol,
    /// See [`Waiter::no_touch`].
    pub no_touch: bool,
    /// See [`Waiter::deadline_ms`].
    pub deadline_ms: Option<u64>,
}

impl Blocking {
    /// Enters a client that begins to wait. The shards of all its keys are locked.
    pub fn enter(&self, arrival: NewWaiter<'_>, block: Block<'_>) -> Arc<Waiter> {
        let database = arrival.database;
        let waited = |wait: Wait<'_>| WaitedKey {
            key: DatabaseKey { database, name: wait.key.name.into() },
            hash: wait.key.hash,
            kind: wait.kind,
            even_gone: wait.even_gone,
            request: wait.request,
        };
        let keys: Vec<WaitedKey> = block.waits.into_iter().map(waited).collect();
        let bytes = size_of::<Waiter>() + keys.iter().map(WaitedKey::bytes).sum::<usize>();
        let mut waiters = self.waiters.lock();
        waiters.last_ticket += 1;
        let waiter = Arc::new(Waiter {
            ticket: waiters.last_ticket,
            client: Arc::clone(arrival.client),
            row: arrival.row,
            database,
            protocol: arrival.protocol,
            user: Arc::clone(arrival.user),
            no_touch: arrival.no_touch,
            deadline_ms: arrival.deadline_ms,
            on_timeout: block.on_timeout,
            look_ms: AtomicU64::new(u64::MAX),
            keys,
            bytes,
            is_done: Mutex::new(false),
        });
        waiter.client.status.blocked.store(true, Ordering::Relaxed);
        waiters.clients.insert(waiter.client.id, Arc::clone(&waiter));
        for (index, waited) in waiter.keys.iter().enumerate() {
            let queue = waiters.queues.entry(waited.key.clone()).or_default();
            // A key that is named twice is waited for once, with its first request.
            if let std::collections::btree_map::Entry::Vacant(vacant) = queue.waiters.entry(waiter.ticket) {
                vacant.insert((Arc::clone(&waiter), index));
                queue.even_gone += usize::from(waited.even_gone);
                self.waits.fetch_add(1, Ordering::Relaxed);
                self.cell(waited.hash).fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(waiters);
        waiter
    }

    fn strike_out(&self, waiter: &Waiter) {
        let mut waiters = self.waiters.lock();
        waiters.clients.remove(&waiter.client.id);
        for waited in &waiter.keys {
            let Some(queue) = waiters.queues.get_mut(&waited.key) else { continue };
            if queue.waiters.remove(&waiter.ticket).is_none() {
                continue;
            }
            queue.even_gone -= usize::from(waited.even_gone);
            if queue.waiters.is_empty() {
                waiters.queues.remove(&waited.key);
            }
            self.waits.fetch_sub(1, Ordering::Relaxed);
            self.cell(waited.hash).fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn cell(&self, hash: Hash) -> &AtomicU32 {
        &self.filter[hash.0 as usize % FILTER_LEN]
    }

    /// Returns whether no client waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waits.load(Ordering::Relaxed) == 0
    }

    /// Marks a key that has changed. If a client waits for it and it is in no thread's list yet, the caller has to serve it
    /// after its command. The lock of the key's shard is held.
    #[inline]
    pub fn mark(&self, database: u32, key: Key<'_>) -> Option<DatabaseKey> {
        if self.is_empty() || self.cell(key.hash).load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.mark_waited(database, key.name)
    }

    #[cold]
    fn mark_waited(&self, database: u32, name: &[u8]) -> Option<DatabaseKey> {
        let key = DatabaseKey { database, name: name.into() };
        let mut waiters = self.waiters.lock();
        let queue = waiters.queues.get_mut(&key)?;
        (!std::mem::replace(&mut queue.is_marked, true)).then_some(key)
    }

    /// Marks every key of a database that a client waits for, as [`Blocking::mark`] does, in the order of their names. All
    /// shards are locked.
    pub fn mark_all(&self, database: u32) -> Vec<DatabaseKey> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut waiters = self.waiters.lock();
        let of_database = waiters.queues.iter_mut().filter(|(key, queue)| key.database == database && !queue.is_marked);
        let marked = of_database.map(|(key, queue)| {
            queue.is_marked = true;
            key.clone()
        });
        let mut marked: Vec<DatabaseKey> = marked.collect();
        drop(waiters);
        marked.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        marked
    }

    /// Removes the mark from a key that is about to be served: later changes mark it again.
    pub fn unmark(&self, key: &DatabaseKey) {
        if let Some(queue) = self.waiters.lock().queues.get_mut(key) {
            queue.is_marked = false;
        }
    }

    /// Returns the next waiter after `ticket` that can use the present value of the key, with the index of the key among the
    /// waiter's keys.
    pub fn next(&self, key: &DatabaseKey, ticket: u64, kind: Option<Kind>) -> Option<(Arc<Waiter>, usize)> {
        let waiters = self.waiters.lock();
        let queue = waiters.queues.get(key)?;
        if kind.is_none() && queue.even_gone == 0 {
            return None;
        }
        let mut later = queue.waiters.range((Bound::Excluded(ticket), Bound::Unbounded)).map(|(_, entry)| entry);
        later.find(|(waiter, index)| waiter.wants(*index, kind)).cloned()
    }

    /// Returns whether any client waits for a key.
    pub fn is_awaited(&self, key: &DatabaseKey) -> bool {
        self.waiters.lock().queues.contains_key(key)
    }

    /// Returns the waiter of the client with this id, if it waits.
    pub fn of_client(&self, id: u64) -> Option<Arc<Waiter>> {
        self.waiters.lock().clients.get(&id).cloned()
    }

    /// Returns all waiters.
    pub fn all(&self) -> Vec<Arc<Waiter>> {
        self.waiters.lock().clients.values().cloned().collect()
    }

    /// Returns the number of waiters, of awaited keys, and of keys with a waiter that is also served when they are removed.
    pub fn counts(&self) -> WaitCounts {
        let waiters = self.waiters.lock();
        let even_gone = waiters.queues.values().filter(|queue| queue.even_gone != 0).count();
        let timed = waiters.clients.values().filter(|waiter| waiter.deadline_ms.is_some()).count();
        WaitCounts { clients: waiters.clients.len(), timed, keys: waiters.queues.len(), keys_even_gone: even_gone }
    }
}

/// The numbers of blocked clients and keys in INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitCounts {
    /// The number of waiters.
    pub clients: usize,
    /// The number of waiters with a timeout.
    pub timed: usize,
    /// The number of awaited keys.
    pub keys: usize,
    /// The number of keys with a waiter that is also served when they are removed.
    pub keys_even_gone: usize,
}
