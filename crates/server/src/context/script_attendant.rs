//! Serving a thread's other clients while a script runs on that thread.
//!
//! A worker says how that is done around whatever it executes ([`with_attendant`]); what runs for long and can be
//! interrupted has it done ([`attend`]). A thread that embeds an engine has nobody to serve. One cell a thread.

use std::cell::Cell;
use std::ptr;

/// A worker without its type, and how it serves its clients.
#[derive(Clone, Copy)]
struct Attendant {
    worker: *mut (),
    /// Leads to the worker's own function, through a pointer to it.
    serve: unsafe fn(*mut (), *const ()),
    how: *const (),
}

thread_local! {
    static ATTENDANT: Cell<Option<Attendant>> = const { Cell::new(None) };
    static IS_ATTENDING: Cell<bool> = const { Cell::new(false) };
}

/// Puts back who attended before.
struct Restore(Option<Attendant>);

impl Drop for Restore {
    fn drop(&mut self) {
        ATTENDANT.set(self.0);
    }
}

/// Runs `work`, within which [`attend`] calls `serve` with `worker`.
pub fn with_attendant<W, R>(worker: &mut W, serve: fn(&mut W), work: impl FnOnce() -> R) -> R {
    let attendant =
        Attendant { worker: ptr::from_mut(worker).cast(), serve: call::<W>, how: ptr::from_ref(&serve).cast() };
    let _restore = Restore(ATTENDANT.replace(Some(attendant)));
    work()
}

/// # Safety
/// `worker` is a `W` that nobody else uses meanwhile, and `how` points to a `fn(&mut W)`.
unsafe fn call<W>(worker: *mut (), how: *const ()) {
    // SAFETY: the caller says so.
    let (worker, serve) = unsafe { (&mut *worker.cast::<W>(), *how.cast::<fn(&mut W)>()) };
    serve(worker);
}

/// Whether this thread serves others further up its stack, within [`attend`].
pub fn is_attending() -> bool {
    IS_ATTENDING.get()
}

/// Puts back whether the thread was attending.
struct StopAttending(bool);

impl Drop for StopAttending {
    fn drop(&mut self) {
        IS_ATTENDING.set(self.0);
    }
}

/// Serves the thread's other clients, if somebody knows how.
pub fn attend() {
    let Some(attendant) = ATTENDANT.take() else { return };
    let _restore = Restore(Some(attendant));
    let _stop = StopAttending(IS_ATTENDING.replace(true));
    // SAFETY: both pointers are from `with_attendant`, which holds what they point to, of the type that `call` was made
    // for, until its `work` is over; and `attend` runs within it, on the same thread. The worker is borrowed mutably by
    // `with_attendant` alone, and while it is served here it is not in the cell, so nobody serves it twice at once.
    unsafe { (attendant.serve)(attendant.worker, attendant.how) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_runs_within_is_attended_and_nobody_else() {
        attend();
        let mut served = 0;
        with_attendant(&mut served, |served| *served += 1, || (0..3).for_each(|_| attend()));
        attend();
        assert_eq!(served, 3);
    }

    #[test]
    fn nobody_is_served_while_he_serves() {
        let mut outer = (0, 0);
        let serve = |outer: &mut (i32, i32)| {
            outer.0 += 1;
            attend();
            let mut inner = 0;
            with_attendant(&mut inner, |inner| *inner += 1, attend);
            outer.1 += inner;
        };
        with_attendant(&mut outer, serve, attend);
        assert_eq!(outer, (1, 1));
    }
}
