//! Waiting for a notification by another thread, or for time to pass.
//!
//! All threads of an engine wait by these functions. In a simulation (`simulated`), where one thread does the work of all, a
//! waiting task lets the other tasks run instead.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

#[cfg(test)]
use super::simulated;

/// A condition variable for threads that hold a mutex, which is released during the wait. Any thread.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    #[cfg(test)]
    told: simulated::Told,
}

/// The result of a wait with a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut(bool);

impl TimedOut {
    /// Returns whether the timeout passed.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Returns a condition variable without waiters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        #[cfg(test)]
        self.told.note();
        self.inner.notify_all();
    }

    /// Waits for a notification.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        #[cfg(test)]
        if simulated::is_on() {
            self.told.wait(guard, None);
            return;
        }
        self.inner.wait(guard);
    }

    /// Waits for a notification, or for the timeout.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> TimedOut {
        #[cfg(test)]
        if simulated::is_on() {
            return TimedOut(!self.told.wait(guard, Some(time)));
        }
        TimedOut(self.inner.wait_for(guard, time).timed_out())
    }

    /// Waits as long as the condition holds, or until the timeout.
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

/// A mark for work that this holder will finish: dropping it marks the work as finished, with any outcome.
#[derive(Debug, Default)]
pub struct Pending(Arc<(Mutex<bool>, Condvar)>);

/// A handle for waiting until the end of that work.
#[derive(Debug)]
pub struct Ending(Arc<(Mutex<bool>, Condvar)>);

impl Pending {
    /// Returns a handle for waiting until the work is finished.
    pub fn ending(&self) -> Ending {
        Ending(Arc::clone(&self.0))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (is_over, changed) = &*self.0;
        *is_over.lock() = true;
        changed.notify_all();
    }
}

impl Ending {
    /// Waits until the work is finished.
    pub fn wait(&self) {
        let (is_over, changed) = &*self.0;
        let mut is_over = is_over.lock();
        while !*is_over {
            changed.wait(&mut is_over);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::clock::Instant;

    #[test]
    fn a_task_of_a_simulation_that_waits_for_an_end_lets_the_others_go_on() {
        let now = Instant { wall_us: 0, monotonic_us: 0 };
        let on = simulated::On::begin(now, Box::new(|_, _, _| Err(std::io::ErrorKind::Unsupported.into())));
        let pending = Pending::default();
        let ending = pending.ending();
        simulated::start("waits", move || ending.wait());
        let mut tasks = on.started();
        assert!(!tasks[0].resume());
        drop(pending);
        assert!(tasks[0].resume());
    }
}
