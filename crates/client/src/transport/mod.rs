//! The transport of a client's requests: over a connection, to the nodes of a cluster, or into an engine in this process.
//!
//! The twins are chosen here and nowhere else; all code above sends through the same few calls.

pub(crate) mod cluster;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
mod gathered;
mod health_checks;
mod internal_requests;
#[cfg(not(feature = "embedded"))]
pub(crate) mod no_engine;
mod node;
pub(crate) mod pool;
pub(crate) mod replicas;
pub(crate) mod replicated;
pub(crate) mod reserve;
pub(crate) mod slot_cache;
mod time_left;

use std::iter;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::config::login_advice::advised;
use crate::config::read_from::ReadFrom;
use crate::config::url::NO_REPLICAS;
use crate::config::{Config, Endpoint, ErrorHook};
use crate::connection::Link;
use crate::connection::metrics::Metrics;
use crate::connection::probe::ServerHealth;
use crate::connection::task::start;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::asker::Unit;
use crate::pipe::queued::Sent;
use crate::pipe::routed::{Destination, TURNED_AWAY};
use crate::pipe::slot::{Driver, FIRST_CONNECTION};
use crate::pipe::transaction_state::TransactionState;
use crate::reactor::lifetime::Lifetime;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::blocking_commands::BlockTimeout;
use crate::resp::request::{EncodedRequest, Request};
use crate::sys::inherited;
#[cfg(feature = "embedded")]
use crate::sys::off_thread::apart;
use cluster::{Cluster, batches, task};
#[cfg(feature = "embedded")]
use embedded::Embedded;
#[cfg(not(feature = "embedded"))]
use no_engine::NO_ENGINE;
use replicated::Replicated;

/// The beginning of EXEC's error, behind which is the reason why the transaction was not executed.
const DISCARDED: &str = "EXECABORT Transaction discarded because of: ";

/// Returns whether a node's error means that the cluster has changed, or is about to. The error of a busy node does not.
fn is_changing(error: &Error) -> bool {
    let text = error.message();
    let code = text.strip_prefix(DISCARDED).unwrap_or(text).split(' ').next().unwrap_or_default();
    code != "BUSY" && TURNED_AWAY.contains(&code)
}

/// The transport of requests to a server, a cluster or an engine.
#[derive(Clone)]
pub(crate) enum Transport {
    Remote(Arc<Link>),
    /// As `Remote`, if reads may also go to the replicas of the server.
    Replicated(Arc<Link>, Arc<Replicated>),
    Cluster(Arc<Cluster>),
    #[cfg(feature = "embedded")]
    Local(Arc<Embedded>),
}

impl Transport {
    /// Opens the transport that the configuration asks for. `lasting` says whether a lost connection is made again.
    pub(crate) fn open(config: Config, lasting: bool) -> Result<Self, Error> {
        if config.read_from != ReadFrom::Primary && !config.endpoint.has_replicas() {
            return Err(Error::unsent(ErrorKind::Configuration, NO_REPLICAS));
        }
        match &config.endpoint {
            #[cfg(feature = "embedded")]
            Endpoint::Embedded(_) => Ok(Self::Local(Embedded::open(config)?)),
            #[cfg(not(feature = "embedded"))]
            Endpoint::Embedded(_) => Err(Error::unsent(ErrorKind::Configuration, NO_ENGINE)),
            Endpoint::Cluster(_) => task::open(config).map(Self::Cluster),
            _ => {
                let (health, policy) = (ServerHealth::of(&config), config.read_from.clone());
                let transport = Self::remote(config, lasting, health)?;
                match &transport {
                    Self::Remote(link) if policy != ReadFrom::Primary => {
                        Ok(Self::Replicated(Arc::clone(link), Replicated::open(link)?))
                    }
                    _ => Ok(transport),
                }
            }
        }
    }

    fn remote(config: Config, lasting: bool, health: Arc<ServerHealth>) -> Result<Self, Error> {
        let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot start a connection: {error}"));
        let link = Link::new(config, lasting, health).map_err(failed)?;
        start(link.clone()).map_err(failed)?;
        Ok(Self::Remote(link))
    }

