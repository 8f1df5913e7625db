//! Handles on which calls begin: a client, and one of its databases.
//!
//! Both are a counted pointer and a number, so they are cheap to clone and meant to be cloned; both may be used from any
//! thread and in any async runtime at the same time. All calls through clones of one client travel on one connection, in each
//! caller's order. When the last handle is dropped, the requests that were sent are still answered, and then the connection
//! is closed.

#[cfg(feature = "embedded")]
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::at::At;
use super::batch::Batch;
use super::cached::Cached;
use super::cmd::Cmd;
use super::coalesce::handle::Coalescing;
use super::lanes::handle::Lanes;
use super::lanes::priority::Priority;
use super::lease;
use super::lease::Lease;
use super::transaction::Transaction;
use crate::api::coalesce::options::CoalesceOptions;
use crate::api::origin::Origin;
use crate::cache::options::CacheOptions;
use crate::commands::ask::Ask;
use crate::config::Config;
#[cfg(feature = "embedded")]
use crate::config::Endpoint;
use crate::connection::metrics::Metrics;
use crate::error::Error;
#[cfg(feature = "embedded")]
use crate::error::ErrorKind;
use crate::lanes::options::LaneOptions;
use crate::pubsub::names::SubscriptionVerb;
use crate::pubsub::subscription::Subscription;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::{Request, ToArgs};
#[cfg(feature = "embedded")]
use crate::sys::off_thread::apart;
use crate::transport::Transport;
#[cfg(feature = "embedded")]
use crate::transport::embedded::Embedded;
#[cfg(not(feature = "embedded"))]
use crate::transport::no_engine::EngineBuild;

/// A server, or an engine in this process, to which commands are sent.
#[derive(Clone)]
pub struct Client {
    pub(crate) origin: Arc<Origin>,
    pub(crate) database: u32,
}

impl Client {
    /// Connects to the server that the URL names, and waits until that is done; see [`Config::from_url`] for URLs.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a bad URL,
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the server cannot be reached or refuses.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(Config::from_url(url)?)
    }

    /// Connects as configured, and waits until that is done.
    ///
    /// # Errors
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the server cannot be reached or refuses.
    pub fn connect_with(config: Config) -> Result<Self, Error> {
        let client = Self::open_with(config)?;
        client.origin.transport.wait_first()?;
        Ok(client)
    }

    /// Connects as [`connect`](Client::connect) does, in async code: the runtime's thread is not blocked.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, Error, prelude::*};
    ///
    /// async fn greet(url: &str) -> Result<String, Error> {
    ///     let client = Client::connect_async(url).await?;
    ///     client.set("greeting", "hello").await?;
    ///     client.get("greeting").await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`connect`](Client::connect).
    pub async fn connect_async(url: &str) -> Result<Self, Error> {
        Self::connect_with_async(Config::from_url(url)?).await
    }

    /// Connects as [`connect_with`](Client::connect_with) does, in async code.
    ///
    /// # Errors
    /// As for [`connect_with`](Client::connect_with).
    pub async fn connect_with_async(config: Config) -> Result<Self, Error> {
        #[cfg(feature = "embedded")]
        if let Endpoint::Embedded(_) = config.endpoint {
            return apart("sleeve-connect", move || Self::connect_with(config)).await;
        }
        let client = Self::open_with(config)?;
        client.origin.transport.await_first().await?;
        Ok(client)
    }

    /// Creates a client while its connection is being made: it returns at once, and requests that are sent before it is
    /// connected go out then.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) for a bad URL,
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the system gives no thread.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(Config::from_url(url)?)
    }

    /// Creates a client as [`open`](Client::open) does, with a configuration.
    ///
    /// # Errors
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the system gives no thread.
    pub fn open_with(config: Config) -> Result<Self, Error> {
        let database = config.database;
        let transport = Transport::open(config, true)?;
        Ok(Self { origin: Origin::new(transport), database })
    }

    /// Creates an engine of its own in this process: no socket, no other process, and a call runs in the thread that makes
    /// it. The engine ends with its last handle.
    ///
    /// The URL `embedded://` does the same; `embedded://name` shares the engine of that name within the process.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Self {
        let config = Config::new(Endpoint::Embedded(None));
        let transport = Transport::Local(Embedded::open_own(config));
        Self { origin: Origin::new(transport), database: 0 }
    }

    /// Creates an engine of its own in this process, with feature `embedded`. This build is without it, so no call compiles.
    ///
    /// ```compile_fail
    /// let client = sleeve::Client::embedded();
    /// ```
    #[cfg(not(feature = "embedded"))]
    pub fn embedded<'a>() -> Self
    where
        // The compiler refuses a bound without a parameter at the method itself.
        &'a (): EngineBuild,
    {
        match *<&'a () as EngineBuild>::engine() {}
    }

    /// Serves the embedded engine to other programs too, at this address; port 0 takes a free one. Returns the address.
    ///
    /// Its threads serve until the engine's last handle is gone.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) when this client is connected to a server,
    /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the system refuses the address.
    #[cfg(feature = "embedded")]
    pub fn listen(&self, address: SocketAddr) -> Result<SocketAddr, Error> {
        match &self.origin.transport {
            Transport::Local(embedded) => embedded
                .listen(address)
                .map_err(|error| Error::unsent(ErrorKind::Connect, format!("cannot listen at {address}: {error}"))),
            Transport::Remote(_) | Transport::Replicated(..) | Transport::Cluster(_) => {
                Err(Error::usage("only an embedded engine can be served from here"))
            }
        }
    }

    /// Returns another database of the same server, on the same connection.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// # use sleeve::{Client, prelude::*};
    /// # let client = Client::connect("embedded://")?;
    /// let sessions = client.db(1);
    /// sessions.incr("count").forget(); // SELECT goes ahead of it only if the connection is elsewhere
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn db(&self, database: u32) -> Db {
        Db { origin: self.origin.clone(), database }
    }

    /// Returns the configuration of the client.
    pub fn config(&self) -> &Config {
        self.origin.transport.config()
    }

    /// Returns the metrics of the client's shared connection; in a cluster, of the one to each node. They are followed by
    /// those of the connections for priority and lanes, which have another [`Role`](crate::Role). An engine in this process
    /// has no connection; its INFO has its metrics. The work of a lease, of a command that waits, or of a subscription is not
    /// counted here.
    pub fn metrics(&self) -> Vec<Metrics> {
        self.origin.metrics()
    }

    /// Refuses further commands, waits until those that were sent are answered, including those that wait on the server, and
    /// closes the connections. `Duration::MAX` waits without a limit.
    ///
    /// Dropping the last handle does the same without the wait.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if some are not answered in time; they may still be answered later.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        self.origin.close(timeout)
    }

    /// Closes the client as [`close`](Client::close) does, in async code: the runtime's thread is not blocked.
    ///
    /// # Errors
    /// As for [`close`](Client::close).
    pub async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        self.origin.close_async(timeout).await
    }
}

