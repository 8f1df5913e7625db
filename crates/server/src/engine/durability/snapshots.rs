//! Snapshots: which one is being written, which is to follow, how the last one went, and who waits for it.
//!
//! Commands and rules ask ([`Snapshots::begin`]); a thread of its own writes ([`super::save`]) and says how it went
//! ([`Snapshots::end`]). One is written at a time, be it a file of its own or a new base of the log. Any thread.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_store::snapshot::Waiting;

use crate::host::clock::Instant;
use crate::host::waiting::Condvar;

/// What a snapshot is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The file that `dbfilename` names.
    File,
    /// A new base of the log.
    Base,
    /// Replicas that wait for all data.
    Replicas,
}

/// Why a snapshot is not begun.
#[derive(Debug)]
pub enum Refusal {
    /// Another is being written, for this purpose.
    Running(Purpose),
    /// The engine ends, and writes none any more.
    Closed,
    /// Its thread cannot start.
    NoThread(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(_) => f.write_str("another snapshot is being written"),
            Self::Closed => f.write_str("the engine ends"),
            Self::NoThread(error) => write!(f, "its thread cannot start: {error}"),
        }
    }
}

/// How long after one that failed another begins that was scheduled, in milliseconds.
const TRY_AGAIN_MS: u64 = 1_000;

/// What is known of snapshots, as INFO and LASTSAVE show it.
#[derive(Debug, Clone)]
pub struct SnapshotStatus {
    /// What is being written, and since when.
    pub running: Option<(Purpose, Instant)>,
    /// A file is to be written as soon as the log's base is.
    pub file_scheduled: bool,
    /// A base is to be written as soon as the file is.
    pub base_scheduled: bool,
    /// When the data was last whole in a file, seconds since the epoch.
    pub last_save_s: i64,
    /// How many changes there had been then.
    pub saved_changes: u64,
    /// Whether the last file could be written.
    pub file_ok: bool,
    /// Whether the last base could be.
    pub base_ok: bool,
    /// How long the last file took, in seconds.
    pub file_took_s: Option<u64>,
    /// How long the last base took.
    pub base_took_s: Option<u64>,
    /// How many files were written.
    pub saves: u64,
    /// How many bases were begun.
    pub rewrites: u64,
    /// How many of the last bases could not be written, one after the other.
    pub rewrites_failed: u64,
    /// When the last try to write a file began, monotonic milliseconds.
    pub last_try_ms: u64,
}

/// How far a running snapshot is. Written by its thread, read by INFO; on cache lines of its own, because it is written at
/// each step.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    /// Keys that it will have.
    pub keys_total: AtomicU64,
    /// Keys that it has.
    pub keys_done: AtomicU64,
    /// Bytes that were handed over and not taken.
    pub waiting: Arc<Waiting>,
    /// Bytes that were taken, and are encoded or held until they can be, and are not written.
    pub encoded_bytes: AtomicUsize,
    /// The most that ever waited for the disk, of both.
    pub waiting_bytes_max: AtomicU64,
    /// The longest time for which a shard was held for it, in nanoseconds.
    pub longest_hold_ns: AtomicU64,
}

impl Progress {
    /// Bytes that wait for the disk.
    pub fn waits(&self) -> u64 {
        (self.waiting.bytes() + self.encoded_bytes.load(Ordering::Relaxed)) as u64
    }

    /// The same, and takes note of it if it is the most that has waited.
    pub fn note_waits(&self) -> u64 {
        let waits = self.waits();
        if waits > self.waiting_bytes_max.load(Ordering::Relaxed) {
            self.waiting_bytes_max.fetch_max(waits, Ordering::Relaxed);
        }
        waits
    }
}

/// What is done when a snapshot is over; it is told whether the snapshot is good.
pub type WhenDone = Box<dyn FnOnce(bool) + Send>;

/// The snapshots of one engine.
#[derive(Debug)]
pub struct Snapshots {
    state: Mutex<SnapshotState>,
    over: Condvar,
    /// The running one is to end without a result.
    is_aborted: AtomicBool,
    /// Whether the rules of `save` count: in a server, not in a program that embeds an engine.
    are_ruled: AtomicBool,
    /// How far the running one is, or how far the last one came.
    pub progress: Progress,
}

