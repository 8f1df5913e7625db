//! Writes the journal to the AOF, fsyncs it, and handles a failing disk.
//!
//! A worker with a reply that has to be durable writes the journal itself if no other thread is writing it (`write_if_idle`):
//! most replies may be sent when the call returns, and no thread is woken. At the end of its wake-up it makes the rest durable
//! (`settle_on_worker`), unless that may wait long for the disk. That is left to the AOF threads: healing, fsyncs that take
//! long or serve several workers, and writing during a long fsync, which would wait for the fsync on some file systems.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;
use sleeve_disk::aof::AofWriter;

use super::threads;
use super::{Aof, OnWorker};
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::persistence::aof::{OpenLog, Policy};
use crate::engine::readiness::Hindrance;
use crate::engine::replication::resume;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::waiting;

/// The longest wait of a worker for another thread that writes: longer than a write takes, unless the disk holds it up.
const WRITER_WAIT_MAX: Duration = Duration::from_millis(1);

impl Aof {
    /// Opens an AOF that has been read: the journal continues at its end, and is written to it from now on. No client is
    /// served yet.
    ///
    /// # Errors
    /// Errors of the operating system: the AOF threads cannot start.
    pub fn open(&self, engine: &Engine, log: AofWriter) -> io::Result<()> {
        self.open_at_instant(engine, log).inspect_err(|_| _ = self.drop_if(engine, |_| true))
    }

    /// Opens an AOF as `open` does, while all shards are locked. No waiter for the AOF may be notified under these locks, so
    /// if the threads cannot start, the AOF stays open, and the caller has to drop it.
    ///
    /// # Errors
    /// Errors of the operating system: the AOF threads cannot start.
    pub(in crate::engine::persistence) fn open_at_instant(&self, engine: &Engine, log: AofWriter) -> io::Result<()> {
        self.totals().begin_at(engine.journal.pieces());
        let opening = self.set_open(OpenLog::new(log, &engine.journal));
        engine.persistence.pass(engine.journal.end());
        threads::start(&engine.handle(), opening)
    }

    /// Drops the open AOF as it is, if `is_wanted` returns true for it.
    pub(in crate::engine::persistence) fn drop_if(
        &self,
        engine: &Engine,
        is_wanted: impl FnOnce(&AofWriter) -> bool,
    ) -> Option<AofWriter> {
        let log = self.take_open_if(is_wanted)?.into_log();
        self.forget(engine);
        Some(log)
    }

    /// Resets the state that depends on an AOF, once there is none and its readers of the journal have ended.
    fn forget(&self, engine: &Engine) {
        engine.persistence.set_fails(false);
        engine.lifecycle.readiness.set(Hindrance::LogFails, false);
        engine.persistence.pass(u64::MAX);
        self.set_disk_behind(engine, false);
        engine.persistence.tell_synced(engine);
    }

    /// Writes and fsyncs the rest of the journal, and closes the AOF: the server ends, or goes on without an AOF. If an fsync
    /// has failed before, the AOF is healed once, because the disk may work again and there will be no later chance.
    ///
    /// # Errors
    /// Errors of the operating system; the AOF is closed all the same.
    pub fn close(&self, engine: &Engine) -> io::Result<()> {
        let turn = self.syncs.turn();
        // As long as the AOF lacks its base, a start would not find its contents.
        let lacks_base = self.lacks_base();
        let Some(mut open) = self.take_open_if(|_| true) else { return Ok(()) };
        if engine.failure().is_some() {
            // If a thread has panicked, it may have left the AOF half changed, so nothing more is written: the answered
            // writes are in the file.
            let synced = open.log.sync_job().map_or(Ok(()), |job| job.run());
            drop((turn, open));
            self.forget(engine);
            return synced;
        }
        let closed = open.heal().and_then(|()| self.write_to(engine, &mut open)).and_then(|()| open.sync_or_heal());
        drop(turn);
        let closed = closed.and_then(|()| {
            engine.journal.set_written(open.written_offset());
            engine.journal.set_synced(open.written_offset());
            engine.persistence.call_synced((!lacks_base).then_some(open.written_offset()));
            open.into_log().close()
        });
        self.forget(engine);
        closed
    }

    /// Writes and fsyncs the part of the journal that the AOF lacks, when no client is served any more.
    pub fn finish(&self, engine: &Engine) {
        // Another thread may be closing the AOF already.
        self.end.wait_until_closed();
        if self.is_open() {
            if self.close_and_tell(engine) {
                resume::keep_closing_place(engine);
            }
        } else {
            // An AOF that could not be begun so far is not begun any more.
            self.next_opening();
        }
    }

    /// Closes the AOF and logs a failure. Returns whether all of it has been fsynced.
    pub(in crate::engine::persistence) fn close_and_tell(&self, engine: &Engine) -> bool {
        log::notice("Calling fsync() on the AOF file.");
        let closed = self.close(engine);
        if let Err(error) = &closed {
            log::warning(&format!("The end of the append-only file is not on the disk: {error}"));
        }
        closed.is_ok()
    }

