//! The walk of a snapshot through the store as it was at one instant.
//!
//! All shards are locked at that instant; its cost does not depend on the number of keys. From then on the walk holds one
//! shard at a time, for a limited time, and encodes and writes without any lock. Before-images that writers hand over during
//! the walk wait in memory; from `snapshot-max-memory` bytes on, clients that write are held.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_disk::disk::{Disk, File, Open};
use sleeve_store::snapshot::{Budget, Progress as Step, Snapshot};

use super::output::SnapshotForm;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::journal::{BatchBuffer, Recorder};
use crate::engine::keyspace::locks::Locks;
use crate::engine::persistence::snapshot::output;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::Place;
use crate::engine::replication::primary;
use crate::engine::replication::resume;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::threads;
use crate::host::waiting;

/// The amount that is copied while a shard is held: a few microseconds of work. It is encoded before the next shard is taken,
/// so that workers get their turn.
const STEP: Budget = Budget { bytes: 8 << 10, pieces: 16 };

/// The number of steps after which the thread yields its processor: 20 to 60 us for short values.
const STEPS_A_YIELD: usize = 8;

/// The number of bytes that are encoded before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// The time after which a replica is sent what is encoded, however little: silence makes it give up.
const SEND_EVERY_MS: u64 = 1_000;

/// The number of bytes that are written before an fsync.
const SYNC_BYTES: u64 = 4 << 20;

/// The pause of a walk that has to wait for a before-image that one thread is just handing over.
const WAITING_PAUSE: Duration = Duration::from_millis(1);

/// A sink for the bytes of a snapshot.
pub(in crate::engine::persistence) type Write<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// A snapshot that has begun.
pub(in crate::engine::persistence) struct Begun {
    snapshot: Snapshot,
    /// The snapshot's offset in the journal.
    pub(in crate::engine::persistence) offset: u64,
    /// The snapshot's position in the replication stream, if there is one.
    place: Option<Place>,
    /// The number of changes that the snapshot contains.
    pub(in crate::engine::persistence) changes: u64,
    /// The code of the libraries of functions.
    functions: Vec<Box<[u8]>>,
}

/// Begins a snapshot at an offset of the journal that is not before `not_before`; calls `at_instant` with the offset while
/// all shards are locked.
pub(in crate::engine::persistence) fn begin(
    engine: &Engine,
    not_before: u64,
    at_instant: impl FnOnce(u64) -> Result<(), String>,
) -> Result<Begun, String> {
    finish_aborted_snapshot(engine);
    // A copy of another server's journal keeps that server's offsets and its stream's id.
    if engine.journal.end() < not_before && engine.journal.copied_database().is_none() {
        primary::restart_stream(engine, "it goes on at the offset of a log that was there before");
    }
    let batch_buffer = BatchBuffer::default();
    let recorder = Recorder::new(&engine.journal, &engine.keyspace.offsets, &batch_buffer);
    let mut locks = Locks::new(&engine.keyspace.store, &engine.keyspace.turns, recorder);
    if !locks.take_all_unless(|| engine.persistence.snapshots.is_aborted()) {
        return Err(ABORTED.into());
    }
    let held_since = clock::ticks();
    let waiting = Arc::clone(&engine.persistence.snapshots.progress.waiting);
    let mut snapshot = locks.begin_snapshot(waiting).map_err(|unfinished| unfinished.to_string())?;
    snapshot.measure_by(clock::ticks);
    engine.journal.skip_to(not_before);
    let position = engine.journal.position();
    let (offset, _) = position;
    let functions = engine.scripts.libraries().iter().map(|library| library.code.clone()).collect();
    at_instant(offset)?;
    let place = resume::place_at(engine, position);
    let changes = engine.observe.stats.changes();
    let keys = snapshot.sizes().iter().map(|size| size.keys as u64).sum();
    engine.persistence.snapshots.progress.keys_total.store(keys, Ordering::Relaxed);
    drop(locks);
    let held = clock::ticks().wrapping_sub(held_since);
    note_hold(engine, held);
    engine.persistence.snapshots.beginnings.add(engine.identity.ticker.nanoseconds(held));
    Ok(Begun { snapshot, offset, place, changes, functions })
}

