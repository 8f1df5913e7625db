//! Blocked clients: the keys that each waits for, and in which order they are served.
//!
//! A blocking command that finds nothing leaves a [`Waiter`] here: under each of its keys with a *narrowed request*, which
//! is the command for that key alone (`BLPOP a b 0` waits on `b` with `BLPOP b 0`). Whoever changes a key marks it; when
//! the command that did so is over, `serve_blocked` runs the narrowed requests of those who wait, in the order in which they
//! came. A waiter leaves by exactly one door (served, timed out, unblocked by another client, gone): each goes through
//! [`Waiter::claim`] first.
//!
//! Waiters enter under the locks of all their keys' shards, and a change is made and marked under the lock of its key's
//! shard, so no change is missed. A write while nobody waits pays one relaxed load, and a write to another key than those
//! that are waited for nearly always one more. This room runs nothing and knows no command. Any thread may call it.
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

/// What a command asks for that found nothing and waits.
#[derive(Debug)]
pub struct Block<'a> {
    /// When it stops waiting, wall clock milliseconds; never if there is none.
    pub deadline_ms: Option<i64>,
    /// The keys of the selected database that it waits for; none where it waits for other servers. Their shards are locked.
    pub waits: Vec<Wait<'a>>,
    /// What it answers when the time is over.
    pub on_timeout: OnTimeout,
}

/// One key that is waited for.
#[derive(Debug)]
pub struct Wait<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The type that it must have to be of use; with another one under the key the waiting goes on.
    pub kind: Kind,
    /// Whether the request is also to be run when the key has gone or has another type (XREADGROUP, which then fails).
    pub even_gone: bool,
    /// What is run when the key has changed: the same command, narrowed to this key. Its row names all keys that it uses.
    pub request: OwnedArgs,
}

/// The answer when the time of waiting is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// The null that is no value.
    Null,
    /// The null that is no array.
    NullArray,
    /// How many replicas have applied what the client has done: the journal up to this offset.
    Replicas(u64),
    /// How many disks have it, here and elsewhere.
    Disks(u64),
}

/// Who has the journal up to an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// So many replicas have applied it.
    pub applied: usize,
    /// So many replicas have it on their disks.
    pub synced: usize,
    /// This server has it on its own disk.
    pub own_disk: bool,
}

impl OnTimeout {
    /// Appends the answer, where `reached` says who has the journal up to an offset.
    pub fn write(self, out: &mut Vec<u8>, protocol: Protocol, reached: impl FnOnce(u64) -> Reached) {
        self.put(&mut Writer::new(out, protocol), reached);
    }

    /// As [`OnTimeout::write`], into a reply that is being written.
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

/// A client that waits, with all that its requests will see of it.
#[derive(Debug)]
pub struct Waiter {
    /// Unique and ascending: the order of arrival.
    pub ticket: u64,
    /// The client.
    pub client: Arc<ClientInfo>,
    /// The user that it is in.
    pub user: Arc<User>,
    /// Its command.
    pub row: &'static Row,
    /// Its selected database.
    pub database: u32,
    /// The protocol of its replies.
    pub protocol: Protocol,
    /// Whether its reading renews no access clock.
    pub no_touch: bool,
    /// When it stops waiting, monotonic milliseconds.
    pub deadline_ms: Option<u64>,
    /// What it is answered then.
    pub on_timeout: OnTimeout,
    /// When its requests are to be run although no key has changed, because time alone may have made something of use;
    /// monotonic milliseconds, or this number's end where time makes nothing.
    look_ms: AtomicU64,
    /// Where it waits, and for what.
    keys: Vec<WaitedKey>,
    bytes: usize,
    is_done: Mutex<bool>,
}

/// One of a waiter's keys.
#[derive(Debug)]
struct WaitedKey {
    key: DatabaseKey,
    hash: Hash,
    kind: Kind,
    even_gone: bool,
    request: OwnedArgs,
}

/// What a key that is waited for costs here beside its name: an entry of a table that is not full, and a queue.
const WAITED_KEY_BYTES: usize = 400;

/// The right to end one waiter's waiting, alone. Dropped without [`Claim::finish`], the waiting goes on.
#[derive(Debug)]
pub struct Claim<'a> {
    waiter: &'a Arc<Waiter>,
    is_done: MutexGuard<'a, bool>,
}

