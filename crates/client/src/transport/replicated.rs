//! A server with replicas that serve reads, as Sentinels name them.
//!
//! All requests go over the connection to the primary, as without replicas, except reads that the configuration allows
//! elsewhere. One task asks the Sentinels for the replicas; another checks their fitness (`health_checks`), and sends reads
//! that a replica has refused or lost on to the primary. Callers only use the known state.
//!
//! Any thread; only closing waits here.

use std::iter;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::health_checks::HealthChecks;
use super::internal_requests::InternalRequests;
use super::node::{Address, Fitness, Node};
use super::replicas::{Replicas, may_answer};
use super::time_left;
use crate::config::Resend;
use crate::connection::Link;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::sentinel::search::find_replicas;
use crate::connection::metrics::Metrics;
use crate::connection::send::Unsent;
use crate::error::{Error, ErrorKind};
use crate::pipe::routed::{Destination, Redirector, Routed};
use crate::pipe::slot::{Completions, Driver, Handle, Waiter};
use crate::reactor::task_context::TaskContext;
use crate::reactor::{self, TaskWaker};
use crate::resp::request::EncodedRequest;
use crate::sys::inherited;
use crate::sys::lock::{Mutex, RwLock};
use crate::sys::{clock_ms, now};

/// The number of the primary; those of the replicas are greater.
const PRIMARY: u32 = 1;

/// The time after which the Sentinels are asked for the replicas again; below it the shorter time if there is a sign that
/// they have changed, or no Sentinel has answered.
const SEARCH_PERIOD: Duration = Duration::from_secs(10);
const SEARCH_PAUSE: Duration = Duration::from_millis(500);

/// The number of times that a read is sent if its connections are lost one after the other.
const ATTEMPTS_MAX: u16 = 3;

/// The interval of the checks, at the end, whether replicas have answered all reads.
const CLOSING_LOOK: Duration = Duration::from_millis(5);

/// The replicas of a server, with the connection to the server for reads that they return.
pub(crate) struct Replicated {
    me: Weak<Self>,
    /// The connection to the primary.
    link: Arc<Link>,
    primary: Arc<Node>,
    replicas: RwLock<Replicas>,
    returned: Mutex<Returned>,
    /// The Sentinels' answer, until the first task takes it over.
    found: Mutex<Option<Vec<Address>>>,
    /// True if there is a sign that the replicas have changed.
    is_doubted: AtomicBool,
    /// True once reads no longer go to replicas.
    is_closed: AtomicBool,
    /// The connections that had unanswered reads when reads ended: every closing caller waits for these.
    ending: Mutex<Vec<Arc<Link>>>,
    /// The waker of the task that checks replicas, and below it that of the task that searches for them.
    task_waker: TaskWaker,
    search_waker: TaskWaker,
}

/// The reads that replicas have returned: refused, or lost before they were sent.
#[derive(Default)]
struct Returned {
    requests: Vec<(Routed, Error)>,
    /// True once the task that sends them on has ended.
    is_over: bool,
}

impl Replicated {
    /// Begins to search for the replicas of the server at the other end of this connection.
    pub(super) fn open(link: &Arc<Link>) -> Result<Arc<Self>, Error> {
        let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot look for replicas: {error}"));
        let (task_waker, search_waker) = (TaskWaker::new().map_err(failed)?, TaskWaker::new().map_err(failed)?);
        let replicated = Arc::new_cyclic(|me: &Weak<Self>| Self {
            me: me.clone(),
            link: Arc::clone(link),
            primary: Arc::new(Node::around(PRIMARY, link)),
            replicas: RwLock::new(Replicas::new(Vec::new(), 0)),
            returned: Mutex::default(),
            found: Mutex::default(),
            is_doubted: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            ending: Mutex::default(),
            task_waker,
            search_waker,
        });
        let (caring, searching) = (Arc::clone(&replicated), Arc::clone(&replicated));
        let (ended, lost) = (Arc::clone(&replicated), Arc::clone(&replicated));
        let care = async move |context: TaskContext| caring.care(&context).await;
        reactor::start(task_waker, care, move |why| ended.end(why)).map_err(failed)?;
        let search = async move |context: TaskContext| searching.search(&context).await;
        reactor::start(search_waker, search, move |_| lost.is_closed.store(true, Ordering::Release)).map_err(failed)?;
        Ok(replicated)
    }

