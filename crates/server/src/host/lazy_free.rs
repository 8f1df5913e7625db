//! Freeing what takes long, away from those who wait.
//!
//! A thread is made for each such piece and ends with it: pieces are large by definition, so the thread costs little
//! beside them, and an engine that never drops one has no thread for it. Any thread may call this, under any lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sleeve_store::Garbage;

/// What is larger than this, in bytes, costs more to free than a thread costs to start.
const ELSEWHERE_BYTES_MIN: usize = 1024 * 1024;

/// Of all engines of this process: pieces that were given to other threads, and those that have been freed.
static GIVEN: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
/// How many had been freed when the counter was last set back.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Pieces that other threads are about to free.
pub fn pending() -> u64 {
    GIVEN.load(Ordering::Relaxed).saturating_sub(FREED.load(Ordering::Relaxed))
}

/// Pieces that other threads have freed since [`forget`].
pub fn done() -> u64 {
    FREED.load(Ordering::Relaxed).saturating_sub(FORGOTTEN.load(Ordering::Relaxed))
}

/// Counts from zero again (CONFIG RESETSTAT).
pub fn forget() {
    FORGOTTEN.store(FREED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Counts a piece as freed when it is dropped, wherever that is.
struct Counted<T>(Option<T>);

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        drop(self.0.take());
        FREED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Frees on another thread. If none can be started, it happens here.
pub fn elsewhere<T: Send + 'static>(garbage: T) {
    GIVEN.fetch_add(1, Ordering::Relaxed);
    let counted = Counted(Some(garbage));
    let free = thread::Builder::new().name("sleeve-free".into()).spawn(move || drop(counted));
    drop(free);
}

/// Frees what a write has left, on another thread if that is asked for and worth it.
pub fn now_or_later(garbage: Garbage, is_later: bool) {
    let bytes = garbage.bytes();
    if is_later {
        elsewhere_if_large(garbage, bytes);
    }
}

/// Frees on another thread what takes many bytes, and here what does not.
pub fn elsewhere_if_large<T: Send + 'static>(garbage: T, bytes: usize) {
    if bytes >= ELSEWHERE_BYTES_MIN {
        elsewhere(garbage);
    }
}
