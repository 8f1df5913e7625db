//! The cluster's own task: it learns the owners of slots, and sends requests that nodes have returned or that had no
//! destination before.
//!
//! One turn does all the work there is, with the map's write lock held and without waiting. The map is refreshed (`refresh`)
//! at the beginning, when a redirect, a lost node or a silent one shows that it may have changed, and at intervals. If a slot
//! gets a new owner while requests for it may be in flight to the old one, a PING is sent behind those: until it is answered,
//! no request is sent for the slot.
//!
//! The task runs on the reactor's thread alone, and runs no foreign code but wakers, without a lock.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Cluster;
use super::map::Map;
use super::redirect::Redirect;
use super::registry::Registry;
use super::rounds::Rounds;
use crate::config::Config;
use crate::connection::Link;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::routed::{Destination, Routed};
use crate::pipe::slot::{Completions, Driver, Handle, Waiter};
use crate::pipe::timeout::Phase;
use crate::reactor;
use crate::reactor::TaskWaker;
use crate::reactor::task_context::TaskContext;
use crate::resp::request::blocking_commands;
use crate::sys::{chance, clock_ms, now};
use crate::transport::health_checks::HealthChecks;
use crate::transport::internal_requests::InternalRequests;
use crate::transport::node::{Address, Node};
use crate::transport::slot_cache::CacheLinks;
use crate::transport::time_left;

/// The pause before a request is sent again that a node wants to be sent later: the first pause, and below it the longest.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(10);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(200);

/// The number of redirects in a row that a request follows at once. If they lead round in a circle, it then follows them with
/// a pause.
const REDIRECTIONS_MAX: u16 = 8;

/// The time for which the task goes on after the client is gone and has left requests to be sent.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The interval of the checks whether all calls of a closed client are answered.
const CLOSING_LOOK: Duration = Duration::from_millis(5);

/// Starts the task of a cluster, which begins to learn its map.
pub(crate) fn open(config: Config) -> Result<Arc<Cluster>, Error> {
    let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot start with the cluster: {error}"));
    let task_waker = TaskWaker::new().map_err(failed)?;
    let cluster = Cluster::new(config, task_waker);
    let (task, panicked) = (Arc::clone(&cluster), Arc::clone(&cluster));
    let live = async move |context| ClusterTask::new(&task).live(&context).await;
    reactor::start(task_waker, live, move |why| panicked.end(&format!("the cluster's task panicked ({why})")))
        .map_err(failed)?;
    Ok(cluster)
}

/// A request that its node has returned, and that is to be sent again.
struct Retry {
    routed: Routed,
    /// The time at which it may be sent again.
    at: Instant,
    /// The reason why its node has returned it.
    why: Error,
}

/// Slots that are held until the PING behind their earlier requests is answered.
pub(super) struct Fence {
    pub(super) handle: Handle,
    pub(super) slots: Vec<u16>,
    /// True if the answer arrived before the returned requests were taken: then all requests ahead of the PING are among
    /// these.
    pub(super) is_over: bool,
}

/// The task's own state.
pub(super) struct ClusterTask<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) registry: Registry,
    pub(super) requests: InternalRequests,
    pub(super) checks: HealthChecks,
    pub(super) cache_links: CacheLinks,
    /// Requests that their nodes have returned, oldest first.
    retries: Vec<Retry>,
    /// Requests that could not be sent, oldest first.
    waiting: VecDeque<Routed>,
    pub(super) fences: Vec<Fence>,
    pub(super) rounds: Rounds,
    /// The reason why the last node has not answered.
    pub(super) trouble: Option<Error>,
    /// True if requests may be sent now that could not be sent before.
    pub(super) is_changed: bool,
    /// The earliest deadline of the waiting requests, or a time before it.
    due_at: Option<Instant>,
    closing_since: Option<Instant>,
    /// A random number, by which clients of the same program begin with different nodes.
    pub(super) rotation: u64,
}