    /// Fails if the transport belongs to another process.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) if !link.process.is_this() => Err(inherited()),
            Self::Cluster(cluster) if !cluster.process.is_this() => Err(inherited()),
            _ => Ok(()),
        }
    }

    /// Returns a separate transport to the same server, for calls that cannot share one. `lasting` says whether a lost
    /// connection is made again.
    pub(crate) fn separate(&self, lasting: bool) -> Result<Self, Error> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => {
                Self::remote(link.config.clone(), lasting, link.health.clone())
            }
            Self::Cluster(_) => Err(Error::usage(
                "in a cluster a lease is a connection to the node that has a key: use client.lease_for(key)",
            )),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => Ok(Self::Local(embedded.separate())),
        }
    }

    /// Returns whether a call that failed with this error on a connection of its own may succeed on another: the cluster has
    /// changed, and the call was not executed. The map is then refreshed.
    pub(crate) fn has_changed(&self, error: &Error) -> bool {
        let Self::Cluster(cluster) = self else { return false };
        let has_changed = match (error.kind(), error.effect()) {
            (ErrorKind::Connect, Effect::None) => true,
            (ErrorKind::Server, Effect::Refused) => is_changing(error),
            _ => false,
        };
        if has_changed {
            cluster.doubt();
        }
        has_changed
    }

    /// Notes that the connection enters the pool: from then on it is not made again if it is lost. Returns whether it is
    /// still connected.
    pub(crate) fn enter_pool(&self) -> bool {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.enter_pool(),
            Self::Cluster(cluster) => cluster.is_open(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_open(),
        }
    }

    /// Notes that the connection leaves the pool for one caller; from then on it is made again if it is `lasting`. Returns
    /// false if it was lost.
    pub(crate) fn leave_pool(&self, lasting: bool) -> bool {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.leave_pool(lasting),
            Self::Cluster(cluster) => cluster.is_open(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_open(),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => &link.config,
            Self::Cluster(cluster) => &cluster.config,
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.config(),
        }
    }

    /// Returns the driver, which a waiting caller may ask to write.
    pub(crate) fn driver(&self) -> Weak<dyn Driver> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => Arc::downgrade(link) as Weak<dyn Driver>,
            Self::Cluster(cluster) => cluster.driver(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.driver(),
        }
    }

    /// Waits until the first attempt to connect has ended.
    pub(crate) fn wait_first(&self) -> Result<(), Error> {
        let first = match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.wait_first(),
            Self::Cluster(cluster) => cluster.wait_first(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => Ok(()),
        };
        first.map_err(|error| advised(error, self.config()))
    }

    /// Waits in async code as `wait_first` does on a thread.
    pub(crate) async fn await_first(&self) -> Result<(), Error> {
        let first = match self {
            Self::Remote(link) | Self::Replicated(link, _) => Arc::clone(link).await_first().await,
            Self::Cluster(cluster) => Arc::clone(cluster).await_first().await,
            #[cfg(feature = "embedded")]
            Self::Local(_) => Ok(()),
        };
        first.map_err(|error| advised(error, self.config()))
    }

    /// Returns the function that receives the errors of forgotten commands.
    pub(crate) fn error_hook(&self) -> Option<&ErrorHook> {
        self.config().hooks.error.as_ref()
    }

    /// Sends the request that `write` writes, and returns its reply.
    #[inline]
    pub(crate) fn ask<T: FromReply>(&self, database: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        match Request::with(write, |request| self.send(database, request)) {
            Ok(Ok(Sent::Slot(handle))) => Reply::of(handle),
            Ok(Ok(sent)) => Reply::sent(sent, self.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }

    /// Returns the numbers of a cluster's nodes that own slots; none for a single server.
    pub(crate) fn nodes(&self) -> Result<Vec<u32>, Error> {
        match self {
            Self::Cluster(cluster) => cluster.owners(),
            _ => Ok(Vec::new()),
        }
    }

    /// Sends a request as `ask` does, to this node.
    pub(crate) fn ask_node<T: FromReply>(
        &self,
        node: u32,
        database: u32,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        let Self::Cluster(cluster) = self else { return self.ask(database, write) };
        match Request::with(write, |request| cluster.send_to(Destination::Node(node), database, request, None)) {
            Ok(Ok(sent)) => Reply::sent(sent, self.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }

    /// Sends a request as `ask` does, with a deadline.
    pub(crate) fn ask_until<T: FromReply>(
        &self,
        database: u32,
        deadline: Instant,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        match Request::with(write, |request| self.send_until(database, request, deadline)) {
            Ok(Ok(sent)) => Reply::sent(sent, self.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }

    /// Sends one request.
    #[inline]
    pub(crate) fn send(&self, database: u32, request: EncodedRequest<'_>) -> Result<Sent, Error> {
        match self {
            Self::Remote(link) => send(link, database, request),
            Self::Replicated(link, replicated) => send_replicated(link, replicated, database, request),
            Self::Cluster(cluster) => cluster.send(database, request, None),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send(database, request),
        }
    }

    /// Sends a request as `send` does, with a deadline.
    pub(crate) fn send_until(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Instant,
    ) -> Result<Sent, Error> {
        match self {
            Self::Remote(link) => send_until(link, database, request, deadline),
            Self::Replicated(link, replicated) => match replicated.send(database, request, Some(deadline)) {
                Some(handle) => Ok(Sent::Slot(handle)),
                None => replicated.check_open().and_then(|()| send_until(link, database, request, deadline)),
            },
            Self::Cluster(cluster) => cluster.send(database, request, Some(deadline)),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_until(database, request, deadline),
        }
    }

    /// Sends several requests without another request between them.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        match self {
            Self::Remote(link) => link.send_units(units, bytes),
            Self::Replicated(link, replicated) => match replicated.check_open() {
                Ok(()) => link.send_units(units, bytes),
                Err(error) => Err((error, units)),
            },
            Self::Cluster(cluster) => batches::send_units(cluster, units, bytes),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_units(units, bytes),
        }
    }

    /// Sends a transaction.
    pub(crate) fn send_transaction(&self, transaction: TransactionState, database: u32, request: &[u8]) {
        match self {
            Self::Remote(link) => link.send_transaction(transaction, database, request),
            Self::Replicated(link, replicated) => match replicated.check_open() {
                Ok(()) => link.send_transaction(transaction, database, request),
                Err(error) => link.refuse_transaction(transaction, &error),
            },
            Self::Cluster(cluster) => batches::send_transaction(cluster, transaction, database, request),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_transaction(transaction, database, request),
        }
    }

    /// Sets the time for which the next request may wait on the server, in addition to the command timeout. Only for
    /// transports on which one request is sent at a time.
    pub(crate) fn set_block_timeout(&self, block_timeout: BlockTimeout) {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.set_block_timeout(block_timeout),
            Self::Cluster(_) => {}
            #[cfg(feature = "embedded")]
            Self::Local(_) => {}
        }
    }

    /// Returns the metrics of each of the transport's connections in this process.
    pub(crate) fn metrics(&self) -> Vec<Metrics> {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) if !link.process.is_this() => Vec::new(),
            Self::Remote(link) => vec![Metrics::of(link)],
            Self::Replicated(link, replicated) => iter::once(Metrics::of(link)).chain(replicated.metrics()).collect(),
            Self::Cluster(cluster) => cluster.metrics(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => Vec::new(),
        }
    }

    /// Returns the number of the present connection, or of the next one.
    pub(crate) fn connection(&self) -> u32 {
        match self {
            Self::Remote(link) | Self::Replicated(link, _) => link.connection.load(Ordering::Relaxed),
            Self::Cluster(_) => FIRST_CONNECTION,
            #[cfg(feature = "embedded")]
            Self::Local(_) => FIRST_CONNECTION,
        }
    }

    /// Returns whether nothing is in flight and further requests can be sent.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Remote(link) => link.is_idle(),
            Self::Replicated(link, replicated) => link.is_idle() && replicated.is_idle(),
            Self::Cluster(cluster) => cluster.is_idle(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_idle(),
        }
    }

    /// Returns whether further requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Remote(link) => link.is_open(),
            Self::Replicated(link, replicated) => link.is_open() && replicated.check_open().is_ok(),
            Self::Cluster(cluster) => cluster.is_open(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_open(),
        }
    }

    /// Gives up calls in flight, and ends the connection.
    pub(crate) fn abort(&self) {
        match self {
            Self::Remote(link) => link.abort(),
            Self::Replicated(_, replicated) => replicated.abort(),
            // In a cluster, calls in flight are answered all the same: only the end of the client ends the connections to its
            // nodes.
            Self::Cluster(cluster) => _ = cluster.close(None),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.abort(),
        }
    }

    /// Refuses further requests, and waits for the answers to those that were sent for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        match self {
            Self::Remote(link) => link.close(wait),
            Self::Replicated(_, replicated) => replicated.close(wait),
            Self::Cluster(cluster) => cluster.close(wait),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.close(wait),
        }
    }

    /// Closes the transport as `close` does, in async code, and waits until the deadline, if there is one.
    pub(crate) async fn close_async(self, deadline: Option<Instant>) -> Result<(), Error> {
        match self {
            Self::Remote(link) => link.close_async(deadline).await,
            Self::Replicated(_, replicated) => replicated.close_async(deadline).await,
            Self::Cluster(cluster) => cluster.close_async(deadline).await,
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => {
                let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(crate::sys::now()));
                apart("sleeve-close", move || embedded.close(Some(left))).await
            }
        }
    }
}

#[inline]
fn send(link: &Link, database: u32, request: EncodedRequest<'_>) -> Result<Sent, Error> {
    match link.send(database, request)? {
        Some(handle) => Ok(Sent::Slot(handle)),
        None => link.send_when_there_is_room(database, request, None),
    }
}

/// Sends a request that need not go to the primary, to a replica if one is chosen.
#[inline(never)]
fn send_replicated(
    link: &Link,
    replicated: &Replicated,
    database: u32,
    request: EncodedRequest<'_>,
) -> Result<Sent, Error> {
    match replicated.send(database, request, None) {
        Some(handle) => Ok(Sent::Slot(handle)),
        None => replicated.check_open().and_then(|()| send(link, database, request)),
    }
}

fn send_until(link: &Link, database: u32, request: EncodedRequest<'_>, deadline: Instant) -> Result<Sent, Error> {
    match link.send_until(database, request, deadline)? {
        Some(handle) => Ok(Sent::Slot(handle)),
        None => link.send_when_there_is_room(database, request, Some(deadline)),
    }
}
