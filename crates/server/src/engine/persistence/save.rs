//! Writing a snapshot: the thread that walks through the store as it was at one instant, and writes what it finds.
//!
//! The instant is one at which all shards are locked; it costs the same however many keys there are. From then on the walk
//! holds one shard at a time, for a stated time at most, and encodes and writes without any lock. What writers hand over in
//! the meantime waits in memory; from `snapshot-max-memory` bytes on clients that write are held.
//!
//! The snapshot becomes the file that `dbfilename` names, or a new base of the log: then the journal goes into a new
//! increment from the instant on.

use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_disk::disk::{Disk, File, Open};
use sleeve_disk::format::manifest::Format as BaseFormat;
use sleeve_disk::log::{Log, NewBase};
use sleeve_store::rdb::Version;
use sleeve_store::rdb::file::{About, Access, Format, Writer};
use sleeve_store::snapshot::{Budget, Progress as Step, Scribe, Snapshot};

use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::durability::snapshots::{Purpose, WhenDone};
use crate::engine::journal::{Recorder, Spare};
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::locks::Locks;
use crate::engine::readiness::Hindrance;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;

/// Why a snapshot is not begun.
#[derive(Debug)]
pub enum Refusal {
    /// Another is being written, for this purpose.
    Running(Purpose),
    /// It was to be the base of a log, and there is none.
    NoLog,
    /// Its thread cannot start.
    NoThread(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(_) => f.write_str("another snapshot is being written"),
            Self::NoLog => f.write_str("there is no append-only file"),
            Self::NoThread(error) => write!(f, "its thread cannot start: {error}"),
        }
    }
}

/// What is copied while a shard is held: some 150 us of work.
const STEP: Budget = Budget { bytes: 256 << 10, pieces: 500 };

/// Bytes that are encoded before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes after which what was written is synced.
const SYNC_BYTES: u64 = 4 << 20;

/// How long all shards are waited for before others get a turn.
const PATIENCE: Duration = Duration::from_millis(5);

