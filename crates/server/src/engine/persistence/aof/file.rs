//! The open AOF of an engine, and the rules for writing to it.
//!
//! It has two readers in the journal: one at the end of the file, and one at the fsynced offset, because unsynced bytes may
//! have to be written again ([`sleeve_disk::aof::AofWriter::healing`]).

use std::io;
use std::io::IoSlice;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sleeve_disk::aof::{AofWriter, Healed, Healing, Health, RewriteLimit};

use super::closing::Closing;
use super::rotation::Rotation;
use super::syncs::Syncs;
use super::totals::Totals;
use crate::config::{Config, Opt};
use crate::engine::journal::{Journal, Reader, write_select};
use crate::engine::persistence::sync_waiters::SyncWaiters;
use crate::host::log;
use crate::host::waiting::Condvar;

/// The times at which the AOF is fsynced: the words of `appendfsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Once a second.
    EverySecond,
    /// The AOF is fsynced before each reply.
    Always,
    /// Only when the system writes its cache back.
    No,
}

impl Policy {
    /// Returns the policy of the present options.
    pub fn of(config: &Config) -> Self {
        match config.number(Opt::Appendfsync) {
            0 => Self::EverySecond,
            1 => Self::Always,
            _ => Self::No,
        }
    }
}

/// The AOF of one engine, if it has one. Any thread.
#[derive(Debug, Default)]
pub struct Aof {
    open: Mutex<Option<OpenLog>>,
    is_open: AtomicBool,
    shown: Shown,
    /// The switch to the next increment, of the AOF that was opened last.
    switch: Mutex<Option<Arc<Rotation>>>,
    /// The fsyncs.
    pub(super) syncs: Syncs,
    /// A thread wanted to write while another was writing.
    is_contended: AtomicBool,
    /// An AOF that begins with a base which is being written, or is to be.
    starting: Mutex<Option<AofWriter>>,
    /// The closing of the AOF that was open before.
    pub end: Closing,
    /// The open AOF's first base is not in place yet: after a crash, a start would load the older files.
    lacks_base: AtomicBool,
    /// The waiters for an fsync.
    pub sync_waiters: SyncWaiters,
    /// The delay before a failed rewrite is retried.
    rewrite_limit: Mutex<RewriteLimit>,
    asked: Mutex<Asked>,
    bell: Condvar,
    /// The condition that wakes the syncing thread when the AOF is closed.
    closing: Condvar,
}

/// Numbers of the open AOF, as its last user has left them, so that INFO does not wait for a disk.
#[derive(Debug, Default)]
struct Shown {
    totals: Totals,
    current_bytes: AtomicU64,
    base_bytes: AtomicU64,
    is_waiting: AtomicBool,
}

/// The open AOF, while a thread has it locked.
pub struct Opened<'l> {
    open: MutexGuard<'l, Option<OpenLog>>,
    shown: &'l Shown,
}

impl Deref for Opened<'_> {
    type Target = Option<OpenLog>;

    fn deref(&self) -> &Option<OpenLog> {
        &self.open
    }
}

