//! The two threads of an AOF.
//!
//! `log` writes the changes that the workers do not write themselves, and under `appendfsync always` fsyncs after each write.
//! Requests that arrive during a round are covered together by the next round, along with the requests of the clients that
//! the last round has answered, if they come back soon ([`GroupCommit`]). `log-sync` fsyncs once a second under `everysec`,
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

/// The longest time for which an fsync waits for the clients that the last one answered, because a disk that was slow once
/// may not be slow now.
const COMMIT_WAIT_MAX: Duration = Duration::from_millis(20);

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
    let mut commit = GroupCommit::default();
    let wait = || match persistence.fails() {
        // A failed write is retried at this interval, no matter how often writes are asked for.
        true => persistence.aof.wait_for_close(opening, TRY_AGAIN),
        false => persistence.aof.wait_to_be_asked(opening, None),
    };
    while wait() {
        let asked = Instant::now();
        while !commit.is_whole(journal.pieces()) && asked.elapsed() < commit.wait_max {
            let left = commit.wait_max.saturating_sub(asked.elapsed());
            if !persistence.aof.wait_to_be_asked(opening, Some(left)) {
                return;
            }
        }
        let (covered, begun) = (journal.pieces(), Instant::now());
        engine.persistence.aof.write(engine);
        let is_always = Policy::of(&engine.config) == Policy::Always;
        commit =
            if is_always { commit.next(covered, journal.pieces(), begun.elapsed()) } else { GroupCommit::default() };
    }
}

/// The pieces of the journal that the next fsync is to cover under `appendfsync always`.
///
/// Clients that have been answered together send their next requests at nearly the same time. If an fsync began with the
/// first of them, the others would wait for the one after it. The clients would part into groups, each of which waits for the
/// others' fsyncs. So an fsync waits until as many pieces have arrived as the last one covered, but at most for the duration
/// of one fsync, and never for long. A lone client that waits for each reply does not wait for others.
#[derive(Debug, Default, Clone, Copy)]
struct GroupCommit {
    /// The number of pieces that the last fsync has covered.
    covered: u64,
    /// The number of appended pieces at which the next fsync begins without further waiting.
    whole_at: u64,
    /// The longest wait for that number.
    wait_max: Duration,
}

impl GroupCommit {
    /// Returns the goal after an fsync that covered the pieces up to `covered`, took `took`, and at the end of which
    /// `appended` pieces existed.
    fn next(self, covered: u64, appended: u64, took: Duration) -> Self {
        Self { covered, whole_at: appended + (covered - self.covered), wait_max: took.min(COMMIT_WAIT_MAX) }
    }

    fn is_whole(&self, appended: u64) -> bool {
        appended >= self.whole_at
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_whole_when_all_threads_of_the_last_round_are_back() {
        let begun = GroupCommit::default();
        assert!(begun.is_whole(0), "nobody is known yet");
        let took = Duration::from_millis(1);
        let lone = begun.next(1, 1, took).next(2, 2, took);
        assert!(lone.is_whole(3) && !lone.is_whole(2) && lone.wait_max == took);
        // 30 pieces came during the fsync of 20, and the clients of the 20 are about to write again.
        let commit = begun.next(20, 50, took);
        assert!(!commit.is_whole(69) && commit.is_whole(70));
        assert!(begun.next(0, 50, took).is_whole(50), "nothing was synced, as where the disk fails");
        assert_eq!(begun.next(1, 1, Duration::from_secs(10)).wait_max, COMMIT_WAIT_MAX, "the disk may have hung");
    }
}
