//! Puts the records of a batch into a store.
//!
//! First the inserter reads all records and hashes their keys, with no lock. Then it puts them under their keys, shard by
//! shard, and prefetches the places of the records that follow. A shard that another thread holds is left for later, so that
//! threads with a batch each do not wait for one another as long as there is something else to do. A thread has an
//! [`Inserter`] of its own; the store is shared.

use std::fmt;
use std::sync::Arc;

use crate::keyspace::Store;
use crate::keyspace::locks::ShardGuard;
use crate::keyspace::shard::Shard;
use crate::memory::prefetch::PrefetchStep;
use crate::rdb::file::batch::{Content, Decoded, Made};
use crate::rdb::file::fault::REDACTED;
use crate::rdb::file::{Access, Batch, Error, KeyRecord, Odd, Oddity};
use crate::rdb::{Destination, Limits, Loaded};
use crate::table::entry::body::{Body, INLINE_MAX};
use crate::value::Value;
use crate::value::collection::Collection;
use crate::value::key_hash::{Hash, Key};

/// The number of keys by which the segment of a key is prefetched ahead, and its bucket half as many. The entry is not
/// prefetched: it does not exist yet.
const AHEAD: usize = 16;

/// Puts batches into a store. It keeps its buffers to use them again.
pub struct Inserter {
    limits: Limits,
    now_ms: i64,
    records: Vec<Record>,
    made: Made,
    /// The records by their shards, and for each shard the end of its own records.
    order: Vec<u32>,
    ends: Vec<usize>,
    /// The shards with records that are still to be inserted.
    shards: Vec<usize>,
}

/// A record that waits for its shard.
#[derive(Clone, Copy)]
struct Record {
    hash: Hash,
    decoded: Decoded,
}

/// The outcome of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Keys that are in the store now.
    pub keys: u64,
    /// Keys that have expired, and hashes with only expired fields: they are not in the store.
    pub expired: u64,
    /// Records that were left out because their collections are empty, and those in which something was put right.
    pub odd: Vec<Oddity>,
}

impl Inserter {
    /// Returns an inserter that keeps values as `limits` say, and leaves out keys that are expired at `now_ms`.
    pub fn new(limits: Limits, now_ms: i64) -> Self {
        let (records, made, order, ends, shards) = Default::default();
        Self { limits, now_ms, records, made, order, ends, shards }
    }

    /// Empties a batch into a store. `clock` returns a key's access clock. The calling thread holds no shard's lock.
    ///
    /// # Errors
    /// [`LoadError`], the first in the order of the file. The records in front of it, and some of those behind, are in the
    /// store.
    pub fn insert(
        &mut self,
        store: &Store,
        batch: &mut Batch,
        clock: &dyn Fn(Access) -> u32,
    ) -> Result<Inserted, LoadError> {
        let database = batch.database();
        if database >= store.databases() && !batch.is_empty() {
            return Err(LoadError::Database { offset: batch.offset(0), database });
        }
        if let Some(record) = batch.take_large() {
            return self.insert_large(store, record, clock);
        }
        let mut inserted = Inserted::default();
        let mut failed = self.decode(store, batch, &mut inserted).err();
        self.sort(store);
        let fresh = clock(Access::Unknown);
        let clock = |access: Access| if access == Access::Unknown { fresh } else { clock(access) };
        while let Some((index, mut shard)) = self.next_shard(store) {
            if let Err(error) = self.insert_into(&mut shard, index, batch, &clock) {
                let is_first = failed.as_ref().is_none_or(|failed| error.offset() < failed.offset());
                failed = if is_first { Some(error) } else { failed };
            }
        }
        inserted.keys = self.records.len() as u64;
        inserted.odd = std::mem::take(&mut self.made.odd);
        self.records.clear();
        self.made.clear();
        batch.clear();
        failed.map_or(Ok(inserted), Err)
    }

