//! Writes a snapshot: its thread walks through the store as it was at one instant, and writes the keys that it finds.
//!
//! All shards are locked at that instant; its cost does not depend on the number of keys. From then on the walk holds one
//! shard at a time, for a limited time, and encodes and writes without any lock. Before-images that writers hand over in
//! between wait in memory; from `snapshot-max-memory` bytes on, clients that write are held.
//!
//! The snapshot becomes the file that `dbfilename` names, or a new base of the AOF: then the journal goes into a new
//! increment from the instant on.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_disk::disk::{Disk, File, Open};
use sleeve_store::snapshot::{Budget, Progress as Step, Snapshot};

use super::snapshot_output::SnapshotForm;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::durability::snapshots::{Purpose, Refusal, WhenDone};
use crate::engine::journal::{BatchBuffer, Recorder};
use crate::engine::keyspace::locks::Locks;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::Place;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::waiting;

/// The amount that is copied while a shard is held: a few microseconds of work. It is encoded before the next shard is taken,
/// so that workers get their turn.
const STEP: Budget = Budget { bytes: 8 << 10, pieces: 16 };

/// Bytes that are encoded before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes that are written before a sync.
const SYNC_BYTES: u64 = 4 << 20;

/// The pause of a snapshot that finds nothing, because the key it looks for is on its way between two threads.
const WAITING_PAUSE: Duration = Duration::from_millis(1);

/// A guard that releases the waiters for a snapshot, also if its thread has panicked.
struct Running<'a>(&'a Engine);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The actions that follow the snapshot are dropped: the engine is finished.
            drop(self.0.durability.snapshots.end(false, 0, Instant::now()));
        }
    }
}

/// A sink for the bytes of a snapshot.
pub(super) type Write<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// A snapshot that has begun.
pub(super) struct Begun {
    snapshot: Snapshot,
    /// Its offset in the journal.
    pub(super) offset: u64,
    /// Its place in the stream to replicas, if there is one.
    place: Option<Place>,
    /// The changes that it has.
    pub(super) changes: u64,
    /// The libraries of functions, in their code.
    functions: Vec<Box<[u8]>>,
}

impl Engine {
    /// Begins to write a snapshot in a thread of its own. `when_done` is taken if that has begun.
    ///
    /// # Errors
    /// Why not.
    pub fn start_snapshot(
        self: &Arc<Self>,
        purpose: Purpose,
        now: Instant,
        when_done: &mut Option<WhenDone>,
    ) -> Result<(), Refusal> {
        let was_scheduled = self.register_snapshot(purpose, now, when_done)?;
        let engine = Arc::clone(self);
        let started = self.detach_thread("snapshot", move || {
            engine.write_snapshot(purpose);
            engine.write_scheduled();
            Ok(())
        });
        if let Err(error) = started {
            self.end_snapshot(None);
            if was_scheduled {
                self.durability.snapshots.schedule(purpose);
            }
            return Err(Refusal::NoThread(error));
        }
        Ok(())
    }

    fn register_snapshot(
        &self,
        purpose: Purpose,
        now: Instant,
        when_done: &mut Option<WhenDone>,
    ) -> Result<bool, Refusal> {
        let was_scheduled = self.durability.snapshots.begin(purpose, now, when_done)?;
        let process = std::process::id();
        match purpose {
            // A caller that waits for the snapshot learns its outcome.
            Purpose::File if self.durability.snapshots.is_awaited() => {}
            Purpose::File => log::notice(&format!("Background saving started by a thread of pid {process}")),
            Purpose::Base => {
                log::notice(&format!("Background append only file rewriting started by a thread of pid {process}"));
            }
            Purpose::Replicas => {}
        }
        Ok(was_scheduled)
    }