impl<'a> ClusterTask<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            registry: Registry::new(cluster.task_waker),
            requests: InternalRequests::new(cluster.driver(), cluster.task_waker, cluster.config.database),
            checks: HealthChecks::new(&cluster.config.read_from, true),
            cache_links: CacheLinks::default(),
            retries: Vec::new(),
            waiting: VecDeque::new(),
            fences: Vec::new(),
            rounds: Rounds::from(now()),
            trouble: None,
            is_changed: false,
            due_at: None,
            closing_since: None,
            rotation: chance(),
        }
    }

    /// Runs turns, until the client is gone and all requests that it has sent are answered.
    pub(super) async fn live(mut self, context: &TaskContext) {
        loop {
            let mut done = Completions::default();
            let began = now();
            self.turn(began, &mut done);
            self.cluster.finish(&mut done);
            if self.is_over(began) {
                break;
            }
            let next = self.next_look(began);
            context.wait(next).await;
            // A timer changes the state without an event.
            self.is_changed |= next.is_some_and(|next| next <= now());
        }
        self.registry.retain(|_| false);
        self.cluster.end("the client was closed");
    }

    fn turn(&mut self, now: Instant, done: &mut Completions) {
        let cluster = self.cluster;
        let mut map = cluster.map.write();
        self.fences.iter_mut().for_each(|fence| fence.is_over = fence.handle.is_done());
        let mut pending = cluster.pending.lock();
        let (arrived, returned) = (mem::take(&mut pending.arrived), mem::take(&mut pending.returned));
        let is_doubted = mem::take(&mut pending.is_doubted);
        drop(pending);
        // Every node is checked (the count uses all of them), because each reports a suspicion only once.
        let is_suspected = self.registry.all().filter(|node| node.health().take_suspicion()).count() > 0;
        if is_doubted || is_suspected {
            self.rounds.want(now);
        }
        let tried = self.waiting.len();
        for routed in arrived {
            self.note_due(&routed, now);
            self.waiting.push_back(routed);
        }
        for (routed, why) in returned {
            self.take_back(&mut map, routed, why, now, done);
        }
        self.lift_fences(&mut map);
        self.hear(&mut map, now);
        self.ask(&map, now);
        self.check_replicas(&map, now);
        self.expire(done);
        self.retry(&map, now, done);
        let from = if mem::take(&mut self.is_changed) { 0 } else { tried };
        self.send_waiting(&map, from, now, done);
        if let Some(cache) = cluster.cache.attached() {
            let owners: Vec<_> = map.shards.iter().map(|shard| &shard.primary).collect();
            self.cache_links.tell(cache, (&owners, map.version()), |slot| map.place(slot));
        }
    }

    /// Returns the time of the task's next turn if no event comes first.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let is_anyone_late = !self.retries.is_empty() || !self.waiting.is_empty();
        let rests = self.registry.all().filter_map(|node| node.rests(now)).min();
        let rest_over = rests.filter(|_| is_anyone_late).map(|rests| now + rests);
        let is_late = |since| now.duration_since(since) > FAREWELL_MAX;
        let closing = self.closing_since.map(|since| now + CLOSING_LOOK * if is_late(since) { 20 } else { 1 });
        let retry = self.retries.iter().map(|retry| retry.at).filter(|&at| at > now).min();
        let check = self.checks.next_look(now).filter(|_| closing.is_none());
        [self.rounds.next_look(), self.due_at, rest_over, closing, retry, check].into_iter().flatten().min()
    }

    /// Returns whether the client is gone, and no call waits any more.
    fn is_over(&mut self, now: Instant) -> bool {
        if !self.cluster.is_closed.load(Ordering::Acquire) {
            return false;
        }
        let since = *self.closing_since.get_or_insert(now);
        let is_left = |link: &Arc<Link>| !link.is_open() || link.is_idle();
        let nobody_waits = self.cluster.pending.lock().is_empty() && self.cluster.dedicated.lock().is_empty();
        let is_idle = nobody_waits && self.registry.all().filter_map(|node| node.link()).all(|link| is_left(&link));
        is_idle || (now.duration_since(since) > FAREWELL_MAX && !self.has_connected())
    }

    /// Returns whether a call in flight may still be answered.
    fn has_connected(&self) -> bool {
        !self.cluster.dedicated.lock().is_empty()
            || self.registry.all().any(|node| node.is_connected() && node.link().is_some_and(|link| !link.is_idle()))
    }
}

