//! How long a command waits for locks: until they come free, or until it is known that a script will not give them back
//! soon.
//!
//! A script has all shards. One that has run for `busy-reply-threshold` has become known to run for long, and whoever
//! needs a shard is told so instead of waiting: so every thread goes on serving its clients, and with them the one that sends
//! SCRIPT KILL.

use std::time::Duration;

use crate::config::Opt;
use crate::engine::Engine;
use crate::host::clock;
use crate::request::error::Error;

/// How long a lock is waited for before the question is asked who has it.
const PATIENCE: Duration = Duration::from_millis(10);

/// Tries to take locks until that succeeds.
///
/// # Errors
/// BUSY: a script has them for long.
#[inline]
pub fn until(engine: &Engine, mut take: impl FnMut(Duration) -> bool) -> Result<(), Error> {
    while !take(PATIENCE) {
        check(engine)?;
    }
    Ok(())
}

/// Whether a script has run for so long that nobody waits for it.
///
/// # Errors
/// BUSY, if so.
#[cold]
pub fn check(engine: &Engine) -> Result<(), Error> {
    let running = &engine.scripts.running;
    let Some(elapsed_ms) = running.elapsed_ms(clock::monotonic_ms) else { return Ok(()) };
    let threshold_ms = engine.config.number(Opt::BusyReplyThreshold);
    if threshold_ms > 0 && elapsed_ms as i64 >= threshold_ms { Err(running.busy()) } else { Ok(()) }
}
