//! Starts snapshots, writes them in separate threads, and reports the outcome.
//!
//! A snapshot becomes the file that `dbfilename` names, or a new base of the AOF; then the journal is written to a new
//! increment from the snapshot's instant on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Snapshots;
use super::output::SnapshotForm;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::persistence::purpose::{Purpose, Refusal, WhenDone};
use crate::engine::persistence::snapshot::base;
use crate::engine::persistence::snapshot::replicas;
use crate::engine::persistence::snapshot::walk;
use crate::engine::readiness::Hindrance;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::threads;

/// A guard that releases the waiters for a snapshot, even if its thread has panicked.
struct Running<'a>(&'a Engine);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The actions that were to follow the snapshot are dropped, because the engine has failed.
            drop(self.0.persistence.snapshots.end(false, 0, Instant::now()));
        }
    }
}

impl Snapshots {
    /// Begins to write a snapshot in a separate thread. If that succeeds, takes `when_done`.
    ///
    /// # Errors
    /// The reason why the snapshot does not begin.
    pub fn start(
        &self,
        engine: &Arc<Engine>,
        purpose: Purpose,
        now: Instant,
        when_done: &mut Option<WhenDone>,
    ) -> Result<(), Refusal> {
        let was_scheduled = self.register(purpose, now, when_done)?;
        let started = engine.detach_thread("snapshot", move |engine| {
            threads::give_way();
            engine.persistence.snapshots.write(engine, purpose);
            engine.persistence.snapshots.write_scheduled(engine);
            Ok(())
        });
        if let Err(error) = started {
            self.note_outcome(engine, None);
            if was_scheduled {
                self.schedule(purpose);
            }
            return Err(Refusal::NoThread(error));
        }
        Ok(())
    }

    /// Begins a snapshot for replicas that wait for one. If it cannot begin now, the caller's next tick tries again.
    pub fn start_for_replicas(&self, engine: &Arc<Engine>, now: Instant) {
        if let Err(refusal @ Refusal::NoThread(_)) = self.start(engine, Purpose::Replicas, now, &mut None) {
            log::warning(&format!("No snapshot for replicas can begin: {refusal}"));
        }
    }

    fn register(&self, purpose: Purpose, now: Instant, when_done: &mut Option<WhenDone>) -> Result<bool, Refusal> {
        let was_scheduled = self.begin(purpose, now, when_done)?;
        let process = std::process::id();
        match purpose {
            // A caller that waits for the snapshot handles a failure itself.
            Purpose::File if self.is_awaited() => {}
            Purpose::File => log::notice(&format!("Background saving started by a thread of pid {process}")),
            Purpose::Base => {
                log::notice(&format!("Background append only file rewriting started by a thread of pid {process}"));
            }
            Purpose::Replicas => {}
        }
        Ok(was_scheduled)
    }

    /// Writes the snapshots that were scheduled after the one that has just ended in this thread, until none is left or
    /// another thread writes them.
    fn write_scheduled(&self, engine: &Engine) {
        while let Some((purpose, in_ms)) = self.due(Instant::now()) {
            if in_ms > 0 {
                let opening = engine.persistence.aof.opening();
                if !engine.persistence.aof.wait_for_close(opening, Duration::from_millis(in_ms)) {
                    return;
                }
            } else if engine.lifecycle.readiness.has(Hindrance::Loading)
                || self.register(purpose, Instant::now(), &mut None).is_err()
            {
                return;
            } else {
                self.write(engine, purpose);
            }
        }
    }

    /// Writes a snapshot to its file, with an instant that is not before this call. A running snapshot is aborted for it; one
    /// for replicas will begin anew; only a base of an AOF is waited for. `when_done` runs at the end.
    pub fn save_anew(&self, engine: &Arc<Engine>, when_done: WhenDone) {
        let mut when_done = Some(when_done);
        match self.start(engine, Purpose::File, Instant::now(), &mut when_done) {
            Ok(()) => {}
            Err(Refusal::Running(purpose)) => {
                let Some(done) = when_done else { return };
                let engine = Arc::clone(engine);
                let mut again: Option<WhenDone> =
                    Some(Box::new(move |_| engine.persistence.snapshots.save_anew(&engine, done)));
                let is_over = match purpose {
                    Purpose::File | Purpose::Replicas => !self.abort(purpose, &mut again),
                    Purpose::Base => !self.follow(&mut again),
                };
                if is_over && let Some(again) = again {
                    again(false);
                }
            }
            Err(_) => when_done.into_iter().for_each(|done| done(false)),
        }
    }

    /// Schedules a snapshot after the running one, or begins it if that has ended in the meantime.
    pub fn write_next(&self, engine: &Arc<Engine>, purpose: Purpose) {
        let snapshots = self;
        snapshots.schedule(purpose);
        if !snapshots.is_running() {
            // If its thread cannot start, the snapshot stays scheduled.
            _ = self.start(engine, purpose, Instant::now(), &mut None);
        }
    }

