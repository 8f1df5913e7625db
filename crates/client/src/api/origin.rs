//! The state that all handles of one client share: the transport to its server, and connections of their own for calls that need
//! one.
//!
//! When the last handle is dropped, sent calls are still answered, and then the connections are closed. Any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::cache::Near;
use crate::cache::options::CacheOptions;
use crate::config::Endpoint;
use crate::connection::metrics::{Metrics, Role};
use crate::error::Error;
use crate::lanes::Lane;
use crate::lanes::options::LaneOptions;
use crate::pipe::queued::Sent;
use crate::reactor::watcher::watch_for;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::blocking_commands;
use crate::resp::request::blocking_commands::BlockTimeout;
use crate::resp::request::{EncodedRequest, Request};
use crate::sys::lock::Mutex;
use crate::sys::now;
use crate::transport::Transport;
use crate::transport::cluster::blocking::send_blocking;
use crate::transport::pool::{ClusterPoolGuard, Pool, PoolGuard};
use crate::transport::reserve::Reserve;

/// The state that the handles of one client share.
pub(crate) struct Origin {
    pub(crate) transport: Transport,
    /// The transport for calls that must not queue behind large ones; none before its first use.
    priority: OnceLock<Transport>,
    /// Connections for the next leases and commands that wait.
    pub(crate) pool: Arc<Pool>,
    /// The handles that keep requests back for a while.
    reserves: Mutex<Vec<Weak<dyn Reserve>>>,
    /// The near cache; none before its first use.
    near: OnceLock<Arc<Near>>,
    /// The lane for large calls; none before its first use.
    lane: OnceLock<Arc<Lane>>,
    /// The lock that is held while the priority connection, the cache or the lane is opened.
    opening: Mutex<()>,
    /// True if the client takes no more calls. It is set while `opening` is held.
    is_closed: AtomicBool,
}

/// The longest time for which a closing client waits for gathered requests, if its server does not answer.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

impl Drop for Origin {
    fn drop(&mut self) {
        // A close without a wait cannot fail.
        let _ = self.transport.close(None);
        self.priority.get().into_iter().for_each(|transport| _ = transport.close(None));
    }
}

impl Origin {
    pub(crate) fn new(transport: Transport) -> Arc<Self> {
        let (near, lane, priority, opening) = Default::default();
        let (pool, reserves, is_closed) = Default::default();
        Arc::new(Self { transport, priority, pool, reserves, near, lane, opening, is_closed })
    }

