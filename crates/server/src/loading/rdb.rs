//! Loading a snapshot, by as many threads as there are processors.
//!
//! They take turns at the file. The thread with the turn reads a stretch of it, adds it to the checksum and cuts it into
//! records, which costs little, and passes the turn on. Then it decodes these records and inserts them under their keys,
//! while other threads read, decode and insert theirs. So nothing is handed from thread to thread, and only one stretch for
//! each thread is in memory.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_disk::disk::{self, Disk, Open};
use sleeve_store::Store;
use sleeve_store::dump_file::{Inserted, Inserter, LoadError};
use sleeve_store::rdb::file::{Access, Batch, Event, Odd, Oddity, Reader};
use sleeve_wire::number;

use super::progress;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::limits;
use crate::engine::persistence::loading::GIVEN_UP;
use crate::engine::persistence::snapshot::walk::test_delay;
use crate::engine::replication::{Place, PlaceRead};
use crate::execute::replay::Replay;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::threads;
use crate::host::waiting;

/// The origin of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A snapshot file: expired keys are left out, unless replicas have the same data.
    Snapshot,
    /// The base of an AOF, in which nothing expires before the AOF says so.
    Base,
}

/// The facts that are known at the end of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The bytes of the snapshot.
    pub bytes: u64,
    /// The offset of the journal for which it stands, if it states one.
    pub stands_for: Option<u64>,
    /// The database that is selected in the stream at that offset, if the snapshot states it.
    pub stream_database: Option<u32>,
    /// The position of the snapshot in the replication stream, if the snapshot states all parts of it.
    pub place: Option<Place>,
}

/// The number of threads; more would mostly wait for their turn.
const THREADS: std::ops::RangeInclusive<usize> = 2..=8;

/// Loads the snapshot that `dbfilename` names, if there is one.
pub(super) fn load_snapshot(engine: &Arc<Engine>) -> Result<Option<End>, String> {
    let path = engine.persistence.snapshots.path(engine);
    let (source, size) = match SnapshotFile::open(&*engine.persistence.disk, &path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(format!("Fatal error: can't open {} for reading: {}", path.display(), reason(&error)));
        }
    };
    engine.persistence.loading.begin(Instant::now().wall_ms() / 1_000, size);
    let into = (&engine.keyspace.store, &mut Replay::begin(engine, 0));
    let loaded = load_rdb(engine, into, source, size, Origin::Snapshot);
    loaded.map(Some).map_err(|error| unusable(&path, &error))
}

/// Loads a snapshot of so many bytes, 0 if that is unknown; other bytes may follow it. Its keys go into `store`, which is the
/// engine's own or another with the same options, and its libraries through a replay.
///
/// # Errors
/// The fault, and its byte. Some of the snapshot may be loaded then.
pub(super) fn load_rdb(
    engine: &Engine,
    (store, replay): (&Store, &mut Replay),
    source: impl Read + Send,
    size: u64,
    origin: Origin,
) -> Result<End, String> {
    let now = Instant::now();
    // On a replica, keys expire only when its primary removes them.
    let keeps_all = origin == Origin::Base || engine.replication.role.is_replica();
    let now_ms = if keeps_all { i64::MIN } else { now.wall_ms() };
    let mut reader = Reader::new(source, limits::of_all(engine, now_ms));
    if size != 0 {
        reader.expect_size(size);
    }
    if !engine.config.flag(Opt::Rdbchecksum) || engine.debug.skips_checksums.load(Ordering::Relaxed) {
        reader.trust_sum();
    }
    let file = File {
        reader,
        replay,
        now,
        now_ms,
        told: 0,
        delayed: 0,
        is_over: false,
        said: Said::default(),
        failed: None,
        empty: 0,
        corrected: 0,
    };
    let file = Mutex::new(file);
    let keep = || keep(engine, store, &file, now);
    let count = available_parallelism().map_or(1, |count| count.get()).clamp(*THREADS.start(), *THREADS.end());
    std::thread::scope(|scope| {
        // If the system gives fewer threads, those that run do all the work.
        (1..count).for_each(|_| _ = threads::start_within(scope, "loading", keep));
        keep();
    });
    let file = file.into_inner();
    match &file.failed {
        None => file.tell_done(engine.persistence.loading.keys()),
        Some((_, why)) => log::warning(&format!("Internal error in RDB reading: {why}")),
    }
    let File { reader, said, failed, .. } = file;
    let Said { stands_for, stream } = said;
    let (stream_database, place) = (stream.database, stream.place());
    failed.map_or(Ok(End { bytes: reader.offset(), stands_for, stream_database, place }), |(_, why)| Err(why))
}