struct SnapshotState {
    status: SnapshotStatus,
    /// Whether somebody waited for the running one from its beginning on.
    is_awaited: bool,
    /// What is done when the running one is over.
    when_done: Vec<WhenDone>,
    /// When the next may begin that was scheduled, monotonic milliseconds.
    next_ms: u64,
    /// Whether none begins any more.
    is_closed: bool,
}

impl fmt::Debug for SnapshotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotState").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Snapshots {
    /// None yet; what is in memory at the start counts as saved.
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
        }
    }

    /// Has the rules of `save` count from now on.
    pub fn follow_rules(&self) {
        self.are_ruled.store(true, Ordering::Relaxed);
    }

    /// Whether the rules of `save` count.
    pub fn are_ruled(&self) -> bool {
        self.are_ruled.load(Ordering::Relaxed)
    }

    /// Ends them for good: the running one without a result, and none begins any more, be it scheduled or asked for. Whoever
    /// gives the folder of the log away does this first.
    pub fn close(&self) {
        self.refuse_more();
        self.abort_and_wait();
    }

    /// Has none begin any more.
    pub fn refuse_more(&self) {
        self.state.lock().is_closed = true;
    }

    /// Has the running one end without a result, and waits until it has.
    pub fn abort_and_wait(&self) {
        let mut state = self.state.lock();
        while state.status.running.is_some() {
            self.is_aborted.store(true, Ordering::Relaxed);
            self.over.wait(&mut state);
        }
    }

    /// Has the running one end without a result if it is written for this; whether it is. `when_over` is taken then, and done
    /// when it has ended.
    pub fn abort(&self, purpose: Purpose, when_over: &mut Option<WhenDone>) -> bool {
        let mut state = self.state.lock();
        let is_it = state.status.running.is_some_and(|(running, _)| running == purpose);
        if is_it {
            self.is_aborted.store(true, Ordering::Relaxed);
            state.when_done.extend(when_over.take());
        }
        is_it
    }

    /// Has something done when the running one is over; false, and nothing is taken, if there is none.
    pub fn follow(&self, when_over: &mut Option<WhenDone>) -> bool {
        let mut state = self.state.lock();
        let is_running = state.status.running.is_some();
        if is_running {
            state.when_done.extend(when_over.take());
        }
        is_running
    }

    /// Waits until none is being written.
    pub fn wait_until_over(&self) {
        let mut state = self.state.lock();
        while state.status.running.is_some() {
            self.over.wait(&mut state);
        }
    }

    /// Says that a file has all changes up to these: it was loaded.
    pub fn note_saved(&self, changes: u64) {
        self.state.lock().status.saved_changes = changes;
    }

    /// Whether the running one is to end without a result.
    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Relaxed)
    }

    /// Whether somebody waits for the running one, and hears when it fails: nobody else does then, as in Redis.
    pub fn is_awaited(&self) -> bool {
        self.state.lock().is_awaited
    }

    /// Whether one is being written.
    pub fn is_running(&self) -> bool {
        self.state.lock().status.running.is_some()
    }

    /// What is known.
    pub fn status(&self) -> SnapshotStatus {
        self.state.lock().status.clone()
    }

    /// Begins one, unless one is being written; `when_done` is taken and done when it is over. Whether one was scheduled: this
    /// is it.
    ///
    /// # Errors
    /// Why not.
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

    /// Has one follow the running one.
    pub fn schedule(&self, purpose: Purpose) {
        self.set_scheduled(purpose, true);
    }

    /// Has none follow the running one.
    pub fn unschedule(&self, purpose: Purpose) {
        self.set_scheduled(purpose, false);
    }

    fn set_scheduled(&self, purpose: Purpose, is_scheduled: bool) {
        let status = &mut self.state.lock().status;
        match purpose {
            Purpose::File => status.file_scheduled = is_scheduled,
            Purpose::Base => status.base_scheduled = is_scheduled,
            // They are looked after at each tick.
            Purpose::Replicas => {}
        }
    }

    /// What was scheduled, once nothing is running, and in how many milliseconds it is to begin: what has just failed waits.
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

    /// Says how the running one went; a file has all changes up to `changes`. Returns what is to be done now.
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
            // That nobody wants it any more says nothing about the disk, and whoever waits for it hears it.
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
