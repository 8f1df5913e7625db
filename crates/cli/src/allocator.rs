//! mimalloc, as the server may ask it: the bytes that it holds, MEMORY PURGE, MEMORY MALLOC-STATS.
//!
//! A library cannot know which allocator its program has, so `main` enters this one at the start.

use sleeve_server::host::allocator::{self, Allocator};

/// Tells the server which allocator this program has.
pub fn enter() {
    allocator::enter(Allocator { name: "mimalloc", held_bytes, purge, describe });
}

/// What mimalloc has committed and not purged since.
fn held_bytes() -> u64 {
    let mut committed_bytes = 0;
    let null = std::ptr::null_mut();
    // SAFETY: the function writes to what it is given a place for, and passes over the places that are null.
    unsafe { libmimalloc_sys::mi_process_info(null, null, null, null, null, &raw mut committed_bytes, null, null) };
    committed_bytes as u64
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
