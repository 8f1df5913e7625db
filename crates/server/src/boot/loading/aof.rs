//! Applying a log: one thread reads it and checks its sums, this one applies what it says.
//!
//! A snapshot in front of it is loaded in between, by its own threads, while the reader waits. What is read and not applied yet
//! is bounded by a few stretches of the log, or by its largest piece.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sleeve_disk::replay::{self, Outcome, RdbSource, Step};

use super::rdb::{End, Origin};
use super::{cannot, unusable};
use crate::engine::Engine;
use crate::execute::replay::Replay;
use crate::host::clock::Instant;
use crate::host::threads;

/// Stretches of the log on their way.
const STRETCHES: usize = 4;

/// What the reader gives.
enum Parcel {
    /// Whole pieces, the file that they are from, and how many bytes of the log have been read.
    Requests {
        bytes: Vec<u8>,
        file: String,
        bytes_read: u64,
    },
    /// A snapshot, which is to be loaded before anything else is read.
    Rdb(RdbSource),
    End(Outcome),
    /// It is damaged, or cannot be read.
    Bad(String),
}

impl Engine {
    /// Applies a log.
    ///
    /// # Errors
    /// What is wrong with it, in which file and at which byte, and what can be done. Some of it may be applied then.
    pub(super) fn replay_log(self: &Arc<Self>, log: replay::Replay) -> Result<Outcome, String> {
        let (parcels, incoming) = sync_channel(STRETCHES);
        let (empties, spare) = sync_channel(STRETCHES);
        let (ends, loaded) = sync_channel(1);
        std::thread::scope(|scope| {
            let read = move || read(log, &parcels, &spare, &loaded);
            let started = threads::start_within(scope, "loading", read);
            started.map_err(|error| cannot("start the thread that reads the append-only file", &error))?;
            self.apply_parcels(incoming, empties, ends)
        })
    }

    /// Takes all that comes. Where it ends early, so does the reader: what it would be told or tell goes with these channels.
    fn apply_parcels(
        self: &Arc<Self>,
        incoming: Receiver<Parcel>,
        empties: SyncSender<Vec<u8>>,
        ends: SyncSender<End>,
    ) -> Result<Outcome, String> {
        let (mut replay, mut seen) = (Replay::begin(self, 0), 0);
        loop {
            match incoming.recv().map_err(|_| "the thread that reads the append-only file has ended".to_owned())? {
                Parcel::Requests { bytes, file, bytes_read } => {
                    let applied = replay.apply(&bytes, Instant::now());
                    let used = applied
                        .map_err(|refused| format!("Bad file format reading the append only file {file}: {refused}"))?;
                    debug_assert_eq!(used, bytes.len(), "pieces come whole");
                    // Where there are enough of them, it goes.
                    _ = empties.try_send(bytes);
                    self.note_loaded_bytes(bytes_read.saturating_sub(seen));
                    seen = seen.max(bytes_read);
                }
                Parcel::Rdb(source) => {
                    let name = source.name.clone();
                    let end = self.load_rdb(&mut replay, source, Origin::Base);
                    let end = end.map_err(|error| unusable(Path::new(&name), &error))?;
                    seen += end.bytes;
                    // It is there and waits.
                    _ = ends.send(end);
                }
                Parcel::End(outcome) => return Ok(outcome),
                Parcel::Bad(why) => return Err(why),
            }
        }
    }
}

/// Reads a log until it ends or is bad, or nobody wants more of it.
fn read(mut log: replay::Replay, parcels: &SyncSender<Parcel>, spare: &Receiver<Vec<u8>>, loaded: &Receiver<End>) {
    loop {
        let mut bytes = spare.try_recv().unwrap_or_default();
        bytes.clear();
        let parcel = match log.next(&mut bytes) {
            Ok(Step::Requests) => {
                let file = log.file().map_or_else(String::new, ToString::to_string);
                Parcel::Requests { bytes, file, bytes_read: log.bytes_read() }
            }
            Ok(Step::Rdb(source)) => {
                if parcels.send(Parcel::Rdb(source)).is_err() {
                    return;
                }
                let Ok(end) = loaded.recv() else { return };
                match log.after_rdb(end.bytes, end.stands_for) {
                    Ok(()) => continue,
                    Err(damage) => Parcel::Bad(damage.to_string()),
                }
            }
            Ok(Step::End(outcome)) => Parcel::End(outcome),
            Err(damage) => Parcel::Bad(format!("Bad file format reading the append only file: {damage}")),
        };
        let is_last = matches!(parcel, Parcel::End(_) | Parcel::Bad(_));
        if parcels.send(parcel).is_err() || is_last {
            return;
        }
    }
}
