//! Connections that one caller uses alone for a while: a lease, or a blocking command.
//!
//! Each client keeps a few of them for the next call that needs one. The caller decides whether a lost connection is made
//! again: a blocking command is then sent on the next one if it had not left, while a lease would forget its watched keys. In
//! the pool no lost connection is made again. Blocking commands get a connection from here by themselves, so that no caller
//! on the shared connection waits behind them. When such a command is answered, its connection goes back to the pool. If its
//! reply is dropped before, the connection is given up, and with the connection the server forgets the command. Any thread.

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
use crate::resp::request::{EncodedRequest, ToArgs};
use crate::sys::lock::Mutex;

/// The number of idle connections that a client keeps.
const IDLE_MAX: usize = 16;

/// The idle connections, and those of blocking commands. They are closed when neither a client nor a blocking command is
/// left.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Transport>>,
    waiting: Mutex<Waiting>,
}

/// The connections on which commands wait at present.
#[derive(Default)]
struct Waiting {
    /// The number of the next command.
    next: u64,
    transports: Vec<(u64, Transport)>,
}

impl Pool {
    /// Returns an idle connection, or opens another to the same server. A `lasting` one is made again when it is lost.
    pub(crate) fn take(&self, transport: &Transport, lasting: bool) -> Result<Transport, Error> {
        loop {
            let Some(idle) = self.idle.lock().pop() else { return transport.separate(lasting) };
            // A connection that was lost in the pool is closed.
            if idle.leave_pool(lasting) {
                return Ok(idle);
            }
            close(&idle);
        }
    }

    /// Returns a connection as `take` does, to the node that has these keys, which in a cluster are all in one slot. It is
    /// not made again when it is lost.
    pub(crate) fn take_at(&self, transport: &Transport, keys: impl ToArgs) -> Result<Transport, Error> {
        let Transport::Cluster(cluster) = transport else { return self.take(transport, false) };
        self.take_to(cluster, Some(slot_of_all("a lease", keys)?))
    }

    /// Returns a connection as `take_at` does, to the node that has the keys of this request.
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

    /// Returns an idle connection to this server, if there is one.
    pub(crate) fn take_idle_to(&self, endpoint: &Endpoint) -> Option<Arc<Link>> {
        loop {
            let mut idle = self.idle.lock();
            let place = idle.iter().rposition(|idle| idle.config().endpoint == *endpoint)?;
            let taken = idle.swap_remove(place);
            drop(idle);
            // A connection that was lost in the pool is closed.
            match taken {
                Transport::Remote(link) if link.leave_pool(false) => return Some(link),
                lost => close(&lost),
            }
        }
    }

    /// Keeps a connection for the next call, or closes it. The last request on it may still be unanswered.
    pub(crate) fn give_back(&self, transport: Transport) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && transport.enter_pool() {
            return idle.push(transport);
        }
        drop(idle);
        close(&transport);
    }

    /// Returns the connections on which commands wait at present.
    pub(crate) fn waiting(&self) -> Vec<Transport> {
        self.waiting.lock().transports.iter().map(|(_, transport)| transport.clone()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.idle.get_mut().drain(..).for_each(|transport| close(&transport));
    }
}

/// Closes a connection, which ends when its calls are answered.
fn close(transport: &Transport) {
    // A close without a wait cannot fail.
    let _ = transport.close(None);
}

/// The connection on which one command waits; when this is dropped, it goes back to the pool.
pub(crate) struct PoolGuard {
    pool: Arc<Pool>,
    number: u64,
    pub(crate) transport: Transport,
}

impl PoolGuard {
    /// Takes a connection for a command that waits.
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

/// The connection of a command that waits in a cluster; when this is dropped, it is kept for the next.
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