/// Runs one of the threads.
fn keep<R: Read>(engine: &Engine, store: &Store, file: &Mutex<File<'_, R>>, now: Instant) {
    let (mut batch, mut inserter) = (Batch::default(), None);
    let clock = |access| match access {
        Access::Unknown => key_clock::fresh(&engine.config, now),
        Access::Idle(seconds) => key_clock::idle_for(&engine.config, i64::try_from(seconds).unwrap_or(i64::MAX), now),
        Access::Frequency(count) => key_clock::used(&engine.config, u32::from(count), now),
    };
    while file.lock().next_batch(engine, &mut batch) {
        threads::yield_to_clients();
        // The snapshot's own properties, which precede the keys, have been read by now.
        let inserter = inserter.get_or_insert_with(|| {
            let now_ms = file.lock().now_ms;
            Inserter::new(limits::of_all(engine, now_ms), now_ms)
        });
        match inserter.insert(store, &mut batch, &clock) {
            Ok(Inserted { keys, expired, odd }) => {
                engine.persistence.loading.add_keys(keys, expired);
                if !odd.is_empty() {
                    let mut file = file.lock();
                    odd.into_iter().for_each(|odd| file.tell_odd(odd));
                }
            }
            Err(error) => file.lock().fail(error),
        }
        threads::yield_to_clients();
    }
}

/// The position that the snapshot states about itself.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    stands_for: Option<u64>,
    stream: PlaceRead,
}

/// The file, for the thread with the turn.
struct File<'a, R> {
    reader: Reader<R>,
    replay: &'a mut Replay,
    now: Instant,
    /// The time after which keys and fields are kept: those with an earlier deadline are left out.
    now_ms: i64,
    /// The bytes of the file that are included in the loading progress.
    told: u64,
    /// The number of keys for which the delay of a test has not been waited yet.
    delayed: u64,
    /// The reading has ended.
    is_over: bool,
    said: Said,
    /// The byte at which the fault begins, and its description.
    failed: Option<(u64, String)>,
    /// The number of records that were left out because their collections are empty; below, of records that were corrected.
    empty: u64,
    corrected: u64,
}

/// The number of odd records of each kind that are logged one by one.
const ODD_TOLD_MAX: u64 = 10;