    /// Fails if the client belongs to another process, or takes no more calls.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.transport.check_process()?;
        match self.is_closed.load(Ordering::Acquire) || !self.transport.is_open() {
            true => Err(Error::closed("the client was closed")),
            false => Ok(()),
        }
    }

    /// Registers a handle that keeps requests back.
    pub(crate) fn enter(&self, reserve: Weak<dyn Reserve>) {
        let mut reserves = self.reserves.lock();
        reserves.retain(|reserve| reserve.strong_count() > 0);
        reserves.push(reserve);
    }

    /// Returns the transport for calls that must not queue behind large ones.
    pub(crate) fn priority(&self) -> Result<Transport, Error> {
        self.transport.check_process()?;
        let _opening = self.opening.lock();
        if let Some(transport) = self.priority.get() {
            return Ok(transport.clone());
        }
        self.check_open()?;
        let transport = match &self.transport {
            // This has connections to all nodes, each made when it is needed, or to all replicas that are read from.
            several @ (Transport::Cluster(_) | Transport::Replicated(..)) => {
                Transport::open(several.config().clone(), true)?
            }
            other => other.separate(true)?,
        };
        Ok(self.priority.get_or_init(|| transport).clone())
    }

    /// Returns the metrics of each shared connection.
    pub(crate) fn metrics(&self) -> Vec<Metrics> {
        let of = |role: Role| move |metrics: Metrics| Metrics { role, ..metrics };
        let priority = self.priority.get().into_iter().flat_map(Transport::metrics).map(of(Role::Priority));
        let lane = self.lane.get().and_then(|lane| lane.metrics()).map(of(Role::Large));
        self.transport.metrics().into_iter().chain(priority).chain(lane).collect()
    }

    /// Returns the lane for large calls, which is made with these options if there is none.
    pub(crate) fn lane(&self, options: Option<LaneOptions>) -> Result<Arc<Lane>, Error> {
        if let Transport::Cluster(_) = self.transport {
            return Err(Error::usage("in a cluster there are no lanes: use client.priority() for what must not wait"));
        }
        self.transport.check_process()?;
        let _opening = self.opening.lock();
        let lane = match self.lane.get() {
            Some(lane) => lane,
            None => {
                self.check_open()?;
                let lane = Lane::new(self.transport.clone(), options.unwrap_or_default());
                self.enter(Arc::downgrade(&lane) as Weak<dyn Reserve>);
                self.lane.get_or_init(|| lane)
            }
        };
        match options {
            Some(options) if options != *lane.options() => Err(Error::usage(
                "this client has lanes with other options: ask for them by lanes(), or make another client",
            )),
            _ => Ok(Arc::clone(lane)),
        }
    }

    /// Returns the near cache of the client; it is opened with these options if there is none.
    pub(crate) fn near(&self, options: Option<CacheOptions>) -> Result<Arc<Near>, Error> {
        let _opening = self.opening.lock();
        let near = match self.near.get() {
            Some(near) => Arc::clone(near),
            None => {
                let near = Arc::new(Near::open(&self.transport, options.clone().unwrap_or_default())?);
                Arc::clone(self.near.get_or_init(|| near))
            }
        };
        match options {
            Some(options) if options != *near.options() => Err(Error::usage(
                "this client has a near cache with other options, and one connection keeps one cache true: ask for it by \
                 cached(), or make another client",
            )),
            _ => Ok(near),
        }
    }

    /// Refuses further commands, and waits for the answers to those that were sent: on the shared connection, on the one for
    /// priority, and on those of commands that wait. A connection that does not finish in time keeps none of the others open.
    pub(crate) fn close(&self, timeout: Duration) -> Result<(), Error> {
        // A deadline beyond the range of the clock never passes.
        let deadline = now().checked_add(timeout);
        let (reserves, farewell) = (self.close_reserves(), self.farewell(deadline));
        reserves.iter().for_each(|reserve| reserve.settle(farewell));
        let left = || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now()));
        self.end_transports().iter().map(|transport| transport.close(Some(left()))).fold(Ok(()), Result::and)
    }

    /// Stops taking calls, and makes the handles that keep requests back send them.
    fn close_reserves(&self) -> Vec<Arc<dyn Reserve>> {
        let opening = self.opening.lock();
        self.is_closed.store(true, Ordering::Release);
        drop(opening);
        let reserves: Vec<_> = self.reserves.lock().iter().filter_map(Weak::upgrade).collect();
        reserves.iter().for_each(|reserve| Arc::clone(reserve).close());
        reserves
    }

    /// Returns all transports, each of which takes no more calls from now on and ends when its calls are answered.
    fn end_transports(&self) -> Vec<Transport> {
        let shared = [Some(&self.transport), self.priority.get()].into_iter().flatten().cloned();
        let lane = self.lane.get().and_then(|lane| lane.end_transport());
        let transports: Vec<Transport> = shared.chain(lane).chain(self.pool.waiting()).collect();
        // A close without a wait cannot fail.
        transports.iter().for_each(|transport| _ = transport.close(None));
        transports
    }

    /// Returns the time until which the close waits for gathered requests.
    fn farewell(&self, deadline: Option<Instant>) -> Instant {
        let farewell = now() + FAREWELL_MAX;
        deadline.map_or(farewell, |deadline| deadline.min(farewell))
    }

    /// Closes the client as `close` does, in async code.
    pub(crate) async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        // A deadline beyond the range of the clock never passes.
        let deadline = now().checked_add(timeout);
        let farewell = self.farewell(deadline);
        let mut result = Ok(());
        for reserve in self.close_reserves() {
            let look = move |task_waker, is_late| (reserve.is_settled(task_waker) || is_late).then_some(Ok(()));
            result = result.and(watch_for(Some(farewell), look).await);
        }
        for transport in self.end_transports() {
            result = result.and(transport.close_async(deadline).await);
        }
        result
    }

    /// Sends a command that may wait on the server, with a deadline if one is given.
    pub(crate) fn ask_waiting<T: FromReply>(
        &self,
        database: u32,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        self.ask_waiting_or(database, deadline, write, |request| {
            let write = |out: &mut Request| *out = request;
            match deadline {
                None => self.transport.ask(database, write),
                Some(deadline) => self.transport.ask_until(database, deadline, write),
            }
        })
    }

    /// Sends a command as `ask_waiting` does; but a command that turns out not to wait takes this other transport.
    pub(crate) fn ask_waiting_or<T: FromReply>(
        &self,
        database: u32,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Request),
        otherwise: impl FnOnce(Request) -> Reply<T>,
    ) -> Reply<T> {
        let mut request = Request::empty();
        write(&mut request);
        let Some(block_timeout) = blocking_commands::of(&request) else { return otherwise(request) };
        self.ask_apart(database, block_timeout, deadline, request)
            .unwrap_or_else(|error| Reply::failed(error, self.transport.error_hook()))
    }

    /// Sends a command on a connection of its own, which it keeps until it is answered.
    fn ask_apart<T: FromReply>(
        &self,
        database: u32,
        block_timeout: BlockTimeout,
        deadline: Option<Instant>,
        request: Request,
    ) -> Result<Reply<T>, Error> {
        self.check_open()?;
        if let Transport::Cluster(cluster) = &self.transport {
            let idle = |endpoint: &Endpoint| self.pool.take_idle_to(endpoint);
            let send = |request: EncodedRequest<'_>| {
                send_blocking(cluster, database, request, (block_timeout, deadline), idle)
            };
            let (handle, dedicated) = Request::with(|out| *out = request, send)??;
            let pool = Arc::clone(&self.pool);
            return Ok(Reply::apart(handle, Box::new(ClusterPoolGuard { pool, dedicated })));
        }
        let guard = PoolGuard::take(&self.pool, &self.transport)?;
        guard.transport.set_block_timeout(block_timeout);
        let send = |request: EncodedRequest<'_>| match deadline {
            None => guard.transport.send(database, request),
            Some(deadline) => guard.transport.send_until(database, request, deadline),
        };
        match Request::with(|out| *out = request, send)?? {
            Sent::Slot(handle) => Ok(Reply::apart(handle, Box::new(guard))),
            sent => Ok(Reply::sent(sent, self.transport.error_hook())),
        }
    }
}
