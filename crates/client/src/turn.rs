//! A connection that one command has for as long as it waits.
//!
//! Commands that wait on the server move here by themselves, so that nobody on the shared connection waits with them. Each
//! client keeps a few such connections for the next command. A command that is answered gives its connection back; one whose
//! reply is dropped before gives it up, and with the connection the server forgets the command. Any thread.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Error;
use crate::route::Route;

/// Connections that a client keeps for the next commands that wait.
pub(crate) const IDLE_WAITERS_MAX: usize = 16;

/// Connections for the next commands that wait. They are closed when neither a client nor a waiting command is left.
#[derive(Default)]
pub(crate) struct Waiters {
    idle: Mutex<Vec<Route>>,
}

impl Drop for Waiters {
    fn drop(&mut self) {
        for route in self.idle.get_mut().drain(..) {
            // Without a wait it cannot fail.
            let _ = route.close(None);
        }
    }
}

/// See the file's head.
pub(crate) struct Turn {
    waiters: Arc<Waiters>,
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
        Ok(Self { waiters: waiters.clone(), route })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
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
