//! Starts snapshots, writes them in a thread of their own, and reports the outcome.
//!
//! The snapshot becomes the file that `dbfilename` names, or a new base of the AOF: then the journal goes into a new
//! increment from the instant on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sleeve_disk::disk::Disk;

use super::output::SnapshotForm;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::persistence::purpose::{Purpose, Refusal, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;

/// A guard that releases the waiters for a snapshot, also if its thread has panicked.
struct Running<'a>(&'a Engine);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The actions that follow the snapshot are dropped: the engine is finished.
            drop(self.0.persistence.snapshots.end(false, 0, Instant::now()));
        }
    }
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
                self.persistence.snapshots.schedule(purpose);
            }
            return Err(Refusal::NoThread(error));
        }
        Ok(())
    }

    /// Begins a snapshot for replicas that wait for one. If none can begin now, the caller's next tick tries again.
    pub fn start_for_replicas(self: &Arc<Self>, now: Instant) {
        if let Err(refusal @ Refusal::NoThread(_)) = self.start_snapshot(Purpose::Replicas, now, &mut None) {
            log::warning(&format!("No snapshot for replicas can begin: {refusal}"));
        }
    }

    fn register_snapshot(
        &self,
        purpose: Purpose,
        now: Instant,
        when_done: &mut Option<WhenDone>,
    ) -> Result<bool, Refusal> {
        let was_scheduled = self.persistence.snapshots.begin(purpose, now, when_done)?;
        let process = std::process::id();
        match purpose {
            // A caller that waits for the snapshot learns its outcome.
            Purpose::File if self.persistence.snapshots.is_awaited() => {}
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
        while let Some((purpose, in_ms)) = self.persistence.snapshots.due(Instant::now()) {
            if in_ms > 0 {
                let opening = self.persistence.aof.opening();
                if !self.persistence.aof.wait_for_close(opening, Duration::from_millis(in_ms)) {
                    return;
                }
            } else if self.lifecycle.readiness.has(Hindrance::Loading)
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
                    Purpose::File | Purpose::Replicas => !self.persistence.snapshots.abort(purpose, &mut again),
                    Purpose::Base => !self.persistence.snapshots.follow(&mut again),
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
        let snapshots = &self.persistence.snapshots;
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
        if !self.persistence.snapshots.follow(&mut then) {
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
                if !self.persistence.snapshots.is_awaited() {
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
        if purpose == Purpose::Base && (is_good || !self.persistence.snapshots.is_aborted()) {
            self.persistence.aof.note_rewrite(is_good);
        }
        self.end_snapshot(written.ok());
        is_good
    }

    /// Says how the running snapshot went: it has so many changes, or has failed.
    fn end_snapshot(&self, changes: Option<u64>) {
        let snapshots = &self.persistence.snapshots;
        let was_file = snapshots.status().running.is_some_and(|(purpose, _)| purpose == Purpose::File);
        let is_told = changes.is_some() || !(snapshots.is_aborted() || snapshots.is_awaited());
        let when_done = snapshots.end(changes.is_some(), changes.unwrap_or_default(), Instant::now());
        if was_file && is_told {
            let refuses = changes.is_none() && self.refuses_after_failure();
            self.lifecycle.readiness.set(Hindrance::SnapshotFails, refuses);
        }
        when_done.into_iter().for_each(|act| act(changes.is_some()));
    }

    /// Returns whether writes are refused after a snapshot that failed.
    pub fn refuses_after_failure(&self) -> bool {
        self.persistence.snapshots.are_ruled()
            && self.config.is_set(Opt::Save)
            && self.config.flag(Opt::StopWritesOnBgsaveError)
    }

    /// Returns the file that `dbfilename` names.
    pub fn snapshot_path(&self) -> PathBuf {
        self.persistence.disk.resolve(&self.config.resolve(&self.config.text(Opt::Dbfilename)))
    }

    /// Returns the path of the snapshot while it is written.
    pub fn unfinished_snapshot_path(&self) -> PathBuf {
        self.snapshot_path().with_file_name(format!("temp-{}.rdb", self.identity.mark()))
    }

    /// Returns the path of a snapshot that a primary sends, until it is loaded.
    pub fn arriving_snapshot_path(&self) -> PathBuf {
        self.snapshot_path().with_file_name(format!("temp-sync-{}.rdb", self.identity.mark()))
    }

    fn write_file(&self) -> Result<u64, String> {
        let (path, beside) = (self.snapshot_path(), self.unfinished_snapshot_path());
        let begun = self.begin_snapshot(0, |_| Ok(()))?;
        let changes = begun.changes;
        self.write_to(&beside, begun, SnapshotForm::File)?;
        put_in_place(&*self.persistence.disk, &beside, &path).map_err(|error| {
            _ = self.persistence.disk.remove(&beside);
            format!("cannot put {} in its place: {}", path.display(), reason(&error))
        })?;
        Ok(changes)
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
