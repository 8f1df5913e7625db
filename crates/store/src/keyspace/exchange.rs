//! Replaces the contents of a store, all at once: the data is loaded anew, and the old contents come back if that fails.
//!
//! A [`Store::sibling`] hashes as its store does, so that whole shards can change places. It belongs to the code that made
//! it.

use crate::keyspace::Store;
use crate::keyspace::locks::Locked;
use crate::keyspace::shard::Shard;
use crate::table::entry::handle::EntryRef;

/// A key that two stores have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The database.
    pub database: usize,
    /// The key.
    pub key: Box<[u8]>,
}

impl Store {
    /// Returns an empty store to exchange contents with.
    pub fn sibling(&self) -> Self {
        Self::placed(self.placement, self.shards(), self.databases())
    }

    /// Exchanges the contents of this store and of its sibling, in a time that does not depend on the number of keys. The
    /// caller has locked all shards of this store.
    ///
    /// # Panics
    /// If `other` is no sibling, or not all shards are locked.
    pub fn exchange(&self, all: &mut Locked<'_>, other: &Self) {
        assert!(self.hash_key() == other.hash_key() && self.shards() == other.shards(), "siblings hash alike");
        assert!(self.is_by_slot() == other.is_by_slot(), "siblings are placed alike");
        for shard in 0..self.shards() {
            std::mem::swap(all.shard_mut(shard), &mut *other.lock(shard));
        }
    }
}

/// Returns a key that is both in this shard and in the same shard of a sibling.
pub fn shared_key(shard: &Shard, other: &Shard) -> Option<Shared> {
    (0..other.databases()).find_map(|database| {
        let mut shared = None;
        other.for_each(database, |entry| {
            if shared.is_none() && has(shard, database, &entry) {
                shared = Some(Shared { database, key: entry.key().into() });
            }
        });
        shared
    })
}

fn has(shard: &Shard, database: usize, entry: &EntryRef<'_>) -> bool {
    shard.get(database, shard.placement.key(entry.key()), i64::MIN).is_some()
}

/// Takes over the keys of the same shard of a sibling that are not in this one.
pub fn absorb(shard: &mut Shard, other: &mut Shard) {
    for database in 0..other.databases() {
        let mut missing: Vec<Box<[u8]>> = Vec::new();
        other.for_each(database, |entry| {
            if !has(shard, database, &entry) {
                missing.push(entry.key().into());
            }
        });
        for name in missing {
            let key = shard.placement.key(&name);
            if let Some(entry) = other.take(database, key) {
                drop(shard.put(database, key, entry, i64::MIN));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Options;
    use crate::keyspace::shard::Moment;
    use crate::value::{Deadline, Value, ValueRef};

    fn store(keys: &[(usize, &str, &str)]) -> Store {
        let store = Store::new(Options { shards: 4, ..Options::new([7; 16]) });
        keys.iter().for_each(|&(database, key, value)| set(&store, database, key, value));
        store
    }

    fn set(store: &Store, database: usize, key: &str, value: &str) {
        let (key, moment) = (store.key(key.as_bytes()), Moment { now_ms: 0, clock: 0 });
        let value = Value::Plain(value.as_bytes());
        drop(store.lock_of(key.hash).set(database, key, &value, Deadline::At(99), moment));
    }

    fn get(store: &Store, database: usize, key: &str) -> Option<Vec<u8>> {
        let key = store.key(key.as_bytes());
        let shard = store.lock_of(key.hash);
        let entry = shard.get(database, key, 0)?;
        assert_eq!(entry.deadline(), Some(99));
        let ValueRef::Bytes(bytes) = entry.value() else { panic!("no integer was set") };
        Some(bytes.to_vec())
    }

    #[test]
    fn contents_change_places_and_back() {
        let store = store(&[(0, "a", "one"), (3, "b", "two")]);
        let other = store.sibling();
        store.exchange(&mut store.lock_all(), &other);
        assert_eq!((store.len(0), store.len(3), other.len(0), other.len(3)), (0, 0, 1, 1));
        set(&store, 0, "a", "new");
        store.exchange(&mut store.lock_all(), &other);
        assert_eq!((get(&store, 0, "a"), get(&store, 3, "b")), (Some(b"one".to_vec()), Some(b"two".to_vec())));
        assert_eq!(get(&other, 0, "a"), Some(b"new".to_vec()));
    }

    #[test]
    fn missing_keys_are_taken_over_and_present_ones_stay() {
        let (store, words) = (store(&[]), (0..300).map(|number| format!("key {number}")).collect::<Vec<_>>());
        let other = store.sibling();
        let find_shared =
            |store: &Store| (0..store.shards()).find_map(|shard| shared_key(&store.lock(shard), &other.lock(shard)));
        words.iter().for_each(|word| set(&other, 2, word, "old"));
        assert_eq!(find_shared(&store), None);
        words.iter().step_by(3).for_each(|word| set(&store, 2, word, "new"));
        set(&store, 0, &words[1], "of another database");
        assert!(find_shared(&store).is_some_and(|shared| shared.database == 2));
        (0..store.shards()).for_each(|shard| absorb(&mut store.lock(shard), &mut other.lock(shard)));
        assert_eq!((store.len(2), other.len(2)), (300, 100));
        for (number, word) in words.iter().enumerate() {
            let wanted = if number % 3 == 0 { b"new" } else { b"old" };
            assert_eq!(get(&store, 2, word).as_deref(), Some(&wanted[..]), "{word}");
        }
    }
}