    /// Writes the journal to the AOF, unless another thread is writing, which then writes this part too. During an fsync,
    /// leaves it to the AOF thread.
    pub(in crate::engine::persistence) fn write_if_idle(&self, engine: &Engine) {
        if self.is_open() && Policy::of(&engine.config) != Policy::Always {
            self.with_if_idle(|open| self.write_open(engine, open));
        }
    }

    fn write_open(&self, engine: &Engine, open: &mut OpenLog) {
        if engine.persistence.fails() {
            return;
        }
        self.delay_write(engine);
        let written = self.write_to(engine, open);
        self.note_written(engine, open, written);
    }

    /// Writes the part of the journal that the AOF lacks, with the present options.
    fn write_to(&self, engine: &Engine, open: &mut OpenLog) -> io::Result<()> {
        self.set_options(engine, &mut open.log);
        // The number of units is read first: these have their bytes in the journal, so none is counted before it is written.
        let (units, before) = (engine.journal.pieces(), open.log.bytes());
        let written = open.write(now_s());
        self.totals().note_written(open.log.bytes().saturating_sub(before), units);
        written
    }

    /// Applies the present options to the AOF.
    pub(in crate::engine::persistence) fn set_options(&self, engine: &Engine, log: &mut AofWriter) {
        log.set_checksums(engine.config.flag(Opt::AofChecksums));
        log.set_timestamps(engine.config.flag(Opt::AofTimestampEnabled));
    }

    /// Waits before a write, if a test has asked for that (DEBUG AOF-FLUSH-SLEEP).
    fn delay_write(&self, engine: &Engine) {
        let delay_us = engine.debug.log_delay_us.load(Ordering::Relaxed);
        if delay_us != 0 {
            waiting::sleep(Duration::from_micros(delay_us));
        }
    }

    fn note_written(&self, engine: &Engine, open: &mut OpenLog, written: io::Result<()>) {
        engine.journal.set_written(open.written_offset());
        match written {
            Ok(()) => self.note_works(engine),
            Err(error) => self.note_fails(engine, "writing to", &error),
        }
        if Policy::of(&engine.config) == Policy::No {
            // Under `appendfsync no` no fsync is asked for that could fail, so the journal need not keep the bytes. If an
            // fsync is asked for later, the file itself has all that is needed to heal.
            open.note_synced(open.written_offset());
        }
        self.note_passed(engine);
        self.note_fullness(engine);
    }

    /// Updates the offset up to which replies may show changes, if there is an AOF.
    fn note_passed(&self, engine: &Engine) {
        engine.persistence.pass_with(|| match Policy::of(&engine.config) {
            _ if !self.is_open() => u64::MAX,
            Policy::Always => engine.journal.synced(),
            Policy::EverySecond | Policy::No => engine.journal.written(),
        });
    }

    /// Holds clients that write while too much data waits for the disk.
    fn note_fullness(&self, engine: &Engine) {
        let is_full = engine.journal.is_full();
        if engine.lifecycle.readiness.has(Hindrance::DiskBehind) == is_full {
            return;
        }
        if self.set_disk_behind(engine, is_full) && is_full {
            self.ask();
        }
    }

    /// Sets whether the data that waits for the disk has reached its limit. Returns whether that changed.
    pub(in crate::engine::persistence) fn set_disk_behind(&self, engine: &Engine, is_behind: bool) -> bool {
        let is_news = engine.lifecycle.readiness.set(Hindrance::DiskBehind, is_behind);
        if is_news && !is_behind {
            engine.clients.post_resume();
        }
        is_news
    }

    /// Updates whether the journal has reached its limit, for callers that do this only once.
    pub(in crate::engine::persistence) fn note_disk_behind(&self, engine: &Engine) {
        let is_full = engine.journal.is_full();
        self.set_disk_behind(engine, is_full);
        if is_full && !engine.journal.is_full() {
            // The AOF was closed in the meantime, and the thread that closed it may have set this before the call above.
            self.set_disk_behind(engine, false);
        }
    }

    pub(in crate::engine::persistence) fn note_works(&self, engine: &Engine) {
        if engine.persistence.set_fails(false) {
            log::warning("AOF write error looks solved, the server can write again.");
            engine.lifecycle.readiness.set(Hindrance::LogFails, false);
        }
    }

    pub(in crate::engine::persistence) fn note_fails(&self, engine: &Engine, doing: &str, error: &io::Error) {
        engine.lifecycle.readiness.note_log_failure(&crate::config::value::reason(error));
        engine.lifecycle.readiness.set(Hindrance::LogFails, true);
        if engine.persistence.set_fails(true) {
            log::warning(&format!("Error {doing} the AOF file: {error}"));
            // From now on the AOF thread retries the write.
            self.ask();
        }
    }

