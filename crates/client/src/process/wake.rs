//! Waking those who wait, whoever they are: wakers are foreign code.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes one after the other. A waker that panics has woken nobody, but the others are woken all the same, and the thread
/// that answers them goes on.
pub(crate) fn wake_all(mut wakers: impl Iterator<Item = Waker>) {
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| wakers.by_ref().for_each(Waker::wake))) {
        // The panic hook has already said what happened. What was thrown may throw again when it is dropped.
        std::mem::forget(payload);
    }
}
