//! Applying a log: one thread reads it and checks its sums, this one applies what it says.
//!
//! A snapshot in front of it is loaded in between, by its own threads, while the reader waits. What is read and not applied yet
//! is bounded by a few stretches of the log, or by its largest piece.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sleeve_disk::replay::damage::{Damage, What};
use sleeve_disk::replay::{self, Outcome, RdbSource, Step};

use super::rdb::{End, Origin};
use super::{cannot, unusable};
use crate::engine::Engine;
use crate::engine::durability::loading::GIVEN_UP;
use crate::engine::replication::Place;
use crate::execute::replay::{Refused, Replay};
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::threads;

/// Stretches of the log on their way.
const PARTS_AHEAD: usize = 4;

/// What the reader gives.
enum LogPart {
    /// Whole pieces, where they are from, and how many bytes of the log have been read.
    Requests {
        bytes: Vec<u8>,
        range: FileRange,
        bytes_read: u64,
    },
    /// A snapshot, which is to be loaded before anything else is read.
    Rdb(RdbSource),
    End(Outcome),
    /// It is damaged, or cannot be read.
    Bad(String),
}

/// A part of a file, from byte `from` to before byte `until`.
struct FileRange {
    file: String,
    from: u64,
    until: u64,
}

impl FileRange {
    /// Where in the file the request stands that stands at byte `at` of the stretch's `length` bytes of requests. They are as
    /// many as the file's own if it has no comments.
    fn place_of(&self, at: u64, length: usize) -> String {
        let Self { file, from, until } = self;
        if until - from == length as u64 {
            return format!("{file}, byte {}", from + at);
        }
        format!("{file}, between byte {from} and byte {until}")
    }
}

impl Engine {
    /// Applies a log; also gives the place in the stream to replicas at which its base stands, if that says so.
    ///
    /// # Errors
    /// What is wrong with it, in which file and at which byte, and what can be done. Some of it may be applied then.
    pub(super) fn replay_log(self: &Arc<Self>, log: replay::Replay) -> Result<(Outcome, Option<Place>), String> {
        let (parts, incoming) = sync_channel(PARTS_AHEAD);
        let (empties, spare) = sync_channel(PARTS_AHEAD);
        let (ends, loaded) = sync_channel(1);
        std::thread::scope(|scope| {
            let read = move || read(log, &parts, &spare, &loaded);
            let started = threads::start_within(scope, "loading", read);
            started.map_err(|error| cannot("start the thread that reads the append-only file", &error))?;
            self.apply_parts(incoming, empties, ends)
        })
    }

    /// Takes all that comes. Where it ends early, so does the reader: what it would be told or tell goes with these channels.
    fn apply_parts(
        self: &Arc<Self>,
        incoming: Receiver<LogPart>,
        empties: SyncSender<Vec<u8>>,
        ends: SyncSender<End>,
    ) -> Result<(Outcome, Option<Place>), String> {
        let (mut replay, mut seen) = (Replay::begin(self, 0), 0);
        let mut place = None;
        let mut timer = FileTimer::default();
        loop {
            if self.durability.loading.is_given_up() {
                return Err(GIVEN_UP.into());
            }
            match incoming.recv().map_err(|_| "the thread that reads the append-only file has ended".to_owned())? {
                LogPart::Requests { bytes, range, bytes_read } => {
                    timer.note(Some(&range.file));
                    let begin = replay.offset();
                    let applied = replay.apply(&bytes, Instant::now());
                    let used = applied.map_err(|refused| {
                        let at = refused.offset.saturating_sub(begin);
                        inapplicable(&range.place_of(at, bytes.len()), &refused)
                    })?;
                    debug_assert_eq!(used, bytes.len(), "pieces come whole");
                    // Where there are enough of them, it goes.
                    _ = empties.try_send(bytes);
                    self.note_loaded_bytes(bytes_read.saturating_sub(seen));
                    seen = seen.max(bytes_read);
                }
                LogPart::Rdb(source) => {
                    let name = source.name.clone();
                    timer.note(Some(&name));
                    let size = source.size;
                    let end = self.load_rdb((&self.store, &mut replay), source, size, Origin::Base);
                    let end = end.map_err(|error| unusable(Path::new(&name), &error))?;
                    seen += end.bytes;
                    place = end.place;
                    // It is there and waits.
                    _ = ends.send(end);
                }
                LogPart::End(outcome) => {
                    timer.note(None);
                    return Ok((outcome, place));
                }
                LogPart::Bad(why) => return Err(why),
            }
        }
    }
}

/// Tells how long each file of a log took.
#[derive(Default)]
struct FileTimer(Option<(String, u64)>);

impl FileTimer {
    /// That this file is being read now.
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

/// What is wrong with a log, in the words that whoever watches the logs of Redis looks for.
fn damaged(damage: &Damage) -> String {
    let is_cut_off = matches!(damage.what.innermost(), What::CutOff | What::OpenTransaction);
    let what = if is_cut_off { "Unexpected end of file" } else { "Bad file format" };
    format!("{what} reading the append only file {damage}")
}

/// What is wrong with a request of a log, likewise.
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

/// Reads a log until it ends or is bad, or nobody wants more of it.
fn read(mut log: replay::Replay, parts: &SyncSender<LogPart>, spare: &Receiver<Vec<u8>>, loaded: &Receiver<End>) {
    let mut last = FileRange { file: String::new(), from: 0, until: 0 };
    loop {
        let mut bytes = spare.try_recv().unwrap_or_default();
        bytes.clear();
        let part = match log.next(&mut bytes) {
            Ok(Step::Requests) => {
                let file = log.file().map_or_else(String::new, ToString::to_string);
                let from = if file == last.file { last.until } else { log.begins_at() };
                let range = FileRange { from, until: log.good_until(), file };
                last = FileRange { file: range.file.clone(), ..range };
                LogPart::Requests { bytes, range, bytes_read: log.bytes_read() }
            }
            Ok(Step::Rdb(source)) => {
                if parts.send(LogPart::Rdb(source)).is_err() {
                    return;
                }
                let Ok(end) = loaded.recv() else { return };
                match log.after_rdb(end.bytes, end.stands_for) {
                    Ok(()) => continue,
                    Err(damage) => LogPart::Bad(damage.to_string()),
                }
            }
            Ok(Step::End(outcome)) => LogPart::End(outcome),
            Err(damage) => LogPart::Bad(damaged(&damage)),
        };
        let is_last = matches!(part, LogPart::End(_) | LogPart::Bad(_));
        if parts.send(part).is_err() || is_last {
            return;
        }
    }
}
