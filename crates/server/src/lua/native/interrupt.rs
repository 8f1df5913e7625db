//! The interruption of a script that runs for long: other clients are served meanwhile, and it may be ended. The check for
//! that is called the pulse.
//!
//! All code by which a script can take long makes this check again and again: Lua's own code by the hook of its state
//! (`hook`), the functions of its libraries and the conversion of replies by the work that they count ([`spend`]). Once the
//! script has run for longer than `busy-reply-threshold`, its facts are published, and the thread's other clients are handed
//! over to another thread (`context::worker_handoff`), because with one worker no other thread would serve them. Once the
//! pulse has stopped, because the script has to end, it stays so until the next script begins: code that catches the error
//! gets it again. Runs on the script's thread.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::panic;

use sleeve_wire::arguments::OwnedArgs;

use super::current_invocation;
use super::current_invocation::RunningScript;
use crate::config::Opt;
use crate::engine::scripts::running::{Facts, ScriptKind};
use crate::host::clock;
use crate::host::log;

/// The units of work between two looks at the clock. A unit is a step of a pattern, an element of a table or some bytes of a
/// text: some nanoseconds.
const UNITS: usize = 1 << 18;

/// The longest time that loading a library may take: no command could end it.
const LOAD_MS_MAX: u64 = 500;

/// The text of the error that ends a script on its way through Lua; the reason is in [`ended`].
pub const ENDED: &CStr = c"the script has to end";

/// The error that the script has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

impl From<Ended> for mlua::Error {
    fn from(_: Ended) -> Self {
        Self::RuntimeError(ENDED.to_string_lossy().into_owned())
    }
}

thread_local! {
    /// The units of work that are left until the next look at the clock.
    static LEFT: Cell<usize> = const { Cell::new(UNITS) };
    static IS_ENDED: Cell<bool> = const { Cell::new(false) };
    static BYTES_MAX: Cell<usize> = const { Cell::new(usize::MAX) };
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
    /// A panic that happened during the check.
    static PANIC: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
    /// The time by which the library that is being loaded has to be done, in monotonic milliseconds; 0 if none is.
    static LOADED_BY_MS: Cell<u64> = const { Cell::new(0) };
    /// The number of times that the pulse was checked.
    #[cfg(test)]
    static FELT: Cell<usize> = const { Cell::new(0) };
}

/// Returns how often the pulse is checked during `work`.
#[cfg(test)]
pub fn felt_during(work: impl FnOnce()) -> usize {
    begin(usize::MAX);
    let before = FELT.get();
    work();
    FELT.get() - before
}

/// Begins the run of a script in a state that may take so many bytes.
pub fn begin(bytes_max: usize) {
    LEFT.set(UNITS);
    IS_ENDED.set(false);
    BYTES_MAX.set(bytes_max);
}

/// Ends the run of a script: the next one starts with a fresh pulse.
pub fn end() {
    begin(usize::MAX);
}

/// Returns how many bytes the state of the running script may take.
pub fn bytes_max() -> usize {
    BYTES_MAX.get()
}

/// Returns whether the script has to end.
pub fn is_ended() -> bool {
    IS_ENDED.get()
}

/// Returns the reason why the script has to end, once it has to.
pub fn ended() -> Option<String> {
    IS_ENDED.get().then(|| WHY.with_borrow(String::clone))
}

/// Returns the panic that has ended the script, if there was one.
pub fn take_panic() -> Option<Box<dyn Any + Send>> {
    PANIC.take()
}

/// Counts work, and checks the pulse when enough of it was done.
///
/// # Errors
/// The script has to end.
#[inline]
pub fn spend(units: usize) -> Result<(), Ended> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => feel(),
    }
}

/// Checks whether the script may go on, without a look at the clock.
///
/// # Errors
/// The script has to end.
pub fn check() -> Result<(), Ended> {
    if IS_ENDED.get() { Err(Ended) } else { Ok(()) }
}

/// Checks the pulse: looks at the clock, and hands the other clients over if it is time.
///
/// # Errors
/// The script has to end.
#[cold]
pub fn feel() -> Result<(), Ended> {
    #[cfg(test)]
    FELT.set(FELT.get() + 1);
    check()?;
    LEFT.set(UNITS);
    // A panic must not unwind through Lua; it is resumed when Lua has returned.
    let looked = panic::catch_unwind(|| current_invocation::look_at_script(look).unwrap_or_else(look_at_load));
    let why = match looked {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(why)) => why,
        Err(panic) => {
            PANIC.set(Some(panic));
            "ERR handing others over has failed".to_owned()
        }
    };
    WHY.set(why);
    IS_ENDED.set(true);
    LEFT.set(0);
    Err(Ended)
}

/// Runs the body of a library, which must not take long, in a state that may take so many bytes.
pub fn while_loading<R>(bytes_max: usize, load: impl FnOnce() -> R) -> R {
    begin(bytes_max);
    LOADED_BY_MS.set(clock::monotonic_ms() + LOAD_MS_MAX);
    let loaded = load();
    LOADED_BY_MS.set(0);
    end();
    loaded
}

fn look_at_load() -> Result<(), String> {
    let by_ms = LOADED_BY_MS.get();
    let is_late = by_ms != 0 && clock::monotonic_ms() > by_ms;
    if is_late { Err("ERR FUNCTION LOAD timeout".to_owned()) } else { Ok(()) }
}

fn look(script: &RunningScript<'_>) -> Result<(), String> {
    let (running, run) = (&script.engine.scripts.running, script.run);
    let threshold_ms = script.engine.config.number(Opt::BusyReplyThreshold);
    let elapsed_ms = run.elapsed_ms(clock::monotonic_ms).unwrap_or(0);
    let is_long = threshold_ms > 0 && elapsed_ms as i64 >= threshold_ms;
    if is_long {
        if run.publish(|| facts(script)) {
            log::warning(&format!(
                "Slow script detected: still in execution after {elapsed_ms} milliseconds. You can try killing the script \
                 using the {} command. Script name is: {}.",
                killer(script.kind),
                String::from_utf8_lossy(script.name)
            ));
        }
        script.hand_over();
    }
    if run.is_killed() {
        return Err(format!("ERR Script killed by user with {}.", killer(script.kind)));
    }
    if has_to_stop(script, is_long) {
        if running.break_off(run) {
            // The half-done writes of the script exist in memory only, so no client may see them once the shards are
            // unlocked.
            script.engine.clients.pause.set_ending(true);
        }
        return Err("ERR Script ended because the server stops.".to_owned());
    }
    Ok(())
}

/// Returns whether the script has to end because the server ends, or because the engine or the worker is stopping.
fn has_to_stop(script: &RunningScript<'_>, is_long: bool) -> bool {
    if script.engine.failure().is_some() {
        return true;
    }
    let is_stopping = script.is_stopping(is_long);
    match script.engine.scripts.running.ends_gently(script.run) {
        Some(ends) => ends && (is_long || is_stopping),
        None => is_stopping,
    }
}

/// Returns the name of the command that kills the running script.
fn killer(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Script => "SCRIPT KILL",
        ScriptKind::Function => "FUNCTION KILL",
    }
}

fn facts(script: &RunningScript<'_>) -> Facts {
    let request = OwnedArgs::collect(script.request.args.iter());
    Facts { kind: script.kind, name: script.name.to_vec(), request }
}
