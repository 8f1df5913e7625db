//! Calling wakers: they are foreign code, also when they are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::planted::{self, Fault};

/// Calls all wakers. If one panics, the others are called all the same, and the calling thread goes on.
pub(crate) fn wake_all(wakers: impl Iterator<Item = Waker>) {
    let is_woken = |place: usize| place != 2 || !planted::has(Fault::LosesWaker);
    call_all(wakers.enumerate().filter(|(place, _)| is_woken(*place)).map(|(_, waker)| waker), Waker::wake);
}

/// Drops all wakers. If one panics, the others are dropped all the same.
pub(crate) fn drop_all(wakers: impl Iterator<Item = Waker>) {
    call_all(wakers, drop);
}

fn call_all(mut wakers: impl Iterator<Item = Waker>, call: fn(Waker)) {
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| wakers.by_ref().for_each(call))) {
        // The panic hook has already reported it. The payload may panic again when it is dropped.
        std::mem::forget(payload);
    }
}
