//! Snapshots: the one that is being written, those that are scheduled after it, the outcome of the last, and the waiters.
//!
//! Commands and rules begin a snapshot ([`Snapshots::begin`]); a separate thread writes it ([`super::save`]) and reports the
//! outcome ([`Snapshots::end`]). Only one is written at a time, be it a separate file or a new base of the AOF. Any thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_store::snapshot::Waiting;

use crate::engine::persistence::purpose::{Purpose, Refusal, WhenDone};
use crate::host::clock::Instant;
use crate::host::waiting::Condvar;

/// The delay of a scheduled snapshot after one that failed, in milliseconds.
const TRY_AGAIN_MS: u64 = 1_000;

/// The state of snapshots, as INFO and LASTSAVE show it.
#[derive(Debug, Clone)]
pub struct SnapshotStatus {
    /// The purpose of the running snapshot, and the time at which it began.
    pub running: Option<(Purpose, Instant)>,
    /// A snapshot file is to be written as soon as the AOF's base is done.
    pub file_scheduled: bool,
    /// A base of the AOF is to be written as soon as the snapshot file is done.
    pub base_scheduled: bool,
    /// The time at which the data was last saved completely, in seconds since the epoch.
    pub last_save_s: i64,
    /// The number of changes up to that time.
    pub saved_changes: u64,
    /// The last snapshot file was written successfully.
    pub file_ok: bool,
    /// The last base of the AOF was written successfully.
    pub base_ok: bool,
    /// The duration of the last snapshot file, in seconds.
    pub file_took_s: Option<u64>,
    /// The duration of the last base, in seconds.
    pub base_took_s: Option<u64>,
    /// The number of snapshot files that were written.
    pub saves: u64,
    /// The number of bases that were begun.
    pub rewrites: u64,
    /// The number of bases that have failed in a row up to now.
    pub rewrites_failed: u64,
    /// The time at which the last attempt to write a file began, in monotonic milliseconds.
    pub last_try_ms: u64,
}

/// The progress of a running snapshot, which its thread writes and INFO reads. It has cache lines of its own, because it is
/// written at each step.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    /// The number of keys that the snapshot will have.
    pub keys_total: AtomicU64,
    /// The number of keys that it has.
    pub keys_done: AtomicU64,
    /// The bytes of before-images that were handed over and not taken yet.
    pub waiting: Arc<Waiting>,
    /// The bytes that were taken and not written yet: encoded, or held until they can be encoded.
    pub encoded_bytes: AtomicUsize,
    /// The greatest sum of both that ever waited for the disk.
    pub waiting_bytes_max: AtomicU64,
    /// The longest time for which a shard was held for it, in nanoseconds.
    pub longest_hold_ns: AtomicU64,
}

impl Progress {
    /// Returns the bytes that wait for the disk.
    pub fn waits(&self) -> u64 {
        (self.waiting.bytes() + self.encoded_bytes.load(Ordering::Relaxed)) as u64
    }

    /// Returns the bytes that wait for the disk, and notes them if they are the most so far.
    pub fn note_waits(&self) -> u64 {
        let waits = self.waits();
        if waits > self.waiting_bytes_max.load(Ordering::Relaxed) {
            self.waiting_bytes_max.fetch_max(waits, Ordering::Relaxed);
        }
        waits
    }
}

/// Counts of the beginnings of snapshots, which INFO shows in place of Redis's forks.
#[derive(Debug, Default)]
pub struct Beginnings {
    count: AtomicU64,
    last_hold_ns: AtomicU64,
}

impl Beginnings {
    /// Adds the beginning of a snapshot, during which all shards were locked for so long.
    pub fn add(&self, held_ns: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.last_hold_ns.store(held_ns, Ordering::Relaxed);
    }

    /// Returns how many snapshots have begun.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the microseconds for which all shards were locked at the last beginning.
    pub fn last_hold_us(&self) -> u64 {
        self.last_hold_ns.load(Ordering::Relaxed) / 1_000
    }

    /// Counts from zero again (CONFIG RESETSTAT).
    pub fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.last_hold_ns.store(0, Ordering::Relaxed);
    }
}

/// The snapshots of one engine.
#[derive(Debug)]
pub struct Snapshots {
    state: Mutex<SnapshotState>,
    over: Condvar,
    /// The running snapshot has to end without a result.
    is_aborted: AtomicBool,
    /// The rules of `save` apply: in a server, but not in a program that embeds an engine.
    are_ruled: AtomicBool,
    /// The progress of the running snapshot, or of the last.
    pub progress: Progress,
    /// The number of snapshots that have begun, and the duration of the last beginning.
    pub beginnings: Beginnings,
}