impl<R: Read> File<'_, R> {
    /// Reads the next records. Returns false if there are no more.
    fn next_batch(&mut self, engine: &Engine, batch: &mut Batch) -> bool {
        while !self.is_over {
            if engine.persistence.loading.is_given_up() {
                self.fail_at(self.reader.offset(), GIVEN_UP.to_owned());
                break;
            }
            let delay_us = engine.config.number(Opt::KeyLoadDelay);
            let bytes_max = if delay_us != 0 { 1 } else { usize::MAX };
            let read = self.reader.next_batch(batch, bytes_max);
            let offset = self.reader.offset();
            progress::note_loaded_bytes(engine, offset - self.told);
            self.told = offset;
            match read {
                Ok(Some(event)) => self.heed(engine, event),
                Ok(None) if batch.is_empty() => {}
                Ok(None) => {
                    if delay_us != 0 {
                        self.delayed += batch.len() as u64;
                        let delay = test_delay(delay_us, self.delayed);
                        if !delay.is_zero() {
                            waiting::sleep(delay);
                            self.delayed = 0;
                        }
                    }
                    return true;
                }
                Err(error) => self.fail(LoadError::File(error)),
            }
        }
        false
    }

    fn heed(&mut self, engine: &Engine, event: Event) {
        match event {
            Event::Function(code) => {
                if let Err(why) = self.load_library(&code) {
                    self.fail_at(self.reader.offset(), why);
                }
            }
            Event::Aux { name, value } if name == BASE_OFFSET_FIELD.as_bytes() => {
                self.said.stands_for = number::parse_i64(&value).and_then(|offset| u64::try_from(offset).ok());
            }
            Event::Aux { name, value } if self.said.stream.take(&name, &value) => {
                if self.said.stream.place().is_some() {
                    // Replicas that continue from this position have these keys, until they get the removal of the expired
                    // ones.
                    self.now_ms = i64::MIN;
                    self.reader.keep_expired();
                }
            }
            Event::End => self.is_over = true,
            Event::Empty(odd) => self.tell_odd(odd),
            Event::Aux { name, value } => self.tell_about(engine, &name, &value),
            Event::Select(_) | Event::Sizes { .. } | Event::Key(_) => {}
        }
    }

    /// Logs a record that was left out or corrected, and counts it.
    fn tell_odd(&mut self, mut odd: Oddity) {
        let count = if odd.what == Odd::Empty { &mut self.empty } else { &mut self.corrected };
        *count += 1;
        if *count <= ODD_TOLD_MAX {
            if log::hides_user_data() {
                odd.hide_key();
            }
            log::warning(&format!("Loading RDB: {odd}"));
        }
    }

    /// Logs how many keys were loaded, expired, skipped and corrected.
    fn tell_done(&self, (loaded, expired): (u64, u64)) {
        let mut line = format!("Done loading RDB, keys loaded: {loaded}, keys expired: {expired}");
        if self.empty > 0 {
            line += &format!(", empty keys skipped: {}", self.empty);
        }
        if self.corrected > 0 {
            line += &format!(", keys corrected: {}", self.corrected);
        }
        log::notice(&format!("{line}."));
    }

    /// Logs a fact that a snapshot states about itself.
    fn tell_about(&self, engine: &Engine, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let number = text.parse::<i64>().ok();
        match (name, number) {
            (b"redis-ver" | b"valkey-ver", _) => log::notice(&format!("Loading RDB produced by version {text}")),
            (b"ctime", Some(written_s)) => {
                let age_s = (self.now.wall_ms() / 1_000).saturating_sub(written_s);
                log::notice(&format!("RDB age {} seconds", age_s.max(0)));
            }
            (b"used-mem", Some(bytes)) => {
                engine.persistence.loading.note_used_bytes(bytes.max(0) as u64);
                let megabytes = bytes as f64 / f64::from(1 << 20);
                log::notice(&format!("RDB memory usage when created {megabytes:.2} Mb"));
            }
            (b"aof-base", Some(1)) => log::notice("RDB is base AOF"),
            _ => {}
        }
    }

    fn load_library(&mut self, code: &[u8]) -> Result<(), String> {
        let length = format!("*4\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$7\r\nREPLACE\r\n${}\r\n", code.len());
        let request = [length.as_bytes(), code, b"\r\n"].concat();
        let loaded = self.replay.apply_strictly(&request, self.now);
        loaded
            .map(|_| ())
            .map_err(|refused| format!("a library of functions cannot be loaded: {}", log::user_data(&refused.error)))
    }

    fn fail(&mut self, mut error: LoadError) {
        if log::hides_user_data() {
            error.hide_key();
        }
        self.fail_at(error.offset(), error.to_string());
    }

    /// Stops the reading. Of several faults the first in the file is reported.
    fn fail_at(&mut self, offset: u64, why: String) {
        self.is_over = true;
        if self.failed.as_ref().is_none_or(|(first, _)| offset < *first) {
            self.failed = Some((offset, why));
        }
    }
}

/// A snapshot that is read from front to back.
pub(super) struct SnapshotFile {
    file: Arc<dyn disk::File>,
    position: u64,
}

impl SnapshotFile {
    /// Opens the file, and returns its size too.
    pub(super) fn open(disk: &dyn Disk, path: &Path) -> io::Result<(Self, u64)> {
        let file = disk.open(path, Open::Read)?;
        let size = file.size()?;
        Ok((Self { file, position: 0 }, size))
    }
}

impl Read for SnapshotFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.position, into)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// Returns the error of a file that cannot be loaded.
pub(super) fn unusable(path: &Path, error: &str) -> String {
    format!(
        "{}: {error}. Nothing was loaded and the file is as it was: see what 'sleeve check rdb' says of it, or bring it back \
         from a backup",
        path.display()
    )
}
