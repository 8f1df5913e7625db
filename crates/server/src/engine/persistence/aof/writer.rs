//! Writes the journal to the AOF, syncs it, and handles a failing disk.
//!
//! A worker that wants a reply to pass writes the journal itself if no other thread is writing it
//! ([`Engine::write_log_if_idle`]): most replies may leave when the call returns, and no thread is woken. Work that may wait
//! for the disk is left to the AOF threads: syncing, healing, and writing while a sync is under way, which some file systems
//! make wait for it.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_disk::aof::AofWriter;

use super::threads;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::persistence::aof::{OpenLog, Policy};
use crate::engine::readiness::Hindrance;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::waiting;

impl Engine {
    /// Opens an AOF that has been read, at the end of which the journal goes on; it is written from now on. No client is
    /// served yet.
    ///
    /// # Errors
    /// Those of the system: the AOF threads cannot start.
    pub fn open_log(&self, log: AofWriter) -> io::Result<()> {
        self.open_log_at_instant(log).inspect_err(|_| _ = self.drop_log_if(|_| true))
    }

    /// As [`Engine::open_log`], while all shards are locked. No waiter for the AOF may be notified under these locks, so if
    /// the threads cannot start, the AOF stays open, for the caller to drop.
    ///
    /// # Errors
    /// Those of the system: the AOF threads cannot start.
    pub(in crate::engine::persistence) fn open_log_at_instant(&self, log: AofWriter) -> io::Result<()> {
        let opening = self.persistence.aof.set_open(OpenLog::new(log, &self.journal));
        self.persistence.pass(self.journal.end());
        threads::start(&self.handle(), opening)
    }

    /// Drops the AOF as it is, if it is a wanted one.
    pub(in crate::engine::persistence) fn drop_log_if(
        &self,
        is_wanted: impl FnOnce(&AofWriter) -> bool,
    ) -> Option<AofWriter> {
        let log = self.persistence.aof.take_open_if(is_wanted)?.into_log();
        self.forget_log();
        Some(log)
    }

    /// Resets the state that depends on an AOF, once there is none and its readers of the journal are gone.
    fn forget_log(&self) {
        self.persistence.set_fails(false);
        self.lifecycle.readiness.set(Hindrance::LogFails, false);
        self.persistence.pass(u64::MAX);
        self.set_disk_behind(false);
        self.tell_synced();
    }

    /// Writes and syncs all that is pending, and closes the AOF: the server ends, or goes on without one. If a sync has
    /// failed, the disk may work again by now, and there will be no other chance: the AOF is healed, once.
    ///
    /// # Errors
    /// Those of the system; the AOF is closed all the same.
    pub fn close_log(&self) -> io::Result<()> {
        let turn = self.persistence.aof.sync_turn();
        // Without its base, a start would not find its contents.
        let lacks_base = self.persistence.aof.lacks_base();
        let Some(mut open) = self.persistence.aof.take_open_if(|_| true) else { return Ok(()) };
        if self.failure().is_some() {
            // If a thread has panicked, it may have left this half changed: the writes that were answered are in the file,
            // and that is all.
            let synced = open.log.sync_job().map_or(Ok(()), |job| job.run());
            drop((turn, open));
            self.forget_log();
            return synced;
        }
        let closed = open.heal().and_then(|()| self.write_to_log(&mut open)).and_then(|()| open.sync_or_heal());
        drop(turn);
        let closed = closed.and_then(|()| {
            self.journal.set_written(open.written_offset());
            self.journal.set_synced(open.written_offset());
            self.call_synced((!lacks_base).then_some(open.written_offset()));
            open.into_log().close()
        });
        self.forget_log();
        closed
    }

    /// Writes and syncs the part of the journal that the AOF lacks, when no client is served any more.
    pub fn end_log(&self) {
        // Another thread may be about it already.
        self.persistence.aof.end.wait_until_closed();
        if self.persistence.aof.is_open() {
            if self.close_log_and_tell() {
                self.keep_closing_place();
            }
        } else {
            // Nor is one begun that could not be until now.
            self.persistence.aof.next_opening();
        }
    }

    /// Returns whether all is on the disk.
    pub(in crate::engine::persistence) fn close_log_and_tell(&self) -> bool {
        log::notice("Calling fsync() on the AOF file.");
        let closed = self.close_log();
        if let Err(error) = &closed {
            log::warning(&format!("The end of the append-only file is not on the disk: {error}"));
        }
        closed.is_ok()
    }

    /// Writes the journal to the AOF, unless another thread is writing, which then writes this too; or unless a sync is under
    /// way: then the AOF thread does it.
    pub(in crate::engine::persistence) fn write_log_if_idle(&self) {
        let file = &self.persistence.aof;
        if file.is_open() && Policy::of(&self.config) != Policy::Always {
            file.with_if_idle(|open| self.write_open_log(open));
        }
    }

    fn write_open_log(&self, open: &mut OpenLog) {
        if self.persistence.fails() {
            return;
        }
        self.delay_write();
        let written = self.write_to_log(open);
        self.note_written(open, written);
    }

    /// Writes all that is in the journal, as the options say now.
    fn write_to_log(&self, open: &mut OpenLog) -> io::Result<()> {
        self.set_log_options(&mut open.log);
        open.write(now_s())
    }

