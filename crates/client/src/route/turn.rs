//! A connection that one command has for as long as it waits.
//!
//! Commands that wait on the server move here by themselves, so that nobody on the shared connection waits with them. Each
//! client keeps a few such connections for the next command. A command that is answered gives its connection back; one whose
//! reply is dropped before gives it up, and with the connection the server forgets the command. Any thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Route;
use crate::error::Error;

/// Connections that a client keeps for the next commands that wait.
pub(crate) const IDLE_WAITERS_MAX: usize = 16;

/// Connections of commands that wait, and for the next of them. They are closed when neither a client nor a waiting command is
/// left.
#[derive(Default)]
pub(crate) struct Waiters {
    idle: Mutex<Vec<Route>>,
    taken: Mutex<Taken>,
}

/// Connections that commands have for themselves now.
#[derive(Default)]
struct Taken {
    /// The number that the next command gets.
    next: u64,
    routes: Vec<(u64, Route)>,
}

impl Waiters {
    /// Waits until what waits is answered, or the time is over. The connections take nothing else.
    pub(crate) fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let taken: Vec<Route> = self.taken.lock().routes.iter().map(|(_, route)| route.clone()).collect();
        taken.into_iter().try_for_each(|route| {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // A time beyond what the machine can count is never over.
            route.close(Some(left.unwrap_or(Duration::MAX)))
        })
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        for route in self.idle.get_mut().drain(..) {
            // Without a wait it cannot fail.
            let _ = route.close(None);
        }
    }
}

/// A leased connection on which one command waits.
pub(crate) struct Turn {
    waiters: Arc<Waiters>,
    number: u64,
    pub(crate) route: Route,
}

impl Turn {
    /// A connection that is free, or another one.
    pub(crate) fn take(waiters: &Arc<Waiters>, route: &Route) -> Result<Self, Error> {
        let idle = waiters.idle.lock().pop();
        let route = match idle {
            Some(route) => route,
            None => route.twin()?,
        };
        let mut taken = waiters.taken.lock();
        let number = taken.next;
        taken.next += 1;
        taken.routes.push((number, route.clone()));
        drop(taken);
        Ok(Self { waiters: waiters.clone(), number, route })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.waiters.taken.lock().routes.retain(|(number, _)| *number != self.number);
        if !self.route.is_idle() {
            return self.route.abort();
        }
        let mut idle = self.waiters.idle.lock();
        if idle.len() < IDLE_WAITERS_MAX {
            return idle.push(self.route.clone());
        }
        drop(idle);
        // Without a wait it cannot fail.
        let _ = self.route.close(None);
    }
}
