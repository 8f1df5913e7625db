//! Where a client's requests go: over a connection, to the nodes of a cluster, or into an engine in this process.
//!
//! The twins are chosen here and nowhere else; whatever is above sends through the same few calls.

pub(crate) mod cluster;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
mod gathered;
pub(crate) mod near;
pub(crate) mod origin;
pub(crate) mod pool;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::config::{Config, Endpoint, ErrorHook};
use crate::connection::Link;
use crate::connection::life;
use crate::connection::metrics::Metrics;
use crate::connection::probe::Vitals;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::in_flight::Unit;
use crate::pipe::queued::Sent;
use crate::pipe::routed::Aim;
use crate::pipe::slot::Driver;
use crate::pipe::slot::FIRST_CONNECTION;
use crate::pipe::transaction_state::Exchange;
use crate::process::fork::inherited;
#[cfg(feature = "embedded")]
use crate::process::off_thread::apart;
use crate::reply::Reply;
use crate::request::blocking_commands::Patience;
use crate::request::{Request, Written};
use crate::values::decode::FromReply;
use cluster::{Cluster, upkeep};
#[cfg(feature = "embedded")]
use embedded::Embedded;

/// What to do about an engine that was left out.
#[cfg(not(feature = "embedded"))]
const NO_ENGINE: &str = concat!(
    "this build has no engine in it, because its feature \"embedded\" is off; in Cargo.toml: sleeve = { version = \"",
    env!("CARGO_PKG_VERSION"),
    "\", features = [\"embedded\"] }",
);

/// What is said of what a cluster has not got here.
pub(crate) fn not_in_a_cluster(what: &str) -> Error {
    Error::usage(format!(
        "{what} is not there for a cluster: connect to the node that has the keys, by a URL that begins with redis:// and names it"
    ))
}

/// With these a node says that the cluster has changed, or is about to.
const CHANGING: [&str; 9] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "UNBLOCKED",
    // One of its commands may have been told so.
    "EXECABORT",
];

/// A way for requests.
#[derive(Clone)]
pub(crate) enum Route {
    Remote(Arc<Link>),
    Cluster(Arc<Cluster>),
    #[cfg(feature = "embedded")]
    Local(Arc<Embedded>),
}

impl Route {
    /// Begins the way that the configuration asks for. `lasting` says whether a lost connection is made again.
    pub(crate) fn open(config: Config, lasting: bool) -> Result<Self, Error> {
        match &config.endpoint {
            #[cfg(feature = "embedded")]
            Endpoint::Embedded(_) => Ok(Self::Local(Embedded::open(config)?)),
            #[cfg(not(feature = "embedded"))]
            Endpoint::Embedded(_) => Err(Error::unsent(ErrorKind::Configuration, NO_ENGINE)),
            Endpoint::Cluster(_) => upkeep::open(config).map(Self::Cluster),
            _ => {
                let vitals = Vitals::of(&config);
                Self::remote(config, lasting, vitals)
            }
        }
    }

    fn remote(config: Config, lasting: bool, vitals: Arc<Vitals>) -> Result<Self, Error> {
        let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot start a connection: {error}"));
        let link = Link::new(config, lasting, vitals).map_err(failed)?;
        life::start(link.clone()).map_err(failed)?;
        Ok(Self::Remote(link))
    }

