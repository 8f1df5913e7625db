//! A cluster: servers that share the keys by slots, as one transport of requests.
//!
//! A request goes straight from its caller to the connection of the node that owns its slot (`slots`, `map`), or of a replica
//! if reads may go there (`replica_reads`). A request for several nodes is split, and their answers are combined (`split`,
//! `combine`). A request keeps its bytes until it is answered. If a node refuses it, or is lost before the request has left,
//! it comes back and is sent again (`redirect`) by the cluster's own task (`task`), which also learns the owners of slots.
//! Requests without a destination wait for that task, too.
//!
//! One rule keeps each caller's requests for one slot in order. A sender looks the destination up in the map and pushes, or
//! leaves the request to the task, under one read lock; and the task sends all waiting requests before any sender sees a slot
//! open again. A request that a node wants to be sent again later is the exception: others may overtake it.
//!
//! Any thread; nothing waits here except for room, or where a function says so.

pub(crate) mod batches;
pub(crate) mod blocking;
pub(crate) mod cached;
mod combine;
pub(crate) mod dedicated;
mod map;
mod parked;
mod pending;
mod redirect;
mod refresh;
mod registry;
mod replica_reads;
mod rounds;
pub(crate) mod slots;
mod split;
pub(crate) mod task;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sleeve_wire::commands::RequestPolicy;

use crate::config::{Config, Endpoint, ErrorHook};
use crate::connection::Link;
use crate::connection::metrics::Metrics;
use crate::connection::probe::ServerHealth;
use crate::connection::send::Unsent;
use crate::connection::send::due_ms;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::asker::limit_ms;
use crate::pipe::queued::Sent;
use crate::pipe::routed::{Destination, Redirector, Routed};
use crate::pipe::slot::{Completions, Driver, Flush, Handle, Source, Waiter};
use crate::pipe::timeout::{Phase, Situation};
use crate::reactor::TaskWaker;
use crate::reactor::lifetime::{Lifetime, Progress};
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;
use crate::sys::callback;
use crate::sys::lock::{Condvar, Mutex, RwLock};
use crate::sys::{Process, inherited};
use crate::sys::{clock_ms, now};
use crate::transport::node::{Fitness, Node};
use crate::transport::replicas::destination;
use crate::transport::slot_cache::AttachedCache;
use crate::transport::time_left;
use dedicated::DedicatedConnections;
use map::Map;
use pending::PendingRequests;
use slots::{Named, named};

/// A cluster, or the attempt to learn its map.
pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) process: Process,
    me: Weak<Cluster>,
    /// The waker of the cluster's task.
    task_waker: TaskWaker,
    map: RwLock<Map>,
    /// The source of slots for calls that wait for the task, or are answered by several nodes.
    source: Mutex<Source>,
    /// The requests that callers and connections have left to the cluster's task since its last turn.
    pending: Mutex<PendingRequests>,
    beginning: Mutex<Beginning>,
    /// The connections of commands that wait on the server, one for each.
    dedicated: Arc<Mutex<DedicatedConnections>>,
    /// The near cache of its client, once there is one.
    cache: AttachedCache,
    /// The condition variable that is notified when the first attempt has ended, when a request that waited for the task was
    /// sent, and when the task has ended.
    changed: Condvar,
    /// True if the cluster takes no more calls.
    is_closed: AtomicBool,
}

/// The result of the first attempt to learn the map, and the waiters for that result or for the end.
#[derive(Default)]
pub(crate) struct Beginning {
    first: Option<Result<(), Error>>,
    has_ended: bool,
    watchers: Vec<TaskWaker>,
}

