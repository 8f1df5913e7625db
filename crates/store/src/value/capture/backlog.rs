//! The state that all parts of one snapshot share: the bytes that wait to be written, and whether the snapshot was aborted.
//!
//! Plain atomic values, used from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of captured bytes that wait, and whether the bound is reached.
#[derive(Debug, Default)]
pub struct Waiting {
    count: Count,
    is_too_much: IsTooMuch,
}

/// The counters. They are written all the time while a snapshot is taken, so they lie on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count {
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
}

/// The flag that the bound is reached. Each command that writes reads it, and it is hardly ever written.
#[derive(Debug, Default)]
#[repr(align(128))]
struct IsTooMuch(AtomicBool);

impl Waiting {
    /// Returns the number of bytes that wait to be written.
    pub fn bytes(&self) -> usize {
        self.count.bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the bound has been reached since it was set. Fewer bytes may wait by now.
    #[inline]
    pub fn is_too_much(&self) -> bool {
        self.is_too_much.0.load(Ordering::Relaxed)
    }

    /// Sets the number of waiting bytes from which on [`Waiting::is_too_much`] returns true.
    pub fn bound(&self, bytes_max: usize) {
        self.count.bytes_max.store(bytes_max, Ordering::Relaxed);
        let is_too_much = self.bytes() >= bytes_max;
        // Bytes that are delivered at the same time are seen by the next delivery.
        if is_too_much != self.is_too_much() {
            self.is_too_much.0.store(is_too_much, Ordering::Relaxed);
        }
    }

    fn add(&self, bytes: usize) {
        let waiting = self.count.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if waiting >= self.count.bytes_max.load(Ordering::Relaxed) {
            self.is_too_much.0.store(true, Ordering::Relaxed);
        }
    }

    fn release(&self, bytes: usize) {
        self.count.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The waiting bytes of one snapshot, as all of its parts count them.
#[derive(Debug)]
pub struct Backlog {
    /// The bytes that were delivered and not written yet; the code that holds back writers reads it too.
    waiting: Arc<Waiting>,
    is_aborted: AtomicBool,
}

impl Backlog {
    /// Makes a backlog that adds to `waiting`.
    pub fn new(waiting: Arc<Waiting>) -> Self {
        Self { waiting, is_aborted: AtomicBool::new(false) }
    }

    /// Adds to the bytes that wait.
    pub fn add(&self, bytes: usize) {
        self.waiting.add(bytes);
    }

    /// Subtracts from the bytes that wait.
    pub fn release(&self, bytes: usize) {
        self.waiting.release(bytes);
    }

    /// Returns whether the snapshot was aborted: nothing is copied any more, and pending entries are only marked as captured.
    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    /// Marks the snapshot as aborted.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_too_much_from_the_bound_on_until_that_is_set_again() {
        let waiting = Waiting::default();
        waiting.bound(100);
        waiting.add(99);
        assert!(!waiting.is_too_much());
        waiting.add(1);
        waiting.release(50);
        assert!(waiting.is_too_much(), "the bound has been reached since it was set");
        waiting.bound(100);
        assert!(!waiting.is_too_much());
        waiting.add(49);
        assert_eq!((waiting.is_too_much(), waiting.bytes()), (false, 99));
        waiting.bound(99);
        assert!(waiting.is_too_much(), "as much waits as may from now on");
    }
}
