//! Loading the data at the start, from the AOF or else from the snapshot, while clients that need it are told to retry.
//!
//! A snapshot is loaded by several threads (`rdb`). An AOF is read by one thread and applied by another, request by request,
//! as its journal was (`aof`). Damage stops the start with the file, the byte and the possible remedies; partial data is
//! never served. A replica loads the data of its primary (`replacing`).

mod aof;
mod rdb;
mod reload;
mod replacing;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use sleeve_disk::disk::{Disk, File, Open};
use sleeve_disk::replay;

use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::persistence::purpose::Purpose;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::Place;
use crate::execute::replay::Replay;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::planted::{self, Fault};
use rdb::{End, Origin};
pub(crate) use replacing::Arrival;

impl Engine {
    /// Loads the data that the options name, and opens the AOF if there is to be one. The caller makes sure that no client is
    /// served data until it returns.
    ///
    /// # Errors
    /// The fault, its file, and the possible remedies.
    pub fn load(self: &Arc<Self>) -> Result<(), String> {
        self.offer_loading();
        self.offer_following();
        let begun_ms = clock::monotonic_ms();
        let (loaded, source) = match self.config.flag(Opt::Appendonly) {
            true => (self.load_log().map(|()| true), "append only file"),
            false => (self.load_snapshot().map(|end| self.resume_from(end)), "disk"),
        };
        if loaded.is_err() && source == "disk" {
            log::warning("Terminating server after rdb file reading failure.");
        }
        self.persistence.loading.end();
        if loaded? {
            let took_s = (clock::monotonic_ms() - begun_ms) as f64 / 1_000.0;
            log::notice(&format!("DB loaded from {source}: {took_s:.3} seconds"));
        }
        Ok(())
    }

    /// Ends the loading: waiting clients go on. Requests that concerned the AOF in the meantime are done now.
    pub fn end_loading(self: &Arc<Self>) {
        self.lifecycle.readiness.set(Hindrance::Loading, false);
        self.clients.post_resume();
        let is_on = self.config.flag(Opt::Appendonly);
        if is_on != self.has_log()
            && let Err(why) = self.switch_log(is_on)
        {
            log::warning(&format!("The append-only file cannot be begun: {why}. It is tried again"));
            if is_on {
                self.persistence.snapshots.schedule(Purpose::Base);
            }
        }
    }

    /// Continues the stream to replicas at the position of a loaded snapshot, if it states one. Returns whether there was
    /// one.
    fn resume_from(&self, snapshot: Option<End>) -> bool {
        if let Some(place) = snapshot.and_then(|end| end.place) {
            self.resume_stream(place, Instant::now());
        }
        snapshot.is_some()
    }

