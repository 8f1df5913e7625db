//! Continuing the stream after a restart, at the position of the loaded data.
//!
//! A snapshot states its stream's id, its offset and the selected database, with Redis's field names. For an AOF that was
//! fsynced to its end, this is in a file beside it (`keep_closing_place`), which is read once: an AOF that has been written
//! since has no such file. So only data that is byte for byte equal is ever continued. If a process died, its data beyond its
//! snapshot or its AOF is at no known position.
//!
//! A replica continues under the same id, if its primary still has the next bytes. A primary begins a new id and keeps the
//! loaded one as second id: replicas at that position continue, and those beyond it need a full sync.
//!
//! The thread that starts or ends the server calls this, while no client is served.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use sleeve_disk::disk::{Open, read_small};
use sleeve_disk::format::crc32c;
use sleeve_store::rdb::file::Writer;
use sleeve_wire::number;

use super::ids::{Id, OFFSET_MAX, Place};
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::replication::primary;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::planted::{self, Fault};

/// The greatest size in bytes of the file beside an AOF: an id, two numbers and a checksum.
const FILE_BYTES_MAX: u64 = 128;

/// The parts of its position that a snapshot has stated so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlaceRead {
    id: Option<Id>,
    offset: Option<u64>,
    /// The database that is selected at the position.
    pub database: Option<u32>,
}

impl PlaceRead {
    /// Reads a field of a snapshot; returns whether the field is about the position.
    pub fn take(&mut self, name: &[u8], value: &[u8]) -> bool {
        let number = || number::parse_i64(value).and_then(|number| u64::try_from(number).ok());
        match name {
            b"repl-stream-db" => self.database = number().and_then(|database| u32::try_from(database).ok()),
            b"repl-id" => self.id = Id::parse(value),
            b"repl-offset" => self.offset = number().filter(|&offset| offset <= OFFSET_MAX),
            _ => return false,
        }
        true
    }

    /// Returns the position, if all of its parts were stated.
    pub fn place(&self) -> Option<Place> {
        Some(Place { id: self.id?, offset: self.offset?, database: self.database? })
    }
}

impl Place {
    /// Writes the position before the keys of a snapshot.
    pub fn write(&self, writer: &mut Writer) {
        writer.aux("repl-stream-db", i64::from(self.database));
        writer.aux("repl-id", self.id.as_str().as_bytes());
        writer.aux("repl-offset", self.offset.min(i64::MAX as u64) as i64);
    }

    /// Returns the text of the file beside an AOF.
    fn to_line(self) -> String {
        let Self { id, offset, database } = self;
        let text = format!("{id} {offset} {database}");
        format!("{text} {:08x}\n", crc32c::update(0, text.as_bytes()))
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        let mut words = line.strip_suffix(b"\n")?.split(|&byte| byte == b' ');
        let id = Id::parse(words.next()?)?;
        let mut number = || words.next().and_then(number::parse_i64).and_then(|number| u64::try_from(number).ok());
        let place = Self {
            id,
            offset: number().filter(|&offset| offset <= OFFSET_MAX)?,
            database: u32::try_from(number()?).ok()?,
        };
        (place.to_line().as_bytes() == line).then_some(place)
    }
}

/// Returns the position of the data in the replication stream, if the journal is at `offset` and `database`; None if there is
/// no stream. All shards are locked, or no client is served.
pub fn place_at(engine: &Engine, (offset, database): (u64, u32)) -> Option<Place> {
    // The id is read after the position: otherwise the stream might have got another id in between, and continued under that.
    let id = engine.replication.ids.id();
    engine.journal.is_streamed().then_some(Place { id, offset, database })
}