impl DerefMut for Opened<'_> {
    fn deref_mut(&mut self) -> &mut Option<OpenLog> {
        &mut self.open
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(OpenLog { log, .. }) = &*self.open {
            self.shown.current_bytes.store(log.bytes(), Ordering::Relaxed);
            self.shown.base_bytes.store(log.bytes_at_rewrite(), Ordering::Relaxed);
            self.shown.is_waiting.store(log.is_waiting(), Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Asked {
    /// A waiter needs more bytes to be written or fsynced.
    wants_more: bool,
    /// The number of the opening of the AOF; threads of an earlier opening end.
    opening: u64,
}

/// An open AOF.
#[derive(Debug)]
pub struct OpenLog {
    /// The writer of its files.
    pub log: AofWriter,
    /// The reader at the end of the file.
    writer: Reader,
    /// The reader at the fsynced offset.
    keeper: Reader,
    /// The offset of the journal at which the next increment begins.
    switch: Arc<Rotation>,
    /// The database of the SELECT at the beginning of an increment that begins within another server's journal. This SELECT
    /// is no part of the journal.
    first_database: Option<u32>,
    /// The increments of which nothing has been fsynced yet: the offsets at which they begin, and the databases.
    begun: Vec<(u64, u32)>,
}

/// The state of the AOF for INFO.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogStatus {
    /// There is an AOF.
    pub is_open: bool,
    /// The bytes of its files.
    pub current_bytes: u64,
    /// The bytes of its files after the last rewrite.
    pub base_bytes: u64,
    /// The AOF waits for its first base, which is being written.
    pub is_waiting: bool,
    /// The AOF is being fsynced.
    pub is_syncing: bool,
    /// The number of times that a write was left to the AOF thread because of a long fsync.
    pub delayed_syncs: u64,
}

impl Aof {
    /// Returns whether there is an AOF.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Returns whether, after a crash, a start would load the files from before this AOF was opened, because its first base
    /// is still being written.
    pub fn lacks_base(&self) -> bool {
        self.lacks_base.load(Ordering::Acquire)
    }

    /// Notes that the open AOF has its base.
    pub fn note_base(&self) {
        self.lacks_base.store(false, Ordering::Release);
    }

    /// Returns the state of the AOF for INFO.
    pub fn status(&self) -> LogStatus {
        if !self.is_open() {
            return LogStatus::default();
        }
        LogStatus {
            is_open: true,
            current_bytes: self.shown.current_bytes.load(Ordering::Relaxed),
            base_bytes: self.shown.base_bytes.load(Ordering::Relaxed),
            is_waiting: self.shown.is_waiting.load(Ordering::Relaxed),
            is_syncing: self.syncs.are_running(),
            delayed_syncs: self.syncs.delayed(),
        }
    }

    /// Returns the counts of bytes, writes and fsyncs.
    pub fn totals(&self) -> &Totals {
        &self.shown.totals
    }

    /// Makes this AOF the open one, and returns the number of its opening.
    pub fn set_open(&self, open: OpenLog) -> u64 {
        let opening = self.next_opening();
        self.lacks_base.store(open.log.is_waiting(), Ordering::Release);
        *self.switch.lock() = Some(Arc::clone(&open.switch));
        *self.lock() = Some(open);
        self.is_open.store(true, Ordering::Release);
        opening
    }

    /// Returns the switch of the open AOF to its next increment; None if there is no AOF. Does not wait for a thread that
    /// waits for the disk.
    pub fn switch(&self) -> Option<Arc<Rotation>> {
        self.switch.lock().clone().filter(|_| self.is_open())
    }

    /// Takes the open AOF out if `is_wanted` returns true for it; its threads end.
    pub fn take_open_if(&self, is_wanted: impl FnOnce(&AofWriter) -> bool) -> Option<OpenLog> {
        let mut open = self.lock();
        let taken = open.take_if(|open| is_wanted(&open.log))?;
        self.next_opening();
        self.is_open.store(false, Ordering::Release);
        Some(taken)
    }

    /// Locks the open AOF, after its other users: for the AOF threads.
    pub fn lock(&self) -> Opened<'_> {
        Opened { open: self.open.lock(), shown: &self.shown }
    }

    /// Locks the open AOF, unless another thread uses it for longer than this time.
    pub(super) fn try_lock_for(&self, time: Duration) -> Option<Opened<'_>> {
        let open = self.open.try_lock_for(time)?;
        Some(Opened { open, shown: &self.shown })
    }

    /// Locks the open AOF, unless another thread uses it.
    pub(super) fn try_lock(&self) -> Option<Opened<'_>> {
        let open = self.open.try_lock()?;
        Some(Opened { open, shown: &self.shown })
    }

    /// Runs `work` on the open AOF. If another thread uses it, that thread runs the same work after its own; during a long
    /// fsync, nothing is done.
    pub fn with_if_idle(&self, mut work: impl FnMut(&mut OpenLog)) {
        if !self.syncs.allow_write() {
            return;
        }
        loop {
            let mut open = self.try_lock();
            if open.is_none() {
                // The thread that uses the AOF checks this after it has released it.
                self.is_contended.store(true, Ordering::SeqCst);
                open = self.try_lock();
            }
            let Some(mut open) = open else { return };
            self.is_contended.store(false, Ordering::SeqCst);
            open.iter_mut().for_each(&mut work);
            drop(open);
            if !self.is_contended.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Runs `work` on the open AOF, if there is one.
    pub fn with<R>(&self, work: impl FnOnce(&mut OpenLog) -> R) -> Option<R> {
        self.lock().as_mut().map(work)
    }

    /// Calls `look` with the AOF: the open one, or one that begins with the next base.
    pub fn with_any<R>(&self, look: impl FnOnce(&AofWriter) -> R) -> Option<R> {
        match &*self.lock() {
            Some(open) => Some(look(&open.log)),
            None => self.starting.lock().as_ref().map(look),
        }
    }

    /// Returns whether there is an AOF that begins with the base that is being written, or is to be.
    pub fn has_starting(&self) -> bool {
        self.starting.lock().is_some()
    }

    /// Notes the outcome of an AOF rewrite, which decides when the next one may begin automatically.
    pub fn note_rewrite(&self, is_good: bool) {
        let mut limit = self.rewrite_limit.lock();
        if is_good { limit.reset() } else { limit.failed() }
    }

    /// Returns whether an AOF rewrite may begin automatically; after failed ones it has to wait.
    pub fn may_rewrite(&self, now_s: i64) -> bool {
        let (is_limited, minutes) = self.rewrite_limit.lock().is_limited(now_s);
        if let Some(minutes) = minutes {
            log::warning(&format!(
                "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
            ));
        }
        !is_limited
    }

    /// Keeps an AOF that begins with the next base.
    pub fn set_starting(&self, log: AofWriter) {
        *self.starting.lock() = Some(log);
    }

    /// Takes out the AOF that begins with the base that is being written.
    pub fn take_starting(&self) -> Option<AofWriter> {
        self.starting.lock().take()
    }

    /// Asks the AOF thread to write, and to fsync if the options say so.
    pub fn ask(&self) {
        let mut asked = self.asked.lock();
        if !std::mem::replace(&mut asked.wants_more, true) {
            self.bell.notify_all();
        }
    }

    /// Waits until [`Aof::ask`] is called, or until the timeout. Returns false if this opening of the AOF has ended.
    pub fn wait_to_be_asked(&self, opening: u64, timeout: Option<Duration>) -> bool {
        let mut asked = self.asked.lock();
        while asked.opening == opening && !asked.wants_more {
            match timeout {
                None => self.bell.wait(&mut asked),
                Some(timeout) if self.bell.wait_for(&mut asked, timeout).timed_out() => break,
                Some(_) => {}
            }
        }
        // A request that belongs to another opening is not for this thread.
        let is_over = asked.opening != opening;
        asked.wants_more &= is_over;
        !is_over
    }

    /// Waits for so long. Returns false if this opening of the AOF has ended.
    pub fn wait_for_close(&self, opening: u64, time: Duration) -> bool {
        let mut asked = self.asked.lock();
        self.closing.wait_while_for(&mut asked, |asked| asked.opening == opening, time);
        asked.opening == opening
    }

    /// Returns the number of the present opening, or of the last one.
    pub fn opening(&self) -> u64 {
        self.asked.lock().opening
    }

    /// Ends the present opening, if there is one; returns the number of the next.
    pub fn next_opening(&self) -> u64 {
        let mut asked = self.asked.lock();
        asked.opening += 1;
        self.bell.notify_all();
        self.closing.notify_all();
        asked.opening
    }
}

impl OpenLog {
    /// Makes the state of an AOF to which the journal is written from now on; nothing of the journal is in it yet.
    pub fn new(log: AofWriter, journal: &Arc<Journal>) -> Self {
        let first_database = journal.copied_database();
        let (writer, keeper) = (journal.subscribe(), journal.subscribe());
        Self { log, writer, keeper, switch: Arc::default(), first_database, begun: Vec::new() }
    }

    /// Returns the AOF's files alone: the journal is no longer kept for them.
    pub fn into_log(self) -> AofWriter {
        self.log
    }

    /// Returns the offset of the journal up to which the file has been written.
    pub fn written_offset(&self) -> u64 {
        self.writer.offset()
    }

    /// Writes the part of the journal that the file lacks.
    ///
    /// # Errors
    /// Errors of the operating system; bytes that are not in the file are written with the next call.
    pub fn write(&mut self, now_s: i64) -> io::Result<()> {
        loop {
            let mut slices = self.writer.take(usize::MAX);
            match self.switch.room(self.writer.offset()) {
                Some(0) => {
                    self.first_database = self.switch.make(&mut self.log);
                    continue;
                }
                Some(room) if slices.len() > room => {
                    slices = self.writer.take(usize::try_from(room).unwrap_or(usize::MAX));
                }
                None | Some(_) => {}
            }
            if slices.is_empty() {
                return Ok(());
            }
            let mut select = Vec::new();
            let mut words = slices.io_slices();
            if let Some(database) = self.first_database {
                write_select(&mut select, database);
                words.insert(0, IoSlice::new(&select));
            }
            self.log.append(slices.offset() + slices.len(), &words, now_s)?;
            if let Some(database) = self.first_database.take() {
                self.begun.push((slices.offset(), database));
            }
            self.writer.advance(slices.len());
        }
    }

    /// Releases the fsynced bytes of the journal.
    pub fn note_synced(&mut self, offset: u64) {
        self.keeper.advance(offset.saturating_sub(self.keeper.offset()));
        self.begun.retain(|(begins, _)| *begins >= offset);
    }

    /// Fsyncs the written bytes; if that fails, heals the AOF once. For the thread that closes the AOF.
    ///
    /// # Errors
    /// Errors of the operating system; then bytes that were not fsynced before may be lost.
    pub fn sync_or_heal(&mut self) -> io::Result<()> {
        let Some(job) = self.log.sync_job() else { return Ok(()) };
        match job.run() {
            Ok(()) => self.log.synced(&job),
            Err(error) => {
                self.log.sync_failed(&error);
                self.heal()?;
            }
        }
        Ok(())
    }

    /// If an fsync has failed, writes the bytes that may be lost again, into an increment of its own.
    ///
    /// # Errors
    /// Errors of the operating system, or that of the failed fsync if the AOF cannot be healed now, because its first base is
    /// still to come or it is being rewritten; the caller has to retry.
    pub fn heal(&mut self) -> io::Result<()> {
        let Health::SyncFailed(reason) = self.log.health() else { return Ok(()) };
        let hurt = io::Error::other(format!("a sync has failed before: {reason}"));
        let mut healing = self.log.healing().ok_or(hurt)?;
        match self.run_healing(&mut healing) {
            Ok(healed) => self.log.healed(healed),
            Err(error) => {
                self.log.not_healed(healing);
                return Err(error);
            }
        }
        self.note_synced(self.log.synced_end());
        Ok(())
    }

    fn run_healing(&mut self, healing: &mut Healing) -> io::Result<Healed> {
        self.note_synced(healing.next());
        if self.keeper.offset() != healing.next() {
            // Under `appendfsync no` the journal has released the written bytes already, because no fsync was asked for at
            // that time.
            healing.append_old().map_err(|error| {
                let remedy = "CONFIG SET appendonly no, and then yes, begins the log anew with all data";
                io::Error::other(format!("{error}. It is tried again; {remedy}"))
            })?;
        }
        while healing.next() < self.writer.offset() {
            let room = self.writer.offset() - healing.next();
            let slices = self.keeper.take_from(healing.next(), usize::try_from(room).unwrap_or(usize::MAX));
            let mut select = Vec::new();
            let mut words = slices.io_slices();
            if let Some(&(_, database)) = self.begun.iter().find(|(begins, _)| *begins == slices.offset()) {
                // None of the increment is kept, not even the SELECT with which it began, so the new one gets it.
                write_select(&mut select, database);
                words.insert(0, IoSlice::new(&select));
            }
            healing.append(slices.offset() + slices.len(), &words)?;
        }
        healing.run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_a_log_is_not_for_the_thread_of_the_one_before() {
        let file = Aof::default();
        let (before, now) = (file.next_opening(), file.next_opening());
        file.ask();
        assert!(!file.wait_to_be_asked(before, Some(Duration::ZERO)));
        assert!(file.asked.lock().wants_more);
        assert!(file.wait_to_be_asked(now, Some(Duration::ZERO)) && !file.asked.lock().wants_more);
    }
}
