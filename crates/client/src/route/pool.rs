//! Connections that one caller has for itself for a while: a lease, or a blocking command.
//!
//! Each client keeps a few of them for the next call that needs one. The caller says whether a lost connection is made again:
//! a blocking command is then sent on the next one if it had not left, while a lease would forget its watched keys. In the
//! pool none is made again. Blocking commands come here by themselves, so that no caller on the shared connection waits with
//! them; an answered one gives its connection back, and one with a reply that was dropped before gives it up, and with the
//! connection the server forgets the command. Any thread.

use std::sync::Arc;

use super::Route;
use super::cluster::Cluster;
use super::cluster::dedicated::DedicatedConnection;
use super::cluster::several::one_slot;
use super::cluster::slots::slot_of_all;
use crate::config::Endpoint;
use crate::connection::Link;
use crate::error::Error;
use crate::process::lock::Mutex;
use crate::reply::Guard;
use crate::request::{EncodedRequest, ToArgs};

/// The number of idle connections that a client keeps.
const IDLE_MAX: usize = 16;

/// Idle connections, and those of blocking commands. They are closed when neither a client nor a blocking command is left.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Route>>,
    waiting: Mutex<Waiting>,
}

/// Connections on which commands wait now.
#[derive(Default)]
struct Waiting {
    /// The number that the next command gets.
    next: u64,
    routes: Vec<(u64, Route)>,
}

impl Pool {
    /// One that is free, or another one to the same place as `route`. `lasting` says whether it is made again when it is lost.
    pub(crate) fn take(&self, route: &Route, lasting: bool) -> Result<Route, Error> {
        loop {
            let Some(idle) = self.idle.lock().pop() else { return route.separate(lasting) };
            // One that was lost meanwhile is of no use.
            if idle.leave_pool(lasting) {
                return Ok(idle);
            }
            close(&idle);
        }
    }

    /// As `take`, for one that is not made again, to where these keys are: in a cluster they are all in one slot.
    pub(crate) fn take_at(&self, route: &Route, keys: impl ToArgs) -> Result<Route, Error> {
        let Route::Cluster(cluster) = route else { return self.take(route, false) };
        self.take_to(cluster, Some(slot_of_all("a lease", keys)?))
    }

    /// As `take_at`, to where the keys of this request are.
    pub(crate) fn take_for(&self, route: &Route, request: EncodedRequest<'_>) -> Result<Route, Error> {
        let Route::Cluster(cluster) = route else { return self.take(route, false) };
        self.take_to(cluster, one_slot("the lease", std::iter::once(request))?)
    }

    fn take_to(&self, cluster: &Cluster, slot: Option<u16>) -> Result<Route, Error> {
        let (config, health) = cluster.place(slot)?;
        match self.take_idle_to(&config.endpoint) {
            Some(link) => Ok(Route::Remote(link)),
            None => Route::remote(config, false, health),
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
                Route::Remote(link) if link.leave_pool(false) => return Some(link),
                lost => close(&lost),
            }
        }
    }

    /// Keeps one for the next call, or closes it. The last request on it may still be unanswered.
    pub(crate) fn give_back(&self, route: Route) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && route.enter_pool() {
            return idle.push(route);
        }
        drop(idle);
        close(&route);
    }

    /// The connections on which commands wait now.
    pub(crate) fn waiting(&self) -> Vec<Route> {
        self.waiting.lock().routes.iter().map(|(_, route)| route.clone()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.idle.get_mut().drain(..).for_each(|route| close(&route));
    }
}

/// Ends it when its calls are answered.
fn close(route: &Route) {
    // Without a wait it cannot fail.
    let _ = route.close(None);
}

/// A connection on which one command waits; dropped, it goes back to the pool.
pub(crate) struct PoolGuard {
    pool: Arc<Pool>,
    number: u64,
    pub(crate) route: Route,
}

impl PoolGuard {
    /// A connection for a command that waits.
    pub(crate) fn take(pool: &Arc<Pool>, route: &Route) -> Result<Self, Error> {
        let route = pool.take(route, true)?;
        let mut waiting = pool.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.routes.push((number, route.clone()));
        drop(waiting);
        Ok(Self { pool: pool.clone(), number, route })
    }
}

impl Guard for PoolGuard {}

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.pool.waiting.lock().routes.retain(|(number, _)| *number != self.number);
        if !self.route.is_idle() {
            return self.route.abort();
        }
        self.pool.give_back(self.route.clone());
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
            self.pool.give_back(Route::Remote(link));
        }
    }
}
