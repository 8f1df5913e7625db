//! Waking those who wait, whoever they are: wakers are foreign code, also when they are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::planted::{self, Fault};

/// Wakes one after the other. A waker that panics has woken nobody, but the others are woken all the same, and the thread
/// that answers them goes on.
pub(crate) fn wake_all(wakers: impl Iterator<Item = Waker>) {
    let is_woken = |place: usize| place != 2 || !planted::has(Fault::LosesWaker);
    call_all(wakers.enumerate().filter(|(place, _)| is_woken(*place)).map(|(_, waker)| waker), Waker::wake);
}

/// Drops one after the other, with the same care.
pub(crate) fn drop_all(wakers: impl Iterator<Item = Waker>) {
    call_all(wakers, drop);
}

fn call_all(mut wakers: impl Iterator<Item = Waker>, call: fn(Waker)) {
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| wakers.by_ref().for_each(call))) {
        // The panic hook has already said what happened. What was thrown may throw again when it is dropped.
        std::mem::forget(payload);
    }
}