    /// Writes the snapshots that were scheduled behind the one that has just ended in this thread, until none is left, or
    /// another thread writes them.
    fn write_scheduled(&self) {
        while let Some((purpose, in_ms)) = self.durability.snapshots.due(Instant::now()) {
            if in_ms > 0 {
                let opening = self.durability.log.opening();
                if !self.durability.log.wait_for_close(opening, Duration::from_millis(in_ms)) {
                    return;
                }
            } else if self.readiness.has(Hindrance::Loading)
                || self.register_snapshot(purpose, Instant::now(), &mut None).is_err()
            {
                return;
            } else {
                self.write_snapshot(purpose);
            }
        }
    }

    /// Writes a snapshot to its file that begins from now on. A running snapshot is given up for it, also one for replicas,
    /// which then begins anew; a base of an AOF is waited for. `when_done` runs at the end.
    pub fn save_anew(self: &Arc<Self>, when_done: WhenDone) {
        let mut when_done = Some(when_done);
        let engine = Arc::clone(self);
        match self.start_snapshot(Purpose::File, Instant::now(), &mut when_done) {
            Ok(()) => {}
            Err(Refusal::Running(purpose)) => {
                let Some(done) = when_done else { return };
                let mut again: Option<WhenDone> = Some(Box::new(move |_| engine.save_anew(done)));
                let is_over = match purpose {
                    Purpose::File | Purpose::Replicas => !self.durability.snapshots.abort(purpose, &mut again),
                    Purpose::Base => !self.durability.snapshots.follow(&mut again),
                };
                if is_over && let Some(again) = again {
                    again(false);
                }
            }
            Err(_) => when_done.into_iter().for_each(|done| done(false)),
        }
    }

    /// Schedules a snapshot behind the running one, or begins it if that has ended in between.
    pub fn write_next(self: &Arc<Self>, purpose: Purpose) {
        let snapshots = &self.durability.snapshots;
        snapshots.schedule(purpose);
        if !snapshots.is_running() {
            // Where its thread cannot start it stays scheduled.
            _ = self.start_snapshot(purpose, Instant::now(), &mut None);
        }
    }

    /// Schedules a rewrite of the AOF for the end of the running snapshot.
    pub fn rewrite_next(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        let mut then: Option<WhenDone> = Some(Box::new(move |_| {
            if engine.start_snapshot(Purpose::Base, Instant::now(), &mut None).is_err() {
                engine.write_next(Purpose::Base);
            }
        }));
        if !self.durability.snapshots.follow(&mut then) {
            then.into_iter().for_each(|then| then(true));
        }
    }

    /// Writes a snapshot that has begun, in this thread.
    pub fn write_snapshot(&self, purpose: Purpose) -> bool {
        let _running = Running(self);
        let begun_ms = clock::monotonic_ms();
        let written = match purpose {
            Purpose::File => self.write_file(),
            Purpose::Base => self.write_base(),
            Purpose::Replicas => self.write_for_replicas(),
        };
        let took_s = (clock::monotonic_ms() - begun_ms) as f64 / 1_000.0;
        match (&written, purpose) {
            (Ok(_), Purpose::File) => {
                log::notice(&format!("DB saved on disk: {took_s:.3} seconds"));
                if !self.durability.snapshots.is_awaited() {
                    log::notice("Background saving terminated with success");
                }
            }
            (Ok(_), Purpose::Base) => log::notice("Background AOF rewrite finished successfully"),
            (Err(why), Purpose::File) => log::warning(&format!("Background saving error: {why}")),
            (Err(why), Purpose::Base) => log::warning(&format!("Background AOF rewrite terminated: {why}")),
            (Ok(_), Purpose::Replicas) => log::notice("Background RDB transfer terminated with success"),
            (Err(why), Purpose::Replicas) => log::warning(&format!("Background RDB transfer error: {why}")),
        }
        self.note_disk_behind();
        let is_good = written.is_ok();
        // A base that is given up because there is to be no AOF says nothing about the disk.
        if purpose == Purpose::Base && (is_good || !self.durability.snapshots.is_aborted()) {
            self.durability.log.note_rewrite(is_good);
        }
        self.end_snapshot(written.ok());
        is_good
    }

