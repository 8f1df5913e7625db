//! The client's locks, which a forked child can use: a waiting thread waits at the lock's own memory, and nowhere else.
//!
//! Locks that keep all waiting threads in one table of the process, as `parking_lot`'s do, have a lock on that table. A child
//! that is forked while a thread of its parent holds that one finds it taken for ever, also for locks which the child makes
//! for itself. So on Linux the locks are our own (`lock/futex`), with the types of `lock_api`, and so with the calls of
//! `parking_lot`. Elsewhere they are `parking_lot`'s, because nothing else wakes a thread that waits at a word there; a child
//! there has the fault described above. No lock is fair, and none is poisoned when its holder panics. A thread that a
//! condition variable wakes checks its condition again: it may have been woken for nothing. Any thread.

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

/// Waits for a notification, until a deadline where there is one; false when that has passed.
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
