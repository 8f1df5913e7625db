//! The clock of an engine: the machine's, or one that a test advances by hand.
//!
//! All sessions are opened and run through this clock, so that those of one engine see the same time. Any thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sleeve_server::host::clock::Instant;
use sleeve_server::{Closed, Engine, Local};

use crate::sys::lock::Mutex;

/// The clock that an engine uses: a manual one, or none for the machine's.
#[derive(Clone, Default)]
pub(crate) struct EngineClock(Option<Arc<ManualClock>>);

/// A clock that stands until it is advanced.
struct ManualClock {
    now: Mutex<Instant>,
    /// Functions that are called after the clock was advanced; each returns false when its owner is gone.
    watchers: Mutex<Vec<Box<dyn Fn() -> bool + Send + Sync>>>,
}

impl EngineClock {
    /// Creates a clock that stands at this time until it is advanced.
    pub(crate) fn manual(now: Instant) -> Self {
        Self(Some(Arc::new(ManualClock { now: Mutex::new(now), watchers: Mutex::default() })))
    }

    /// Returns whether the clock stands until it is advanced.
    pub(crate) fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the present time.
    pub(crate) fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |manual| *manual.now.lock())
    }

    /// Advances a manual clock, and calls its watchers.
    pub(crate) fn advance(&self, by: Duration) {
        let Some(manual) = &self.0 else { return };
        let by_us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let mut now = manual.now.lock();
        now.wall_us = now.wall_us.saturating_add_unsigned(by_us);
        now.monotonic_us = now.monotonic_us.saturating_add(by_us);
        drop(now);
        manual.watchers.lock().retain(|watcher| watcher());
    }

    /// Calls this function whenever the clock was advanced, until it returns false. The machine's clock has no watchers.
    pub(crate) fn watch(&self, watcher: impl Fn() -> bool + Send + Sync + 'static) {
        if let Some(manual) = &self.0 {
            manual.watchers.lock().push(Box::new(watcher));
        }
    }

    /// Opens a session.
    pub(crate) fn connect(&self, engine: &Arc<Engine>, wake: impl Fn() + Send + Sync + 'static) -> Local {
        Local::open_at(engine, self.now(), wake)
    }

    /// Opens a session with a flag that is set as long as the session has output.
    pub(crate) fn connect_with_flag(&self, engine: &Arc<Engine>, has_mail: Arc<AtomicBool>) -> Local {
        Local::open_with_flag(engine, self.now(), has_mail, || ())
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
