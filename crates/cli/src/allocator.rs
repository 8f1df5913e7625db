//! mimalloc, as MEMORY PURGE and MEMORY MALLOC-STATS reach it.

use sleeve_server::allocator::{self, Allocator};

/// Tells the server which allocator this program has.
pub fn enter() {
    allocator::enter(Allocator { name: "mimalloc", purge, describe });
}

/// Gives back the pages that nothing lies in any more: those of this thread's heap and those that no thread owns.
fn purge() {
    // SAFETY: the function takes no pointer and may be called at any time, on any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// The allocator's own counters, as JSON.
fn describe() -> String {
    match mimalloc::MiMalloc::stats_json() {
        Ok(stats) => String::from_utf8_lossy(stats.to_bytes()).into_owned(),
        Err(reason) => format!("Stats not available: {reason}"),
    }
}