struct SnapshotState {
    status: SnapshotStatus,
    /// A caller has waited for the running snapshot from its beginning on.
    is_awaited: bool,
    /// The actions for the end of the running snapshot.
    when_done: Vec<WhenDone>,
    /// The time from which on the next scheduled snapshot may begin, in monotonic milliseconds.
    next_ms: u64,
    /// True if no further snapshot may begin, because the server ends.
    is_closed: bool,
}

impl fmt::Debug for SnapshotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotState").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Snapshots {
    /// Makes the state before the first snapshot; data in memory at the start counts as saved.
    pub fn new(started: Instant) -> Self {
        let status = SnapshotStatus {
            running: None,
            file_scheduled: false,
            base_scheduled: false,
            last_save_s: started.wall_ms() / 1_000,
            saved_changes: 0,
            file_ok: true,
            base_ok: true,
            file_took_s: None,
            base_took_s: None,
            saves: 0,
            rewrites: 0,
            rewrites_failed: 0,
            last_try_ms: 0,
        };
        Self {
            state: Mutex::new(SnapshotState {
                status,
                is_awaited: false,
                when_done: Vec::new(),
                next_ms: 0,
                is_closed: false,
            }),
            over: Condvar::new(),
            is_aborted: AtomicBool::new(false),
            are_ruled: AtomicBool::new(false),
            progress: Progress::default(),
            beginnings: Beginnings::default(),
        }
    }

    /// Applies the rules of `save` from now on.
    pub fn follow_rules(&self) {
        self.are_ruled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the rules of `save` apply.
    pub fn are_ruled(&self) -> bool {
        self.are_ruled.load(Ordering::Relaxed)
    }

    /// Ends snapshots for good: the running one ends without a result, and none begins any more, be it scheduled or asked
    /// for. A caller that releases the AOF's folder calls this first.
    pub fn close(&self) {
        self.refuse_more();
        self.abort_and_wait();
    }

    /// Refuses further snapshots.
    pub fn refuse_more(&self) {
        self.state.lock().is_closed = true;
    }

    /// Ends the running snapshot without a result, and waits until it has ended.
    pub fn abort_and_wait(&self) {
        let mut state = self.state.lock();
        while state.status.running.is_some() {
            self.is_aborted.store(true, Ordering::Relaxed);
            self.over.wait(&mut state);
        }
    }

    /// Aborts the running snapshot if it has this purpose, and returns whether it has. Then `when_over` is taken, and runs
    /// when the snapshot has ended.
    pub fn abort(&self, purpose: Purpose, when_over: &mut Option<WhenDone>) -> bool {
        let mut state = self.state.lock();
        let is_it = state.status.running.is_some_and(|(running, _)| running == purpose);
        if is_it {
            self.is_aborted.store(true, Ordering::Relaxed);
            state.when_done.extend(when_over.take());
        }
        is_it
    }

    /// Aborts a snapshot that is written for replicas.
    pub fn abort_for_replicas(&self) {
        self.abort(Purpose::Replicas, &mut None);
    }

    /// Schedules an action for the end of the running snapshot. Returns false, and takes nothing, if none runs.
    pub fn follow(&self, when_over: &mut Option<WhenDone>) -> bool {
        let mut state = self.state.lock();
        let is_running = state.status.running.is_some();
        if is_running {
            state.when_done.extend(when_over.take());
        }
        is_running
    }

    /// Waits until no snapshot is being written.
    pub fn wait_until_over(&self) {
        let mut state = self.state.lock();
        while state.status.running.is_some() {
            self.over.wait(&mut state);
        }
    }

    /// Notes that a file has all changes up to this number, because it was loaded.
    pub fn note_saved(&self, changes: u64) {
        self.state.lock().status.saved_changes = changes;
    }

    /// Returns whether the running snapshot has to end without a result.
    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Relaxed)
    }

    /// Returns whether a caller waits for the running snapshot and gets its failure. Then the failure is reported to that
    /// caller only, as in Redis.
    pub fn is_awaited(&self) -> bool {
        self.state.lock().is_awaited
    }

    /// Returns whether a snapshot is being written.
    pub fn is_running(&self) -> bool {
        self.state.lock().status.running.is_some()
    }

    /// Returns the state of snapshots.
    pub fn status(&self) -> SnapshotStatus {
        self.state.lock().status.clone()
    }

    /// Begins a snapshot, unless one is being written. Takes `when_done`, which runs at the snapshot's end. Returns whether
    /// this snapshot was scheduled.
    ///
    /// # Errors
    /// The reason why it does not begin.
    pub fn begin(&self, purpose: Purpose, now: Instant, when_done: &mut Option<WhenDone>) -> Result<bool, Refusal> {
        let mut state = self.state.lock();
        if let Some((running, _)) = state.status.running {
            return Err(Refusal::Running(running));
        }
        if state.is_closed {
            return Err(Refusal::Closed);
        }
        state.status.running = Some((purpose, now));
        state.is_awaited = when_done.is_some();
        state.when_done.extend(when_done.take());
        let was_scheduled = match purpose {
            Purpose::File => {
                state.status.last_try_ms = now.monotonic_ms();
                std::mem::take(&mut state.status.file_scheduled)
            }
            Purpose::Base => {
                state.status.rewrites += 1;
                std::mem::take(&mut state.status.base_scheduled)
            }
            Purpose::Replicas => false,
        };
        let Progress { keys_total, keys_done, waiting_bytes_max, longest_hold_ns, .. } = &self.progress;
        for counter in [keys_total, keys_done, waiting_bytes_max, longest_hold_ns] {
            counter.store(0, Ordering::Relaxed);
        }
        Ok(was_scheduled)
    }

    /// Schedules a snapshot after the running one.
    pub fn schedule(&self, purpose: Purpose) {
        self.set_scheduled(purpose, true);
    }

    /// Removes a snapshot from the schedule.
    pub fn unschedule(&self, purpose: Purpose) {
        self.set_scheduled(purpose, false);
    }

    fn set_scheduled(&self, purpose: Purpose, is_scheduled: bool) {
        let status = &mut self.state.lock().status;
        match purpose {
            Purpose::File => status.file_scheduled = is_scheduled,
            Purpose::Base => status.base_scheduled = is_scheduled,
            // Replicas that wait for a snapshot are checked at each tick, so they need no schedule.
            Purpose::Replicas => {}
        }
    }

    /// Returns the scheduled snapshot, if none is running, and in how many milliseconds it is to begin: after a failure it
    /// waits.
    pub fn due(&self, now: Instant) -> Option<(Purpose, u64)> {
        let state = self.state.lock();
        let purpose = match &state.status {
            _ if state.is_closed => return None,
            SnapshotStatus { running: Some(_), .. } => return None,
            SnapshotStatus { base_scheduled: true, .. } => Purpose::Base,
            SnapshotStatus { file_scheduled: true, .. } => Purpose::File,
            _ => return None,
        };
        Some((purpose, state.next_ms.saturating_sub(now.monotonic_ms())))
    }

    /// Notes the outcome of the running snapshot, which contains all changes up to `changes`. Returns the actions that the
    /// caller has to run now.
    #[must_use = "somebody waits for it"]
    pub fn end(&self, is_good: bool, changes: u64, now: Instant) -> Vec<WhenDone> {
        let mut state = self.state.lock();
        let Some((purpose, began)) = state.status.running.take() else { return Vec::new() };
        let took_s = now.monotonic_ms().saturating_sub(began.monotonic_ms()) / 1_000;
        let is_given_up = self.is_aborted.swap(false, Ordering::Relaxed);
        let is_told = is_good || !(is_given_up || state.is_awaited);
        state.next_ms =
            if is_good || is_given_up || purpose == Purpose::Replicas { 0 } else { now.monotonic_ms() + TRY_AGAIN_MS };
        let status = &mut state.status;
        match purpose {
            // An abort says nothing about the disk, and a caller that waits gets the failure itself.
            _ if !is_told => {}
            Purpose::Replicas => {}
            Purpose::File => {
                (status.file_ok, status.file_took_s) = (is_good, Some(took_s));
                if is_good {
                    status.last_save_s = now.wall_ms() / 1_000;
                    status.saved_changes = changes;
                    status.saves += 1;
                }
            }
            Purpose::Base => {
                (status.base_ok, status.base_took_s) = (is_good, Some(took_s));
                status.rewrites_failed = if is_good { 0 } else { status.rewrites_failed + 1 };
            }
        }
        self.over.notify_all();
        std::mem::take(&mut state.when_done)
    }
}