/// Continues the replication stream at the position of the loaded data. No AOF is open yet.
pub fn resume_stream(engine: &Engine, place: Place, now: Instant) {
    let Place { id, offset, database } = place;
    let (ids, role) = (&engine.replication.ids, &engine.replication.role);
    ids.renew(id);
    if role.is_replica() {
        engine.journal.begin_copy(offset, database);
        role.allow_continuing();
        log::notice(&format!(
            "Before turning into a replica, using my own master parameters to synthesize a cached master: {id}:{offset}"
        ));
    } else {
        engine.journal.set_end(offset);
        if !planted::has(Fault::KeepsId) {
            ids.shift(primary::new_replication_id(engine), offset);
        }
        // Replicas that had the same stream get time to connect.
        engine.replication.replicas.seen_ms.store(now.monotonic_ms(), Ordering::Relaxed);
    }
    engine.journal.keep_backlog(engine.config.memory(Opt::ReplBacklogSize));
}

/// Returns the path of the file beside the AOF that states its final position.
pub fn closing_place_path(engine: &Engine) -> PathBuf {
    let name = String::from_utf8_lossy(&engine.config.text(Opt::Appendfilename)).into_owned();
    engine.persistence.aof.folder_path(engine).join(format!("{name}.stream"))
}

/// Writes the final position of the AOF, which has been closed and fsynced, into the file beside it.
pub fn keep_closing_place(engine: &Engine) {
    let position = engine.journal.position();
    let Some(place) = place_at(engine, position).filter(|place| engine.journal.synced() == place.offset) else {
        return;
    };
    let (path, folder) = (closing_place_path(engine), engine.persistence.aof.folder_path(engine));
    let beside = path.with_extension("stream.temp");
    let kept = engine.persistence.disk.open(&beside, Open::Create).and_then(|file| {
        file.append(&[IoSlice::new(place.to_line().as_bytes())])?;
        file.sync()?;
        engine.persistence.disk.rename(&beside, &path)?;
        engine.persistence.disk.sync_folder(&folder)
    });
    if let Err(error) = kept {
        log::warning(&format!("Replicas will need all data after the next start: {}", reason(&error)));
    }
}

/// Returns the final position of the AOF, if the file beside it states one.
pub fn closing_place(engine: &Engine) -> Option<Place> {
    let line = read_small(&*engine.persistence.disk, &closing_place_path(engine), FILE_BYTES_MAX);
    line.ok().and_then(|line| Place::of_line(&line))
}

/// Removes the file beside the AOF that states its final position, and returns that position, if there is one. The AOF is
/// about to be written again.
pub fn take_closing_place(engine: &Engine) -> Option<Place> {
    let path = closing_place_path(engine);
    let line = read_small(&*engine.persistence.disk, &path, FILE_BYTES_MAX);
    let is_kept = planted::has(Fault::KeepsId);
    let removed = line.as_ref().ok().filter(|_| !is_kept).map_or(Ok(()), |_| {
        engine.persistence.disk.remove(&path)?;
        engine.persistence.disk.sync_folder(&engine.persistence.aof.folder_path(engine))
    });
    match (line, removed) {
        (Ok(line), Ok(())) => Place::of_line(&line),
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => None,
        (Err(error), _) | (_, Err(error)) => {
            log::warning(&format!("Cannot take {} away: {}", path.display(), reason(&error)));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_a_log_is_read_as_it_was_written_or_not_at_all() {
        let place = Place { id: Id::of_bytes([7; 20]), offset: 1_234, database: 9 };
        let line = place.to_line();
        assert_eq!(Place::of_line(line.as_bytes()), Some(place));
        for at in 0..line.len() {
            let mut damaged = line.clone().into_bytes();
            damaged[at] ^= 1;
            assert_eq!(Place::of_line(&damaged), None, "byte {at}");
            assert_eq!(Place::of_line(&line.as_bytes()[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn a_place_is_one_when_all_of_it_was_said() {
        let (mut read, id) = (PlaceRead::default(), "ab".repeat(20));
        assert!(!read.take(b"redis-ver", b"7.0.15") && read.take(b"repl-stream-db", b"3"));
        assert!(read.take(b"repl-offset", b"0") && read.place().is_none());
        assert!(read.take(b"repl-id", id.as_bytes()));
        let place = read.place().expect("all of it");
        assert_eq!((place.id.as_str(), place.offset, place.database), (id.as_str(), 0, 3));
        // Servers before Redis 5 wrote this if no database was selected.
        assert!(read.take(b"repl-stream-db", b"-1") && read.place().is_none());
    }
}
