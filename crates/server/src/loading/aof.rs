//! Replaying an AOF: one thread reads it and checks its checksums, and this one applies the commands.
//!
//! A snapshot at its beginning is loaded by its own threads, while the reader waits. The bytes that are read and not applied
//! yet are bounded by a few stretches of the AOF, or by its largest piece. If the system refuses the thread, one thread
//! alternates between reading and applying.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sleeve_disk::replay::damage::{Damage, What};
use sleeve_disk::replay::{self, Outcome, RdbSource, Step};

use super::rdb::{End, Origin, unusable};
use super::{progress, rdb};
use crate::engine::Engine;
use crate::engine::persistence::loading::GIVEN_UP;
use crate::engine::replication::Place;
use crate::execute::replay::{Refused, Replay};
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::threads;

/// The number of stretches of the AOF that are read ahead.
const PARTS_AHEAD: usize = 4;

/// A part that the reader hands over.
enum LogPart {
    /// Complete pieces, their position, and the number of bytes of the AOF that have been read.
    Requests {
        bytes: Vec<u8>,
        range: FileRange,
        bytes_read: u64,
    },
    /// A snapshot, which has to be loaded before the reader goes on.
    Rdb(RdbSource),
    End(Outcome),
    /// The AOF is damaged, or cannot be read.
    Bad(String),
}

/// A part of a file, from byte `from` to before byte `until`.
struct FileRange {
    file: String,
    from: u64,
    until: u64,
}

impl FileRange {
    /// Returns the position in the file of the request at byte `at`, of `length` bytes of requests in this range. It is exact
    /// if the file has no comments here, so that both have the same length.
    fn place_of(&self, at: u64, length: usize) -> String {
        let Self { file, from, until } = self;
        if until - from == length as u64 {
            return format!("{file}, byte {}", from + at);
        }
        format!("{file}, between byte {from} and byte {until}")
    }
}

/// Applies an AOF. Also returns the position of its base in the replication stream, if the base states one.
///
/// # Errors
/// The fault, with its file and byte, and the possible remedies. Some of the AOF may be applied then.
pub(super) fn replay_log(engine: &Arc<Engine>, log: replay::Replay) -> Result<(Outcome, Option<Place>), String> {
    let (mut reading, mut applying) = (Reading::new(log), Applying::new(engine));
    let applied = std::thread::scope(|scope| {
        let (parts, incoming) = sync_channel(PARTS_AHEAD);
        let (empties, spare) = sync_channel(PARTS_AHEAD);
        let (ends, loaded) = sync_channel(1);
        let (reading, applying) = (&mut reading, &mut applying);
        let read = move || read(reading, &parts, &spare, &loaded);
        threads::start_within(scope, "loading", read).ok()?;
        Some(apply(applying, &incoming, &empties, &ends))
    });
    // If the system refuses the thread, one thread does both.
    applied.unwrap_or_else(|| take_turns(&mut reading, &mut applying))
}

/// Applies all parts that arrive. If this ends early, so does the reader, because both channels are dropped.
fn apply(
    applying: &mut Applying<'_>,
    incoming: &Receiver<LogPart>,
    empties: &SyncSender<Vec<u8>>,
    ends: &SyncSender<End>,
) -> Result<(Outcome, Option<Place>), String> {
    loop {
        let part = incoming.recv().map_err(|_| "the thread that reads the append-only file has ended".to_owned())?;
        match applying.take(part)? {
            // If there are enough empty buffers already, this one is dropped.
            Applied::Requests(bytes) => _ = empties.try_send(bytes),
            // The reader waits for this message.
            Applied::Rdb(end) => _ = ends.send(end),
            Applied::End(end) => return Ok(*end),
        }
    }
}

/// Reads an AOF until it ends or is damaged, or until the applier has ended.
fn read(reading: &mut Reading, parts: &SyncSender<LogPart>, spare: &Receiver<Vec<u8>>, loaded: &Receiver<End>) {
    loop {
        let part = reading.next(spare.try_recv().unwrap_or_default());
        let (is_rdb, is_last) = (matches!(part, LogPart::Rdb(_)), matches!(part, LogPart::End(_) | LogPart::Bad(_)));
        if parts.send(part).is_err() || is_last {
            return;
        }
        if is_rdb {
            let Ok(end) = loaded.recv() else { return };
            reading.go_on_behind(end);
        }
    }
}

/// Alternates between reading and applying an AOF.
fn take_turns(reading: &mut Reading, applying: &mut Applying<'_>) -> Result<(Outcome, Option<Place>), String> {
    let mut empty = Vec::new();
    loop {
        match applying.take(reading.next(std::mem::take(&mut empty)))? {
            Applied::Requests(bytes) => empty = bytes,
            Applied::Rdb(end) => reading.go_on_behind(end),
            Applied::End(end) => return Ok(*end),
        }
    }
}

/// An AOF that is being read.
struct Reading {
    log: replay::Replay,
    /// The part that was read last.
    last: FileRange,
    /// The fault in the last snapshot that was loaded.
    bad: Option<String>,
}

impl Reading {
    fn new(log: replay::Replay) -> Self {
        Self { log, last: FileRange { file: String::new(), from: 0, until: 0 }, bad: None }
    }

