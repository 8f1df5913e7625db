//! The way in which the functions that Lua calls find the command that runs the script.
//!
//! Functions of a Lua state live as long as the state; the [`Invocation`] of a script borrows the running command and lives
//! for one call. Making closures for each call would cost more than many scripts do. So the invocation's address is kept in a
//! cell of the thread while a script runs, and only this module turns it back into a reference. The part that may be read
//! while the invocation itself is borrowed, its [`RunningScript`], is kept in a second cell.

use std::cell::{Cell, RefCell};
use std::ptr;

use super::invocation::Invocation;
use crate::context::worker_handoff::WorkerHandoff;
use crate::engine::Engine;
use crate::engine::scripts::running::{Run, ScriptKind};
use crate::request::Request;

thread_local! {
    static INVOCATION: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
    static SCRIPT: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// The running script, and its client.
pub struct RunningScript<'s> {
    /// The engine that it runs in.
    pub engine: &'s Engine,
    /// The request that began it.
    pub request: Request<'s>,
    /// The digest of the script or the name of the function.
    pub name: &'s [u8],
    /// The kind of the script.
    pub kind: ScriptKind,
    /// The state of its run.
    pub run: &'s Run,
    /// The worker with the other clients of the thread.
    pub others: RefCell<&'s mut dyn WorkerHandoff>,
}

impl RunningScript<'_> {
    /// Hands the other clients over to another thread.
    pub fn hand_over(&self) {
        if let Ok(mut others) = self.others.try_borrow_mut() {
            others.hand_over();
        }
    }

    /// Returns whether the thread that serves the client of this script has been told to stop.
    pub fn is_stopping(&self, is_long: bool) -> bool {
        self.others.try_borrow().is_ok_and(|others| others.is_stopping(is_long))
    }
}

/// Restores the previously running script when it is dropped.
struct RestoreScript(*const ());

impl Drop for RestoreScript {
    fn drop(&mut self) {
        SCRIPT.set(self.0);
    }
}

/// Restores the previous invocation when it is dropped.
struct Restore(*mut ());

impl Drop for Restore {
    fn drop(&mut self) {
        INVOCATION.set(self.0);
    }
}

/// Calls `run`; during the call, this thread has `running` as its running script.
pub fn with_script<R>(running: &RunningScript<'_>, run: impl FnOnce() -> R) -> R {
    let _restore = RestoreScript(SCRIPT.replace(ptr::from_ref(running).cast()));
    run()
}

/// Calls `look` with the running script; returns None if no script runs.
pub fn look_at_script<R>(look: impl for<'s> FnOnce(&RunningScript<'s>) -> R) -> Option<R> {
    let running = SCRIPT.get();
    if running.is_null() {
        return None;
    }
    // SAFETY: the pointer was made in `with_script` from a reference that is borrowed until `run` returns, and is gone before
    // `with_script` returns, so it is alive; no code changes the value that it leads to. `look` must take a script of any
    // lifetime, so none of its borrows can be kept.
    Some(look(unsafe { &*running.cast::<RunningScript<'_>>() }))
}

/// Calls `run`; during the call, functions of this thread find `invocation`.
pub fn enter<R>(invocation: &mut Invocation<'_, '_>, run: impl FnOnce() -> R) -> R {
    let _restore = Restore(INVOCATION.replace(ptr::from_mut(invocation).cast()));
    run()
}

/// Calls `act` with the present invocation; returns None if no script runs, or if this is called from within `act`.
pub fn with<R>(act: impl for<'s, 'c> FnOnce(&mut Invocation<'s, 'c>) -> R) -> Option<R> {
    let invocation = INVOCATION.replace(ptr::null_mut());
    if invocation.is_null() {
        return None;
    }
    let _restore = Restore(invocation);
    // SAFETY: the pointer was made in `enter` from a reference that is borrowed until `run` returns, and is gone before
    // `enter` returns, so it is alive. No code finds it while `act` has it, so there is no second reference; and `act` must
    // take an invocation of any lifetimes, so none of its borrows can be kept.
    Some(act(unsafe { &mut *invocation.cast::<Invocation<'_, '_>>() }))
}