    /// Says how the running snapshot went: it has so many changes, or has failed.
    fn end_snapshot(&self, changes: Option<u64>) {
        let snapshots = &self.durability.snapshots;
        let was_file = snapshots.status().running.is_some_and(|(purpose, _)| purpose == Purpose::File);
        let is_told = changes.is_some() || !(snapshots.is_aborted() || snapshots.is_awaited());
        let when_done = snapshots.end(changes.is_some(), changes.unwrap_or_default(), Instant::now());
        if was_file && is_told {
            let refuses = changes.is_none() && self.refuses_after_failure();
            self.readiness.set(Hindrance::SnapshotFails, refuses);
        }
        when_done.into_iter().for_each(|act| act(changes.is_some()));
    }

    /// Returns whether writes are refused after a snapshot that failed.
    pub fn refuses_after_failure(&self) -> bool {
        self.durability.snapshots.are_ruled()
            && self.config.is_set(Opt::Save)
            && self.config.flag(Opt::StopWritesOnBgsaveError)
    }

    /// Returns the file that `dbfilename` names.
    pub fn snapshot_path(&self) -> PathBuf {
        self.disk.resolve(&self.config.resolve(&self.config.text(Opt::Dbfilename)))
    }

    /// Returns the path of the snapshot while it is written.
    pub fn unfinished_snapshot_path(&self) -> PathBuf {
        self.snapshot_path().with_file_name(format!("temp-{}.rdb", self.mark()))
    }

    /// Returns the path of a snapshot that a primary sends, until it is loaded.
    pub fn arriving_snapshot_path(&self) -> PathBuf {
        self.snapshot_path().with_file_name(format!("temp-sync-{}.rdb", self.mark()))
    }

    /// Returns the mark that distinguishes the files that this engine is writing from those of any other: its process id, as
    /// in Redis, and, if the process has begun engines before, the engine's number.
    pub(in crate::engine) fn mark(&self) -> String {
        let process = std::process::id();
        if self.number == 0 { process.to_string() } else { format!("{process}-{}", self.number) }
    }

    fn write_file(&self) -> Result<u64, String> {
        let (path, beside) = (self.snapshot_path(), self.unfinished_snapshot_path());
        let begun = self.begin_snapshot(0, |_| Ok(()))?;
        let changes = begun.changes;
        self.write_to(&beside, begun, SnapshotForm::File)?;
        put_in_place(&*self.disk, &beside, &path).map_err(|error| {
            _ = self.disk.remove(&beside);
            format!("cannot put {} in its place: {}", path.display(), reason(&error))
        })?;
        Ok(changes)
    }

    /// Begins a snapshot, at this offset of the journal or behind it; `at_instant` is called with its offset while all shards
    /// are locked.
    pub(super) fn begin_snapshot(
        &self,
        not_before: u64,
        at_instant: impl FnOnce(u64) -> Result<(), String>,
    ) -> Result<Begun, String> {
        self.finish_aborted_snapshot();
        // A copy of another server's journal keeps that server's offsets and its stream's id.
        if self.journal.end() < not_before && self.journal.copied_database().is_none() {
            self.restart_stream("it goes on at the offset of a log that was there before");
        }
        let batch_buffer = BatchBuffer::default();
        let recorder = Recorder::new(&self.journal, &self.offsets, &batch_buffer);
        let mut locks = Locks::new(&self.store, &self.all_or_each, recorder);
        if !locks.take_all_unless(|| self.durability.snapshots.is_aborted()) {
            return Err(ABORTED.into());
        }
        let held_since = clock::ticks();
        let waiting = Arc::clone(&self.durability.snapshots.progress.waiting);
        let mut snapshot = locks.begin_snapshot(waiting).map_err(|unfinished| unfinished.to_string())?;
        snapshot.measure_by(clock::ticks);
        self.journal.skip_to(not_before);
        let position = self.journal.position();
        let (offset, _) = position;
        let functions = self.scripts.libraries().iter().map(|library| library.code.clone()).collect();
        at_instant(offset)?;
        let place = self.place_at(position);
        let changes = self.stats.changes();
        let keys = snapshot.sizes().iter().map(|size| size.keys as u64).sum();
        self.durability.snapshots.progress.keys_total.store(keys, Ordering::Relaxed);
        drop(locks);
        self.note_hold(clock::ticks().wrapping_sub(held_since));
        Ok(Begun { snapshot, offset, place, changes, functions })
    }

