//! One node of a cluster, or a replica that serves reads, as a client sees it: its address, the shared connection, and the
//! time of the next attempt.
//!
//! A node has one connection at a time, which is not made again when it is lost: requests that had not left on it come back
//! and go to the owner of the slot by then. Only the cluster's own task makes another one. The task runs on the thread on
//! which connections end, so all requests of a lost connection are back before a request is sent on the next.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::config::{Config, Endpoint};
use crate::connection::probe::ServerHealth;
use crate::connection::{Link, task};
use crate::reactor::TaskWaker;
use crate::sys::lock::{Mutex, RwLock};

/// The address at which a node listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Reads an address from `host:port`. The host may be an address of IPv6, or missing; then it is `asked`.
    pub(super) fn read(text: &str, asked: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self::of(host, port.parse().ok()?, asked))
    }

    /// Returns the address with a host that a node has named. If the node did not know its own host, it is the one by which
    /// the node was asked.
    pub(super) fn of(host: &str, port: u16, asked: &str) -> Self {
        let host = if host.is_empty() || host == "?" { asked } else { host };
        Self { host: host.to_owned(), port }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint::Tcp { host: self.host.clone(), port: self.port }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.endpoint().fmt(f)
    }
}

/// The fitness of a replica to be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fitness {
    /// The replica cannot be read from: its connection is not ready for that, or it has no data.
    Unfit,
    /// The replica has data, but does not keep up with its primary.
    Stale,
    /// The replica keeps up with its primary.
    Fit,
}

/// One node.
pub(super) struct Node {
    /// The number by which requests name the node.
    pub(super) number: u32,
    pub(super) address: Address,
    /// The cluster's configuration, with the address of this node.
    config: Config,
    health: Arc<ServerHealth>,
    link: RwLock<Option<Arc<Link>>>,
    /// The number of failed attempts to connect in a row.
    failures: AtomicU32,
    /// The time of the next attempt to connect.
    rests_until: Mutex<Option<Instant>>,
    /// The time at which a redirect last named the node.
    named: Mutex<Option<Instant>>,
    /// The fitness of a replica to be read from.
    fitness: AtomicU8,
    /// True if the node is in the zone that reads prefer.
    is_near: AtomicBool,
}

impl Node {
    pub(super) fn new(number: u32, address: Address, config: &Config) -> Self {
        let config = Config { endpoint: address.endpoint(), ..config.clone() };
        let (link, failures, rests_until, named) = Default::default();
        let (fitness, is_near) = Default::default();
        Self { number, address, config, health: Arc::default(), link, failures, rests_until, named, fitness, is_near }
    }

    /// Returns a node of a cluster. If it is silent, the cluster's task asks other nodes about it.
    pub(super) fn in_cluster(number: u32, address: Address, config: &Config, inquirer: TaskWaker) -> Self {
        Self { health: ServerHealth::of_node(inquirer), ..Self::new(number, address, config) }
    }

    /// Returns a node for the server at the other end of this connection.
    pub(super) fn around(number: u32, link: &Arc<Link>) -> Self {
        let node = Self::new(number, Address { host: String::new(), port: 0 }, &link.config);
        *node.link.write() = Some(Arc::clone(link));
        node
    }

    /// Opens a separate connection to the node, which is not made again when it is lost.
    pub(super) fn separate(&self) -> io::Result<Arc<Link>> {
        let link = Link::new(self.config.clone(), false, Arc::clone(&self.health))?;
        task::start(Arc::clone(&link))?;
        Ok(link)
    }

    /// Returns the configuration for a connection to the node, and the health that all connections to it share.
    pub(super) fn place(&self) -> (Config, Arc<ServerHealth>) {
        (self.config.clone(), Arc::clone(&self.health))
    }

    /// Returns the health that all connections to the node share.
    pub(super) fn health(&self) -> &ServerHealth {
        &self.health
    }