/// The treatment of requests that their nodes return.
impl ClusterTask<'_> {
    /// Decides the treatment of a returned request.
    fn take_back(&mut self, map: &mut Map, routed: Routed, why: Error, now: Instant, done: &mut Completions) {
        let from = self.registry.numbered(routed.node).cloned();
        if let Some(link) = from.as_ref().and_then(|node| node.link()) {
            link.release_reader();
        }
        let Some(mut routed) = self.take_from_copy(map, routed, &why, now, done) else { return };
        routed.attempts = routed.attempts.saturating_add(1);
        routed.ask(false);
        match routed.dedicated {
            Some(_) if routed.has_deadline => time_left::own(&mut routed, self.cluster.limit_ms()),
            Some(_) if why.kind() == ErrorKind::Server => self.shorten(&mut routed, now),
            Some(_) => {}
            None => time_left::own(&mut routed, self.cluster.limit_ms()),
        }
        let host = from.as_ref().map_or("", |node| node.address.host.as_str()).to_owned();
        let mut redirect = Redirect::of(&why, &host);
        let is_elsewhere = matches!(redirect, Redirect::Moved { .. } | Redirect::Ask { .. });
        if matches!(routed.destination, Destination::Node(_)) && (is_elsewhere || why.code() == Some("READONLY")) {
            return self.give_up(routed, why, done);
        }
        if let Redirect::Moved { slot, to } = &redirect {
            self.mend(map, *slot, to);
        }
        if redirect != Redirect::Later {
            self.rounds.want(now);
        }
        match &redirect {
            _ if is_elsewhere => routed.redirections += 1,
            Redirect::Lost => {}
            _ => routed.redirections = 0,
        }
        if routed.redirections > REDIRECTIONS_MAX {
            (redirect, routed.redirections) = (Redirect::Later, 0);
        }
        self.trouble = Some(why.clone());
        self.note_due(&routed, now);
        let at = match redirect {
            Redirect::Moved { to, .. } => return self.send_there(&to, routed, why, now, done),
            Redirect::Ask { to } => {
                routed.ask(true);
                return self.send_there(&to, routed, why, now, done);
            }
            // If its own connection was lost, the command waits: the node may refuse such a connection although the shared
            // one is well.
            Redirect::Lost if routed.dedicated.is_none() => now,
            Redirect::Lost | Redirect::Later | Redirect::Changing => {
                let doublings = routed.attempts.saturating_sub(1).min(10);
                now + RETRY_PAUSE_MIN.saturating_mul(1 << doublings).min(RETRY_PAUSE_MAX)
            }
        };
        self.retries.push(Retry { routed, at, why });
    }

    /// Queues a request, which is sent to the owner of its slot as soon as there is one.
    pub(super) fn put_off(&mut self, routed: Routed, now: Instant, why: Error) {
        self.retries.push(Retry { routed, at: now, why });
    }

    /// Lets a blocking command that has come back from a node wait at the next one for the rest of its time. The time that it
    /// was blocked does not count as one in which it waited for a server. If it waits without a limit, as much again is deducted
    /// from the time that it had waited for a server before.
    fn shorten(&self, routed: &mut Routed, now: Instant) {
        let dedicated = routed.dedicated.and_then(|number| self.cluster.dedicated.lock().numbered(number));
        let Some(dedicated) = dedicated else { return };
        let mut given = dedicated.stay(now);
        match blocking_commands::shortened(&routed.bytes, routed.name, given) {
            Some((bytes, rest)) => {
                self.cluster.pending.lock().resize(routed.bytes.len(), bytes.len());
                routed.bytes = bytes.into();
                dedicated.wait_for(rest);
            }
            None => given = given.saturating_mul(2),
        }
        let passed_ms = clock_ms().wrapping_sub(routed.at_ms);
        let given_ms = u32::try_from(given.as_millis()).unwrap_or(u32::MAX);
        routed.at_ms = routed.at_ms.wrapping_add(passed_ms.min(given_ms));
    }

    /// Notes a new owner of a slot: requests for it go there from now on, behind those that are in flight to the last owner.
    fn mend(&mut self, map: &mut Map, slot: u16, to: &Address) {
        let Some(owner) = self.registry.at(to, &self.cluster.config) else { return };
        if let Some(before) = map.assign(slot, &owner) {
            self.fence(map, before, vec![slot]);
        }
        self.is_changed = true;
    }

    /// Sends a request to the node that a redirect names.
    fn send_there(&mut self, to: &Address, routed: Routed, why: Error, now: Instant, done: &mut Completions) {
        match self.registry.at(to, &self.cluster.config) {
            // Requests that were returned before go first, except those with ASKING, because only the redirect knows their node.
            Some(_) if !self.retries.is_empty() && !routed.is_asking() => {
                self.retries.push(Retry { routed, at: now, why })
            }
            Some(node) => {
                node.name(now);
                if let Some(routed) = self.deliver(&node, routed, now) {
                    self.retries.push(Retry { routed, at: now, why });
                }
            }
            None => self.give_up(routed, why, done),
        }
    }

    /// Sends a request to this node, or gives it back.
    fn deliver(&self, node: &Node, mut routed: Routed, now: Instant) -> Option<Routed> {
        let link = match routed.dedicated.map(|number| self.cluster.dedicated.lock().numbered(number)) {
            None => node.connect(now),
            Some(Some(dedicated)) => dedicated.take_to(node, now),
            // The caller of the command has given it up.
            Some(None) => {
                self.cluster.left(1, routed.bytes.len());
                return None;
            }
        };
        let Some(link) = link else { return Some(routed) };
        routed.node = node.number;
        let (length, written) = (routed.bytes.len(), self.cluster.cache.written(&routed));
        match link.resend_routed(vec![routed]) {
            Ok(()) => {
                self.cluster.cache.wrote_all(written);
                // Usually the waiting caller writes its request. Here it waits on another connection, so this thread writes.
                link.flush(Waiter::Other);
                self.cluster.left(1, length);
                None
            }
            Err(mut back) => {
                let mut routed = back.pop()?;
                routed.ask(false);
                Some(routed)
            }
        }
    }

    pub(super) fn give_up(&self, routed: Routed, why: Error, done: &mut Completions) {
        self.cluster.left(1, routed.bytes.len());
        routed.give_up(why, done);
    }

    /// Sends the returned requests that have waited for their pause.
    fn retry(&mut self, map: &Map, now: Instant, done: &mut Completions) {
        for Retry { routed, at, why } in mem::take(&mut self.retries) {
            if at > now {
                self.retries.push(Retry { routed, at, why });
            } else if let Some(routed) = self.send_on(map, routed, now, done) {
                self.retries.push(Retry { routed, at, why });
            }
        }
    }

    /// Sends the requests that had no destination before, beginning at the index `from`.
    fn send_waiting(&mut self, map: &Map, from: usize, now: Instant, done: &mut Completions) {
        let untried = self.waiting.split_off(from.min(self.waiting.len()));
        for routed in untried {
            if let Some(routed) = self.send_on(map, routed, now, done) {
                self.waiting.push_back(routed);
            }
        }
    }

    /// Sends a request to its present destination: the owner of its slot, or any node that may answer it if no replica has
    /// refused it. Returns the request if that is not possible.
    pub(super) fn send_on(&self, map: &Map, routed: Routed, now: Instant, done: &mut Completions) -> Option<Routed> {
        let node = match routed.destination {
            Destination::Node(number) => self.registry.numbered(number),
            destination => self.cluster.node_for(map, destination),
        };
        match (node, routed.destination) {
            (Some(node), _) => self.deliver(node, routed, now),
            (None, Destination::Node(_)) => {
                let left = "the node that it was for has left the cluster";
                self.give_up(
                    routed,
                    Error::unsent(ErrorKind::Closed, format!("{left}, so it was not sent there")),
                    done,
                );
                None
            }
            (None, _) => Some(routed),
        }
    }

    /// Notes the deadline of this request, so that the task gets a turn then.
    pub(super) fn note_due(&mut self, routed: &Routed, now: Instant) {
        // One millisecond is added, so that the deadline has passed when the wait ends.
        let due = self.cluster.left_ms(routed).map(|left_ms| now + Duration::from_millis(u64::from(left_ms) + 1));
        self.due_at = self.due_at.into_iter().chain(due).min();
    }

    /// Fails the requests with a deadline that has passed.
    fn expire(&mut self, done: &mut Completions) {
        let cluster = self.cluster;
        let now = now();
        if self.due_at.is_none_or(|due_at| due_at > now) {
            return;
        }
        let trouble = self.what_is_wrong();
        let limit = cluster.config.command_timeout;
        let mut next_ms: Option<u32> = None;
        let (mut requests, mut bytes) = (0, 0);
        let mut keep = |routed: Routed, why: Option<&Error>| {
            let left_ms = cluster.left_ms(&routed);
            if left_ms != Some(0) {
                next_ms = next_ms.into_iter().chain(left_ms).min();
                return Some(routed);
            }
            (requests, bytes) = (requests + 1, bytes + routed.bytes.len());
            let limit = limit.filter(|_| !routed.has_deadline);
            let situation = cluster.situation(why.map(Error::message).or(trouble.as_deref()), limit);
            let error = situation.timed_out(routed.name, Phase::Connecting, Effect::None);
            routed.give_up(error, done);
            None
        };
        let retries = mem::take(&mut self.retries).into_iter();
        let kept = |Retry { routed, at, why }| Some(Retry { routed: keep(routed, Some(&why))?, at, why });
        self.retries = retries.filter_map(kept).collect();
        self.waiting = mem::take(&mut self.waiting).into_iter().filter_map(|routed| keep(routed, None)).collect();
        self.due_at = next_ms.map(|left_ms| now + Duration::from_millis(u64::from(left_ms) + 1));
        cluster.left(requests, bytes);
    }

    /// Returns the reason why requests wait, as far as it is known.
    fn what_is_wrong(&self) -> Option<String> {
        let resting = self.registry.all().find_map(|node| node.trouble());
        self.trouble.as_ref().map(|trouble| trouble.message().to_owned()).or(resting)
    }
}
