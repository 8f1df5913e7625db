//! An event that wakes a sleeping thread.
//!
//! Any thread may raise it, and a wake-up is kept until it is taken, so that the thread misses none that comes just before
//! its sleep.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::lock::{Condvar, Mutex};

/// The wake-up of a sleeping thread, which may also sleep for a limited time.
#[derive(Default)]
pub(crate) struct Wakeup {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    /// Ends the present or the next sleep.
    pub(crate) fn wake(&self) {
        *self.is_woken.lock() = true;
        self.changed.notify_one();
    }

    /// Returns a function that wakes the thread when a clock is advanced, as long as this event exists.
    pub(crate) fn watcher(self: &Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static {
        let wakeup = Arc::downgrade(self);
        move || wakeup.upgrade().map(|wakeup| wakeup.wake()).is_some()
    }

    /// Sleeps until the event is raised, or for this long.
    pub(crate) fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut is_woken = self.is_woken.lock();
        while !*is_woken && !self.changed.wait_until(&mut is_woken, until).timed_out() {}
        *is_woken = false;
    }
}

/// Starts the thread that asks for late replies.
pub(super) fn start(ask: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(test)]
    if super::tests::IS_REFUSED.get() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    thread::Builder::new().name("sleeve-embedded".to_owned()).spawn(ask).map(|_| ())
}
