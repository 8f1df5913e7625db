//! Going on after a restart where the data that was loaded stands in a stream.
//!
//! A snapshot says of which stream it is, at which offset it stands and which database is selected there, in the words of
//! Redis's. A log that was synced to its end says so in a file beside it ([`Engine::keep_closing_place`]), which is read once:
//! a log that has been written since has no such file. So nothing is ever continued but data that is equal by what is written:
//! where a process died, what it had beyond its snapshot or its log is in no place that is known.
//!
//! A replica goes on under the same id, if its primary still has what comes next. A primary begins a new id and keeps the one
//! that was loaded as second: replicas that stand at that place go on, and those that are ahead of it do not.
//!
//! Whoever starts or ends the server calls this, while nobody is served.

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
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::planted::{self, Fault};

/// Bytes that the file beside a log has at most: an id, two numbers and a sum.
const FILE_BYTES_MAX: u64 = 128;

/// What a snapshot has said of its place so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlaceRead {
    id: Option<Id>,
    offset: Option<u64>,
    /// The database that is selected there.
    pub database: Option<u32>,
}

impl PlaceRead {
    /// Takes in a field; whether it is about the place.
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

    /// The place, if all of it was said.
    pub fn place(&self) -> Option<Place> {
        Some(Place { id: self.id?, offset: self.offset?, database: self.database? })
    }
}

impl Place {
    /// Writes it in front of the keys of a snapshot.
    pub fn write(&self, writer: &mut Writer) {
        writer.aux("repl-stream-db", i64::from(self.database));
        writer.aux("repl-id", self.id.as_str().as_bytes());
        writer.aux("repl-offset", self.offset.min(i64::MAX as u64) as i64);
    }

    /// What stands in the file beside a log.
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

impl Engine {
    /// Where the data stands in the stream to replicas, if the journal's position is this one; none where there is no stream. All
    /// shards are locked, or nobody is served.
    pub fn place_at(&self, (offset, database): (u64, u32)) -> Option<Place> {
        // Behind the position: else the stream might have got another name in between, and gone on under that.
        let id = self.replication.ids.id();
        self.journal.is_streamed().then_some(Place { id, offset, database })
    }

    /// Has the stream to replicas go on at a place, at which the data stands that has been loaded. No log is open yet.
    pub fn resume_stream(&self, place: Place, now: Instant) {
        let Place { id, offset, database } = place;
        let (ids, role) = (&self.replication.ids, &self.replication.role);
        ids.renew(id);
        if role.is_replica() {
            self.journal.begin_copy(offset, database);
            role.allow_continuing();
            log::notice(&format!(
                "Before turning into a replica, using my own master parameters to synthesize a cached master: {id}:{offset}"
            ));
        } else {
            self.journal.set_end(offset);
            if !planted::has(Fault::KeepsId) {
                ids.shift(self.new_replication_id(), offset);
            }
            // Those who had the same are given time to come.
            self.replication.replicas.seen_ms.store(now.monotonic_ms(), Ordering::Relaxed);
        }
        self.journal.keep_backlog(self.config.memory(Opt::ReplBacklogSize));
    }

    /// The file beside the log.
    pub fn closing_place_path(&self) -> PathBuf {
        let name = String::from_utf8_lossy(&self.config.text(Opt::Appendfilename)).into_owned();
        self.log_folder().join(format!("{name}.stream"))
    }

    /// Says beside the log, which has been closed and is on the disk, where it stands in the stream.
    pub fn keep_closing_place(&self) {
        let position = self.journal.position();
        let Some(place) = self.place_at(position).filter(|place| self.journal.synced() == place.offset) else { return };
        let (path, folder) = (self.closing_place_path(), self.log_folder());
        let beside = path.with_extension("stream.temp");
        let kept = self.disk.open(&beside, Open::Create).and_then(|file| {
            file.append(&[IoSlice::new(place.to_line().as_bytes())])?;
            file.sync()?;
            self.disk.rename(&beside, &path)?;
            self.disk.sync_folder(&folder)
        });
        if let Err(error) = kept {
            log::warning(&format!("Replicas will need all data after the next start: {}", reason(&error)));
        }
    }

    /// Where the log ended when it was closed, if that stands beside it.
    pub fn closing_place(&self) -> Option<Place> {
        let line = read_small(&*self.disk, &self.closing_place_path(), FILE_BYTES_MAX);
        line.ok().and_then(|line| Place::of_line(&line))
    }

    /// Takes away what stands beside the log, which is about to be written again: where it ends, if it was closed.
    pub fn take_closing_place(&self) -> Option<Place> {
        let path = self.closing_place_path();
        let line = read_small(&*self.disk, &path, FILE_BYTES_MAX);
        let is_kept = planted::has(Fault::KeepsId);
        let removed = line.as_ref().ok().filter(|_| !is_kept).map_or(Ok(()), |_| {
            self.disk.remove(&path)?;
            self.disk.sync_folder(&self.log_folder())
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
        // Servers before Redis 5 have said so where none was selected.
        assert!(read.take(b"repl-stream-db", b"-1") && read.place().is_none());
    }
}