/// A snapshot that has begun.
struct Begun {
    snapshot: Snapshot,
    /// Where in the journal it stands.
    offset: u64,
    /// The changes that it has.
    changes: u64,
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
        if purpose == Purpose::Base && !self.durability.log.is_open() && !self.durability.log.has_starting() {
            return Err(Refusal::NoLog);
        }
        self.durability.snapshots.begin(purpose, now, when_done).map_err(Refusal::Running)?;
        let engine = Arc::clone(self);
        let started = self.start_thread("snapshot", move || {
            engine.write_snapshot(purpose);
            Ok(())
        });
        if let Err(error) = started {
            self.end_snapshot(None);
            return Err(Refusal::NoThread(error));
        }
        Ok(())
    }

    /// Writes a snapshot that has begun, in this thread.
    pub(super) fn write_snapshot(&self, purpose: Purpose) -> bool {
        let begun_ms = clock::monotonic_ms();
        let written = match purpose {
            Purpose::File => self.write_file(),
            Purpose::Base => self.write_base(),
        };
        let took_s = (clock::monotonic_ms() - begun_ms) as f64 / 1_000.0;
        match (&written, purpose) {
            (Ok(_), Purpose::File) => log::notice(&format!("DB saved on disk: {took_s:.3} seconds")),
            (Ok(_), Purpose::Base) => log::notice("Background AOF rewrite finished successfully"),
            (Err(why), Purpose::File) => log::warning(&format!("Background saving error: {why}")),
            (Err(why), Purpose::Base) => log::warning(&format!("Background AOF rewrite terminated: {why}")),
        }
        self.set_disk_behind(self.journal.is_full());
        let is_good = written.is_ok();
        if purpose == Purpose::Base {
            self.durability.log.note_rewrite(is_good);
        }
        self.end_snapshot(written.ok());
        is_good
    }

    /// Says how the running snapshot went: it has so many changes, or has failed.
    fn end_snapshot(&self, changes: Option<u64>) {
        let snapshots = &self.durability.snapshots;
        let was_file = snapshots.status().running.is_some_and(|(purpose, _)| purpose == Purpose::File);
        let when_done = snapshots.end(changes.is_some(), changes.unwrap_or_default(), Instant::now());
        if was_file && !snapshots.is_aborted() {
            let refuses = changes.is_none() && self.refuses_after_failure();
            self.readiness.set(Hindrance::SnapshotFails, refuses);
        }
        when_done.into_iter().for_each(|act| act(changes.is_some()));
    }

    /// Whether writes are refused after a snapshot that failed.
    pub fn refuses_after_failure(&self) -> bool {
        self.durability.snapshots.are_ruled()
            && self.config.is_set(Opt::Save)
            && self.config.flag(Opt::StopWritesOnBgsaveError)
    }

    /// The file that `dbfilename` names.
    pub fn snapshot_path(&self) -> PathBuf {
        self.config.resolve(&self.config.text(Opt::Dbfilename))
    }

    fn write_file(&self) -> Result<u64, String> {
        let path = self.snapshot_path();
        let beside = path.with_file_name(format!("temp-{}.rdb", std::process::id()));
        let begun = self.begin_snapshot(|_| Ok(()))?;
        let changes = begun.changes;
        self.write_to(&beside, begun, false)?;
        put_in_place(&*self.disk, &beside, &path).map_err(|error| {
            _ = self.disk.remove(&beside);
            format!("cannot put {} in its place: {}", path.display(), reason(&error))
        })?;
        Ok(changes)
    }

    fn write_base(&self) -> Result<u64, String> {
        let file = &self.durability.log;
        let failed = |doing: &str, error: io::Error| format!("cannot {doing}: {}", reason(&error));
        let gone = || "the log was closed meanwhile".to_owned();
        let mut starting = file.take_starting();
        // `dir` may be another by now.
        let own_folder = |log: &Log| log.folder().to_owned();
        let folder = starting.as_ref().map(own_folder).or_else(|| file.with(|open| own_folder(&open.log)));
        let temporary = folder.ok_or_else(gone)?.join(format!("temp-rewriteaof-bg-{}.aof", std::process::id()));
        let is_first = starting.is_some();
        let mut rotated = None;
        if !is_first {
            let rotation = file.with(|open| open.log.rotation()).ok_or_else(gone)?;
            rotated = Some(rotation.run().map_err(|error| failed("begin a new increment", error))?);
        }
        let begun = self.begin_snapshot(|offset| match (starting.take(), rotated.take()) {
            (Some(mut log), _) => {
                log.begin_at(offset);
                self.open_log(log).map_err(|error| failed("start the log's threads", error))
            }
            (None, Some(rotated)) => file.with(|open| open.switch_at(offset, rotated)).ok_or_else(gone),
            (None, None) => Ok(()),
        });
        if let Some(log) = starting {
            // The instant has not come: it begins with the next base.
            file.set_starting(log);
        }
        let begun = begun?;
        let (changes, stands_for) = (begun.changes, begun.offset);
        let written = self.write_to(&temporary, begun, true);
        if written.is_err() && is_first {
            self.begin_log_again();
        }
        written?;
        let since = if is_first { 0 } else { self.wait_for_switch()? };
        let base = NewBase { file: temporary.clone(), format: BaseFormat::Rdb, stands_for };
        let rewrite = file.with(|open| open.log.rewrite(base, since)).ok_or_else(gone)?;
        let rewritten = rewrite.and_then(|rewrite| rewrite.run());
        let rewritten = rewritten.map_err(|error| {
            _ = self.disk.remove(&temporary);
            failed("put the new base in its place", error)
        })?;
        let history = file
            .with(|open| {
                open.log.rewritten(rewritten);
                file.note_base();
                open.log.history()
            })
            .flatten();
        self.tell_synced();
        if let Some(history) = history.filter(|_| !self.config.flag(Opt::AofDisableAutoGc)) {
            match history.run() {
                Ok(()) => _ = file.with(|open| open.log.history_removed()),
                Err(error) => log::warning(&format!("Old files of the log cannot be removed: {error}")),
            }
        }
        Ok(changes)
    }

    /// Waits until the journal goes into the new increment; its number.
    fn wait_for_switch(&self) -> Result<i64, String> {
        loop {
            self.write_log();
            match self.durability.log.with(|open| open.take_switched()) {
                None => return Err("the log was closed meanwhile".into()),
                Some(Some(switched)) => return switched.map_err(|error| reason(&error)),
                Some(None) if self.durability.snapshots.is_aborted() => return Err(ABORTED.into()),
                // The log cannot be written for now.
                Some(None) => std::thread::sleep(PATIENCE),
            }
        }
    }

    /// Begins a snapshot; `at_instant` is called with its offset while all shards are locked.
    fn begin_snapshot(&self, at_instant: impl FnOnce(u64) -> Result<(), String>) -> Result<Begun, String> {
        self.finish_aborted_snapshot();
        let spare = Spare::default();
        let recorder = Recorder::new(&self.journal, &self.offsets, &spare);
        let mut locks = Locks::new(&self.store, &self.all_or_each, recorder);
        while !locks.take_all_within(PATIENCE) {
            if self.durability.snapshots.is_aborted() {
                return Err(ABORTED.into());
            }
            std::thread::yield_now();
        }
        let held_since = clock::ticks();
        let waiting_bytes = Arc::clone(&self.durability.snapshots.progress.waiting_bytes);
        let mut snapshot = locks.begin_snapshot(waiting_bytes).map_err(|unfinished| unfinished.to_string())?;
        snapshot.measure_by(clock::ticks);
        let offset = self.journal.forget_database();
        let functions = self.scripts.libraries().iter().map(|library| library.code.clone()).collect();
        at_instant(offset)?;
        let changes = self.stats.changes();
        let keys = snapshot.sizes().iter().map(|size| size.keys as u64).sum();
        self.durability.snapshots.progress.keys_total.store(keys, Ordering::Relaxed);
        drop(locks);
        self.note_hold(clock::ticks().wrapping_sub(held_since));
        Ok(Begun { snapshot, offset, changes, functions })
    }

    /// Brings a snapshot to its end that was given up.
    fn finish_aborted_snapshot(&self) {
        let Some(mut aborted) = self.store.unfinished_snapshot() else { return };
        while let Ok(Step::More | Step::Waiting) = aborted.step(&self.store, STEP, &mut |_| ()) {}
    }

    /// Writes a snapshot to a new file, and syncs it.
    fn write_to(&self, path: &Path, begun: Begun, is_log_base: bool) -> Result<(), String> {
        self.readiness.set(Hindrance::SnapshotRuns, true);
        let written = self.try_write_to(path, begun, is_log_base);
        self.readiness.set(Hindrance::SnapshotRuns, false);
        self.durability.snapshots.progress.encoded_bytes.store(0, Ordering::Relaxed);
        if written.is_err() {
            _ = self.disk.remove(path);
        }
        written
    }

    fn try_write_to(&self, path: &Path, begun: Begun, is_log_base: bool) -> Result<(), String> {
        let failed = |error: &io::Error| format!("cannot write {}: {}", path.display(), reason(error));
        let Begun { mut snapshot, offset, functions, .. } = begun;
        let syncs_often = if is_log_base { Opt::AofRewriteIncrementalFsync } else { Opt::RdbSaveIncrementalFsync };
        let mut out = Out::create(&*self.disk, path, self.config.flag(syncs_often)).map_err(|error| failed(&error))?;
        let mut writer = Writer::new(self.snapshot_format(&snapshot));
        writer.about(&About {
            server_version: crate::REDIS_VERSION,
            written_s: Instant::now().wall_ms() / 1_000,
            used_memory: self.used_bytes(),
            is_log_base,
        });
        if is_log_base {
            writer.aux(BASE_OFFSET_FIELD, offset.to_string().as_bytes());
        }
        functions.iter().for_each(|code| writer.function(code));
        let (mut scribe, access) = (Scribe::new(snapshot.sizes()), self.access_shown());
        let progress = &self.durability.snapshots.progress;
        loop {
            if self.durability.snapshots.is_aborted() {
                return Err(ABORTED.into());
            }
            // Also what has come while the disk was waited for.
            self.bound_snapshot_memory(writer.pending_len());
            let step = snapshot.step(&self.store, STEP, &mut |record| scribe.write(&mut writer, record, &access));
            let step = step.map_err(|torn| torn.to_string())?;
            let keys_before = progress.keys_done.swap(scribe.keys_len(), Ordering::Relaxed);
            self.delay_save(scribe.keys_len() - keys_before);
            self.note_hold(snapshot.longest_hold());
            self.bound_snapshot_memory(writer.pending_len());
            if writer.pending_len() >= WRITE_BYTES || step == Step::Done {
                writer.drain(|bytes| out.write(bytes)).map_err(|error| failed(&error))?;
            }
            match step {
                Step::Done => break,
                Step::More => {}
                // What is looked for is on its way from one thread to another.
                Step::Waiting => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        writer.end().map_err(|outdated| outdated.to_string())?;
        writer.drain(|bytes| out.write(bytes)).and_then(|()| out.finish()).map_err(|error| failed(&error))
    }

    /// A shard was held for a snapshot for so many ticks.
    fn note_hold(&self, ticks: u64) {
        let longest_ns = &self.durability.snapshots.progress.longest_hold_ns;
        longest_ns.fetch_max(self.ticker.nanoseconds(ticks), Ordering::Relaxed);
    }

    /// Waits behind so many keys of a snapshot, if a test has asked for that.
    fn delay_save(&self, keys: u64) {
        let delay_us = self.config.number(Opt::RdbKeySaveDelay);
        let ends_ms = clock::monotonic_ms() + keys * delay_us.max(0) as u64 / 1_000;
        while clock::monotonic_ms() < ends_ms && !self.durability.snapshots.is_aborted() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How a snapshot is written, as the options say.
    fn snapshot_format(&self, snapshot: &Snapshot) -> Format {
        let version = match (snapshot.has_timed_fields(), self.config.number(Opt::RdbFormat)) {
            (false, _) => Version::Ten,
            (true, 0) => Version::Twelve,
            (true, _) => Version::Valkey80,
        };
        let (is_compressing, is_summing) = (self.config.flag(Opt::Rdbcompression), self.config.flag(Opt::Rdbchecksum));
        Format { version, is_compressing, is_summing }
    }

    /// What is said of how keys were used: what the server evicts by, as in Redis.
    fn access_shown(&self) -> Box<dyn Fn(u32) -> Access + Send> {
        let (policy, now) = (self.config.maxmemory_policy(), Instant::now());
        if policy.is_lfu() {
            Box::new(|clock| Access::Frequency(clock as u8))
        } else if policy.is_lru() {
            Box::new(move |clock| Access::Idle(u64::from(key_clock::idle_s(clock, now))))
        } else {
            Box::new(|_| Access::Unknown)
        }
    }

    /// Whether as much waits for the snapshot's disk as may. Whoever is about to write asks, because the snapshot's thread may
    /// be waiting for the disk; it goes on when that thread says so.
    pub fn is_snapshot_behind(&self) -> bool {
        let progress = &self.durability.snapshots.progress;
        let is_behind = progress.note_waits() >= self.config.memory(Opt::SnapshotMaxMemory);
        if is_behind {
            self.readiness.set(Hindrance::DiskBehind, true);
            if !self.readiness.has(Hindrance::SnapshotRuns) {
                // That thread has ended meanwhile and looks no more.
                self.set_disk_behind(self.journal.is_full());
            }
        }
        is_behind
    }

    /// Holds clients that write while more waits for the snapshot's disk than may; so many bytes are encoded and not written.
    fn bound_snapshot_memory(&self, encoded_bytes: usize) {
        let progress = &self.durability.snapshots.progress;
        progress.encoded_bytes.store(encoded_bytes, Ordering::Relaxed);
        let is_behind = progress.note_waits() >= self.config.memory(Opt::SnapshotMaxMemory);
        if is_behind != self.readiness.has(Hindrance::DiskBehind) {
            self.set_disk_behind(is_behind || self.journal.is_full());
        }
    }
}

const ABORTED: &str = "it was given up for another";

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

fn put_in_place(disk: &dyn Disk, beside: &Path, path: &Path) -> io::Result<()> {
    disk.rename(beside, path)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new("")))
}
