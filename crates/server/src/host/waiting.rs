//! Waiting: until another thread says that something has changed, or until time has passed.
//!
//! Threads of an engine that wait do it here, with the calls of the library that does it. In a simulation (`simulated`), where
//! one thread has the work of all, whoever waits lets the others go on instead.

use std::time::Duration;

use parking_lot::MutexGuard;

#[cfg(test)]
use super::simulated;

/// What threads wait for that hold a mutex, which they give back meanwhile. Any thread.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    #[cfg(test)]
    told: simulated::Told,
}

/// Whether the time was over before anybody said anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut(bool);

impl TimedOut {
    /// Whether it was.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Nobody waits yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has all go on who wait.
    pub fn notify_all(&self) {
        #[cfg(test)]
        self.told.note();
        self.inner.notify_all();
    }

    /// Waits until somebody says that something has changed.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        #[cfg(test)]
        if simulated::is_on() {
            self.told.wait(guard, None);
            return;
        }
        self.inner.wait(guard);
    }

    /// The same, or until the time is over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> TimedOut {
        #[cfg(test)]
        if simulated::is_on() {
            return TimedOut(!self.told.wait(guard, Some(time)));
        }
        TimedOut(self.inner.wait_for(guard, time).timed_out())
    }

    /// Waits as long as this is so, or until the time is over.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut is_so: impl FnMut(&mut T) -> bool,
        time: Duration,
    ) {
        #[cfg(test)]
        if simulated::is_on() {
            while is_so(guard) && self.told.wait(guard, Some(time)) {}
            return;
        }
        self.inner.wait_while_for(guard, |value| is_so(value), time);
    }
}

/// Waits until so much time has passed.
pub fn sleep(time: Duration) {
    #[cfg(test)]
    if simulated::is_on() {
        simulated::wait_until(time, || false);
        return;
    }
    std::thread::sleep(time);
}
