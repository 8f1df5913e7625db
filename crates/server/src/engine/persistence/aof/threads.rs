//! The two threads of an AOF.
//!
//! `log` writes the changes that the workers do not write themselves, and under `appendfsync always` fsyncs after each write,
//! for all workers that do not fsync by themselves (`syncs`).
//! Requests that arrive during a round are covered together by the next round, along with the requests of the clients that
//! the last round has answered, if they come back soon (`group_commit`). `log-sync` fsyncs once a second under `everysec`,
//! without any lock, so that no client waits for the disk, and checks that the AOF's files are there as they were written.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::persistence::aof::Policy;
use crate::host::clock::Instant;

/// The interval at which writing an AOF that fails is retried.
pub(in crate::engine::persistence) const TRY_AGAIN: Duration = Duration::from_millis(1_000);

/// The interval of syncs under `everysec`.
const SYNC_EVERY: Duration = Duration::from_millis(1_000);

/// Starts the threads of an AOF with this opening; they end when it is closed.
///
/// # Errors
/// Errors of the operating system.
pub fn start(engine: &Arc<Engine>, opening: u64) -> std::io::Result<()> {
    engine.detach_thread("log", move |engine| {
        write_when_asked(engine, opening);
        Ok(())
    })?;
    engine.detach_thread("log-sync", move |engine| {
        sync_now_and_then(engine, opening);
        Ok(())
    })?;
    Ok(())
}

fn write_when_asked(engine: &Engine, opening: u64) {
    let (persistence, journal) = (&engine.persistence, &engine.journal);
    let wait = || match persistence.fails() {
        // A failed write is retried at this interval, no matter how often writes are asked for.
        true => persistence.aof.wait_for_close(opening, TRY_AGAIN),
        false => persistence.aof.wait_to_be_asked(opening, None),
    };
    while wait() {
        let (asked, commit) = (Instant::now(), persistence.aof.syncs.commit());
        while let Some(left) = commit.wait(journal.pieces(), asked.elapsed()) {
            if !persistence.aof.wait_to_be_asked(opening, Some(left)) {
                return;
            }
        }
        let (covered, begun) = (journal.pieces(), Instant::now());
        engine.persistence.aof.write(engine);
        let is_always = Policy::of(&engine.config) == Policy::Always;
        let next = is_always.then(|| commit.next(covered, journal.pieces(), begun.elapsed()));
        persistence.aof.syncs.set_commit(next.unwrap_or_default());
    }
}

fn sync_now_and_then(engine: &Engine, opening: u64) {
    let persistence = &engine.persistence;
    while persistence.aof.wait_for_close(opening, SYNC_EVERY) {
        engine.persistence.aof.look_after(engine);
        engine.persistence.snapshots.rewrite_grown_log(engine, Instant::now());
        let is_rewriting = engine.config.flag(Opt::NoAppendfsyncOnRewrite) && persistence.snapshots.is_running();
        // Changes for which no reply waits, such as expired keys, are written here too.
        match Policy::of(&engine.config) {
            Policy::Always => persistence.aof.ask(),
            Policy::EverySecond if !is_rewriting => {
                engine.persistence.aof.write_if_idle(engine);
                engine.persistence.aof.sync(engine);
            }
            Policy::EverySecond | Policy::No => engine.persistence.aof.write_if_idle(engine),
        }
    }
}
