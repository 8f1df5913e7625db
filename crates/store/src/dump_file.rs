//! What was read of a file put into a store, key by key or a batch of keys at a time.
//!
//! The caller reads the file (`rdb::file`), perhaps in another thread, and holds the locks of the shards.

use std::fmt;
use std::sync::Arc;

use crate::keyspace::Store;
use crate::keyspace::locks::Locked;
use crate::keyspace::shard::{Moment, Previous, Shard};
use crate::memory::prefetch::Step;
use crate::rdb::file::{Access, Batch, BatchKey, BatchValue};
use crate::rdb::read::Loaded;
use crate::table::entry::body::INLINE_MAX;
use crate::value::collection::Collection;
use crate::value::key_hash::Hash;
use crate::value::{Deadline, Value};

/// Puts a value that was read under its key; what was there before. A hash without fields changes nothing.
pub fn insert(
    shard: &mut Shard,
    database: usize,
    (hash, key): (Hash, &[u8]),
    value: BatchValue<'_>,
    deadline: Option<i64>,
    moment: Moment,
) -> Previous {
    let (deadline, place) = (deadline.map_or(Deadline::Clear, Deadline::At), (hash, key));
    let (previous, garbage) = match value {
        BatchValue::Short(bytes) => shard.set(database, hash, key, &Value::Plain(bytes), deadline, moment),
        BatchValue::Loaded(Loaded::String(bytes)) if bytes.len() <= INLINE_MAX => {
            shard.set(database, hash, key, &Value::Plain(&bytes), deadline, moment)
        }
        BatchValue::Loaded(Loaded::String(bytes)) => {
            shard.set(database, hash, key, &Value::Shared(Arc::new(bytes)), deadline, moment)
        }
        BatchValue::Loaded(Loaded::List(list)) => shard.set_collection(database, place, list, deadline, moment),
        BatchValue::Loaded(Loaded::Set(set)) => shard.set_collection(database, place, set, deadline, moment),
        BatchValue::Loaded(Loaded::Hash(map)) if map.is_empty() => return Previous::Missing,
        BatchValue::Loaded(Loaded::Hash(map)) => shard.set_collection(database, place, map, deadline, moment),
        BatchValue::Loaded(Loaded::SortedSet(set)) => shard.set_collection(database, place, set, deadline, moment),
        BatchValue::Loaded(Loaded::Stream(stream)) => shard.set_collection(database, place, stream, deadline, moment),
    };
    drop(garbage);
    previous
}

/// So many keys ahead the place of a key in its table is asked for.
const AHEAD: usize = 8;

/// Puts the keys of a batch into a store whose shards are locked, and empties it. Keys whose time is over at `moment` are left
/// out; `clock` says what a key's access clock is. Returns how many keys were put there.
///
/// # Errors
/// [`LoadError`] at a database that the store has not, and at a key that is there already; what stands in front of it was
/// put there.
pub fn insert_batch(
    store: &Store,
    locked: &mut Locked<'_>,
    batch: &mut Batch,
    now_ms: i64,
    clock: &dyn Fn(Access) -> u32,
) -> Result<u64, LoadError> {
    let place = |key: BatchKey<'_>| (key.database, store.hash(key.key));
    let places: Vec<(usize, Hash)> = (0..batch.len()).map(|at| place(batch.key(at))).collect();
    let prefetch = |locked: &Locked<'_>, at: usize, step: Step| {
        if let Some(&(database, hash)) = places.get(at) {
            locked.shard(store.shard_of(hash)).prefetch(database, hash, step);
        }
    };
    (0..places.len()).for_each(|at| prefetch(locked, at, Step::Segment));
    let (mut keys, mut at, mut failed) = (0, 0, None);
    batch.drain(|key, value| {
        let (database, hash) = places[at];
        prefetch(locked, at + AHEAD, Step::Bucket);
        prefetch(locked, at + AHEAD / 2, Step::Entry);
        at += 1;
        if failed.is_some() || key.deadline.is_some_and(|deadline| now_ms > deadline) {
            return;
        }
        let offset = key.offset;
        if database >= store.databases() {
            failed = Some(LoadError::Database { offset, database });
            return;
        }
        let moment = Moment { now_ms, clock: clock(key.access) };
        let shard = locked.shard_mut(store.shard_of(hash));
        match insert(shard, database, (hash, key.key), value, key.deadline, moment) {
            Previous::Live => failed = Some(LoadError::Twice { offset, database, key: key.key.to_vec() }),
            Previous::Missing | Previous::Expired => keys += 1,
        }
    });
    failed.map_or(Ok(keys), Err)
}