    /// Loads the snapshot that `dbfilename` names, if there is one.
    fn load_snapshot(self: &Arc<Self>) -> Result<Option<End>, String> {
        let path = self.snapshot_path();
        let (source, size) = match SnapshotFile::open(&*self.persistence.disk, &path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(format!("Fatal error: can't open {} for reading: {}", path.display(), reason(&error)));
            }
        };
        self.persistence.loading.begin(Instant::now().wall_ms() / 1_000, size);
        let into = (&self.keyspace.store, &mut Replay::begin(self, 0));
        let loaded = self.load_rdb(into, source, size, Origin::Snapshot);
        loaded.map(Some).map_err(|error| unusable(&path, &error))
    }

    /// Loads the AOF, or begins one with the data of the snapshot.
    fn load_log(self: &Arc<Self>) -> Result<(), String> {
        let folder = self.open_log_folder()?;
        folder.told().iter().for_each(|odd| log::warning(odd));
        match folder.remove_left_over() {
            Ok(removed) => removed.iter().for_each(|name| {
                log::notice(&format!("Removed {name}, which a process that died had not finished"));
            }),
            Err(error) => log::warning(&cannot("remove what a process that died had not finished", &error)),
        }
        if folder.is_empty() {
            let has_snapshot = self.load_snapshot().map(|end| self.resume_from(end))?;
            if has_snapshot {
                log::notice("There is no append-only file yet: it begins with the data of the snapshot");
            }
            let waiting =
                folder.wait(self.journal.end()).map_err(|error| cannot("begin the append-only file", &error))?;
            return self.write_first_base(waiting);
        }
        let files = folder.files().map_err(|error| error.to_string())?;
        let total = files.iter().map(|(_, bytes)| bytes).sum();
        self.persistence.loading.begin(Instant::now().wall_ms() / 1_000, total);
        let options =
            replay::Options { load_truncated: self.config.flag(Opt::AofLoadTruncated), ..replay::Options::default() };
        let (outcome, base) = self.replay_log(folder.replay(options))?;
        outcome.told.iter().for_each(|odd| log::warning(odd));
        if let Some(cut) = &outcome.cut {
            self.refuse_cut_of_closed_log(&outcome, cut)?;
            log::warning(&format!(
                "The append-only file {} ends unfinished: {} bytes from byte {} on are cut off{}",
                cut.file,
                cut.bytes,
                cut.at,
                cut.damage.as_ref().map_or(String::new(), |damage| format!(" ({})", damage.what))
            ));
        }
        self.journal.set_end(outcome.end);
        // Bytes that have been cut off, or cannot be counted, may be in the data of replicas.
        let is_sure = outcome.is_exact && outcome.cut.is_none();
        let stands_at = |place: &Place| is_sure && place.offset == outcome.end;
        let closing = self.take_closing_place();
        if let Some(place) = closing.filter(|_| planted::has(Fault::KeepsId)) {
            self.resume_stream(Place { offset: outcome.end, ..place }, Instant::now());
        } else if let Some(place) = closing.filter(stands_at).or(base.filter(stands_at)) {
            self.resume_stream(place, Instant::now());
        }
        let resumed = folder.resume(outcome).map_err(|error| cannot("go on with the append-only file", &error))?;
        self.open_log(resumed).map_err(|error| cannot("start the log's threads", &error))
    }

    /// Refuses to cut off a part of the AOF that was there when the AOF was closed: all of it was on the disk then, so no
    /// crash tore it.
    fn refuse_cut_of_closed_log(&self, outcome: &replay::Outcome, cut: &replay::Cut) -> Result<(), String> {
        let is_before = |place: &Place| outcome.is_exact && outcome.end < place.offset;
        let Some(place) = self.closing_place().filter(is_before) else { return Ok(()) };
        let (file, at, path) = (&cut.file, cut.at, self.closing_place_path());
        let why = cut.damage.as_ref().map_or(String::new(), |damage| format!("{}; ", damage.what));
        Err(format!(
            "Bad file format reading the append only file {file}, byte {at}: {why}the log goes to offset {} and went to {} when it \
             was closed, so no crash cut it off. Bring the file back from a backup; or, to go on without what is missing, remove {} and \
             start again",
            outcome.end,
            place.offset,
            path.display()
        ))
    }

    /// So many bytes more were read; once in a while the log hears of it.
    fn note_loaded_bytes(&self, bytes: u64) {
        if let Some(status) = self.persistence.loading.add_bytes(bytes, clock::monotonic_ms()) {
            log::notice(&format!(
                "Loading: {:.1} % of {} bytes, about {} seconds left",
                status.percent(),
                status.total_bytes,
                status.eta_s(Instant::now().wall_ms() / 1_000)
            ));
        }
    }
}

/// A snapshot that is read from front to back.
struct SnapshotFile {
    file: Arc<dyn File>,
    position: u64,
}

impl SnapshotFile {
    /// The file and its size.
    fn open(disk: &dyn Disk, path: &Path) -> io::Result<(Self, u64)> {
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

fn cannot(what: &str, error: &io::Error) -> String {
    format!("Cannot {what}: {}", reason(error))
}

fn unusable(path: &Path, error: &str) -> String {
    format!(
        "{}: {error}. Nothing was loaded and the file is as it was: see what 'sleeve check rdb' says of it, or bring it back \
         from a backup",
        path.display()
    )
}
