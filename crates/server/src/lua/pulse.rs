//! What happens while a script runs for long: others are answered, and it may be ended.
//!
//! The hook of a Lua state comes here every so many instructions. Once the script has run for longer than
//! `busy-reply-threshold`, what runs is published, and the thread's own clients are served by the function that its worker
//! has left for that ([`crate::busy`]): with one worker nobody else could. Runs on the script's thread.

use std::cell::Cell;

use sleeve_wire::arguments::OwnedArgs;

use super::running::{Facts, Kind};
use super::scene::Scene;
use super::stage;
use crate::busy;
use crate::clock;
use crate::config::Opt;
use crate::log;

/// Looks at the clock and serves others if it is time.
///
/// # Errors
/// Why the script has to end.
pub fn feel() -> Result<(), String> {
    stage::with(look).unwrap_or_else(look_at_load)
}

thread_local! {
    /// When the library that is being loaded has taken too long, monotonic milliseconds; 0 while none is.
    static LOADED_BY_MS: Cell<u64> = const { Cell::new(0) };
}

/// How long a library may take to be loaded: nobody could end it.
const LOAD_MS_MAX: u64 = 500;

/// Runs the body of a library, which must not take long.
pub fn while_loading<R>(load: impl FnOnce() -> R) -> R {
    LOADED_BY_MS.set(clock::monotonic_ms() + LOAD_MS_MAX);
    let loaded = load();
    LOADED_BY_MS.set(0);
    loaded
}

fn look_at_load() -> Result<(), String> {
    let by_ms = LOADED_BY_MS.get();
    let is_late = by_ms != 0 && clock::monotonic_ms() > by_ms;
    if is_late { Err("ERR FUNCTION LOAD timeout".to_owned()) } else { Ok(()) }
}

fn look(scene: &mut Scene<'_, '_>) -> Result<(), String> {
    let running = &scene.cx.engine.scripts.running;
    let threshold_ms = scene.cx.engine.config.number(Opt::BusyReplyThreshold);
    let elapsed_ms = running.elapsed_ms(clock::monotonic_ms).unwrap_or(0);
    if threshold_ms > 0 && elapsed_ms as i64 >= threshold_ms {
        if running.publish(|| facts(scene)) {
            log::warning(&format!(
                "Slow script detected: still in execution after {elapsed_ms} milliseconds. You can try killing the script \
                 using the {} command. Script name is: {}.",
                killer(scene.kind),
                String::from_utf8_lossy(scene.name)
            ));
        }
        busy::attend();
    }
    if running.is_killed() {
        return Err(format!("ERR Script killed by user with {}.", killer(scene.kind)));
    }
    Ok(())
}

/// The command that ends what runs.
fn killer(kind: Kind) -> &'static str {
    match kind {
        Kind::Script => "SCRIPT KILL",
        Kind::Function => "FUNCTION KILL",
    }
}

fn facts(scene: &Scene<'_, '_>) -> Facts {
    let request = OwnedArgs::collect(scene.request.args.iter());
    Facts { kind: scene.kind, name: scene.name.to_vec(), request }
}
