//! An event on which a thread sleeps that has nothing to do.
//!
//! Any thread may wake it, and a wake-up is kept until it is taken, so that none is missed that came just before the sleep.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::lock::{Condvar, Mutex};

/// A sleeping thread's wake-up call, with a time at which it wakes by itself.
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

    /// Returns a function that wakes it when a clock is advanced, as long as it exists.
    pub(crate) fn watcher(self: &Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static {
        let wakeup = Arc::downgrade(self);
        move || wakeup.upgrade().map(|wakeup| wakeup.wake()).is_some()
    }

    /// Sleeps until it has been woken, or for this long.
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
