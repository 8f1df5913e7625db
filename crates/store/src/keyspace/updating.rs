//! Collections that are changed under their keys, wherever they lie; keys that are added, in great numbers as a file is loaded;
//! and the removal of expired fields of hashes.
//!
//! Under the shard's lock. A key is looked for once, whether or not keys of its database have deadlines. A key that is added
//! counts as present even if it has expired, because no time is known there. The shard keeps the hashes with expiring fields in
//! the order in which they are due (`due`); a caller that knows the time takes one hash after the other, and removes a bounded
//! part of its fields.

use super::shard::{Moment, Shard, due_ms, forget_if_gone, with_body};
use crate::table::Lookup;
use crate::table::entry::body::Body;
use crate::table::entry::handle::{Change, EntryRef, Garbage};
use crate::types::hash::Map;
use crate::value::Deadline;
use crate::value::collection::Collection;
use crate::value::key_hash::{Hash, Key};

/// The result of changing a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated<R> {
    /// The result that the change returned.
    pub result: R,
    /// True if the collection became empty, so that the key was removed.
    pub emptied: bool,
    /// True if the key did not exist before.
    pub created: bool,
}

/// The error of a key that holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind;

/// Fields of one hash that were removed because they had expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredFields {
    /// The names of the fields; at least one.
    pub fields: Vec<Box<[u8]>>,
    /// True if the hash has no other fields, so that the key has been removed.
    pub emptied: bool,
}

