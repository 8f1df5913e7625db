//! One node of a cluster, or a replica that serves reads, as a client sees it: its address, the shared connection, and the
//! time of the next attempt.
//!
//! A node has one connection at a time, which is not made again when it is lost: requests that had not left on it come back
//! and go to the owner of the slot by then. The cluster's own task alone makes another one. It runs on the thread on which
//! connections end, so that everything that a lost one gives back is there before a request is sent on the next.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::config::{Config, Endpoint};
use crate::connection::probe::ServerHealth;
use crate::connection::{Link, task};
use crate::reactor::TaskWaker;
use crate::sys::lock::{Mutex, RwLock};

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// That of `host:port`, where the host may be an address of IPv6 or missing, which stands for `asked`.
    pub(super) fn read(text: &str, asked: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self::of(host, port.parse().ok()?, asked))
    }

    /// That of a host which a node has named. One that it does not know is the one by which it was asked.
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

/// How well a replica may be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fitness {
    /// Not at all: its connection is not ready for that, or it has no data.
    Unfit,
    /// It has data, and does not keep up with its primary.
    Stale,
    /// It keeps up with its primary.
    Fit,
}

/// One node.
pub(super) struct Node {
    /// By which requests name it.
    pub(super) number: u32,
    pub(super) address: Address,
    /// As the cluster's, but for where it is.
    config: Config,
    health: Arc<ServerHealth>,
    link: RwLock<Option<Arc<Link>>>,
    /// How often in a row it could not be reached.
    failures: AtomicU32,
    /// When it is tried again.
    rests_until: Mutex<Option<Instant>>,
    /// When a redirection named it last.
    named: Mutex<Option<Instant>>,
    /// How well it may be read from, of a replica.
    fitness: AtomicU8,
    /// Whether it is in the zone that reads prefer.
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

    /// The server at the other end of this connection, wherever that is.
    pub(super) fn around(number: u32, link: &Arc<Link>) -> Self {
        let node = Self::new(number, Address { host: String::new(), port: 0 }, &link.config);
        *node.link.write() = Some(Arc::clone(link));
        node
    }

    /// A connection of one's own to it, that is not made again when it is lost.
    pub(super) fn separate(&self) -> io::Result<Arc<Link>> {
        let link = Link::new(self.config.clone(), false, Arc::clone(&self.health))?;
        task::start(Arc::clone(&link))?;
        Ok(link)
    }

    /// Returns how to connect to it, and the health that all connections to it share.
    pub(super) fn place(&self) -> (Config, Arc<ServerHealth>) {
        (self.config.clone(), Arc::clone(&self.health))
    }

    /// Returns the health that all connections to it share.
    pub(super) fn health(&self) -> &ServerHealth {
        &self.health
    }

    /// The connection that all share, if there is one or one is being made.
    #[inline]
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.read().clone()
    }

    /// Whether its connection is there.
    pub(super) fn is_connected(&self) -> bool {
        self.link().is_some_and(|link| link.shared.lock().pipe.is_connected())
    }

    /// The connection, made if there is none; none while the node rests. For the cluster's task alone.
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

    /// Its connection has ended. One that had never come about is a failure.
    fn lost(&self, link: &Link, now: Instant) {
        *self.link.write() = None;
        match link.shared.lock().first {
            Some(Ok(())) => self.failures.store(0, Ordering::Relaxed),
            _ => return self.rest(now),
        }
        *self.rests_until.lock() = None;
    }

    /// It could not be reached: it is left alone for a while, longer each time.
    fn rest(&self, now: Instant) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause =
            self.config.retry.backoff_min.saturating_mul(1 << failures.min(20)).min(self.config.retry.backoff_max);
        *self.rests_until.lock() = now.checked_add(pause);
    }

    /// Whether it may be read from so well, or better.
    #[inline]
    pub(super) fn is(&self, fitness: Fitness) -> bool {
        self.fitness.load(Ordering::Relaxed) >= fitness as u8
    }

    pub(super) fn set_fitness(&self, fitness: Fitness) {
        self.fitness.store(fitness as u8, Ordering::Relaxed);
    }

    /// Whether it is in the zone that reads prefer.
    #[inline]
    pub(super) fn is_near(&self) -> bool {
        self.is_near.load(Ordering::Relaxed)
    }

    pub(super) fn set_near(&self, is_near: bool) {
        self.is_near.store(is_near, Ordering::Relaxed);
    }

    /// A redirection has named it.
    pub(super) fn name(&self, now: Instant) {
        *self.named.lock() = Some(now);
    }

    /// Whether a redirection has named it that recently.
    pub(super) fn was_named_within(&self, time: Duration, now: Instant) -> bool {
        self.named.lock().is_some_and(|named| now.saturating_duration_since(named) < time)
    }

    /// For how long it is left alone.
    pub(super) fn rests(&self, now: Instant) -> Option<Duration> {
        let until = (*self.rests_until.lock())?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Why it cannot be reached, as far as an attempt has told.
    pub(super) fn trouble(&self) -> Option<String> {
        let link = self.link()?;
        let shared = link.shared.lock();
        match &shared.first {
            Some(Err(error)) => Some(error.message().to_owned()),
            _ => shared.trouble().map(|trouble| format!("{}: {trouble}", self.address)),
        }
    }

    /// Ends the connection to a node that is no longer needed: calls in flight are finished, unsent ones come back.
    pub(super) fn dismiss(&self) {
        let Some(link) = self.link.write().take() else { return };
        let is_connected = link.shared.lock().pipe.is_connected();
        if is_connected {
            // Without a wait it cannot fail.
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
