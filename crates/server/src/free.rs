//! Freeing what takes long, away from those who wait.
//!
//! A thread is made for each such piece and ends with it: pieces are large by definition, so the thread costs little
//! beside them, and an engine that never drops one has no thread for it. Any thread may call this, under any lock.

use std::thread;

use sleeve_store::Garbage;

/// What is larger than this, in bytes, costs more to free than a thread costs to start.
const ELSEWHERE_BYTES_MIN: usize = 1024 * 1024;

/// Frees on another thread. If none can be started, it happens here.
pub fn elsewhere<T: Send + 'static>(garbage: T) {
    let free = thread::Builder::new().name("sleeve-free".into()).spawn(move || drop(garbage));
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
