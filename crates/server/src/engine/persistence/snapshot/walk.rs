//! The walk of a snapshot through the store as it was at one instant.
//!
//! All shards are locked at that instant; its cost does not depend on the number of keys. From then on the walk holds one
//! shard at a time, for a limited time, and encodes and writes without any lock. Before-images that writers hand over in
//! between wait in memory; from `snapshot-max-memory` bytes on, clients that write are held.

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
use crate::engine::readiness::Hindrance;
use crate::engine::replication::Place;
use crate::host::clock;
use crate::host::clock::Instant;
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

/// A sink for the bytes of a snapshot.
pub(in crate::engine::persistence) type Write<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// A snapshot that has begun.
pub(in crate::engine::persistence) struct Begun {
    snapshot: Snapshot,
    /// Its offset in the journal.
    pub(in crate::engine::persistence) offset: u64,
    /// Its place in the stream to replicas, if there is one.
    place: Option<Place>,
    /// The changes that it has.
    pub(in crate::engine::persistence) changes: u64,
    /// The libraries of functions, in their code.
    functions: Vec<Box<[u8]>>,
}

impl Engine {
    /// Begins a snapshot, at this offset of the journal or behind it; `at_instant` is called with its offset while all shards
    /// are locked.
    pub(in crate::engine::persistence) fn begin_snapshot(
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
        let recorder = Recorder::new(&self.journal, &self.keyspace.offsets, &batch_buffer);
        let mut locks = Locks::new(&self.keyspace.store, &self.keyspace.all_or_each, recorder);
        if !locks.take_all_unless(|| self.persistence.snapshots.is_aborted()) {
            return Err(ABORTED.into());
        }
        let held_since = clock::ticks();
        let waiting = Arc::clone(&self.persistence.snapshots.progress.waiting);
        let mut snapshot = locks.begin_snapshot(waiting).map_err(|unfinished| unfinished.to_string())?;
        snapshot.measure_by(clock::ticks);
        self.journal.skip_to(not_before);
        let position = self.journal.position();
        let (offset, _) = position;
        let functions = self.scripts.libraries().iter().map(|library| library.code.clone()).collect();
        at_instant(offset)?;
        let place = self.place_at(position);
        let changes = self.observe.stats.changes();
        let keys = snapshot.sizes().iter().map(|size| size.keys as u64).sum();
        self.persistence.snapshots.progress.keys_total.store(keys, Ordering::Relaxed);
        drop(locks);
        self.note_hold(clock::ticks().wrapping_sub(held_since));
        Ok(Begun { snapshot, offset, place, changes, functions })
    }

    /// Brings a snapshot to its end that was given up.
    pub fn finish_aborted_snapshot(&self) {
        let Some(mut aborted) = self.keyspace.store.unfinished_snapshot() else { return };
        while let Ok(step @ (Step::More | Step::Waiting)) = aborted.step(&self.keyspace.store, STEP, &mut |_| ()) {
            if step == Step::Waiting {
                waiting::sleep(WAITING_PAUSE);
            }
        }
    }

    /// Writes a snapshot to a new file, and syncs it.
    pub(in crate::engine::persistence) fn write_to(
        &self,
        path: &Path,
        begun: Begun,
        form: SnapshotForm,
    ) -> Result<(), String> {
        let written = self.try_write_to(path, begun, form);
        if written.is_err() {
            _ = self.persistence.disk.remove(path);
        }
        written
    }