/// Finishes a snapshot that was aborted, so that the next can begin.
pub fn finish_aborted_snapshot(engine: &Engine) {
    let Some(mut aborted) = Snapshot::unfinished(&engine.keyspace.store) else { return };
    while let Ok(step @ (Step::More | Step::Waiting)) = aborted.step(&engine.keyspace.store, STEP, &mut |_| ()) {
        if step == Step::Waiting {
            waiting::sleep(WAITING_PAUSE);
        }
    }
}

/// Writes a snapshot to a new file, and fsyncs the file.
pub(in crate::engine::persistence) fn write_to(
    engine: &Engine,
    path: &Path,
    begun: Begun,
    form: SnapshotForm,
) -> Result<(), String> {
    let written = try_write_to(engine, path, begun, form);
    if written.is_err() {
        _ = engine.persistence.disk.remove(path);
    }
    written
}

fn try_write_to(engine: &Engine, path: &Path, begun: Begun, form: SnapshotForm) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {}", path.display(), reason(&error));
    let syncs_often = match form {
        SnapshotForm::File | SnapshotForm::Replicas(_) => Opt::RdbSaveIncrementalFsync,
        SnapshotForm::Base | SnapshotForm::Requests(_) => Opt::AofRewriteIncrementalFsync,
    };
    let mut out = Out::create(&*engine.persistence.disk, path, engine.config.flag(syncs_often)).map_err(failed)?;
    give_out(engine, begun, form, &mut |bytes| out.write(bytes).map_err(failed))?;
    out.finish().map_err(failed)
}

/// Walks through a snapshot to its end, and passes its bytes in this form to `write`, many at a time.
pub(in crate::engine::persistence) fn give_out(
    engine: &Engine,
    begun: Begun,
    form: SnapshotForm,
    write: &mut Write<'_>,
) -> Result<(), String> {
    engine.lifecycle.readiness.set(Hindrance::SnapshotRuns, true);
    let given = try_give_out(engine, begun, form, write);
    engine.lifecycle.readiness.set(Hindrance::SnapshotRuns, false);
    engine.persistence.snapshots.progress.encoded_bytes.store(0, Ordering::Relaxed);
    given
}

fn try_give_out(engine: &Engine, begun: Begun, form: SnapshotForm, write: &mut Write<'_>) -> Result<(), String> {
    let Begun { mut snapshot, offset, place, functions, .. } = begun;
    let is_for_replicas = matches!(form, SnapshotForm::Replicas(_));
    let mut sent_ms = clock::monotonic_ms();
    let mut output = output::begin_output(engine, form, &snapshot, (offset, place), Instant::now())?;
    functions.iter().for_each(|code| output.function(code));
    let progress = &engine.persistence.snapshots.progress;
    let mut steps = 0_usize;
    loop {
        if engine.persistence.snapshots.is_aborted() {
            return Err(ABORTED.into());
        }
        note_encoded(engine, output.pending_len() + output.held_len());
        // This also counts the records that arrived while the thread waited for the disk.
        hold_writers_behind_disk(engine);
        let mut written = Ok(());
        let step = snapshot.step(&engine.keyspace.store, STEP, &mut |record| {
            // Many before-images may have been handed over since the last step: no more of them are encoded than are written
            // soon.
            if output.pending_len() >= WRITE_BYTES {
                let drained = output.drain(&mut *write);
                if written.is_ok() {
                    written = drained;
                }
                note_encoded(engine, output.pending_len() + output.held_len());
                hold_writers_behind_disk(engine);
            }
            output.write(record);
            note_encoded(engine, output.pending_len() + output.held_len());
        });
        let step = step.map_err(|torn| torn.to_string())?;
        written?;
        let has_bytes = output.pending_len() != 0;
        let is_silent = is_for_replicas && has_bytes && clock::monotonic_ms() >= sent_ms + SEND_EVERY_MS;
        if output.pending_len() >= WRITE_BYTES || step == Step::Done || is_silent {
            output.drain(&mut *write)?;
            sent_ms = clock::monotonic_ms();
        }
        let keys_before = progress.keys_done.swap(output.keys_len(), Ordering::Relaxed);
        delay_save(engine, output.keys_len() - keys_before);
        note_hold(engine, snapshot.longest_hold());
        hold_writers_behind_disk(engine);
        steps += 1;
        if steps.is_multiple_of(STEPS_A_YIELD) {
            threads::yield_to_clients();
        }
        match step {
            // An abort at the last moment counts too.
            Step::Done if engine.persistence.snapshots.is_aborted() => return Err(ABORTED.into()),
            Step::Done => break,
            Step::More => {}
            // Another thread is just handing over the key that the walk needs.
            Step::Waiting => waiting::sleep(WAITING_PAUSE),
        }
    }
    output.end(write)?
}