    /// Sends a read to a replica; returns none if it has to go to the primary.
    pub(super) fn send(&self, database: u32, request: EncodedRequest<'_>, deadline: Option<Instant>) -> Option<Handle> {
        if !may_answer(request.name) || !self.link.process.is_this() || self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        let replicas = self.replicas.read();
        let node = replicas.choose(&self.link.config.read_from, &self.primary)?;
        let time = match deadline {
            None => (clock_ms(), false),
            Some(deadline) if deadline <= now() => return None,
            Some(deadline) => (self.link.due_ms(deadline), true),
        };
        let request = (request.bytes.into(), request.name);
        let mut routed = Routed::new(self.me.clone(), request, database, time, Destination::Copies(0));
        routed.node = node.number;
        let sent = node.link().map(|link| link.send_routed(routed));
        if matches!(sent, None | Some(Err(Unsent::Ended(_)))) {
            // The next caller that reads skips this replica. A full queue, or a missing database, does not make the replica
            // unfit.
            node.set_fitness(Fitness::Unfit);
        }
        sent?.ok()
    }

    /// Fails if the client takes no more requests. The connection to the primary takes requests for longer, for reads that
    /// come back from replicas.
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::Acquire) { Err(Error::closed("the client was closed")) } else { Ok(()) }
    }

    /// Returns the present connections to replicas.
    fn links(&self) -> Vec<Arc<Link>> {
        if !self.link.process.is_this() {
            return Vec::new();
        }
        self.replicas.read().all.iter().filter_map(|node| node.link()).collect()
    }

    /// Returns the metrics of the connection to each replica.
    pub(super) fn metrics(&self) -> Vec<Metrics> {
        self.links().iter().map(|link| Metrics::of(link)).collect()
    }

    /// Returns whether no read is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.links().iter().all(|link| link.is_idle())
    }

    /// Stops reading from replicas, and ends the connection to the primary when the reads are answered.
    pub(super) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        if !self.link.process.is_this() {
            return wait.map_or(Ok(()), |_| Err(inherited()));
        }
        let links = self.end_reads();
        let Some(wait) = wait else { return Ok(()) };
        // A deadline beyond the range of the clock never passes.
        let deadline = now().checked_add(wait);
        let left = || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now()));
        links.iter().try_for_each(|link| link.close(Some(left())))?;
        self.send_on();
        self.link.close(Some(left()))
    }

    /// Closes as `close` does, in async code, and waits until the deadline, if there is one.
    pub(super) async fn close_async(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if !self.link.process.is_this() {
            return Err(inherited());
        }
        for link in self.end_reads() {
            link.close_async(deadline).await?;
        }
        self.send_on();
        Arc::clone(&self.link).close_async(deadline).await
    }

    /// Gives up calls in flight.
    pub(super) fn abort(&self) {
        if !self.link.process.is_this() {
            return;
        }
        self.end_reads().iter().for_each(|link| link.abort());
        self.link.abort();
    }

    /// Stops reading from replicas, and returns the connections that may have reads in flight.
    fn end_reads(&self) -> Vec<Arc<Link>> {
        let mut ending = self.ending.lock();
        if !self.is_closed.load(Ordering::Acquire) {
            *ending = self.links();
            self.is_closed.store(true, Ordering::Release);
        }
        let links = ending.clone();
        drop(ending);
        self.task_waker.wake();
        self.search_waker.wake();
        links
    }
}

/// The tasks that look after replicas, on the reactor's thread.
impl Replicated {
    /// Runs turns, until the client is gone and the reads are answered.
    async fn care(&self, context: &TaskContext) {
        let config = &self.link.config;
        let driver = Arc::downgrade(&self.link) as Weak<dyn Driver>;
        let mut requests = InternalRequests::new(driver, self.task_waker, config.database);
        let mut checks = HealthChecks::new(&config.read_from, false);
        let mut last = PRIMARY;
        while !self.is_closed.load(Ordering::Acquire) {
            let now = now();
            self.send_on();
            if let Some(found) = self.found.lock().take() {
                self.take_over(&found, &mut last);
                checks.hurry(now);
            }
            if checks.turn(iter::once((&self.primary, &*self.replicas.read())), &mut requests, now) {
                self.doubt();
            }
            context.wait(checks.next_look(now)).await;
        }
        let links = self.links();
        self.replicas.read().all.iter().for_each(|node| node.dismiss());
        while links.iter().any(|link| link.is_open()) {
            self.send_on();
            context.wait(Some(now() + CLOSING_LOOK)).await;
        }
        self.end("the client was closed");
        // A close without a wait cannot fail.
        let _ = self.link.close(None);
    }

