//! Connections that one caller has for itself for a while: a lease, or a blocking command.
//!
//! Each client keeps a few of them for the next call that needs one. The caller says whether a lost connection is made again:
//! a blocking command is then sent on the next one if it had not left, while a lease would forget its watched keys. In the
//! pool none is made again. Blocking commands come here by themselves, so that no caller on the shared connection waits with
//! them; an answered one gives its connection back, and one with a reply that was dropped before gives it up, and with the
//! connection the server forgets the command. Any thread.

use std::sync::Arc;

use super::Transport;
use super::cluster::Cluster;
use super::cluster::batches::one_slot;
use super::cluster::dedicated::DedicatedConnection;
use super::cluster::slots::slot_of_all;
use crate::config::Endpoint;
use crate::connection::Link;
use crate::error::Error;
use crate::reply::Guard;
use crate::request::{EncodedRequest, ToArgs};
use crate::sys::lock::Mutex;

/// The number of idle connections that a client keeps.
const IDLE_MAX: usize = 16;

/// Idle connections, and those of blocking commands. They are closed when neither a client nor a blocking command is left.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Transport>>,
    waiting: Mutex<Waiting>,
}

/// Connections on which commands wait now.
#[derive(Default)]
struct Waiting {
    /// The number that the next command gets.
    next: u64,
    transports: Vec<(u64, Transport)>,
}

impl Pool {
    /// Returns an idle connection, or opens another to the same place. A `lasting` one is made again when it is lost.
    pub(crate) fn take(&self, transport: &Transport, lasting: bool) -> Result<Transport, Error> {
        loop {
            let Some(idle) = self.idle.lock().pop() else { return transport.separate(lasting) };
            // One that was lost meanwhile is of no use.
            if idle.leave_pool(lasting) {
                return Ok(idle);
            }
            close(&idle);
        }
    }

    /// As `take`, for one that is not made again, to where these keys are: in a cluster they are all in one slot.
    pub(crate) fn take_at(&self, transport: &Transport, keys: impl ToArgs) -> Result<Transport, Error> {
        let Transport::Cluster(cluster) = transport else { return self.take(transport, false) };
        self.take_to(cluster, Some(slot_of_all("a lease", keys)?))
    }

    /// As `take_at`, to where the keys of this request are.
    pub(crate) fn take_for(&self, transport: &Transport, request: EncodedRequest<'_>) -> Result<Transport, Error> {
        let Transport::Cluster(cluster) = transport else { return self.take(transport, false) };
        self.take_to(cluster, one_slot("the lease", std::iter::once(request))?)
    }

    fn take_to(&self, cluster: &Cluster, slot: Option<u16>) -> Result<Transport, Error> {
        let (config, health) = cluster.place(slot)?;
        match self.take_idle_to(&config.endpoint) {
            Some(link) => Ok(Transport::Remote(link)),
            None => Transport::remote(config, false, health),
        }
    }

    /// One that is free and goes to this server.
    pub(crate) fn take_idle_to(&self, endpoint: &Endpoint) -> Option<Arc<Link>> {
        loop {
            let mut idle = self.idle.lock();
            let place = idle.iter().rposition(|idle| idle.config().endpoint == *endpoint)?;
            let taken = idle.swap_remove(place);
            drop(idle);
            // One that was lost meanwhile is of no use.
            match taken {
                Transport::Remote(link) if link.leave_pool(false) => return Some(link),
                lost => close(&lost),
            }
        }
    }

    /// Keeps one for the next call, or closes it. The last request on it may still be unanswered.
    pub(crate) fn give_back(&self, transport: Transport) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && transport.enter_pool() {
            return idle.push(transport);
        }
        drop(idle);
        close(&transport);
    }

    /// The connections on which commands wait now.
    pub(crate) fn waiting(&self) -> Vec<Transport> {
        self.waiting.lock().transports.iter().map(|(_, transport)| transport.clone()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.idle.get_mut().drain(..).for_each(|transport| close(&transport));
    }
}

/// Ends it when its calls are answered.
fn close(transport: &Transport) {
    // Without a wait it cannot fail.
    let _ = transport.close(None);
}

/// A connection on which one command waits; dropped, it goes back to the pool.
pub(crate) struct PoolGuard {
    pool: Arc<Pool>,
    number: u64,
    pub(crate) transport: Transport,
}

impl PoolGuard {
    /// A connection for a command that waits.
    pub(crate) fn take(pool: &Arc<Pool>, transport: &Transport) -> Result<Self, Error> {
        let transport = pool.take(transport, true)?;
        let mut waiting = pool.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.transports.push((number, transport.clone()));
        drop(waiting);
        Ok(Self { pool: pool.clone(), number, transport })
    }
}

impl Guard for PoolGuard {}

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.pool.waiting.lock().transports.retain(|(number, _)| *number != self.number);
        if !self.transport.is_idle() {
            return self.transport.abort();
        }
        self.pool.give_back(self.transport.clone());
    }
}

/// The connection of a command that waits in a cluster; it is kept for the next.
pub(crate) struct ClusterPoolGuard {
    pub(crate) pool: Arc<Pool>,
    pub(crate) dedicated: Arc<DedicatedConnection>,
}

impl Guard for ClusterPoolGuard {}

impl Drop for ClusterPoolGuard {
    fn drop(&mut self) {
        if let Some(link) = self.dedicated.leave() {
            self.pool.give_back(Transport::Remote(link));
        }
    }
}