    /// Applies the present options to the AOF.
    pub(in crate::engine::persistence) fn set_log_options(&self, log: &mut AofWriter) {
        log.set_checksums(self.config.flag(Opt::AofChecksums));
        log.set_timestamps(self.config.flag(Opt::AofTimestampEnabled));
    }

    /// Waits in front of a write, if a test has asked for that.
    fn delay_write(&self) {
        let delay_us = self.debug.log_delay_us.load(Ordering::Relaxed);
        if delay_us != 0 {
            waiting::sleep(Duration::from_micros(delay_us));
        }
    }

    fn note_written(&self, open: &mut OpenLog, written: io::Result<()>) {
        self.journal.set_written(open.written_offset());
        match written {
            Ok(()) => self.note_log_works(),
            Err(error) => self.note_log_fails("writing to", &error),
        }
        if Policy::of(&self.config) == Policy::No {
            // Under this policy no sync is asked for that could fail. If one is asked for later, the file has all that it
            // needs to heal.
            open.note_synced(open.written_offset());
        }
        self.note_passed();
        self.note_fullness();
    }

    /// Says how far the journal has passed, if there is a log.
    fn note_passed(&self) {
        self.persistence.pass_with(|| match Policy::of(&self.config) {
            _ if !self.persistence.aof.is_open() => u64::MAX,
            Policy::Always => self.journal.synced(),
            Policy::EverySecond | Policy::No => self.journal.written(),
        });
    }

    /// Clients that write are held while the disk is too far behind.
    fn note_fullness(&self) {
        let is_full = self.journal.is_full();
        if self.lifecycle.readiness.has(Hindrance::DiskBehind) == is_full {
            return;
        }
        if self.set_disk_behind(is_full) && is_full {
            self.persistence.aof.ask();
        }
    }

    /// Sets whether the data that waits for the disk has reached its limit. Returns whether that is a change.
    pub(in crate::engine::persistence) fn set_disk_behind(&self, is_behind: bool) -> bool {
        let is_news = self.lifecycle.readiness.set(Hindrance::DiskBehind, is_behind);
        if is_news && !is_behind {
            self.clients.post_resume();
        }
        is_news
    }

    /// Updates whether the journal has reached its limit, for callers that do so once and not again.
    pub(in crate::engine::persistence) fn note_disk_behind(&self) {
        let is_full = self.journal.is_full();
        self.set_disk_behind(is_full);
        if is_full && !self.journal.is_full() {
            // The AOF was closed in between, and the thread that closed it may have said so before this.
            self.set_disk_behind(false);
        }
    }

    pub(in crate::engine::persistence) fn note_log_works(&self) {
        if self.persistence.set_fails(false) {
            log::warning("AOF write error looks solved, the server can write again.");
            self.lifecycle.readiness.set(Hindrance::LogFails, false);
        }
    }

    pub(in crate::engine::persistence) fn note_log_fails(&self, doing: &str, error: &io::Error) {
        self.lifecycle.readiness.note_log_failure(&crate::config::value::reason(error));
        self.lifecycle.readiness.set(Hindrance::LogFails, true);
        if self.persistence.set_fails(true) {
            log::warning(&format!("Error {doing} the AOF file: {error}"));
            // Its thread tries again from now on.
            self.persistence.aof.ask();
        }
    }

    /// Writes all that is in the journal, also if another thread is writing, and syncs it if the options ask for that before
    /// every reply. Retries a write that has failed. For threads that may wait for the disk.
    pub fn write_log(&self) {
        let synced = self.journal.synced();
        if let Some(open) = &mut *self.persistence.aof.lock() {
            self.delay_write();
            let written = open.heal().and_then(|()| self.write_to_log(open));
            self.journal.set_synced(open.log.synced_end());
            self.note_written(open, written);
        }
        if self.journal.synced() != synced {
            self.tell_synced();
        }
        let syncs = match Policy::of(&self.config) {
            Policy::Always => true,
            Policy::EverySecond => self.journal.is_full(),
            Policy::No => false,
        };
        if syncs && !self.persistence.fails() {
            self.sync_log();
        }
    }

    /// Syncs the bytes that have been written. No lock is held during the sync.
    pub(in crate::engine::persistence) fn sync_log(&self) {
        let file = &self.persistence.aof;
        let turn = file.sync_turn();
        let opening = file.opening();
        let Some(job) = file.with(|open| open.log.sync_job()).flatten() else { return };
        file.set_syncing(true);
        let synced = job.run();
        file.set_syncing(false);
        // The outcome says nothing about an AOF that was opened in between.
        file.with(|open| match &synced {
            _ if file.opening() != opening => {}
            Ok(()) => {
                open.log.synced(&job);
                self.note_synced(open);
            }
            Err(error) => {
                open.log.sync_failed(error);
                self.note_log_fails("syncing", error);
            }
        });
        drop(turn);
        self.note_fullness();
        self.tell_synced();
    }

    /// Notes how far the AOF is on the disk.
    pub(in crate::engine::persistence) fn note_synced(&self, open: &mut OpenLog) {
        open.note_synced(open.log.synced_end());
        self.journal.set_synced(open.log.synced_end());
        self.note_passed();
    }

    /// Applies a change of `appendfsync`: replies now wait for another offset. Waits for no disk.
    pub fn apply_sync_policy(&self) {
        self.note_passed();
        self.persistence.aof.ask();
        self.tell_synced();
    }
}

/// Seconds since the epoch.
fn now_s() -> i64 {
    Instant::now().wall_ms() / 1_000
}