impl Cluster {
    /// Creates a cluster of which nothing is known; `task_waker` is the waker of its task.
    fn new(config: Config, task_waker: TaskWaker) -> Arc<Self> {
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            config,
            process: Process::this(),
            me: me.clone(),
            task_waker,
            map: RwLock::default(),
            source: Mutex::new(Source::new(me.clone())),
            pending: Mutex::default(),
            beginning: Mutex::default(),
            dedicated: Arc::default(),
            cache: AttachedCache::default(),
            changed: Condvar::new(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Fails if the cluster belongs to another process, or takes no more calls.
    fn check_open(&self) -> Result<(), Error> {
        match () {
            () if !self.process.is_this() => Err(inherited()),
            () if self.is_closed.load(Ordering::Acquire) => Err(Error::closed("the client was closed")),
            () => Ok(()),
        }
    }

    /// Returns the metrics of each node since its first connection.
    pub(crate) fn metrics(&self) -> Vec<Metrics> {
        self.links().iter().map(|link| Metrics::of(link)).collect()
    }

    /// Checks as `check_open` does, and fails if the nodes do not have this database, as far as one has told.
    pub(crate) fn check(&self, database: u32) -> Result<(), Error> {
        self.check_open()?;
        match self.map.read().shards.iter().find_map(|shard| shard.primary.link()) {
            Some(link) => link.check(database),
            None => Ok(()),
        }
    }

    /// Sends one request to its destination. It may have a deadline of its own.
    #[inline]
    pub(crate) fn send(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Option<Instant>,
    ) -> Result<Sent, Error> {
        match named(request) {
            Named::One(slot) => {
                self.send_to(destination(&self.config.read_from, slot, request.name), database, request, deadline)
            }
            Named::None => match request.name.row().and_then(|row| row.tips.request_policy()) {
                None | Some(RequestPolicy::MultiShard) => {
                    self.send_to(Destination::Anybody, database, request, deadline)
                }
                Some(policy) => self.send_to_all(policy, database, request, deadline),
            },
            Named::Several(one, other) => self.send_split((one, other), database, request, deadline),
        }
    }

    /// Returns the numbers of the nodes that own slots.
    pub(crate) fn owners(&self) -> Result<Vec<u32>, Error> {
        self.check_open()?;
        let owners: Vec<u32> = self.map.read().shards.iter().map(|shard| shard.primary.number).collect();
        if owners.is_empty() { Err(self.unknown_nodes()) } else { Ok(owners) }
    }

    fn unknown_nodes(&self) -> Error {
        let message =
            format!("{} has not said yet which nodes it has: wait until the client is connected", self.config.endpoint);
        Error::unsent(ErrorKind::Connect, message)
    }

    /// Sends one request to this destination.
    pub(crate) fn send_to(
        &self,
        destination: Destination,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Option<Instant>,
    ) -> Result<Sent, Error> {
        self.check_open()?;
        let time = self.time(request.name, deadline)?;
        let routed = Routed::new(self.me.clone(), (request.bytes.into(), request.name), database, time, destination);
        let sent = match self.send_now(routed)? {
            Outcome::Sent(sent) => self.hold_up(sent),
            Outcome::Full(link, routed) => match link.send_routed_when_there_is_room(routed, deadline) {
                Ok(sent) => sent,
                Err(Unsent::Refused(error)) => return Err(error),
                // The connection was lost while the caller waited for room.
                Err(Unsent::Full(routed) | Unsent::Ended(routed)) => {
                    let _map = self.map.read();
                    self.wait_for_task(routed)?
                }
            },
        };
        self.cache.wrote(request);
        Ok(sent)
    }

    /// Sends a request without a wait, or leaves it to the task.
    #[inline]
    fn send_now(&self, mut routed: Routed) -> Result<Outcome, Error> {
        let map = self.map.read();
        if let Some(node) = self.node_for(&map, routed.destination) {
            if let Some(link) = node.link() {
                routed.node = node.number;
                routed = match link.send_routed(routed) {
                    Ok(handle) => return Ok(Outcome::Sent(Sent::Slot(handle))),
                    Err(Unsent::Refused(error)) => return Err(error),
                    Err(Unsent::Full(routed)) => return Ok(Outcome::Full(link, routed)),
                    Err(Unsent::Ended(routed)) => routed,
                };
            }
            // The next caller that reads skips this node.
            node.set_fitness(Fitness::Unfit);
        }
        self.wait_for_task(routed).map(Outcome::Sent)
    }

    /// Returns the node for this destination; none if it is not known.
    #[inline]
    fn node_for<'a>(&self, map: &'a Map, destination: Destination) -> Option<&'a Arc<Node>> {
        let shard = match destination {
            Destination::Slot(slot) => map.route(slot),
            Destination::Copies(slot) => {
                let shard = map.route(slot)?;
                return shard.replicas.choose(&self.config.read_from, &shard.primary).or(Some(&shard.primary));
            }
            // The same node is chosen as long as it is connected, so that one caller's requests without a key stay in order.
            Destination::Anybody => map.shards.iter().find(|shard| shard.primary.is_connected()).or(map.shards.first()),
            Destination::Node(number) => map.shards.iter().find(|shard| shard.primary.number == number),
        };
        shard.map(|shard| &shard.primary)
    }

