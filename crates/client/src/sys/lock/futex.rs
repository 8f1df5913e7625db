//! A mutex and a condition variable on Linux: a word each at which the kernel lets threads sleep (futex).
//!
//! The mutex is the third of Ulrich Drepper's "Futexes Are Tricky": free, taken, or taken while a thread may sleep at it. To
//! take a free one is one compare-and-exchange, to release it one swap, and a system call is made only if a thread sleeps. A
//! thread that finds it taken checks it a few times more before it sleeps. Any thread.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use lock_api::{GuardNoSend, RawMutex};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::sys::timespec;

/// A value that one thread at a time may use.
pub(crate) type Mutex<T> = lock_api::Mutex<RawFutex, T>;

/// The right to use the value, until this guard is dropped.
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFutex, T>;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// The mutex is taken, and its release has to wake a sleeping thread.
const CONTENDED: u32 = 2;

/// The number of times that a thread checks a taken mutex before it sleeps: most are held for less time than a system call
/// takes.
const LOOKS_MAX: u32 = 100;

/// The state of a mutex.
pub(crate) struct RawFutex(AtomicU32);

// SAFETY: only the thread that changed the word from free to another value holds the mutex, and only the holder makes it free
// again. The holder's writes are visible to the next holder: the release is a store with Release, and taking it is a load
// with Acquire.
unsafe impl RawMutex for RawFutex {
    const INIT: Self = Self(AtomicU32::new(FREE));

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            wake(&self.0, 1);
        }
    }
}

impl RawFutex {
    /// Waits until the mutex is free, and takes it.
    #[cold]
    fn wait(&self) {
        for _ in 0..LOOKS_MAX {
            match self.0.load(Ordering::Relaxed) {
                FREE if self.try_lock() => return,
                // Other threads sleep at the mutex already, so it is held for long.
                CONTENDED => break,
                _ => hint::spin_loop(),
            }
        }
        // A thread that has slept cannot know whether others still do, so it takes the lock as one at which a thread may
        // sleep.
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            sleep(&self.0, CONTENDED, None);
        }
    }
}

/// A condition variable: a thread waits, with its mutex released, until another thread notifies it that the state has
/// changed.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    /// A number that each notification changes, so that a thread misses no notification between the release of the mutex and
    /// its sleep.
    sequence: AtomicU32,
    /// The number of waiting threads. It grows under the mutex, so a thread that has changed state under the same mutex sees
    /// all that began to wait before; without waiting threads a notification is one load.
    waiting: AtomicU32,
}

/// The outcome of a wait: true if it has ended because its deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self { sequence: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Waits for a notification. The wait may also end without one.
    pub(crate) fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, || None);
    }

    /// Waits as `wait` does, but no longer than until this time.
    pub(crate) fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> WaitTimeoutResult {
        // The kernel counts on the clock that `Instant` reads. It may be asked for less than the whole time.
        let is_over = self.wait_with(guard, || Some(timespec(until.saturating_duration_since(Instant::now()))));
        WaitTimeoutResult(is_over && Instant::now() >= until)
    }

    /// Waits with a timeout, and returns whether it has passed.
    fn wait_with<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: impl FnOnce() -> Option<Timespec>) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let sequence = self.sequence.load(Ordering::Relaxed);
        MutexGuard::unlocked(guard, || {
            let is_over = sleep(&self.sequence, sequence, timeout().as_ref());
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            is_over
        })
    }

    /// Wakes one waiting thread.
    pub(crate) fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all waiting threads.
    pub(crate) fn notify_all(&self) {
        self.notify(i32::MAX as u32);
    }

    #[inline]
    fn notify(&self, threads_max: u32) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.sequence.fetch_add(1, Ordering::Relaxed);
            wake(&self.sequence, threads_max);
        }
    }
}

/// Sleeps while the word has this value, until a wake-up. Returns whether the timeout has passed. It may also return early:
/// for a signal, or because the word has changed.
fn sleep(word: &AtomicU32, value: u32, timeout: Option<&Timespec>) -> bool {
    futex::wait(word, Flags::PRIVATE, value, timeout) == Err(Errno::TIMEDOUT)
}

/// Wakes at most this many of the threads that sleep at a word.
#[cold]
fn wake(word: &AtomicU32, threads_max: u32) {
    // The call fails only if the word's memory was freed by the next holder of the mutex; then no thread sleeps there.
    let _ = futex::wake(word, Flags::PRIVATE, threads_max);
}
