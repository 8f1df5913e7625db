//! What a thread sleeps by that has nothing to do until somebody says so.
//!
//! It is rung from any thread, and stays rung until it is heard, so that nothing is missed that happened just before the
//! sleep.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A sleeping thread's wake-up call, with a time at which it wakes by itself.
#[derive(Default)]
pub(crate) struct Alarm {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Alarm {
    /// Ends the present or the next sleep.
    pub(crate) fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_one();
    }

    /// Rings it for whoever turns a clock, as long as it is there.
    pub(crate) fn watcher(self: &Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static {
        let alarm = Arc::downgrade(self);
        move || alarm.upgrade().map(|alarm| alarm.ring()).is_some()
    }

    /// Sleeps until it has been rung, or for this long.
    pub(crate) fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut rung = self.rung.lock();
        while !*rung && !self.changed.wait_until(&mut rung, until).timed_out() {}
        *rung = false;
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