    /// Returns the shared connection, if there is one or one is being made.
    #[inline]
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.read().clone()
    }

    /// Returns whether the node is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.link().is_some_and(|link| link.shared.lock().pipe.is_connected())
    }

    /// Returns the shared connection, which is made if there is none; none while the node rests. Called by the cluster's task
    /// alone.
    pub(super) fn connect(&self, now: Instant) -> Option<Arc<Link>> {
        if let Some(link) = self.link() {
            if link.is_open() {
                return Some(link);
            }
            self.lost(&link, now);
        }
        if self.rests_until.lock().is_some_and(|until| until > now) {
            return None;
        }
        match self.separate() {
            Ok(link) => {
                link.tenure.is_common.store(true, Ordering::Relaxed);
                // The connection has not been switched to reading yet.
                self.set_fitness(Fitness::Unfit);
                *self.link.write() = Some(Arc::clone(&link));
                Some(link)
            }
            Err(_) => {
                self.rest(now);
                None
            }
        }
    }

    /// Notes that the shared connection has ended. A connection that was never made counts as a failure.
    fn lost(&self, link: &Link, now: Instant) {
        *self.link.write() = None;
        match link.shared.lock().first {
            Some(Ok(())) => self.failures.store(0, Ordering::Relaxed),
            _ => return self.rest(now),
        }
        *self.rests_until.lock() = None;
    }

    /// Notes that the node could not be reached: no attempt is made for a while, which is longer each time.
    fn rest(&self, now: Instant) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause =
            self.config.retry.backoff_min.saturating_mul(1 << failures.min(20)).min(self.config.retry.backoff_max);
        *self.rests_until.lock() = now.checked_add(pause);
    }

    /// Returns whether the replica has this fitness, or a better one.
    #[inline]
    pub(super) fn is(&self, fitness: Fitness) -> bool {
        self.fitness.load(Ordering::Relaxed) >= fitness as u8
    }

    pub(super) fn set_fitness(&self, fitness: Fitness) {
        self.fitness.store(fitness as u8, Ordering::Relaxed);
    }

    /// Returns whether the node is in the zone that reads prefer.
    #[inline]
    pub(super) fn is_near(&self) -> bool {
        self.is_near.load(Ordering::Relaxed)
    }

    pub(super) fn set_near(&self, is_near: bool) {
        self.is_near.store(is_near, Ordering::Relaxed);
    }

    /// Notes that a redirect has named the node.
    pub(super) fn name(&self, now: Instant) {
        *self.named.lock() = Some(now);
    }

    /// Returns whether a redirect has named the node within this time.
    pub(super) fn was_named_within(&self, time: Duration, now: Instant) -> bool {
        self.named.lock().is_some_and(|named| now.saturating_duration_since(named) < time)
    }

    /// Returns the time until the next attempt to connect; none if it may be made now.
    pub(super) fn rests(&self, now: Instant) -> Option<Duration> {
        let until = (*self.rests_until.lock())?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Returns the reason why the node cannot be reached, if an attempt has failed.
    pub(super) fn trouble(&self) -> Option<String> {
        let link = self.link()?;
        let shared = link.shared.lock();
        match &shared.first {
            Some(Err(error)) => Some(error.message().to_owned()),
            _ => shared.trouble().map(|trouble| format!("{}: {trouble}", self.address)),
        }
    }

    /// Ends the connection to a node that is no longer needed: calls in flight are answered, unsent ones come back.
    pub(super) fn dismiss(&self) {
        let Some(link) = self.link.write().take() else { return };
        let is_connected = link.shared.lock().pipe.is_connected();
        if is_connected {
            // A close without a wait cannot fail.
            let _ = link.close(None);
        } else {
            link.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_nodes_write_it() {
        let read = |text: &str| Address::read(text, "asked").map(|address| address.to_string());
        assert_eq!(read("127.0.0.1:7000").as_deref(), Some("127.0.0.1:7000"));
        assert_eq!(read("::1:7000").as_deref(), Some("[::1]:7000"));
        assert_eq!(read("[::1]:7000").as_deref(), Some("[::1]:7000"));
        assert_eq!(read(":7000").as_deref(), Some("asked:7000"));
        assert_eq!(read("?:7000").as_deref(), Some("asked:7000"));
        for odd in ["", "host", "host:", "host:x", "host:70000"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }
}