    /// Returns the time of a request that is sent now, and whether that is a deadline; otherwise it is the time of its issue.
    fn time(&self, name: Name, deadline: Option<Instant>) -> Result<(u32, bool), Error> {
        match deadline {
            None => Ok((clock_ms(), false)),
            Some(deadline) if deadline <= now() => {
                Err(self.situation(None, None).timed_out(name, Phase::Sending, Effect::None))
            }
            Some(deadline) => Ok((due_ms(deadline, self.limit_ms()), true)),
        }
    }

    /// Returns the command timeout in milliseconds, if there is one.
    fn limit_ms(&self) -> Option<u32> {
        Some(limit_ms(self.config.command_timeout)).filter(|&limit_ms| limit_ms > 0)
    }

    /// Returns the milliseconds that are left for a request; none if there is no timeout.
    fn left_ms(&self, routed: &Routed) -> Option<u32> {
        time_left::left_ms(routed, self.limit_ms())
    }

    /// Returns the known state, for the text of timeout errors.
    fn situation<'a>(&'a self, trouble: Option<&'a str>, limit: Option<Duration>) -> Situation<'a> {
        Situation { endpoint: &self.config.endpoint, limit, trouble, ledger: None }
    }

    /// Returns the connections to the known nodes; none in a forked child, in which the map may be locked for ever.
    fn links(&self) -> Vec<Arc<Link>> {
        if !self.process.is_this() {
            return Vec::new();
        }
        self.map.read().nodes().filter_map(|node| node.link()).collect()
    }

    /// Marks the map as doubtful, so that the task refreshes it.
    pub(crate) fn doubt(&self) {
        self.pending.lock().is_doubted = true;
        self.task_waker.wake();
    }

    /// Returns the configuration for a connection to the node for this slot, or to any node, with the health that all
    /// connections to it share.
    pub(crate) fn place(&self, slot: Option<u16>) -> Result<(Config, Arc<ServerHealth>), Error> {
        self.check_open()?;
        let place = self
            .node_for(&self.map.read(), slot.map_or(Destination::Anybody, Destination::Slot))
            .map(|node| node.place());
        place.ok_or_else(|| {
            self.doubt();
            let message =
                format!("{} has nobody at the moment who owns the slot, so nothing was sent", self.config.endpoint);
            Error::unsent(ErrorKind::Connect, message)
        })
    }

    /// Wakes the callers of completed calls, and reports the errors of forgotten calls. No lock may be held.
    pub(crate) fn finish(&self, done: &mut Completions) {
        callback::report(done.finish(), self.config.hooks.error.as_ref());
    }
}

/// The outcome of sending a request without waiting.
enum Outcome {
    Sent(Sent),
    /// The queue of this connection has no room.
    Full(Arc<Link>, Routed),
}

impl Progress for Beginning {
    fn first(&self) -> Option<Result<(), Error>> {
        self.first.clone()
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn watchers(&mut self) -> &mut Vec<TaskWaker> {
        &mut self.watchers
    }
}

impl Lifetime for Cluster {
    type Progress = Beginning;

    fn progress(&self) -> (&Mutex<Beginning>, &Condvar) {
        (&self.beginning, &self.changed)
    }