    /// Returns the next part; requests are put into this buffer.
    fn next(&mut self, mut bytes: Vec<u8>) -> LogPart {
        if let Some(why) = self.bad.take() {
            return LogPart::Bad(why);
        }
        bytes.clear();
        let log = &mut self.log;
        match log.next(&mut bytes) {
            Ok(Step::Requests) => {
                let file = log.file().map_or_else(String::new, ToString::to_string);
                let from = if file == self.last.file { self.last.until } else { log.begins_at() };
                let range = FileRange { from, until: log.good_until(), file };
                self.last = FileRange { file: range.file.clone(), ..range };
                LogPart::Requests { bytes, range, bytes_read: log.bytes_read() }
            }
            Ok(Step::Rdb(source)) => LogPart::Rdb(source),
            Ok(Step::End(outcome)) => LogPart::End(outcome),
            Err(damage) => LogPart::Bad(damaged(&damage)),
        }
    }

    /// Goes on after the last snapshot, which has been loaded.
    fn go_on_behind(&mut self, end: End) {
        self.bad = self.log.after_rdb(end.bytes, end.stands_for).err().map(|damage| damage.to_string());
    }
}

/// An AOF that is being applied.
struct Applying<'e> {
    engine: &'e Arc<Engine>,
    replay: Replay,
    /// The bytes of the AOF that are included in the loading progress.
    seen: u64,
    place: Option<Place>,
    timer: FileTimer,
}

/// The result of applying a part of an AOF.
enum Applied {
    /// Requests were applied; this is their buffer.
    Requests(Vec<u8>),
    Rdb(End),
    End(Box<(Outcome, Option<Place>)>),
}

impl<'e> Applying<'e> {
    fn new(engine: &'e Arc<Engine>) -> Self {
        Self { engine, replay: Replay::begin(engine, 0), seen: 0, place: None, timer: FileTimer::default() }
    }

    fn take(&mut self, part: LogPart) -> Result<Applied, String> {
        let Self { engine, replay, seen, timer, .. } = self;
        if engine.persistence.loading.is_given_up() {
            return Err(GIVEN_UP.into());
        }
        match part {
            LogPart::Requests { bytes, range, bytes_read } => {
                timer.note(Some(&range.file));
                let begin = replay.offset();
                let applied = replay.apply(&bytes, Instant::now());
                let used = applied.map_err(|refused| {
                    let at = refused.offset.saturating_sub(begin);
                    inapplicable(&range.place_of(at, bytes.len()), &refused)
                })?;
                debug_assert_eq!(used, bytes.len(), "pieces come whole");
                progress::note_loaded_bytes(self.engine, bytes_read.saturating_sub(*seen));
                *seen = bytes_read.max(*seen);
                Ok(Applied::Requests(bytes))
            }
            LogPart::Rdb(source) => {
                let name = source.name.clone();
                timer.note(Some(&name));
                let size = source.size;
                let end = rdb::load_rdb(engine, (&engine.keyspace.store, replay), source, size, Origin::Base);
                let end = end.map_err(|error| unusable(Path::new(&name), &error))?;
                *seen += end.bytes;
                self.place = end.place;
                Ok(Applied::Rdb(end))
            }
            LogPart::End(outcome) => {
                timer.note(None);
                Ok(Applied::End(Box::new((outcome, self.place))))
            }
            LogPart::Bad(why) => Err(why),
        }
    }
}

/// The timer that logs how long each file of an AOF took.
#[derive(Default)]
struct FileTimer(Option<(String, u64)>);

impl FileTimer {
    /// Notes that this file is being read now.
    fn note(&mut self, file: Option<&str>) {
        if self.0.as_ref().map(|(name, _)| name.as_str()) == file {
            return;
        }
        if let Some((name, begun_ms)) = self.0.take() {
            let took_s = (clock::monotonic_ms() - begun_ms) as f64 / 1_000.0;
            let kind = if name.ends_with(".incr.aof") { "incr" } else { "base" };
            log::notice(&format!("DB loaded from {kind} file {name}: {took_s:.3} seconds"));
        }
        self.0 = file.map(|name| (name.to_owned(), clock::monotonic_ms()));
    }
}

/// Describes the damage of an AOF, in the words that monitors of Redis's server log look for.
fn damaged(damage: &Damage) -> String {
    let is_cut_off = matches!(damage.what.innermost(), What::CutOff | What::OpenTransaction);
    let what = if is_cut_off { "Unexpected end of file" } else { "Bad file format" };
    format!("{what} reading the append only file {damage}")
}

/// Describes the fault in a request of an AOF, in the words that monitors of Redis's server log look for.
fn inapplicable(place: &str, Refused { command, error, .. }: &Refused) -> String {
    if error.starts_with("ERR unknown command") {
        return format!(
            "Unknown command '{command}' reading the append only file {place}: a newer server, or one with modules, has \
             written it. Load the log there, and bring the data over with SAVE or MIGRATE."
        );
    }
    format!(
        "Bad file format reading the append only file {place}: {command:?} cannot be applied: {error}. The file was changed, or \
         what stood before it is gone. Bring the folder back from a backup; or make one, and take the request out of the \
         file, or cut the file off in front of it: what is taken out is lost."
    )
}