    /// Why it cannot be used here, if it cannot: it is another process's.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        match self {
            Self::Remote(link) if !link.process.is_this() => Err(inherited()),
            Self::Cluster(cluster) if !cluster.process.is_this() => Err(inherited()),
            _ => Ok(()),
        }
    }

    /// A way of one's own to the same place, for what cannot be shared. `lasting` says whether a lost connection is made again.
    pub(crate) fn separate(&self, lasting: bool) -> Result<Self, Error> {
        match self {
            Self::Remote(link) => Self::remote(link.config.clone(), lasting, link.vitals.clone()),
            Self::Cluster(_) => Err(Error::usage(
                "in a cluster a lease is a connection to the node that has a key: use client.lease_for(key)",
            )),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => Ok(Self::Local(embedded.separate())),
        }
    }

    /// Whether what has failed with this on a connection of one's own may work on another: the cluster has changed, and nothing
    /// was executed. It is looked at anew then.
    pub(crate) fn has_changed(&self, error: &Error) -> bool {
        let Self::Cluster(cluster) = self else { return false };
        let has_changed = match (error.kind(), error.effect()) {
            (ErrorKind::Connect, Effect::None) => true,
            (ErrorKind::Server, Effect::Refused) => error.code().is_some_and(|code| CHANGING.contains(&code)),
            _ => false,
        };
        if has_changed {
            cluster.doubt();
        }
        has_changed
    }

    /// Whether it may wait in a pool for whoever needs one: then it is not made again when it is lost.
    pub(crate) fn enter_pool(&self) -> bool {
        match self {
            Self::Remote(link) => link.enter_pool(),
            Self::Cluster(cluster) => cluster.is_open(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_open(),
        }
    }

    /// Somebody has it for himself from now on, and it is made again when it is lost if it is `lasting`. False when it was lost.
    pub(crate) fn leave_pool(&self, lasting: bool) -> bool {
        match self {
            Self::Remote(link) => link.leave_pool(lasting),
            Self::Cluster(cluster) => cluster.is_open(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_open(),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        match self {
            Self::Remote(link) => &link.config,
            Self::Cluster(cluster) => &cluster.config,
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.config(),
        }
    }

    /// Whom a waiter may push on.
    pub(crate) fn driver(&self) -> Weak<dyn Driver> {
        match self {
            Self::Remote(link) => Arc::downgrade(link) as Weak<dyn Driver>,
            Self::Cluster(cluster) => cluster.driver(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.driver(),
        }
    }

    /// Waits until the first attempt to connect is over.
    pub(crate) fn wait_first(&self) -> Result<(), Error> {
        match self {
            Self::Remote(link) => link.wait_first(),
            Self::Cluster(cluster) => cluster.wait_first(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => Ok(()),
        }
    }

    /// As `wait_first`, in async code.
    pub(crate) async fn await_first(&self) -> Result<(), Error> {
        match self {
            Self::Remote(link) => Arc::clone(link).await_first().await,
            Self::Cluster(cluster) => Arc::clone(cluster).await_first().await,
            #[cfg(feature = "embedded")]
            Self::Local(_) => Ok(()),
        }
    }

    /// What is called with the errors of forgotten commands.
    pub(crate) fn error_hook(&self) -> Option<&ErrorHook> {
        self.config().error_hook.as_ref()
    }

    /// Sends the request that `write` writes, and returns its reply.
    #[inline]
    pub(crate) fn ask<T: FromReply>(&self, database: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        match Request::with(write, |request| self.send(database, request)) {
            Ok(Ok(sent)) => Reply::sent(sent, self.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }

    /// The nodes of a cluster that share the keys, by number; none where one server has all.
    pub(crate) fn nodes(&self) -> Result<Vec<u32>, Error> {
        match self {
            Self::Cluster(cluster) => cluster.owners(),
            _ => Ok(Vec::new()),
        }
    }

    /// As `ask`, of one of the nodes.
    pub(crate) fn ask_node<T: FromReply>(
        &self,
        node: u32,
        database: u32,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        let Self::Cluster(cluster) = self else { return self.ask(database, write) };
        match Request::with(write, |request| cluster.send_to(Aim::Node(node), database, request, None)) {
            Ok(Ok(sent)) => Reply::sent(sent, self.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, self.error_hook()),
        }
    }

    /// As `ask`, for a request whose time is up then.
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
    pub(crate) fn send(&self, database: u32, request: Written<'_>) -> Result<Sent, Error> {
        match self {
            Self::Remote(link) => match link.send(database, request)? {
                Some(handle) => Ok(Sent::Slot(handle)),
                None => link.send_when_there_is_room(database, request, None),
            },
            Self::Cluster(cluster) => cluster.send(database, request, None),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send(database, request),
        }
    }

    /// As `send`, for a request whose time is up then.
    pub(crate) fn send_until(&self, database: u32, request: Written<'_>, deadline: Instant) -> Result<Sent, Error> {
        match self {
            Self::Remote(link) => match link.send_until(database, request, deadline)? {
                Some(handle) => Ok(Sent::Slot(handle)),
                None => link.send_when_there_is_room(database, request, Some(deadline)),
            },
            Self::Cluster(cluster) => cluster.send(database, request, Some(deadline)),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_until(database, request, deadline),
        }
    }

    /// Sends several requests with nothing in between.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        match self {
            Self::Remote(link) => link.send_units(units, bytes),
            Self::Cluster(cluster) => cluster.send_units(units, bytes),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_units(units, bytes),
        }
    }

    /// Sends a transaction.
    pub(crate) fn send_exchange(&self, exchange: Exchange, database: u32, request: &[u8]) {
        match self {
            Self::Remote(link) => link.send_exchange(exchange, database, request),
            Self::Cluster(cluster) => cluster.send_exchange(exchange, database, request),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.send_exchange(exchange, database, request),
        }
    }

    /// The next request may wait on the server for this long, beside the command timeout. Only where one is sent at a time.
    pub(crate) fn be_patient(&self, patience: Patience) {
        match self {
            Self::Remote(link) => link.be_patient(patience),
            Self::Cluster(_) => {}
            #[cfg(feature = "embedded")]
            Self::Local(_) => {}
        }
    }

    /// What each of its connections has done.
    pub(crate) fn metrics(&self) -> Vec<Metrics> {
        match self {
            Self::Remote(link) => vec![link.metrics()],
            Self::Cluster(cluster) => cluster.metrics(),
            #[cfg(feature = "embedded")]
            Self::Local(_) => Vec::new(),
        }
    }

    /// The number of the connection that is there, or comes next.
    pub(crate) fn connection(&self) -> u32 {
        match self {
            Self::Remote(link) => link.connection.load(Ordering::Relaxed),
            Self::Cluster(_) => FIRST_CONNECTION,
            #[cfg(feature = "embedded")]
            Self::Local(_) => FIRST_CONNECTION,
        }
    }

    /// Whether nothing is on its way and more can be sent.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Remote(link) => link.is_idle(),
            Self::Cluster(cluster) => cluster.is_idle(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_idle(),
        }
    }

    /// Whether more can be sent.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Remote(link) => link.is_open(),
            Self::Cluster(cluster) => cluster.is_open(),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.is_open(),
        }
    }

    /// Gives up what is on its way, and ends the connection.
    pub(crate) fn abort(&self) {
        match self {
            Self::Remote(link) => link.abort(),
            // What is on its way is answered all the same: nobody but the client's end ends its nodes' connections.
            Self::Cluster(cluster) => _ = cluster.close(None),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.abort(),
        }
    }

    /// Refuses further requests, and waits for the answers to those that were sent for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        match self {
            Self::Remote(link) => link.close(wait),
            Self::Cluster(cluster) => cluster.close(wait),
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => embedded.close(wait),
        }
    }

    /// As `close`, in async code: waits until then, or for as long as it takes.
    pub(crate) async fn close_async(self, deadline: Option<Instant>) -> Result<(), Error> {
        match self {
            Self::Remote(link) => link.close_async(deadline).await,
            Self::Cluster(cluster) => cluster.close_async(deadline).await,
            #[cfg(feature = "embedded")]
            Self::Local(embedded) => {
                let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
                apart("sleeve-close", move || embedded.close(Some(left))).await
            }
        }
    }
}