    /// Reads the records and hashes their keys.
    fn decode(&mut self, store: &Store, batch: &Batch, inserted: &mut Inserted) -> Result<(), LoadError> {
        let Self { limits, now_ms, records, made, .. } = self;
        let decoded = batch.decode(limits, made, |key, decoded| {
            records.push(Record { hash: store.hash(key), decoded });
        });
        let is_kept = |record: &Record| {
            let is_over = batch.prefix(record.decoded.at).deadline.is_some_and(|deadline| *now_ms > deadline);
            !is_over
                && !matches!(record.decoded.content, Content::Loaded(at) if made.loaded[at as usize].as_ref().is_some_and(Loaded::is_over))
        };
        let read = records.len();
        records.retain(is_kept);
        inserted.expired = (read - records.len()) as u64;
        decoded.map_err(LoadError::File)
    }

    /// Inserts a record that is too large for a batch.
    fn insert_large(
        &mut self,
        store: &Store,
        record: KeyRecord,
        clock: &dyn Fn(Access) -> u32,
    ) -> Result<Inserted, LoadError> {
        let KeyRecord { database, key, deadline, access, value, correction, offset } = record;
        if deadline.is_some_and(|deadline| self.now_ms > deadline) || value.is_over() {
            return Ok(Inserted { expired: 1, ..Inserted::default() });
        }
        let odd = correction.map(|correction| Oddity {
            offset,
            database,
            key: key.clone(),
            what: Odd::Corrected(correction),
        });
        let named = store.key(&key);
        let mut shard = store.lock_of(named.hash);
        let clock = clock(access);
        match value.put(UnderKey { shard: &mut shard, database, key: named, deadline, clock }) {
            true => Ok(Inserted { keys: 1, expired: 0, odd: odd.into_iter().collect() }),
            false => Err(LoadError::Twice { offset, database, key }),
        }
    }

    /// Brings the records into the order of their shards.
    fn sort(&mut self, store: &Store) {
        let Self { records, order, ends, shards, .. } = self;
        ends.clear();
        ends.resize(store.shards(), 0);
        records.iter().for_each(|record| ends[store.shard_of(record.hash)] += 1);
        shards.clear();
        shards.extend((0..ends.len()).filter(|&shard| ends[shard] > 0));
        let mut begin = 0;
        for end in ends.iter_mut() {
            begin += std::mem::replace(end, begin);
        }
        order.clear();
        order.resize(records.len(), 0);
        for (at, record) in records.iter().enumerate() {
            let end = &mut ends[store.shard_of(record.hash)];
            order[*end] = at as u32;
            *end += 1;
        }
    }

    /// Returns one of the remaining shards: one with a free lock, if there is any.
    fn next_shard<'s>(&mut self, store: &'s Store) -> Option<(usize, ShardGuard<'s>)> {
        let free = (0..self.shards.len()).rev().find_map(|at| Some((at, store.try_lock(self.shards[at])?)));
        match free {
            Some((at, guard)) => Some((self.shards.swap_remove(at), guard)),
            None => self.shards.pop().map(|shard| (shard, store.lock(shard))),
        }
    }

    /// Puts the records of a shard into it.
    fn insert_into(
        &mut self,
        shard: &mut Shard,
        index: usize,
        batch: &Batch,
        clock: &impl Fn(Access) -> u32,
    ) -> Result<(), LoadError> {
        let Self { records, made, order, ends, .. } = self;
        let begin = index.checked_sub(1).map_or(0, |before| ends[before]);
        let (group, database) = (&order[begin..ends[index]], batch.database());
        let prefetch = |shard: &Shard, place: usize, step: PrefetchStep| {
            if let Some(&later) = group.get(place) {
                shard.prefetch(database, &[records[later as usize].hash], step);
            }
        };
        (0..AHEAD).for_each(|place| prefetch(shard, place, PrefetchStep::Segment));
        (0..AHEAD / 2).for_each(|place| prefetch(shard, place, PrefetchStep::Bucket));
        for (place, &at) in group.iter().enumerate() {
            prefetch(shard, place + AHEAD, PrefetchStep::Segment);
            prefetch(shard, place + AHEAD / 2, PrefetchStep::Bucket);
            let Record { hash, decoded } = records[at as usize];
            let prefix = batch.prefix(decoded.at);
            let (deadline, clock) = (prefix.deadline, clock(prefix.access));
            let loaded = match decoded.content {
                Content::Loaded(value) => made.loaded[value as usize].take(),
                Content::Short(_) | Content::Integer(_) => None,
            };
            let key = Key { name: batch.text(made, decoded.key), hash };
            let is_new = match decoded.content {
                Content::Loaded(_) => {
                    loaded.is_none_or(|value| value.put(UnderKey { shard, database, key, deadline, clock }))
                }
                Content::Short(text) => {
                    let value = Value::Plain(batch.text(made, text));
                    shard.add(database, key, Body::new(&value), deadline, clock)
                }
                Content::Integer(number) => shard.add(database, key, Body::Integer(number), deadline, clock),
            };
            if !is_new {
                return Err(LoadError::Twice { offset: batch.offset(decoded.at), database, key: key.name.to_vec() });
            }
        }
        Ok(())
    }
}