/// A database of a [`Client`], to which commands are sent.
#[derive(Clone)]
pub struct Db {
    pub(crate) origin: Arc<Origin>,
    pub(crate) database: u32,
}

impl Db {
    /// Returns the number of the database.
    pub fn number(&self) -> u32 {
        self.database
    }
}

/// Defines the methods that a client and a database have in common.
macro_rules! handle {
    ($handle:ident) => {
        impl Ask for $handle {
            #[inline]
            fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
                self.origin.transport.ask(self.database, write)
            }

            fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
                self.origin.ask_waiting(self.database, None, write)
            }

            fn nodes(&self) -> Result<Vec<u32>, Error> {
                self.origin.transport.nodes()
            }

            fn ask_node<T: FromReply>(&self, node: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
                self.origin.transport.ask_node(node, self.database, write)
            }
        }

        impl $handle {
            /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
            pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
                Cmd::new(self, name)
            }

            /// Returns the same handle with a deadline for its calls, which holds in every phase of a call; see [`At`].
            pub fn at(&self, deadline: Instant) -> At {
                At { origin: self.origin.clone(), database: self.database, deadline }
            }

            /// Returns a handle with calls on a second connection, on which no large request is ahead of them; see
            /// [`Priority`].
            ///
            /// # Errors
            /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the system gives no descriptor, or the client is
            /// another process's.
            pub fn priority(&self) -> Result<Priority, Error> {
                Ok(Priority::new(self.origin.clone(), self.origin.priority()?, self.database))
            }

            /// Returns a handle that sends large calls over a second connection, so that small calls never wait behind them;
            /// [`Lanes`] states its promises of order.
            ///
            /// # Errors
            /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) in a cluster, which has a connection to each node: use
            /// [`priority`](Self::priority) there. [`ErrorKind::Closed`](crate::ErrorKind::Closed) when the client was
            /// closed.
            pub fn lanes(&self) -> Result<Lanes, Error> {
                Ok(Lanes::new(self.origin.clone(), self.origin.lane(None)?, self.database))
            }

            /// Returns a handle as [`lanes`](Self::lanes) does, with options.
            ///
            /// # Errors
            /// As for [`lanes`](Self::lanes), and when the client has lanes already, with other options.
            pub fn lanes_with(&self, options: LaneOptions) -> Result<Lanes, Error> {
                Ok(Lanes::new(self.origin.clone(), self.origin.lane(Some(options))?, self.database))
            }

            /// Returns a handle with reads that are answered in this process if that is sound: replies are kept until the
            /// server reports that their keys have changed; see [`Cached`] and [`CacheOptions`]. A client has one such cache,
            /// which lasts as long as the client. In a cluster each node reports changes of the keys that it owns.
            ///
            /// # Errors
            /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) when the client is configured for RESP2. The client learns later
            /// whether the server can report changes: if it cannot, the reads fail with an error that says so.
            pub fn cached(&self) -> Result<Cached, Error> {
                Ok(Cached::new(self.origin.clone(), self.origin.near(None)?, self.database))
            }

            /// Returns a handle as [`cached`](Self::cached) does, with options.
            ///
            /// # Errors
            /// As for [`cached`](Self::cached), and when the client has such a cache already, with other options.
            pub fn cached_with(&self, options: CacheOptions) -> Result<Cached, Error> {
                Ok(Cached::new(self.origin.clone(), self.origin.near(Some(options))?, self.database))
            }

            /// Gathers commands that then leave together, without another command between them; see [`Batch`].
            pub fn batch(&self) -> Batch {
                Batch::new(self.origin.clone(), self.database)
            }

            /// Returns a handle with calls that are gathered for a moment, and leave as commands for many (SETs as MSET); see
            /// [`Coalescing`].
            pub fn coalescing(&self) -> Coalescing {
                self.coalescing_with(CoalesceOptions::new())
            }

            /// Returns a handle as [`coalescing`](Self::coalescing), with a delay and the number of calls that leave together.
            pub fn coalescing_with(&self, options: CoalesceOptions) -> Coalescing {
                Coalescing::new(self.origin.clone(), self.database, options)
            }

            /// Gathers commands that are executed as one, if its conditions hold; see [`Transaction`].
            pub fn transaction(&self) -> Transaction {
                Transaction::new(self.origin.transport.clone(), self.database)
            }

            /// Leases a connection for one caller, for WATCH by hand and for commands that change their connection; see
            /// [`Lease`]. In a cluster its first command decides on the node.
            ///
            /// # Errors
            /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when the system gives no thread. A connection that cannot be
            /// made fails the commands, not this.
            pub fn lease(&self) -> Result<Lease, Error> {
                Lease::new(self.origin.clone(), self.database)
            }

            /// Leases a connection as [`lease`](Self::lease) does, to the node of a cluster that has this key, or these keys
            /// in one slot; over a single server the same as `lease`.
            ///
            /// The lease stays with its node. A command that it sends once the slot has moved fails with the node's own words
            /// (`MOVED`), and nothing is executed: take another.
            ///
            /// # Errors
            /// As for [`lease`](Self::lease); [`ErrorKind::Usage`](crate::ErrorKind::Usage) for keys in several slots.
            pub fn lease_for(&self, keys: impl ToArgs) -> Result<Lease, Error> {
                Lease::at(self.origin.clone(), self.database, keys)
            }

            /// Listens to channels, on a connection of its own that is made again when it is lost. Waits until the server has
            /// confirmed it, so that every message that is published from now on arrives.
            ///
            /// ```
            /// # #[cfg(feature = "embedded")] {
            /// # use sleeve::{Client, SubscriptionEvent, prelude::*};
            /// # let client = Client::connect("embedded://")?;
            /// let subscription = client.subscribe(["news", "weather"])?;
            /// client.publish("weather", "sunny").forget();
            /// for event in &subscription {
            ///     match event? {
            ///         SubscriptionEvent::Message(message) => {
            ///             println!("{}: {:?}", message.channel_text(), message.payload);
            ///             break;
            ///         }
            ///         SubscriptionEvent::Resumed => println!("(some messages may be missing)"),
            ///         _ => {}
            ///     }
            /// }
            /// # }
            /// # Ok::<(), sleeve::Error>(())
            /// ```
            ///
            /// # Errors
            /// [`ErrorKind::Connect`](crate::ErrorKind::Connect) when no connection can be made,
            /// [`ErrorKind::Server`](crate::ErrorKind::Server) when the server refuses.
            pub fn subscribe(&self, channels: impl ToArgs) -> Result<Subscription, Error> {
                Subscription::open(&self.origin.transport, SubscriptionVerb::Subscribe, channels)
            }

            /// Listens as [`subscribe`](Self::subscribe) does, in async code: the runtime's thread is not blocked until it is
            /// confirmed.
            ///
            /// # Errors
            /// As for [`subscribe`](Self::subscribe).
            pub async fn subscribe_async(&self, channels: impl ToArgs) -> Result<Subscription, Error> {
                Subscription::open_async(self.origin.transport.clone(), SubscriptionVerb::Subscribe, channels).await
            }

            /// Listens to all channels with names that match glob patterns; see [`subscribe`](Self::subscribe).
            ///
            /// # Errors
            /// As for [`subscribe`](Self::subscribe).
            pub fn psubscribe(&self, patterns: impl ToArgs) -> Result<Subscription, Error> {
                Subscription::open(&self.origin.transport, SubscriptionVerb::PSubscribe, patterns)
            }

            /// Listens as [`psubscribe`](Self::psubscribe) does, in async code: the runtime's thread is not blocked until it
            /// is confirmed.
            ///
            /// # Errors
            /// As for [`subscribe`](Self::subscribe).
            pub async fn psubscribe_async(&self, patterns: impl ToArgs) -> Result<Subscription, Error> {
                Subscription::open_async(self.origin.transport.clone(), SubscriptionVerb::PSubscribe, patterns).await
            }

            /// Listens to shard channels; see [`subscribe`](Self::subscribe).
            ///
            /// # Errors
            /// As for [`subscribe`](Self::subscribe).
            pub fn ssubscribe(&self, channels: impl ToArgs) -> Result<Subscription, Error> {
                Subscription::open(&self.origin.transport, SubscriptionVerb::SSubscribe, channels)
            }

            /// Listens as [`ssubscribe`](Self::ssubscribe) does, in async code: the runtime's thread is not blocked until it
            /// is confirmed.
            ///
            /// # Errors
            /// As for [`subscribe`](Self::subscribe).
            pub async fn ssubscribe_async(&self, channels: impl ToArgs) -> Result<Subscription, Error> {
                Subscription::open_async(self.origin.transport.clone(), SubscriptionVerb::SSubscribe, channels).await
            }

            /// Reads, decides and writes with no other client changing the keys in between, or begins again.
            ///
            /// The closure reads by the lease, which has a connection that watches the keys, and adds its writes to the
            /// transaction. If a key was changed before it could be executed, the closure is called again. It runs on this
            /// thread, on a connection of its own, so it may take its time.
            ///
            /// ```
            /// # #[cfg(feature = "embedded")] {
            /// # use sleeve::{Client, prelude::*};
            /// # let client = Client::connect("embedded://")?;
            /// client.set("n", 21).forget();
            /// let doubled = client.watch("n", |lease, transaction| {
            ///     let n: i64 = lease.get("n").wait()?;
            ///     transaction.set("n", n * 2).forget();
            ///     Ok(n * 2)
            /// })?;
            /// assert_eq!(doubled, 42);
            /// # }
            /// # Ok::<(), sleeve::Error>(())
            /// ```
            ///
            /// # Errors
            /// The closure's own error, which executes nothing; or the reason why the transaction failed.
            pub fn watch<R>(
                &self,
                keys: impl ToArgs,
                attempt: impl FnMut(&Lease, &Transaction) -> Result<R, Error>,
            ) -> Result<R, Error> {
                lease::watch(&self.origin, self.database, keys, attempt)
            }

            /// Works as [`watch`](Self::watch) does, in async code.
            ///
            /// # Errors
            /// As for [`watch`](Self::watch).
            pub async fn watch_async<R>(
                &self,
                keys: impl ToArgs,
                attempt: impl AsyncFnMut(&Lease, &Transaction) -> Result<R, Error>,
            ) -> Result<R, Error> {
                lease::watch_async(&self.origin, self.database, keys, attempt).await
            }
        }
    };
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("config", self.config()).finish()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("database", &self.database).finish_non_exhaustive()
    }
}

/// A check at compile time that both handles can be used from any thread.
const _: () = {
    const fn any_thread<T: Send + Sync + Clone>() {}
    any_thread::<Client>();
    any_thread::<Db>();
};

handle!(Client);
handle!(Db);