/// Why a key of a file was not put into the store.
#[derive(Debug)]
pub enum LoadError {
    /// The file has keys of a database that the store has not.
    Database {
        /// The byte at which they begin.
        offset: u64,
        /// Which database.
        database: usize,
    },
    /// A key stands in the file twice.
    Twice {
        /// The byte at which it stands for the second time.
        offset: u64,
        /// Which database.
        database: usize,
        /// The key.
        key: Vec<u8>,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
    use crate::rdb::Version;
    use crate::rdb::file::{Format, Head, Writer};
    use crate::rdb::read::Limits;
    use crate::table::entry::body::Body;
    use crate::types::hash::Map;
    use crate::types::list::List;
    use crate::types::set::Set;
    use crate::types::sorted_set::SortedSet;

    /// What puts a value under its key.
    type Put<'a> = &'a mut dyn FnMut(&mut Shard, (Hash, &[u8]));

    /// Small values of every form that lies in an entry.
    fn filled() -> Store {
        let store = Store::new(Options { shards: 1, ..Options::new([5; 16]) });
        let (limits, moment) = (Limits::usual(store.hash_key()), Moment { now_ms: 0, clock: 0 });
        let words = |count: usize| (0..count).map(|number| format!("word {number}")).collect::<Vec<_>>();
        let put = |key: &str, put: Put<'_>| {
            let hash = store.hash(key.as_bytes());
            put(&mut store.lock_of(hash), (hash, key.as_bytes()));
        };
        for (key, value) in
            [("integer", Value::Integer(-77)), ("whole", Value::Plain(b"text")), ("raw", Value::Raw(b"r"))]
        {
            put(key, &mut |shard, (hash, key)| drop(shard.set(0, hash, key, &value, Deadline::Clear, moment)));
        }
        put("list", &mut |shard, place| {
            let list = List::collect(words(5).iter().map(String::as_bytes), limits.list);
            drop(shard.set_collection(0, place, list, Deadline::Clear, moment));
        });
        for (key, is_integer) in [("set", false), ("integers", true)] {
            put(key, &mut |shard, place| {
                let mut set = Set::new(limits.hash_key);
                for (number, word) in words(9).iter().enumerate() {
                    set.add(if is_integer { number.to_string() } else { word.clone() }.as_bytes(), &limits.set);
                }
                drop(shard.set_collection(0, place, set, Deadline::At(99), moment));
            });
        }
        put("sorted", &mut |shard, place| {
            let mut set = SortedSet::new(limits.hash_key);
            words(9).iter().for_each(|word| _ = set.set(word.as_bytes(), 1.5, limits.sorted_set));
            drop(shard.set_collection(0, place, set, Deadline::Clear, moment));
        });
        for (key, wide, timed) in [("hash", "", false), ("wide", "w", false), ("timed", "", true), ("both", "w", true)]
        {
            put(key, &mut |shard, place| {
                let mut map = Map::new(limits.hash_key);
                for (number, word) in words(4).iter().enumerate() {
                    let deadline =
                        if timed && number % 2 == 0 { Deadline::At(5 + number as i64) } else { Deadline::Clear };
                    map.set(word.as_bytes(), wide.repeat(70).as_bytes(), deadline, limits.hash, 0);
                }
                drop(shard.set_collection(0, place, map, Deadline::Clear, moment));
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
                whole.record(&head).entry(&entry, 6);
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
                copied.record(&head).raw(body.form(), bytes, 6);
                forms.push(body.form());
            });
            assert_eq!(whole.drain(<[u8]>::to_vec), copied.drain(<[u8]>::to_vec));
        }
        forms.dedup();
        assert!(forms.len() >= 11, "every form that lies in an entry is there");
    }
}
