//! Threads of a test that work until they are told to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, so that threads that watch the flag stop, even if the test has failed.
#[derive(Debug)]
pub struct Stops<'s>(pub &'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