    /// Brings a snapshot to its end that was given up.
    pub fn finish_aborted_snapshot(&self) {
        let Some(mut aborted) = self.store.unfinished_snapshot() else { return };
        while let Ok(step @ (Step::More | Step::Waiting)) = aborted.step(&self.store, STEP, &mut |_| ()) {
            if step == Step::Waiting {
                waiting::sleep(WAITING_PAUSE);
            }
        }
    }

    /// Writes a snapshot to a new file, and syncs it.
    pub(super) fn write_to(&self, path: &Path, begun: Begun, form: SnapshotForm) -> Result<(), String> {
        let written = self.try_write_to(path, begun, form);
        if written.is_err() {
            _ = self.disk.remove(path);
        }
        written
    }

    fn try_write_to(&self, path: &Path, begun: Begun, form: SnapshotForm) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write {}: {}", path.display(), reason(&error));
        let syncs_often = match form {
            SnapshotForm::File | SnapshotForm::Replicas(_) => Opt::RdbSaveIncrementalFsync,
            SnapshotForm::Base | SnapshotForm::Requests(_) => Opt::AofRewriteIncrementalFsync,
        };
        let mut out = Out::create(&*self.disk, path, self.config.flag(syncs_often)).map_err(failed)?;
        self.give_out(begun, form, &mut |bytes| out.write(bytes).map_err(failed))?;
        out.finish().map_err(failed)
    }

    /// Walks through a snapshot to its end, and gives out its bytes in this form, many at a time.
    pub(super) fn give_out(&self, begun: Begun, form: SnapshotForm, write: &mut Write<'_>) -> Result<(), String> {
        self.readiness.set(Hindrance::SnapshotRuns, true);
        let given = self.try_give_out(begun, form, write);
        self.readiness.set(Hindrance::SnapshotRuns, false);
        self.durability.snapshots.progress.encoded_bytes.store(0, Ordering::Relaxed);
        given
    }

    fn try_give_out(&self, begun: Begun, form: SnapshotForm, write: &mut Write<'_>) -> Result<(), String> {
        let Begun { mut snapshot, offset, place, functions, .. } = begun;
        let mut output = self.begin_output(form, &snapshot, (offset, place), Instant::now())?;
        functions.iter().for_each(|code| output.function(code));
        let progress = &self.durability.snapshots.progress;
        loop {
            if self.durability.snapshots.is_aborted() {
                return Err(ABORTED.into());
            }
            self.note_encoded(output.pending_len() + output.held_len());
            // Also the records that arrived during the wait for the disk.
            self.hold_writers_behind_disk();
            let mut written = Ok(());
            let step = snapshot.step(&self.store, STEP, &mut |record| {
                // Much may have been handed over since the last step: no more of it is encoded than is soon written.
                if output.pending_len() >= WRITE_BYTES {
                    let drained = output.drain(&mut *write);
                    if written.is_ok() {
                        written = drained;
                    }
                    self.note_encoded(output.pending_len() + output.held_len());
                    self.hold_writers_behind_disk();
                }
                output.write(record);
                self.note_encoded(output.pending_len() + output.held_len());
            });
            let step = step.map_err(|torn| torn.to_string())?;
            written?;
            let keys_before = progress.keys_done.swap(output.keys_len(), Ordering::Relaxed);
            self.delay_save(output.keys_len() - keys_before);
            self.note_hold(snapshot.longest_hold());
            self.hold_writers_behind_disk();
            if output.pending_len() >= WRITE_BYTES || step == Step::Done {
                output.drain(&mut *write)?;
            }
            match step {
                // A snapshot that is aborted at the last moment is aborted too.
                Step::Done if self.durability.snapshots.is_aborted() => return Err(ABORTED.into()),
                Step::Done => break,
                Step::More => {}
                // The key that the walk looks for is on its way from one thread to another.
                Step::Waiting => waiting::sleep(WAITING_PAUSE),
            }
        }
        output.end(write)?
    }

    /// Notes for how many ticks a shard was held for a snapshot.
    fn note_hold(&self, ticks: u64) {
        let longest_ns = &self.durability.snapshots.progress.longest_hold_ns;
        longest_ns.fetch_max(self.ticker.nanoseconds(ticks), Ordering::Relaxed);
    }

    /// Waits behind so many keys of a snapshot, as long as a test asks for that.
    fn delay_save(&self, keys: u64) {
        let delay_us = || self.config.number(Opt::RdbKeySaveDelay);
        if delay_us() == 0 {
            return;
        }
        let began_ms = clock::monotonic_ms();
        let left = || {
            let delay = test_delay(delay_us(), keys);
            delay > Duration::from_millis(clock::monotonic_ms() - began_ms)
        };
        while left() && !self.durability.snapshots.is_aborted() {
            waiting::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether the present hindrances may be a reason to hold clients that write: a snapshot alone is none until too
    /// much waits for its disk.
    pub fn may_hold_writes(&self) -> bool {
        !self.readiness.has_only(Hindrance::SnapshotRuns) || self.durability.snapshots.progress.waiting.is_too_much()
    }

    /// Returns whether the data that waits for the snapshot's disk has reached its limit. A worker that is about to write
    /// asks this if so much has been handed over, because the snapshot thread may be waiting for the disk; the worker goes on
    /// when that thread says so.
    pub fn is_snapshot_behind(&self) -> bool {
        let progress = &self.durability.snapshots.progress;
        let is_behind = progress.note_waits() >= self.config.memory(Opt::SnapshotMaxMemory);
        if is_behind {
            self.readiness.set(Hindrance::DiskBehind, true);
            if !self.readiness.has(Hindrance::SnapshotRuns) {
                // That thread has ended in between and looks no more.
                self.note_disk_behind();
            }
        }
        is_behind
    }

    /// Notes how many bytes are encoded, or held until they can be, and not written: the room for before-images shrinks by
    /// that. Called before the encoded records cease to wait, or writers would fill their place in between.
    fn note_encoded(&self, bytes: usize) {
        let progress = &self.durability.snapshots.progress;
        progress.encoded_bytes.store(bytes, Ordering::Relaxed);
        progress.waiting.bound((self.config.memory(Opt::SnapshotMaxMemory) as usize).saturating_sub(bytes));
    }

    /// Holds clients that write while more waits for the snapshot's disk than may.
    pub(super) fn hold_writers_behind_disk(&self) {
        let progress = &self.durability.snapshots.progress;
        let is_behind = progress.note_waits() >= self.config.memory(Opt::SnapshotMaxMemory);
        if is_behind != self.readiness.has(Hindrance::DiskBehind) {
            self.set_disk_behind(is_behind || self.journal.is_full());
        }
    }
}

/// Returns the time that a test wants so many keys to take: so many microseconds each, or, where that is negative, one for so
/// many of them.
pub fn test_delay(delay_us: i64, keys: u64) -> Duration {
    let each = delay_us.unsigned_abs();
    Duration::from_micros(if delay_us < 0 { keys / each } else { keys.saturating_mul(each) })
}

pub(super) const ABORTED: &str = "it was given up for another";

/// The file that is being written.
struct Out {
    file: Arc<dyn File>,
    unsynced: u64,
    syncs_often: bool,
}

impl Out {
    fn create(disk: &dyn Disk, path: &Path, syncs_often: bool) -> io::Result<Self> {
        Ok(Self { file: disk.open(path, Open::Create)?, unsynced: 0, syncs_often })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(&[IoSlice::new(bytes)])?;
        self.unsynced += bytes.len() as u64;
        if self.syncs_often && self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync()?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Gives a file its name, durably.
///
/// # Errors
/// Those of the system.
pub fn put_in_place(disk: &dyn Disk, beside: &Path, path: &Path) -> io::Result<()> {
    disk.rename(beside, path)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new("")))
}