    /// Schedules an AOF rewrite for the end of the running snapshot.
    pub fn rewrite_next(&self, engine: &Arc<Engine>) {
        let engine = Arc::clone(engine);
        let mut then: Option<WhenDone> = Some(Box::new(move |_| {
            if engine.persistence.snapshots.start(&engine, Purpose::Base, Instant::now(), &mut None).is_err() {
                engine.persistence.snapshots.write_next(&engine, Purpose::Base);
            }
        }));
        if !self.follow(&mut then) {
            then.into_iter().for_each(|then| then(true));
        }
    }

    /// Writes a snapshot that has begun, in this thread. Returns whether it succeeded.
    pub fn write(&self, engine: &Engine, purpose: Purpose) -> bool {
        let _running = Running(engine);
        let begun_ms = clock::monotonic_ms();
        let written = match purpose {
            Purpose::File => self.write_file(engine),
            Purpose::Base => base::write_base(engine),
            Purpose::Replicas => replicas::write_for_replicas(engine),
        };
        let took_s = (clock::monotonic_ms() - begun_ms) as f64 / 1_000.0;
        match (&written, purpose) {
            (Ok(_), Purpose::File) => {
                log::notice(&format!("DB saved on disk: {took_s:.3} seconds"));
                if !self.is_awaited() {
                    log::notice("Background saving terminated with success");
                }
            }
            (Ok(_), Purpose::Base) => log::notice("Background AOF rewrite finished successfully"),
            (Err(why), Purpose::File) => log::warning(&format!("Background saving error: {why}")),
            (Err(why), Purpose::Base) => log::warning(&format!("Background AOF rewrite terminated: {why}")),
            (Ok(_), Purpose::Replicas) => log::notice("Background RDB transfer terminated with success"),
            (Err(why), Purpose::Replicas) => log::warning(&format!("Background RDB transfer error: {why}")),
        }
        engine.persistence.aof.note_disk_behind(engine);
        let is_good = written.is_ok();
        // If a base is aborted because the AOF was switched off, that says nothing about the disk.
        if purpose == Purpose::Base && (is_good || !self.is_aborted()) {
            engine.persistence.aof.note_rewrite(is_good);
        }
        self.note_outcome(engine, written.ok());
        is_good
    }

    /// Notes the outcome of the running snapshot: the changes that it contains, or None if it has failed.
    fn note_outcome(&self, engine: &Engine, changes: Option<u64>) {
        let snapshots = self;
        let was_file = snapshots.status().running.is_some_and(|(purpose, _)| purpose == Purpose::File);
        let is_told = changes.is_some() || !(snapshots.is_aborted() || snapshots.is_awaited());
        let when_done = snapshots.end(changes.is_some(), changes.unwrap_or_default(), Instant::now());
        if was_file && is_told {
            let refuses = changes.is_none() && self.refuses_after_failure(engine);
            engine.lifecycle.readiness.set(Hindrance::SnapshotFails, refuses);
        }
        when_done.into_iter().for_each(|act| act(changes.is_some()));
    }

    /// Returns whether writes are refused after a snapshot that failed.
    pub fn refuses_after_failure(&self, engine: &Engine) -> bool {
        self.are_ruled() && engine.config.is_set(Opt::Save) && engine.config.flag(Opt::StopWritesOnBgsaveError)
    }

    /// Returns the file that `dbfilename` names.
    pub fn path(&self, engine: &Engine) -> PathBuf {
        engine.persistence.disk.resolve(&engine.config.resolve(&engine.config.text(Opt::Dbfilename)))
    }

    /// Returns the path of the snapshot while it is being written.
    pub fn unfinished_path(&self, engine: &Engine) -> PathBuf {
        self.path(engine).with_file_name(format!("temp-{}.rdb", engine.identity.mark()))
    }

    /// Returns the path of a snapshot that a primary sends, until it is loaded.
    pub fn arriving_path(&self, engine: &Engine) -> PathBuf {
        self.path(engine).with_file_name(format!("temp-sync-{}.rdb", engine.identity.mark()))
    }

    fn write_file(&self, engine: &Engine) -> Result<u64, String> {
        let (path, beside) = (self.path(engine), self.unfinished_path(engine));
        let begun = walk::begin(engine, 0, |_| Ok(()))?;
        let changes = begun.changes;
        walk::write_to(engine, &beside, begun, SnapshotForm::File)?;
        walk::put_in_place(&*engine.persistence.disk, &beside, &path).map_err(|error| {
            _ = engine.persistence.disk.remove(&beside);
            format!("cannot put {} in its place: {}", path.display(), reason(&error))
        })?;
        Ok(changes)
    }
}