impl Waiter {
    /// Takes the right to end the waiting; none if it has ended already. Whoever tries meanwhile waits, so the holder
    /// asks for no further lock of a shard.
    pub fn claim(self: &Arc<Self>) -> Option<Claim<'_>> {
        let is_done = self.is_done.lock();
        (!*is_done).then_some(Claim { waiter: self, is_done })
    }

    /// Has its requests run at this time, monotonic milliseconds, unless they are to be run before that.
    pub fn look_at(&self, at_ms: u64) {
        self.look_ms.fetch_min(at_ms, Ordering::Relaxed);
    }

    /// Whether its requests are to be run now, which is then done with.
    pub fn takes_look(&self, now_ms: u64) -> bool {
        let is_due = self.look_ms.load(Ordering::Relaxed) <= now_ms;
        if is_due {
            self.look_ms.store(u64::MAX, Ordering::Relaxed);
        }
        is_due
    }

    /// When its owner has to do something about it next, monotonic milliseconds.
    pub fn due_ms(&self) -> Option<u64> {
        let look_ms = self.look_ms.load(Ordering::Relaxed);
        let next_ms = self.deadline_ms.unwrap_or(u64::MAX).min(look_ms);
        (next_ms != u64::MAX).then_some(next_ms)
    }

    /// The keys that it waits for.
    pub fn keys(&self) -> VecDeque<DatabaseKey> {
        self.keys.iter().map(|waited| waited.key.clone()).collect()
    }

    /// The request to be run for one of its keys.
    pub fn request(&self, index: usize) -> &OwnedArgs {
        &self.keys[index].request
    }

    /// What it takes, in bytes; its keys stand here once more.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether what is under one of its keys now is worth running the request for.
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
        self.waiter.client.blocked.store(false, Ordering::Relaxed);
        blocking.strike_out(self.waiter);
    }
}

/// Cells of the filter that tells a write whether anybody may wait for its key.
const FILTER_LEN: usize = 256;

/// All waiters of one engine.
#[derive(Debug)]
pub struct Blocking {
    /// Waiters, each counted once for each of its keys.
    waits: AtomicUsize,
    /// The same by the lowest bits of the key's hash.
    filter: [AtomicU32; FILTER_LEN],
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    last_ticket: u64,
    queues: HashMap<DatabaseKey, Queue>,
    /// By client id.
    clients: HashMap<u64, Arc<Waiter>>,
}

/// Who waits for one key, by ticket, each with the number of the key among the waiter's own.
#[derive(Debug, Default)]
struct Queue {
    waiters: BTreeMap<u64, (Arc<Waiter>, usize)>,
    /// How many of them want to be run when the key has gone.
    even_gone: usize,
    /// The key stands in somebody's list of what is to be served.
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

/// Who begins to wait: what a [`Waiter`] keeps of it.
#[derive(Debug)]
pub struct NewWaiter<'a> {
    /// The client.
    pub client: &'a Arc<ClientInfo>,
    /// The user that it is in.
    pub user: &'a Arc<User>,
    /// Its command.
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
    /// Enters a client that waits. The shards of all its keys are locked.
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
        waiter.client.blocked.store(true, Ordering::Relaxed);
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

    /// Whether nobody waits for anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waits.load(Ordering::Relaxed) == 0
    }

    /// Marks a key that has changed. If somebody waits for it and it is in nobody's list yet, the caller is to serve it
    /// when its command is over. The lock of the key's shard is held.
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

    /// Marks every key of a database that somebody waits for, as [`Blocking::mark`] does, in the order of their names. All
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

    /// Takes the mark from a key that is going to be served: what changes from now on is marked anew.
    pub fn unmark(&self, key: &DatabaseKey) {
        if let Some(queue) = self.waiters.lock().queues.get_mut(key) {
            queue.is_marked = false;
        }
    }

    /// The first who waits for a key, of those that came after `ticket`, and that what is there now is of use to; with
    /// the number of the key among the waiter's own.
    pub fn next(&self, key: &DatabaseKey, ticket: u64, kind: Option<Kind>) -> Option<(Arc<Waiter>, usize)> {
        let waiters = self.waiters.lock();
        let queue = waiters.queues.get(key)?;
        if kind.is_none() && queue.even_gone == 0 {
            return None;
        }
        let mut later = queue.waiters.range((Bound::Excluded(ticket), Bound::Unbounded)).map(|(_, entry)| entry);
        later.find(|(waiter, index)| waiter.wants(*index, kind)).cloned()
    }

    /// Whether any client waits for a key.
    pub fn is_awaited(&self, key: &DatabaseKey) -> bool {
        self.waiters.lock().queues.contains_key(key)
    }

    /// What the client with this id waits with, if it does.
    pub fn of_client(&self, id: u64) -> Option<Arc<Waiter>> {
        self.waiters.lock().clients.get(&id).cloned()
    }

    /// What all clients wait with.
    pub fn all(&self) -> Vec<Arc<Waiter>> {
        self.waiters.lock().clients.values().cloned().collect()
    }

    /// How many clients wait, for how many keys, and how many of the keys are wanted even when they have gone.
    pub fn counts(&self) -> WaitCounts {
        let waiters = self.waiters.lock();
        let even_gone = waiters.queues.values().filter(|queue| queue.even_gone != 0).count();
        let timed = waiters.clients.values().filter(|waiter| waiter.deadline_ms.is_some()).count();
        WaitCounts { clients: waiters.clients.len(), timed, keys: waiters.queues.len(), keys_even_gone: even_gone }
    }
}

/// What INFO says of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitCounts {
    /// Clients that wait.
    pub clients: usize,
    /// Those of them that do not wait for ever.
    pub timed: usize,
    /// Keys that are waited for.
    pub keys: usize,
    /// Keys that somebody wants to hear of even when they have gone.
    pub keys_even_gone: usize,
}