/// The destination of a value that was read whole: a new key. The result is false if the key exists.
struct UnderKey<'a> {
    shard: &'a mut Shard,
    database: usize,
    key: Key<'a>,
    deadline: Option<i64>,
    clock: u32,
}

impl Destination for UnderKey<'_> {
    fn string(self, bytes: Vec<u8>) -> bool {
        let Self { shard, database, key, deadline, clock } = self;
        match bytes.len() <= INLINE_MAX {
            true => shard.add(database, key, Body::new(&Value::Plain(&bytes)), deadline, clock),
            false => shard.add(database, key, Body::Shared(Arc::new(bytes)), deadline, clock),
        }
    }

    fn collection<C: Collection>(self, collection: C) -> bool {
        let Self { shard, database, key, deadline, clock } = self;
        shard.add_collection(database, key, collection, deadline, clock)
    }
}

/// The reason why a file was not loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The file is damaged, cannot be read, or needs something that is not supported.
    File(Error),
    /// The file has keys of a database that the store does not have.
    Database {
        /// The byte of the file at which the keys of that database begin.
        offset: u64,
        /// The number of the database.
        database: usize,
    },
    /// The file has the same key twice.
    Twice {
        /// The byte of the file at which a record of this key begins. It is the key's second record, unless several threads
        /// load the file: then it may be the first.
        offset: u64,
        /// The number of the database.
        database: usize,
        /// The key.
        key: Vec<u8>,
    },
}

impl LoadError {
    /// Returns the byte at which the damage begins.
    pub fn offset(&self) -> u64 {
        match self {
            Self::File(error) => error.begins_at,
            Self::Database { offset, .. } | Self::Twice { offset, .. } => *offset,
        }
    }
}

impl LoadError {
    /// Leaves the name of the key out of the text, for a server log that must not contain users' data.
    pub fn hide_key(&mut self) {
        match self {
            Self::File(error) => error.hide_key(),
            Self::Twice { key, .. } => *key = REDACTED.to_vec(),
            Self::Database { .. } => {}
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(formatter, "{error}"),
            Self::Database { offset, database } => write!(
                formatter,
                "at byte {offset}: the file has keys in database {database}; set `databases` to more than {database}"
            ),
            Self::Twice { offset, database, key } => write!(
                formatter,
                "at byte {offset}: the key \"{}\" stands in database {database} twice",
                key.escape_ascii()
            ),
        }
    }
}

impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Options;
    use crate::keyspace::shard::Moment;
    use crate::rdb::file::{Format, Head, Writer};
    use crate::rdb::{Version, write_copied, write_entry};
    use crate::types::hash::Map;
    use crate::types::list::List;
    use crate::types::set::Set;
    use crate::types::sorted_set::SortedSet;
    use crate::value::Deadline;

    /// A function that puts a value under its key.
    type Put<'a> = &'a mut dyn FnMut(&mut Shard, Key<'_>);

    /// Returns a store with small values of every form that lies in an entry.
    fn filled() -> Store {
        let store = Store::new(Options { shards: 1, ..Options::new([5; 16]) });
        let (limits, moment) = (Limits::usual(store.hash_key()), Moment { now_ms: 0, clock: 0 });
        let words = |count: usize| (0..count).map(|number| format!("word {number}")).collect::<Vec<_>>();
        let put = |key: &str, put: Put<'_>| {
            let key = store.key(key.as_bytes());
            put(&mut store.lock_of(key.hash), key);
        };
        for (key, value) in
            [("integer", Value::Integer(-77)), ("whole", Value::Plain(b"text")), ("raw", Value::Raw(b"r"))]
        {
            put(key, &mut |shard, key| drop(shard.set(0, key, &value, Deadline::Clear, moment)));
        }
        put("list", &mut |shard, key| {
            let list = List::collect(words(5).iter().map(String::as_bytes), limits.list);
            drop(shard.set_collection(0, key, list, Deadline::Clear, moment));
        });
        for (key, is_integer) in [("set", false), ("integers", true)] {
            put(key, &mut |shard, key| {
                let mut set = Set::new(limits.hash_key);
                for (number, word) in words(9).iter().enumerate() {
                    set.add(if is_integer { number.to_string() } else { word.clone() }.as_bytes(), &limits.set);
                }
                drop(shard.set_collection(0, key, set, Deadline::At(99), moment));
            });
        }
        put("sorted", &mut |shard, key| {
            let mut set = SortedSet::new(limits.hash_key);
            words(9).iter().for_each(|word| _ = set.set(word.as_bytes(), 1.5, limits.sorted_set));
            drop(shard.set_collection(0, key, set, Deadline::Clear, moment));
        });
        for (key, wide, timed) in [("hash", "", false), ("wide", "w", false), ("timed", "", true), ("both", "w", true)]
        {
            put(key, &mut |shard, key| {
                let mut map = Map::new(limits.hash_key);
                for (number, word) in words(4).iter().enumerate() {
                    let deadline =
                        if timed && number % 2 == 0 { Deadline::At(5 + number as i64) } else { Deadline::Clear };
                    map.set(word.as_bytes(), wide.repeat(70).as_bytes(), deadline, limits.hash, 0);
                }
                drop(shard.set_collection(0, key, map, Deadline::Clear, moment));
            });
        }
        store
    }

    #[test]
    fn what_was_copied_out_of_an_entry_is_written_as_the_entry_is() {
        let store = filled();
        let (locked, mut forms) = (store.lock_all(), Vec::new());
        for version in [Version::Ten, Version::Twelve, Version::Valkey80] {
            let format = Format { version, is_compressing: true, is_summing: true };
            let (mut whole, mut copied) = (Writer::new(format), Writer::new(format));
            locked.shard(0).for_each(0, |entry| {
                let head = Head { key: entry.key(), deadline: entry.deadline(), access: Access::Unknown };
                write_entry(whole.record(&head), &entry, 6);
                let body = entry.copy_body();
                let number;
                let bytes = match &body {
                    Body::Integer(integer) => {
                        number = integer.to_ne_bytes();
                        &number
                    }
                    Body::Whole(bytes) | Body::Edited(bytes) | Body::Packed(_, bytes) => *bytes,
                    _ => panic!("a small value lies in its entry"),
                };
                write_copied(copied.record(&head), body.form(), bytes, 6);
                forms.push(body.form());
            });
            assert_eq!(whole.drain(<[u8]>::to_vec), copied.drain(<[u8]>::to_vec));
        }
        forms.dedup();
        assert!(forms.len() >= 11, "every form that lies in an entry is there");
    }
}