/// Notes that a shard was held for a snapshot for so many ticks.
fn note_hold(engine: &Engine, ticks: u64) {
    let longest_ns = &engine.persistence.snapshots.progress.longest_hold_ns;
    longest_ns.fetch_max(engine.identity.ticker.nanoseconds(ticks), Ordering::Relaxed);
}

/// Waits after so many keys of a snapshot, if a test asks for that.
fn delay_save(engine: &Engine, keys: u64) {
    let delay_us = || engine.config.number(Opt::RdbKeySaveDelay);
    if delay_us() == 0 {
        return;
    }
    let began_ms = clock::monotonic_ms();
    let left = || {
        let delay = test_delay(delay_us(), keys);
        delay > Duration::from_millis(clock::monotonic_ms() - began_ms)
    };
    while left() && !engine.persistence.snapshots.is_aborted() {
        waiting::sleep(Duration::from_millis(1));
    }
}

/// Returns whether the present hindrances may be a reason to hold clients that write: a running snapshot alone is none until
/// too much data waits for its disk.
pub fn may_hold_writes(engine: &Engine) -> bool {
    !engine.lifecycle.readiness.has_only(Hindrance::SnapshotRuns)
        || engine.persistence.snapshots.progress.waiting.is_too_much()
}

/// Returns whether the data that waits for the snapshot's disk has reached its limit. A worker that is about to write checks
/// this itself, because the snapshot thread may be waiting for the disk. The snapshot thread releases the held clients.
pub fn is_snapshot_behind(engine: &Engine) -> bool {
    let progress = &engine.persistence.snapshots.progress;
    let is_behind = progress.note_waits() >= engine.config.memory(Opt::SnapshotMaxMemory);
    if is_behind {
        engine.lifecycle.readiness.set(Hindrance::DiskBehind, true);
        if !engine.lifecycle.readiness.has(Hindrance::SnapshotRuns) {
            // The snapshot thread has ended in the meantime, and does not check any more.
            engine.persistence.aof.note_disk_behind(engine);
        }
    }
    is_behind
}

/// Notes how many bytes are not written yet, encoded or held until they can be: the room for before-images shrinks by that.
/// Called before the encoded records are subtracted from the waiting ones, because otherwise writers would fill their place
/// in between.
fn note_encoded(engine: &Engine, bytes: usize) {
    let progress = &engine.persistence.snapshots.progress;
    progress.encoded_bytes.store(bytes, Ordering::Relaxed);
    progress.waiting.bound((engine.config.memory(Opt::SnapshotMaxMemory) as usize).saturating_sub(bytes));
}

/// Holds clients that write while more data waits for the snapshot's disk than the limit allows.
pub(in crate::engine::persistence) fn hold_writers_behind_disk(engine: &Engine) {
    let progress = &engine.persistence.snapshots.progress;
    let is_behind = progress.note_waits() >= engine.config.memory(Opt::SnapshotMaxMemory);
    if is_behind != engine.lifecycle.readiness.has(Hindrance::DiskBehind) {
        engine.persistence.aof.set_disk_behind(engine, is_behind || engine.journal.is_full());
    }
}

/// Returns the time that a test wants so many keys to take: `delay_us` microseconds for each key; if it is negative, one
/// microsecond for each `-delay_us` keys.
pub fn test_delay(delay_us: i64, keys: u64) -> Duration {
    let each = delay_us.unsigned_abs();
    Duration::from_micros(if delay_us < 0 { keys / each } else { keys.saturating_mul(each) })
}

pub(in crate::engine::persistence) const ABORTED: &str = "it was given up for another";

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

/// Renames a file to its final name, durably.
///
/// # Errors
/// Errors of the operating system.
pub fn put_in_place(disk: &dyn Disk, beside: &Path, path: &Path) -> io::Result<()> {
    disk.rename(beside, path)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new("")))
}
