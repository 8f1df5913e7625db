//! Whose time an engine goes by: the machine's, or one that stands until a test turns it.
//!
//! Sessions are opened here and exchange bytes here, so that all of one engine see the same time. Any thread.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Closed, Engine, Local};

/// The hands of an engine's clock.
#[derive(Clone, Default)]
pub(crate) struct Hands(Option<Arc<Standing>>);

/// A clock that stands.
struct Standing {
    now: Mutex<Instant>,
    /// Called when it was turned; whoever is gone says so.
    watchers: Mutex<Vec<Box<dyn Fn() -> bool + Send + Sync>>>,
}

impl Hands {
    /// Hands that stand at this time.
    pub(crate) fn standing(now: Instant) -> Self {
        Self(Some(Arc::new(Standing { now: Mutex::new(now), watchers: Mutex::default() })))
    }

    /// Whether they stand.
    pub(crate) fn stand(&self) -> bool {
        self.0.is_some()
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |standing| *standing.now.lock())
    }

    /// Turns hands that stand, and tells whoever may have waited for it.
    pub(crate) fn turn(&self, by: Duration) {
        let Some(standing) = &self.0 else { return };
        let by_us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let mut now = standing.now.lock();
        now.wall_us = now.wall_us.saturating_add_unsigned(by_us);
        now.monotonic_us = now.monotonic_us.saturating_add(by_us);
        drop(now);
        standing.watchers.lock().retain(|watcher| watcher());
    }

    /// Has this called whenever the hands were turned, until it answers false. Hands that go by themselves turn nobody.
    pub(crate) fn watch(&self, watcher: impl Fn() -> bool + Send + Sync + 'static) {
        if let Some(standing) = &self.0 {
            standing.watchers.lock().push(Box::new(watcher));
        }
    }

    /// Opens a session.
    pub(crate) fn connect(&self, engine: &Arc<Engine>, wake: impl Fn() + Send + Sync + 'static) -> Local {
        match &self.0 {
            None => engine.connect(wake),
            Some(_) => engine.connect_at(self.now(), wake),
        }
    }

    /// Exchanges requests for replies, without waiting.
    #[inline]
    pub(crate) fn exchange(&self, local: &mut Local, requests: &[u8], replies: &mut Vec<u8>) -> Result<(), Closed> {
        match &self.0 {
            None => local.exchange_now(requests, replies),
            Some(_) => local.exchange_at(self.now(), requests, replies),
        }
    }
}
