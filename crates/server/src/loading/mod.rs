//! Loading the data at the start, from the AOF or else from the snapshot, while clients that need it get the error LOADING.
//!
//! A snapshot is loaded by several threads (`rdb`). An AOF is read by one thread and applied by another, request by request,
//! in the order of the journal (`aof`). Damage stops the start with the file, the byte and the possible remedies; partial
//! data is never served. A replica loads the data of its primary (`replacing`).

mod aof;
mod progress;
mod rdb;
mod reload;
pub(crate) mod replacing;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use sleeve_disk::replay;

use crate::config::value::reason;
use crate::config::{Config, Opt};
use crate::engine::Engine;
use crate::engine::replication::Place;
use crate::engine::replication::resume;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::planted::{self, Fault};
use rdb::End;

pub use progress::end;

/// Loads the data that the options name, and opens the AOF if they ask for one. The caller makes sure that no client is
/// served data until it returns.
///
/// # Errors
/// The fault, its file, and the possible remedies.
pub fn load(engine: &Arc<Engine>) -> Result<(), String> {
    reload::offer(engine);
    ignored_log(&engine.config).iter().for_each(|ignored| log::warning(ignored));
    let begun_ms = clock::monotonic_ms();
    let (loaded, source) = match engine.config.flag(Opt::Appendonly) {
        true => (load_log(engine).map(|()| true), "append only file"),
        false => (rdb::load_snapshot(engine).map(|end| resume_from(engine, end)), "disk"),
    };
    if loaded.is_err() && source == "disk" {
        log::warning("Terminating server after rdb file reading failure.");
    }
    engine.persistence.loading.end();
    if loaded? {
        let took_s = (clock::monotonic_ms() - begun_ms) as f64 / 1_000.0;
        log::notice(&format!("DB loaded from {source}: {took_s:.3} seconds"));
    }
    Ok(())
}

/// Returns the warning that there is an AOF which is not loaded, if that is so. A server starts without its data then, as Redis
/// does; a folder of an embedded engine has an AOF always.
pub fn ignored_log(config: &Config) -> Option<String> {
    if config.flag(Opt::Appendonly) {
        return None;
    }
    let folder = config.resolve(&config.text(Opt::Appenddirname));
    let manifest = [&config.text(Opt::Appendfilename)[..], b".manifest"].concat();
    let has_log = std::fs::metadata(folder.join(OsStr::from_bytes(&manifest))).is_ok_and(|found| found.len() > 0);
    has_log.then(|| {
        let folder = folder.display();
        format!("'{folder}' holds an AOF that is not loaded, because 'appendonly' is no. To load it, start with --appendonly yes")
    })
}

/// Continues the replication stream at the position of a loaded snapshot, if it states one. Returns whether it does.
fn resume_from(engine: &Engine, snapshot: Option<End>) -> bool {
    if let Some(place) = snapshot.and_then(|end| end.place) {
        resume::resume_stream(engine, place, Instant::now());
    }
    snapshot.is_some()
}

/// Loads the AOF, or begins one with the data of the snapshot.
fn load_log(engine: &Arc<Engine>) -> Result<(), String> {
    let folder = engine.persistence.aof.open_folder(engine)?;
    folder.told().iter().for_each(|odd| log::warning(odd));
    match folder.remove_left_over() {
        Ok(removed) => removed.iter().for_each(|name| {
            log::notice(&format!("Removed {name}, which a process that died had not finished"));
        }),
        Err(error) => log::warning(&cannot("remove what a process that died had not finished", &error)),
    }
    if folder.is_empty() {
        let has_snapshot = rdb::load_snapshot(engine).map(|end| resume_from(engine, end))?;
        if has_snapshot {
            log::notice("There is no append-only file yet: it begins with the data of the snapshot");
        }
        let waiting =
            folder.wait(engine.journal.end()).map_err(|error| cannot("begin the append-only file", &error))?;
        return engine.persistence.aof.write_first_base(engine, waiting);
    }
    let files = folder.files().map_err(|error| error.to_string())?;
    let total = files.iter().map(|(_, bytes)| bytes).sum();
    engine.persistence.loading.begin(Instant::now().wall_ms() / 1_000, total);
    let options =
        replay::Options { load_truncated: engine.config.flag(Opt::AofLoadTruncated), ..replay::Options::default() };
    let (outcome, base) = aof::replay_log(engine, folder.replay(options))?;
    outcome.told.iter().for_each(|odd| log::warning(odd));
    if let Some(cut) = &outcome.cut {
        refuse_cut_of_closed_log(engine, &outcome, cut)?;
        log::warning(&format!(
            "The append-only file {} ends unfinished: {} bytes from byte {} on are cut off{}",
            cut.file,
            cut.bytes,
            cut.at,
            cut.damage.as_ref().map_or(String::new(), |damage| format!(" ({})", damage.what))
        ));
    }
    engine.journal.set_end(outcome.end);
    // A replica may have received bytes that the load has cut off the AOF, or that it could not count. Then its offset is not
    // comparable with the one loaded here, and the stream does not go on.
    let is_sure = outcome.is_exact && outcome.cut.is_none();
    let stands_at = |place: &Place| is_sure && place.offset == outcome.end;
    let closing = resume::take_closing_place(engine);
    if let Some(place) = closing.filter(|_| planted::has(Fault::KeepsId)) {
        resume::resume_stream(engine, Place { offset: outcome.end, ..place }, Instant::now());
    } else if let Some(place) = closing.filter(stands_at).or(base.filter(stands_at)) {
        resume::resume_stream(engine, place, Instant::now());
    }
    let resumed = folder.resume(outcome).map_err(|error| cannot("go on with the append-only file", &error))?;
    engine.persistence.aof.open(engine, resumed).map_err(|error| cannot("start the log's threads", &error))
}

/// Refuses to cut off a part of an AOF that was closed: all of it was fsynced then, so the fault is no torn end of a crash.
fn refuse_cut_of_closed_log(engine: &Engine, outcome: &replay::Outcome, cut: &replay::Cut) -> Result<(), String> {
    let is_before = |place: &Place| outcome.is_exact && outcome.end < place.offset;
    let Some(place) = resume::closing_place(engine).filter(is_before) else { return Ok(()) };
    let (file, at, path) = (&cut.file, cut.at, resume::closing_place_path(engine));
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

fn cannot(what: &str, error: &io::Error) -> String {
    format!("Cannot {what}: {}", reason(error))
}
