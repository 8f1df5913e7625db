//! How the functions that Lua calls find the command that runs the script.
//!
//! Functions of a Lua state live as long as it does; the [`Scene`] of a script borrows the running command and lives for
//! one call. Making closures for each call would cost more than many scripts do, so the scene's address stands in a cell
//! of the thread while a script runs. This is the one place that turns it back into a reference. What may be looked at while
//! the scene itself is in use, its [`Playbill`], stands beside it.

use std::cell::{Cell, RefCell};
use std::ptr;

use super::invocation::Scene;
use crate::context::others::Others;
use crate::engine::Engine;
use crate::engine::scripts::running::Kind;
use crate::request::Request;

thread_local! {
    static STAGE: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
    static PLAYBILL: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// What runs, and for whom.
pub struct Playbill<'s> {
    /// The engine that it runs in.
    pub engine: &'s Engine,
    /// The request that began it.
    pub request: Request<'s>,
    /// The digest or name of what runs.
    pub name: &'s [u8],
    /// What runs.
    pub kind: Kind,
    /// Whom the thread serves besides.
    pub others: RefCell<&'s mut dyn Others>,
}

impl Playbill<'_> {
    /// Has another thread serve the others.
    pub fn hand_over(&self) {
        if let Ok(mut others) = self.others.try_borrow_mut() {
            others.hand_over();
        }
    }

    /// Whether whoever serves the client of this script is told to stop.
    pub fn is_stopping(&self, is_long: bool) -> bool {
        self.others.try_borrow().is_ok_and(|others| others.is_stopping(is_long))
    }
}

/// Puts back what was on the playbill before.
struct TakeDown(*const ());

impl Drop for TakeDown {
    fn drop(&mut self) {
        PLAYBILL.set(self.0);
    }
}

/// Puts back what was on the stage before.
struct Restore(*mut ());

impl Drop for Restore {
    fn drop(&mut self) {
        STAGE.set(self.0);
    }
}

/// Runs `play` while this thread has such a playbill.
pub fn announce<R>(playbill: &Playbill<'_>, play: impl FnOnce() -> R) -> R {
    let _take_down = TakeDown(PLAYBILL.replace(ptr::from_ref(playbill).cast()));
    play()
}

/// Looks at the playbill; none when no script runs.
pub fn announced<R>(look: impl for<'s> FnOnce(&Playbill<'s>) -> R) -> Option<R> {
    let playbill = PLAYBILL.get();
    if playbill.is_null() {
        return None;
    }
    // SAFETY: the pointer was made in `announce` from a reference that is borrowed until `play` returns, and is taken down
    // before `announce` returns, so it is alive; nobody changes what it leads to. `look` must take a playbill of any
    // lifetime, so none of what it borrows can be kept.
    Some(look(unsafe { &*playbill.cast::<Playbill<'_>>() }))
}

/// Runs `play` with `scene` on the stage of this thread.
pub fn enter<R>(scene: &mut Scene<'_, '_>, play: impl FnOnce() -> R) -> R {
    let _restore = Restore(STAGE.replace(ptr::from_mut(scene).cast()));
    play()
}

/// Runs `act` with the scene that is on the stage; none when no script runs, or when `act` is called from within another.
pub fn with<R>(act: impl for<'s, 'c> FnOnce(&mut Scene<'s, 'c>) -> R) -> Option<R> {
    let scene = STAGE.replace(ptr::null_mut());
    if scene.is_null() {
        return None;
    }
    let _restore = Restore(scene);
    // SAFETY: the pointer was made in `enter` from a reference that is borrowed until `play` returns, and is taken off
    // the stage before `enter` returns, so it is alive. It is off the stage while `act` has it, so there is no second
    // reference; and `act` must take a scene of any lifetimes, so none of what it borrows can be kept.
    Some(act(unsafe { &mut *scene.cast::<Scene<'_, '_>>() }))
}
