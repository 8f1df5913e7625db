//! The fsyncs of an AOF: the turn to run one, how long they take, and which threads may run one or write during one.
//!
//! A thread that hands an fsync over to another pays for two wake-ups, and so do the clients that wait. So under
//! `appendfsync always` a worker fsyncs by itself at the end of its wake-up, as Redis does, if that costs no other client
//! much ([`Syncs::suits`]): the other workers have no changes, with which the AOF thread could join its own in one fsync,
//! and the last fsync was short. Any thread.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use sleeve_disk::aof::SyncJob;

use super::group_commit::GroupCommit;
use crate::host::clock::Instant;

/// The longest fsync, in microseconds, after which a worker runs the next one by itself: for so long its clients that wait
/// for no fsync may be held up.
const WORKER_SYNC_US_MAX: u64 = 2_000;

/// The number of rounds after which a worker counts as the only one with changes.
const ROUNDS_ALONE: u64 = 8;

/// The longest fsync, in microseconds, during which workers write. Some file systems make a write wait for a running fsync,
/// so for so long all clients of a worker may be held up.
const OVERLAP_US_MAX: u64 = 50_000;

/// The bits of the number of rounds in [`Syncs::rounds`].
const ROUND_BITS: u32 = 32;

/// The state of the fsyncs.
#[derive(Debug, Default)]
pub struct Syncs {
    turn: Mutex<()>,
    /// The time at which the running fsync began, in microseconds of the monotonic clock; 0 if none runs.
    began_us: AtomicU64,
    /// The duration of the last fsync in microseconds, at least 1; 0 if there was none.
    last_us: AtomicU64,
    /// The number of times that a write was left to the AOF thread because of a long fsync.
    delayed: AtomicU64,
    /// The worker that had changes to be fsynced last, and the number of rounds for which no other worker had any.
    rounds: AtomicU64,
    /// The changes that the next fsync is to cover under `appendfsync always`.
    commit: Mutex<GroupCommit>,
}

/// The outcome of an attempt to make changes durable on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnWorker {
    /// The changes are in the file, or fsynced, unless the disk fails.
    Done,
    /// The worker has to try again at once: clients that the last fsync has answered may be about to write.
    Gathers,
    /// The AOF thread has to do it.
    HandsOver,
}

impl Syncs {
    /// Takes the turn to fsync, which is held from before a job is taken until its result is given back. A system reports
    /// only once that it could not write bytes, so if two threads synced a file at the same time, only one of them would
    /// learn of it. The turn is taken before the AOF is locked.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Takes the turn to fsync, unless another thread has it.
    pub fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock()
    }

    /// Runs a job. The caller has the turn.
    ///
    /// # Errors
    /// As [`SyncJob::run`].
    pub fn run(&self, job: &SyncJob) -> io::Result<()> {
        let began = Instant::now();
        self.began_us.store(began.monotonic_us.max(1), Ordering::Relaxed);
        let synced = job.run();
        self.last_us.store((began.elapsed().as_micros() as u64).max(1), Ordering::Relaxed);
        self.began_us.store(0, Ordering::Relaxed);
        synced
    }

    /// Returns whether an fsync is running.
    pub fn are_running(&self) -> bool {
        self.began_us.load(Ordering::Relaxed) != 0
    }

    /// Returns whether a worker may write now: no fsync is running, or one that is short so far, as the last one was.
    pub fn may_write(&self) -> bool {
        let began_us = self.began_us.load(Ordering::Relaxed);
        let is_short = |us: u64| us <= OVERLAP_US_MAX;
        began_us == 0
            || is_short(self.last_us.load(Ordering::Relaxed))
                && is_short(Instant::now().monotonic_us.saturating_sub(began_us))
    }

    /// Returns whether a worker may write now, and counts the times at which it may not.
    pub fn allow_write(&self) -> bool {
        let is_allowed = self.may_write();
        if !is_allowed {
            self.delayed.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed
    }

    /// Returns the number of times that a write was left to the AOF thread.
    pub fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// Returns the changes that the next fsync is to cover.
    pub fn commit(&self) -> GroupCommit {
        *self.commit.lock()
    }

    /// Sets the changes that the next fsync is to cover.
    pub fn set_commit(&self, commit: GroupCommit) {
        *self.commit.lock() = commit;
    }

    /// Notes that a worker has changes to be fsynced; returns whether it may run the fsync by itself.
    pub fn suits(&self, worker: usize) -> bool {
        let rounds = self.rounds.load(Ordering::Relaxed);
        let count = match rounds >> ROUND_BITS == worker as u64 {
            true => ((rounds & u64::from(u32::MAX)) + 1).min(ROUNDS_ALONE),
            false => 0,
        };
        // Two workers that store at the same time lose one of the rounds; the next ones tell.
        self.rounds.store((worker as u64) << ROUND_BITS | count, Ordering::Relaxed);
        count == ROUNDS_ALONE && (1..=WORKER_SYNC_US_MAX).contains(&self.last_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_syncs_when_it_is_alone_for_long_and_syncs_are_short() {
        let syncs = Syncs::default();
        let all = |worker| (0..20).filter(|_| syncs.suits(worker)).count();
        assert_eq!(all(1), 0, "the duration of an fsync is unknown");
        syncs.last_us.store(WORKER_SYNC_US_MAX, Ordering::Relaxed);
        assert_eq!(all(1), 20);
        assert_eq!(all(2), 20 - ROUNDS_ALONE as usize, "another worker had changes before");
        assert_eq!((0..20).filter(|round| syncs.suits(round % 2)).count(), 0);
        syncs.last_us.store(WORKER_SYNC_US_MAX + 1, Ordering::Relaxed);
        assert_eq!(all(0), 0, "the disk is slow");
    }
}