    fn try_write_to(&self, path: &Path, begun: Begun, form: SnapshotForm) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write {}: {}", path.display(), reason(&error));
        let syncs_often = match form {
            SnapshotForm::File | SnapshotForm::Replicas(_) => Opt::RdbSaveIncrementalFsync,
            SnapshotForm::Base | SnapshotForm::Requests(_) => Opt::AofRewriteIncrementalFsync,
        };
        let mut out = Out::create(&*self.persistence.disk, path, self.config.flag(syncs_often)).map_err(failed)?;
        self.give_out(begun, form, &mut |bytes| out.write(bytes).map_err(failed))?;
        out.finish().map_err(failed)
    }

    /// Walks through a snapshot to its end, and gives out its bytes in this form, many at a time.
    pub(in crate::engine::persistence) fn give_out(
        &self,
        begun: Begun,
        form: SnapshotForm,
        write: &mut Write<'_>,
    ) -> Result<(), String> {
        self.lifecycle.readiness.set(Hindrance::SnapshotRuns, true);
        let given = self.try_give_out(begun, form, write);
        self.lifecycle.readiness.set(Hindrance::SnapshotRuns, false);
        self.persistence.snapshots.progress.encoded_bytes.store(0, Ordering::Relaxed);
        given
    }

    fn try_give_out(&self, begun: Begun, form: SnapshotForm, write: &mut Write<'_>) -> Result<(), String> {
        let Begun { mut snapshot, offset, place, functions, .. } = begun;
        let mut output = self.begin_output(form, &snapshot, (offset, place), Instant::now())?;
        functions.iter().for_each(|code| output.function(code));
        let progress = &self.persistence.snapshots.progress;
        loop {
            if self.persistence.snapshots.is_aborted() {
                return Err(ABORTED.into());
            }
            self.note_encoded(output.pending_len() + output.held_len());
            // Also the records that arrived during the wait for the disk.
            self.hold_writers_behind_disk();
            let mut written = Ok(());
            let step = snapshot.step(&self.keyspace.store, STEP, &mut |record| {
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
                Step::Done if self.persistence.snapshots.is_aborted() => return Err(ABORTED.into()),
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
        let longest_ns = &self.persistence.snapshots.progress.longest_hold_ns;
        longest_ns.fetch_max(self.identity.ticker.nanoseconds(ticks), Ordering::Relaxed);
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
        while left() && !self.persistence.snapshots.is_aborted() {
            waiting::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether the present hindrances may be a reason to hold clients that write: a snapshot alone is none until too
    /// much waits for its disk.
    pub fn may_hold_writes(&self) -> bool {
        !self.lifecycle.readiness.has_only(Hindrance::SnapshotRuns)
            || self.persistence.snapshots.progress.waiting.is_too_much()
    }

    /// Returns whether the data that waits for the snapshot's disk has reached its limit. A worker that is about to write
    /// asks this if so much has been handed over, because the snapshot thread may be waiting for the disk; the worker goes on
    /// when that thread says so.
    pub fn is_snapshot_behind(&self) -> bool {
        let progress = &self.persistence.snapshots.progress;
        let is_behind = progress.note_waits() >= self.config.memory(Opt::SnapshotMaxMemory);
        if is_behind {
            self.lifecycle.readiness.set(Hindrance::DiskBehind, true);
            if !self.lifecycle.readiness.has(Hindrance::SnapshotRuns) {
                // That thread has ended in between and looks no more.
                self.note_disk_behind();
            }
        }
        is_behind
    }

    /// Notes how many bytes are encoded, or held until they can be, and not written: the room for before-images shrinks by
    /// that. Called before the encoded records cease to wait, or writers would fill their place in between.
    fn note_encoded(&self, bytes: usize) {
        let progress = &self.persistence.snapshots.progress;
        progress.encoded_bytes.store(bytes, Ordering::Relaxed);
        progress.waiting.bound((self.config.memory(Opt::SnapshotMaxMemory) as usize).saturating_sub(bytes));
    }

    /// Holds clients that write while more waits for the snapshot's disk than may.
    pub(in crate::engine::persistence) fn hold_writers_behind_disk(&self) {
        let progress = &self.persistence.snapshots.progress;
        let is_behind = progress.note_waits() >= self.config.memory(Opt::SnapshotMaxMemory);
        if is_behind != self.lifecycle.readiness.has(Hindrance::DiskBehind) {
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