    /// Ends the sending of returned reads: from now on they fail.
    fn end(&self, why: &str) {
        self.is_closed.store(true, Ordering::Release);
        self.returned.lock().is_over = true;
        self.send_on();
        // If the task has panicked, its connections end as well.
        if why != "the client was closed" {
            self.links().iter().for_each(|link| link.abort());
        }
    }

    /// Replaces the replicas by those that were found.
    fn take_over(&self, found: &[Address], last: &mut u32) {
        let before = self.replicas.read().all.clone();
        let node = |address: &Address| {
            before.iter().find(|node| node.address == *address).map(Arc::clone).unwrap_or_else(|| {
                *last += 1;
                Arc::new(Node::new(*last, address.clone(), &self.link.config))
            })
        };
        let all: Vec<Arc<Node>> = found.iter().map(node).collect();
        let is_gone = |node: &&Arc<Node>| !found.contains(&node.address);
        let gone: Vec<Arc<Node>> = before.iter().filter(is_gone).map(Arc::clone).collect();
        *self.replicas.write() = Replicas::new(all, clock_ms() as usize);
        gone.iter().for_each(|node| node.dismiss());
    }

    /// Sends the returned reads on to the primary.
    fn send_on(&self) {
        let requests = mem::take(&mut self.returned.lock().requests);
        if requests.is_empty() {
            return;
        }
        let mut done = Completions::default();
        for (routed, why) in requests {
            self.send_one_on(routed, why, &mut done);
        }
        self.link.finish(&mut done);
    }

    fn send_one_on(&self, mut routed: Routed, why: Error, done: &mut Completions) {
        let replica = self.replicas.read().all.iter().find(|node| node.number == routed.node).map(Arc::clone);
        if let Some(replica) = &replica {
            replica.set_fitness(Fitness::Unfit);
            replica.link().into_iter().for_each(|link| link.release_reader());
        }
        let is_lost = why.kind() == ErrorKind::Disconnected;
        let is_forbidden = is_lost && self.link.config.retry.resend == Resend::Nothing;
        // An error of the primary itself goes to the caller.
        if is_forbidden || routed.attempts >= ATTEMPTS_MAX || (routed.node == PRIMARY && !is_lost) {
            return routed.give_up(why, done);
        }
        routed.attempts += 1;
        routed.node = PRIMARY;
        time_left::own(&mut routed, self.link.limit_ms());
        match self.link.resend_routed(vec![routed]) {
            // No caller waits on that connection and would write the request, so it is written here.
            Ok(()) => _ = self.link.flush(Waiter::Other),
            Err(back) => back.into_iter().for_each(|routed| routed.give_up(why.clone(), done)),
        }
    }

    /// Makes the second task ask for the replicas again, because they may have changed.
    fn doubt(&self) {
        if !self.is_doubted.swap(true, Ordering::AcqRel) {
            self.search_waker.wake();
        }
    }

    /// Asks the Sentinels for the replicas at intervals, until the client is closed.
    async fn search(&self, context: &TaskContext) {
        let is_closed = || self.is_closed.load(Ordering::Acquire);
        let config = &self.link.config;
        while let Some(service) = self.link.health.service().filter(|_| !is_closed()) {
            self.is_doubted.store(false, Ordering::Release);
            let mut tick = || (!is_closed()).then_some(Duration::MAX);
            let mut attempt = Attempt::new(config.connect_timeout, &mut tick);
            let found = find_replicas(service, config, context, &mut attempt).await;
            let period = if found.is_some() { SEARCH_PERIOD } else { SEARCH_PAUSE };
            if let Some(found) = found {
                let address = |(host, port): (String, u16)| Address { host, port };
                *self.found.lock() = Some(found.into_iter().map(address).collect());
                self.task_waker.wake();
            }
            let since = now();
            let until = || since + if self.is_doubted.load(Ordering::Acquire) { SEARCH_PAUSE } else { period };
            while !is_closed() && now() < until() {
                context.wait(Some(until())).await;
            }
        }
    }
}

impl Redirector for Replicated {
    fn came_back(&self, request: Routed, why: Error, done: &mut Completions) {
        let mut returned = self.returned.lock();
        if returned.is_over {
            return request.give_up(why, done);
        }
        returned.requests.push((request, why));
        drop(returned);
        self.task_waker.wake();
    }
}