    /// Writes the part of the journal that the AOF lacks, even if another thread is writing, and fsyncs it if the options ask
    /// for that before every reply. Retries a write that has failed. For threads that may wait for the disk.
    pub fn write(&self, engine: &Engine) {
        let synced = engine.journal.synced();
        if let Some(open) = &mut *self.lock() {
            self.delay_write(engine);
            let written = open.heal().and_then(|()| self.write_to(engine, open));
            engine.journal.set_synced(open.log.synced_end());
            self.note_written(engine, open, written);
        }
        if engine.journal.synced() != synced {
            engine.persistence.tell_synced(engine);
        }
        let syncs = match Policy::of(&engine.config) {
            Policy::Always => true,
            Policy::EverySecond => engine.journal.is_full(),
            Policy::No => false,
        };
        if syncs && !engine.persistence.fails() {
            self.sync(engine);
        }
    }

    /// Writes the part of the journal that the AOF lacks, for a worker at the end of its wake-up, if it may do that itself; and
    /// fsyncs it, if the options ask for that before every reply and the worker may do that too ([`Syncs::suits`]). `since` is
    /// the time from which on the worker gathers changes for the fsync, if it does.
    ///
    /// [`Syncs::suits`]: super::syncs::Syncs::suits
    pub fn settle_on_worker(&self, engine: &Engine, worker: usize, since: Option<Instant>) -> OnWorker {
        if !self.is_open() || engine.persistence.fails() {
            return OnWorker::HandsOver;
        }
        if Policy::of(&engine.config) != Policy::Always {
            return self.write_on_worker(engine);
        }
        if since.is_none() && !self.syncs.suits(worker) {
            return OnWorker::HandsOver;
        }
        let commit = self.syncs.commit();
        if commit.wait(engine.journal.pieces(), since.map_or(Duration::ZERO, Instant::elapsed)).is_some() {
            return OnWorker::Gathers;
        }
        let (covered, begun) = (engine.journal.pieces(), Instant::now());
        let Some(turn) = self.syncs.try_turn() else { return OnWorker::HandsOver };
        let Some(mut open) = self.try_lock() else { return OnWorker::HandsOver };
        open.iter_mut().for_each(|open| self.write_open(engine, open));
        drop(open);
        if engine.persistence.fails() {
            // The AOF thread tries again.
            return OnWorker::HandsOver;
        }
        self.sync_in_turn(engine, turn);
        self.syncs.set_commit(commit.next(covered, engine.journal.pieces(), begun.elapsed()));
        OnWorker::Done
    }

    /// Writes the part of the journal that the AOF lacks after the thread that is writing now. If the AOF thread did that,
    /// it would often be writing when the worker has its next changes, and would be asked again and again.
    fn write_on_worker(&self, engine: &Engine) -> OnWorker {
        if !self.syncs.may_write() {
            return OnWorker::HandsOver;
        }
        let Some(mut open) = self.try_lock_for(WRITER_WAIT_MAX) else { return OnWorker::HandsOver };
        open.iter_mut().for_each(|open| self.write_open(engine, open));
        OnWorker::Done
    }

    /// Fsyncs the written bytes. No lock is held during the fsync.
    pub(in crate::engine::persistence) fn sync(&self, engine: &Engine) {
        self.sync_in_turn(engine, self.syncs.turn());
    }

    fn sync_in_turn(&self, engine: &Engine, turn: MutexGuard<'_, ()>) {
        let opening = self.opening();
        let Some(job) = self.with(|open| open.log.sync_job()).flatten() else { return };
        let synced = self.syncs.run(&job);
        // If another AOF has been opened in the meantime, the outcome says nothing about it.
        self.with(|open| match &synced {
            _ if self.opening() != opening => {}
            Ok(()) => {
                open.log.synced(&job);
                self.totals().note_synced();
                self.note_synced(engine, open);
            }
            Err(error) => {
                open.log.sync_failed(error);
                self.note_fails(engine, "syncing", error);
            }
        });
        drop(turn);
        self.note_fullness(engine);
        engine.persistence.tell_synced(engine);
    }

    /// Updates the offset up to which the AOF has been fsynced.
    pub(in crate::engine::persistence) fn note_synced(&self, engine: &Engine, open: &mut OpenLog) {
        open.note_synced(open.log.synced_end());
        engine.journal.set_synced(open.log.synced_end());
        self.note_passed(engine);
    }

    /// Applies a change of `appendfsync`: replies now wait for another offset. Does not wait for the disk.
    pub fn apply_sync_policy(&self, engine: &Engine) {
        self.note_passed(engine);
        self.ask();
        engine.persistence.tell_synced(engine);
    }
}

/// Returns the seconds since the epoch.
fn now_s() -> i64 {
    Instant::now().wall_ms() / 1_000
}