    fn endpoint(&self) -> &Endpoint {
        &self.config.endpoint
    }
}

/// The beginning and the end of a cluster.
impl Cluster {
    /// Notes the result of the first attempt, unless it is known already.
    fn begun(&self, result: impl FnOnce() -> Result<(), Error>) {
        let mut beginning = self.beginning.lock();
        if beginning.first.is_none() {
            beginning.first = Some(result());
            self.announce(&mut beginning);
        }
    }

    fn announce(&self, beginning: &mut Beginning) {
        self.changed.notify_all();
        beginning.watchers.drain(..).for_each(TaskWaker::wake);
    }

    /// Notes that the task has ended, and fails the requests that wait for it.
    fn end(&self, why: &str) {
        self.is_closed.store(true, Ordering::Release);
        let mut done = Completions::default();
        self.pending.lock().close(why, &mut done);
        let mut beginning = self.beginning.lock();
        beginning.has_ended = true;
        beginning.first.get_or_insert_with(|| Err(Error::unsent(ErrorKind::Closed, why)));
        self.announce(&mut beginning);
        drop(beginning);
        self.finish(&mut done);
    }

    /// Takes no more calls, and waits until those that were sent are answered, for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        if !self.process.is_this() {
            return wait.map_or(Ok(()), |_| Err(inherited()));
        }
        self.is_closed.store(true, Ordering::Release);
        self.task_waker.wake();
        // A deadline beyond the range of the clock never passes.
        wait.map_or(Ok(()), |wait| self.wait_end(now().checked_add(wait)))
    }

    /// Closes as `close` does, in async code, and waits until the deadline, if there is one.
    pub(crate) async fn close_async(self: Arc<Self>, deadline: Option<Instant>) -> Result<(), Error> {
        if !self.process.is_this() {
            return Err(inherited());
        }
        self.close(None)?;
        self.await_end(deadline).await
    }

    /// Returns whether further requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.check_open().is_ok()
    }

    /// Returns whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.process.is_this() && self.pending.lock().is_empty() && self.links().iter().all(|link| link.is_idle())
    }

    /// Returns the driver, which a waiting caller may ask to write.
    pub(crate) fn driver(&self) -> Weak<dyn Driver> {
        self.me.clone()
    }
}

impl Redirector for Cluster {
    fn came_back(&self, request: Routed, why: Error, done: &mut Completions) {
        if let Some((request, why)) = self.pending.lock().put_back(request, why) {
            return request.give_up(why, done);
        }
        self.task_waker.wake();
    }
}

/// Returns the servers that the configuration of a cluster names.
fn seeds(config: &Config) -> &[(String, u16)] {
    match &config.endpoint {
        Endpoint::Cluster(seeds) => seeds,
        _ => &[],
    }
}

/// The driver for an answer that belongs to no single connection: it writes and reads all of them.
impl Driver for Cluster {
    fn flush(&self, waiter: Waiter) -> Flush {
        if !self.process.is_this() {
            return Flush::Lost;
        }
        let flushed: Vec<Flush> = self.links().iter().map(|link| link.flush(waiter)).collect();
        if flushed.contains(&Flush::Yield) { Flush::Yield } else { Flush::Done }
    }

    fn read(&self) {
        self.links().iter().for_each(|link| link.read());
    }

    fn attend(&self, _: &Handle, _: Option<Instant>) {
        self.read();
        _ = self.flush(Waiter::Other);
    }

    fn wait_for_room(&self, deadline: Option<Instant>, is_task: bool) {
        if self.process.is_this() {
            self.await_room(deadline, is_task);
        }
    }

    fn lost(&self) -> Option<Error> {
        (!self.process.is_this()).then(inherited)
    }

    fn given_up(&self, name: Name) -> Error {
        let message = format!("{name} was not answered by {} in time; its effect is unknown", self.config.endpoint);
        Error::new(ErrorKind::Timeout, Effect::Unknown, message)
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        self.config.hooks.error.clone()
    }
}
