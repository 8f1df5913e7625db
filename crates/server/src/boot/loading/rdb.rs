//! Keeping what stands in a snapshot: one thread decodes, this one keeps.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_store::rdb::file::{Access, Batch, BatchKey, BatchValue, Event, Reader};
use sleeve_store::{Moment, Previous, dump_file};

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::keyspace::key_clock;
use crate::execute::replay::Replay;
use crate::host::clock::Instant;

/// Where a snapshot comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A file of its own: keys whose time is over are left out.
    Snapshot,
    /// The base of a log, in which nothing expires before the log says so.
    Base,
}

/// Where a snapshot ends.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Bytes of it.
    pub bytes: u64,
    /// The journal's offset that it stands for, if it says so.
    pub stands_for: Option<u64>,
}

/// Bytes of a snapshot that one thread has decoded before the other keeps them.
const BATCH_BYTES: usize = 256 << 10;

/// Batches on their way.
const BATCHES: usize = 4;

/// What the thread that decodes gives to the one that keeps.
enum Parcel {
    Keys(Batch),
    Function(Vec<u8>),
    Aux { name: Vec<u8>, value: Vec<u8> },
    End(u64),
    Bad(String),
}

impl Engine {
    /// Loads a snapshot.
    ///
    /// # Errors
    /// What is wrong with it, and at which byte. Some of it may be loaded then.
    pub(super) fn load_rdb(
        &self,
        replay: &mut Replay,
        source: impl Read + Send,
        origin: Origin,
    ) -> Result<End, String> {
        let now = Instant::now();
        let now_ms = if origin == Origin::Base { i64::MIN } else { now.wall_ms() };
        let mut reader = Reader::new(source, self.limits(now_ms));
        if !self.config.flag(Opt::Rdbchecksum) {
            reader.trust_sum();
        }
        let (parcels, incoming) = sync_channel(BATCHES);
        let (empties, spare) = sync_channel(BATCHES);
        std::thread::scope(|scope| {
            scope.spawn(move || decode(reader, &parcels, &spare));
            Keeper { engine: self, replay, now, now_ms, stands_for: None }.keep(incoming, &empties)
        })
    }
}

/// Decodes a snapshot until it ends or is bad, or nobody wants more of it.
fn decode<R: Read>(mut reader: Reader<R>, parcels: &SyncSender<Parcel>, spare: &Receiver<Batch>) {
    loop {
        let mut batch = spare.try_recv().unwrap_or_default();
        let next = reader.next_batch(&mut batch, BATCH_BYTES);
        if !batch.is_empty() && parcels.send(Parcel::Keys(batch)).is_err() {
            return;
        }
        let parcel = match next {
            Ok(None | Some(Event::Select(_) | Event::Sizes { .. } | Event::Key(_))) => continue,
            Ok(Some(Event::Function(code))) => Parcel::Function(code),
            Ok(Some(Event::Aux { name, value })) => Parcel::Aux { name, value },
            Ok(Some(Event::End)) => Parcel::End(reader.offset()),
            Err(error) => Parcel::Bad(error.to_string()),
        };
        let is_last = matches!(parcel, Parcel::End(_) | Parcel::Bad(_));
        if parcels.send(parcel).is_err() || is_last {
            return;
        }
    }
}

/// Keeps what was decoded.
struct Keeper<'a> {
    engine: &'a Engine,
    replay: &'a mut Replay,
    now: Instant,
    /// The time at which keys must not be over.
    now_ms: i64,
    stands_for: Option<u64>,
}

impl Keeper<'_> {
    /// Takes all that comes. Where it ends early, so does the other thread, because nobody takes its parcels any more.
    fn keep(&mut self, incoming: Receiver<Parcel>, empties: &SyncSender<Batch>) -> Result<End, String> {
        loop {
            let parcel = incoming.recv().map_err(|_| "the thread that decodes has ended".to_owned())?;
            match parcel {
                Parcel::Keys(mut batch) => {
                    self.keep_batch(&mut batch)?;
                    // Where there are enough of them, it goes.
                    _ = empties.try_send(batch);
                }
                Parcel::Function(code) => self.load_library(&code)?,
                Parcel::Aux { name, value } if name == BASE_OFFSET_FIELD.as_bytes() => {
                    self.stands_for = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                }
                Parcel::Aux { .. } => {}
                Parcel::End(bytes) => return Ok(End { bytes, stands_for: self.stands_for }),
                Parcel::Bad(why) => return Err(why),
            }
        }
    }

    fn load_library(&mut self, code: &[u8]) -> Result<(), String> {
        let length = format!("*4\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$7\r\nREPLACE\r\n${}\r\n", code.len());
        let request = [length.as_bytes(), code, b"\r\n"].concat();
        let loaded = self.replay.apply(&request, self.now);
        loaded.map(|_| ()).map_err(|refused| format!("a library of functions cannot be loaded: {}", refused.error))
    }

    fn keep_batch(&mut self, batch: &mut Batch) -> Result<(), String> {
        let delay_us = self.engine.config.number(Opt::KeyLoadDelay);
        let databases = self.engine.store.databases();
        let (mut loaded, mut expired, mut bad) = (0, 0, None);
        batch.drain(|key, value| {
            if key.database >= databases {
                let why = format!(
                    "at byte {}: it has keys in database {}, and there are {databases}",
                    key.offset, key.database
                );
                bad.get_or_insert(why);
            } else if key.deadline.is_some_and(|deadline| deadline < self.now_ms) {
                expired += 1;
            } else if self.keep_key(&key, value) {
                loaded += 1;
            } else {
                let name = key.key.escape_ascii();
                bad.get_or_insert(format!("at byte {}: the key \"{name}\" is there twice", key.offset));
            }
            if delay_us > 0 {
                std::thread::sleep(Duration::from_micros(delay_us as u64));
            }
        });
        self.engine.durability.loading.add_keys(loaded, expired);
        bad.map_or(Ok(()), Err)
    }

    /// Keeps a key; false if it was there.
    fn keep_key(&self, key: &BatchKey<'_>, value: BatchValue<'_>) -> bool {
        let (engine, config) = (self.engine, &self.engine.config);
        let hash = engine.store.hash(key.key);
        let clock = match key.access {
            Access::Unknown => key_clock::fresh(config, self.now),
            Access::Idle(seconds) => key_clock::idle_for(config, i64::try_from(seconds).unwrap_or(i64::MAX), self.now),
            Access::Frequency(count) => key_clock::used(config, u32::from(count), self.now),
        };
        let moment = Moment { now_ms: i64::MIN, clock };
        let mut shard = engine.store.lock_of(hash);
        dump_file::insert(&mut shard, key.database, (hash, key.key), value, key.deadline, moment) == Previous::Missing
    }
}
