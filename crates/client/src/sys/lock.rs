//! The client's locks, which a forked child can use: a waiting thread waits at the lock's own memory, and nowhere else.
//!
//! Locks that keep all waiting threads in one table of the process, as `parking_lot`'s do, have a lock on that table. If a
//! process forks while one of its threads holds the lock of the table, the child finds it taken for ever, also for locks that
//! the child makes itself. So on Linux the locks are our own (`lock/futex`), with the types of `lock_api`, and so with the
//! calls of `parking_lot`. Other systems offer no wait at a word in memory, so the locks there are `parking_lot`'s, and a
//! forked child has the fault described above. No lock is fair, and no lock is poisoned when its holder panics. A thread that
//! a condition variable wakes checks its condition again: the wake-up may be spurious. Any thread.

#[cfg(target_os = "linux")]
mod futex;
#[cfg(test)]
mod tests;

use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

#[cfg(target_os = "linux")]
pub(crate) use futex::{Condvar, Mutex, MutexGuard};
#[cfg(not(target_os = "linux"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

/// Waits for a notification, until the deadline if there is one. Returns false if the deadline has passed.
pub(crate) fn wait_by<T: ?Sized>(changed: &Condvar, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) -> bool {
    match deadline {
        Some(deadline) => !changed.wait_until(guard, deadline).timed_out(),
        None => {
            changed.wait(guard);
            true
        }
    }
}

/// A lock for many readers or one writer: that of std, which has no table of the process either.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    /// Waits until there is no writer.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is no other holder.
    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
