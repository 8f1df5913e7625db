//! The two threads of a log.
//!
//! `log` writes what the workers do not write themselves, and under `appendfsync always` syncs behind each write: whoever asks
//! meanwhile is served by the next round, all together. `log-sync` syncs once a second under `everysec`, without any lock, so
//! that nobody waits for the disk.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::durability::log_file::Policy;

/// How often a log that cannot be written is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(1_000);

/// How often the log is synced under `everysec`.
const SYNC_EVERY: Duration = Duration::from_millis(1_000);

/// Starts the threads of a log that has just been opened for this time; they end when it is closed.
///
/// # Errors
/// What the system says.
pub fn start(engine: &Arc<Engine>, opening: u64) -> std::io::Result<()> {
    let (writing, syncing) = (Arc::clone(engine), Arc::clone(engine));
    engine.start_thread("log", move || {
        write_when_asked(&writing, opening);
        Ok(())
    })?;
    engine.start_thread("log-sync", move || {
        sync_now_and_then(&syncing, opening);
        Ok(())
    })?;
    Ok(())
}

fn write_when_asked(engine: &Engine, opening: u64) {
    let durability = &engine.durability;
    while durability.log.wait_to_be_asked(opening, durability.fails().then_some(TRY_AGAIN)) {
        engine.write_log();
    }
}

fn sync_now_and_then(engine: &Engine, opening: u64) {
    let durability = &engine.durability;
    while durability.log.wait_for_close(opening, SYNC_EVERY) {
        let is_rewriting = engine.config.flag(Opt::NoAppendfsyncOnRewrite) && durability.snapshots.is_running();
        // What no reply has waited for, such as keys that have expired, is written here too.
        match Policy::of(&engine.config) {
            Policy::Always => durability.log.ask(),
            Policy::EverySecond if !is_rewriting => {
                engine.write_log_if_idle();
                engine.sync_log();
            }
            Policy::EverySecond | Policy::No => engine.write_log_if_idle(),
        }
    }
}