impl Shard {
    /// Changes the collection under a key, which is made first if there is none; see [`Shard::update_present`]. The memory of
    /// an expired key that could vanish is returned too, to be freed.
    ///
    /// # Errors
    /// [`OtherKind`] when the key holds a value of another type; nothing is changed then.
    #[inline]
    pub fn update<C: Collection, R>(
        &mut self,
        db: usize,
        key: Key<'_>,
        moment: Moment,
        may_vanish: impl FnOnce() -> bool,
        renew: impl FnOnce(&EntryRef<'_>),
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<(Updated<R>, Option<Garbage>), OtherKind> {
        let mut change = Some(change);
        let mut once = |collection: &mut C| change.take().expect("a collection is changed once")(collection);
        let (is_there, expired) = match self.update_present(db, key, moment.now_ms, may_vanish, renew, &mut once)? {
            Lookup::Live(updated) => return Ok((updated, None)),
            Lookup::Missing => (false, None),
            Lookup::Expired(garbage) => (garbage.is_none(), garbage),
        };
        let hash_key = self.placement.hash_key;
        let mut collection = C::new(hash_key);
        let result = once(&mut collection);
        if collection.is_empty() {
            return Ok((Updated { result, emptied: false, created: false }, expired));
        }
        self.put_new(db, key.name, key.hash, collection, is_there, moment);
        Ok((Updated { result, emptied: false, created: true }, expired))
    }

    /// Puts a new collection under a key that has none. The words of the key are passed one by one, so that the path for an
    /// existing collection never writes them to memory.
    #[inline(never)]
    fn put_new<C: Collection>(
        &mut self,
        db: usize,
        name: &[u8],
        hash: Hash,
        collection: C,
        is_there: bool,
        moment: Moment,
    ) {
        let key = Key { name, hash };
        if is_there {
            // The key has expired and was not removed: the new collection replaces it.
            drop(self.set_collection(db, key, collection, Deadline::Clear, moment));
        } else {
            self.insert_collection(db, key, collection, None, moment.clock);
        }
    }

    /// Changes the collection under a key, and removes the key if the collection is empty then. `renew` sees the entry before
    /// the change, for every type. A key that has expired is not changed, and is removed if `may_vanish` says so.
    ///
    /// # Errors
    /// [`OtherKind`] when the key holds a value of another type; nothing is changed then.
    #[inline]
    pub fn update_present<C: Collection, R>(
        &mut self,
        db: usize,
        key: Key<'_>,
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
        renew: impl FnOnce(&EntryRef<'_>),
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Lookup<Updated<R>>, OtherKind> {
        let position = self.placement.position(key.hash);
        let Some(table) = self.tables.get_mut(db) else { return Ok(Lookup::Missing) };
        let mut found = match table.lookup_occupied(position, key.name, now_ms, may_vanish) {
            Lookup::Live(found) => found,
            Lookup::Missing => return Ok(Lookup::Missing),
            Lookup::Expired(garbage) => {
                return Ok(Lookup::Expired(forget_if_gone(&mut self.due[db], key.hash, garbage)));
            }
        };
        let mut entry = found.entry();
        renew(&entry.view());
        let hash_key = self.placement.hash_key;
        let Change { result, is_empty, due_ms, needs_newest_format } =
            entry.update(hash_key, &mut self.scratch, change).ok_or(OtherKind)?;
        self.needs_newest_format |= needs_newest_format;
        if is_empty {
            self.due[db].forget(key.hash);
            drop(found.remove());
        } else if let Some(due_ms) = due_ms {
            self.due[db].announce(key.hash, key.name, due_ms);
        }
        Ok(Lookup::Live(Updated { result, emptied: is_empty, created: false }))
    }

    /// Returns whether some hash of a database may have expired fields.
    #[inline]
    pub fn has_due_fields(&self, db: usize, now_ms: i64) -> bool {
        self.due.get(db).is_some_and(|due| due.has_due(now_ms))
    }

    /// Returns whether the hash under this key may have expired fields.
    pub fn is_due(&self, db: usize, hash: Hash, now_ms: i64) -> bool {
        self.due.get(db).is_some_and(|due| due.is_due(hash, now_ms))
    }

    /// Takes the key of a hash that may have expired fields, with its hash value.
    pub fn pop_due(&mut self, db: usize, now_ms: i64) -> Option<(Hash, Box<[u8]>)> {
        self.due.get_mut(db)?.pop(now_ms)
    }

    /// Removes expired fields of a hash. It looks at some `budget` fields of a large hash, and at all fields of a small one.
    /// Returns none if no field has expired.
    pub fn expire_fields(&mut self, db: usize, key: Key<'_>, now_ms: i64, budget: usize) -> Option<ExpiredFields> {
        let mut fields = Vec::new();
        let expire = |map: &mut Map| map.expire(now_ms, budget, |field| fields.push(field.into()));
        let Ok(Lookup::Live(updated)) = self.update_present(db, key, now_ms, || false, |_| {}, expire) else {
            return None;
        };
        let emptied = updated.emptied;
        (!fields.is_empty()).then_some(ExpiredFields { fields, emptied })
    }

    /// Adds a key. Returns false, and changes nothing, if the key exists.
    #[inline]
    pub(crate) fn add(&mut self, db: usize, key: Key<'_>, body: Body<'_>, deadline: Option<i64>, clock: u32) -> bool {
        let position = self.placement.position(key.hash);
        let is_new = self.table_mut(db).find(position, key.name).is_none();
        if is_new {
            self.insert(db, key, body, deadline, clock);
        }
        is_new
    }

    /// Adds a key with a collection. Returns false, and changes nothing, if the key exists.
    pub(crate) fn add_collection<C: Collection>(
        &mut self,
        db: usize,
        key: Key<'_>,
        collection: C,
        deadline: Option<i64>,
        clock: u32,
    ) -> bool {
        self.needs_newest_format |= collection.needs_newest_format();
        with_body(collection, |body| self.add(db, key, body, deadline, clock))
    }

    /// Adds a key with a collection. The caller has checked that the key does not exist.
    pub(super) fn insert_collection<C: Collection>(
        &mut self,
        db: usize,
        key: Key<'_>,
        collection: C,
        deadline: Option<i64>,
        clock: u32,
    ) {
        self.needs_newest_format |= collection.needs_newest_format();
        with_body(collection, |body| self.insert(db, key, body, deadline, clock));
    }

    #[inline]
    fn insert(&mut self, db: usize, key: Key<'_>, body: Body<'_>, deadline: Option<i64>, clock: u32) {
        let position = self.placement.position(key.hash);
        let due_ms = due_ms(&body);
        self.table_mut(db).insert(position, key.name, body, deadline, clock);
        if let Some(due_ms) = due_ms {
            self.due[db].announce(key.hash, key.name, due_ms);
        }
    }
}
