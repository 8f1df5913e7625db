//! A shard: the part of the keyspace behind one lock, with a table for each database.
//!
//! Commands do everything with keys through this file. The shard knows deadlines: a key with a deadline before the `now_ms`
//! that the caller passes has expired but is still there, and the caller decides whether to remove it or to hide it. Time and
//! access clocks are arguments; nothing here reads a clock. Callers hold the shard's lock and name a [`Key`], which
//! [`Store::key`](crate::Store::key) has hashed once; a key of another shard is the caller's mistake and is not found.

use super::due::DueKeys;
use crate::memory::prefetch::PrefetchStep;
use crate::table::entry::body::Body;
use crate::table::entry::handle::{EntryMut, EntryRef, Garbage, OwnedEntry};
use crate::table::walk::ExpireReport;
use crate::table::{Lookup, Table};
use crate::types::hash::Map;
use crate::value::collection::{Collection, Object};
use crate::value::key_hash::Placement;
use crate::value::key_hash::{Hash, HashKey, Key};
use crate::value::{Deadline, Value, is_expired};
use std::cell::Cell;
use std::marker::PhantomData;

/// The keys of all databases with hashes that begin with the same bits.
pub struct Shard {
    /// The tables of the databases, as many as the highest database that was ever written needs.
    pub(super) tables: Vec<Table>,
    /// The hashes with expiring fields, for each database.
    pub(crate) due: Vec<DueKeys>,
    /// True if there may be a value that only the newest version of the RDB format can express.
    pub(crate) needs_newest_format: bool,
    pub(super) placement: Placement,
    /// The buffer in which packed collections are changed.
    pub(super) scratch: Vec<u8>,
    /// A marker that keeps a shard on one thread at a time, because a borrowed entry can set its clock.
    one_thread: PhantomData<Cell<()>>,
}

/// The result of a search.
#[derive(Clone, Copy)]
pub enum Find<'a> {
    /// The key does not exist.
    Missing,
    /// The key is there, but its deadline has passed.
    Expired(EntryRef<'a>),
    /// The key is there.
    Live(EntryRef<'a>),
}

/// The time of an operation: the clock for deadlines, and the access clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time that deadlines are compared with, in milliseconds since the epoch.
    pub now_ms: i64,
    /// The access clock of keys written now (24 bits).
    pub clock: u32,
}

/// The former value of a key that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The key did not exist.
    Missing,
    /// The key had expired.
    Expired,
    /// The key had a value.
    Live,
}

/// The keys that a flush took out: all of one database in one shard. Dropping it frees them, on any thread.
#[must_use = "dropping this may take long; choose where"]
pub struct Flushed(Table);

impl Flushed {
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no keys were removed.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

impl Shard {
    pub(crate) fn new(placement: Placement) -> Self {
        Self {
            tables: Vec::new(),
            due: Vec::new(),
            needs_newest_format: false,
            placement,
            scratch: Vec::new(),
            one_thread: PhantomData,
        }
    }

    #[inline]
    fn table(&self, db: usize) -> Option<&Table> {
        self.tables.get(db)
    }

    #[inline]
    pub(super) fn table_mut(&mut self, db: usize) -> &mut Table {
        if db >= self.tables.len() {
            self.add_tables(db);
        }
        &mut self.tables[db]
    }

    #[cold]
    fn add_tables(&mut self, db: usize) {
        self.tables.reserve_exact(db + 1 - self.tables.len());
        self.tables.resize_with(db + 1, || Table::new(self.placement));
        self.due.resize_with(db + 1, DueKeys::default);
    }

    /// Looks a key up. Inlining is forced: a key is three words, which a call would write to memory.
    #[inline(always)]
    pub fn find(&self, db: usize, key: Key<'_>, now_ms: i64) -> Find<'_> {
        let position = self.placement.position(key.hash);
        match self.table(db).and_then(|table| table.find(position, key.name)) {
            None => Find::Missing,
            Some(entry) if is_expired(entry.deadline(), now_ms) => Find::Expired(entry),
            Some(entry) => Find::Live(entry),
        }
    }

    /// Looks a key up; one that has expired counts as missing.
    #[inline(always)]
    pub fn get(&self, db: usize, key: Key<'_>, now_ms: i64) -> Option<EntryRef<'_>> {
        match self.find(db, key, now_ms) {
            Find::Live(entry) => Some(entry),
            Find::Missing | Find::Expired(_) => None,
        }
    }

    /// Looks a key up, and in the same pass removes it if it has expired and `may_vanish` allows it.
    #[inline(always)]
    pub fn lookup(
        &mut self,
        db: usize,
        key: Key<'_>,
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
    ) -> Lookup<EntryRef<'_>> {
        let position = self.placement.position(key.hash);
        let Some(table) = self.tables.get_mut(db) else { return Lookup::Missing };
        let found = table.lookup(position, key.name, now_ms, may_vanish);
        if let Lookup::Expired(Some(_)) = &found {
            self.due[db].forget(key.hash);
        }
        found
    }

    /// Looks a key up as [`Shard::lookup`] does, to change its value.
    #[inline(always)]
    pub fn lookup_mut(
        &mut self,
        db: usize,
        key: Key<'_>,
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
    ) -> Lookup<EntryMut<'_>> {
        let position = self.placement.position(key.hash);
        let Some(table) = self.tables.get_mut(db) else { return Lookup::Missing };
        match table.lookup_occupied(position, key.name, now_ms, may_vanish) {
            Lookup::Live(found) => Lookup::Live(found.into_entry()),
            Lookup::Expired(garbage) => Lookup::Expired(forget_if_gone(&mut self.due[db], key.hash, garbage)),
            Lookup::Missing => Lookup::Missing,
        }
    }

    /// Returns the entry of a key, to be changed; a key that is missing or has expired is first set to `value`. The memory of
    /// an expired one is returned too, to be freed.
    #[inline]
    pub fn entry_or_insert(
        &mut self,
        db: usize,
        key: Key<'_>,
        value: &Value<'_>,
        moment: Moment,
    ) -> (EntryMut<'_>, Option<Garbage>) {
        let place = (self.placement.position(key.hash), key.name);
        if db >= self.tables.len() {
            self.add_tables(db);
        }
        let (entry, expired) = self.tables[db].entry_or_insert(place, Body::new(value), moment.now_ms, moment.clock);
        if expired.is_some() {
            self.due[db].forget(key.hash);
        }
        (entry, expired)
    }

    /// Sets a key to a value, whether or not it exists. If the sizes allow it, the entry is overwritten in place.
    #[inline]
    pub fn set(
        &mut self,
        db: usize,
        key: Key<'_>,
        value: &Value<'_>,
        deadline: Deadline,
        moment: Moment,
    ) -> (Previous, Garbage) {
        self.store(db, key, Body::new(value), deadline, moment, |_| moment.clock)
    }

    /// Does the same as [`Shard::set`]; if a key is replaced, `renew` turns its old access clock into the new one.
    #[inline(always)]
    pub fn replace(
        &mut self,
        db: usize,
        key: Key<'_>,
        value: &Value<'_>,
        deadline: Deadline,
        moment: Moment,
        renew: impl FnOnce(u32) -> u32,
    ) -> (Previous, Garbage) {
        self.store(db, key, Body::new(value), deadline, moment, renew)
    }

    /// Sets a key to an encoded value. Each caller has a copy of its own: a call would lay key and value down in memory.
    #[inline(always)]
    fn store(
        &mut self,
        db: usize,
        key: Key<'_>,
        body: Body<'_>,
        deadline: Deadline,
        moment: Moment,
        renew: impl FnOnce(u32) -> u32,
    ) -> (Previous, Garbage) {
        let position = self.placement.position(key.hash);
        self.follow(db, key, due_ms(&body));
        let table = self.table_mut(db);
        let fresh = match deadline {
            Deadline::At(deadline) => Some(deadline),
            Deadline::Clear | Deadline::Keep => None,
        };
        let Some(mut entry) = table.find_mut(position, key.name) else {
            table.insert(position, key.name, body, fresh, moment.clock);
            return (Previous::Missing, Garbage::default());
        };
        let old = entry.deadline();
        let (previous, deadline) = match (is_expired(old, moment.now_ms), deadline) {
            (true, _) => (Previous::Expired, fresh),
            (false, Deadline::Keep) => (Previous::Live, old),
            (false, Deadline::Clear | Deadline::At(_)) => (Previous::Live, fresh),
        };
        let clock = if previous == Previous::Live { renew(entry.view().clock()) } else { moment.clock };
        (previous, entry.assign(body, deadline, clock))
    }

    /// Puts a collection under a key, whether or not it exists.
    pub fn set_collection<C: Collection>(
        &mut self,
        db: usize,
        key: Key<'_>,
        collection: C,
        deadline: Deadline,
        moment: Moment,
    ) -> (Previous, Garbage) {
        self.replace_collection(db, key, collection, deadline, moment, |_| moment.clock)
    }

    /// Does the same as [`Shard::set_collection`]; if a key is replaced, `renew` turns its old access clock into the new one.
    pub fn replace_collection<C: Collection>(
        &mut self,
        db: usize,
        key: Key<'_>,
        collection: C,
        deadline: Deadline,
        moment: Moment,
        renew: impl FnOnce(u32) -> u32,
    ) -> (Previous, Garbage) {
        self.needs_newest_format |= collection.needs_newest_format();
        with_body(collection, |body| self.store(db, key, Self::followed(body, key.name), deadline, moment, renew))
    }

    /// Returns the secret with which collections of this shard hash; see [`Collection::new`].
    pub fn hash_key(&self) -> HashKey {
        self.placement.hash_key
    }

    /// Removes a key, expired or not. None if it is not there.
    #[inline]
    pub fn remove(&mut self, db: usize, key: Key<'_>) -> Option<Garbage> {
        let position = self.placement.position(key.hash);
        let table = self.tables.get_mut(db)?;
        self.due[db].forget(key.hash);
        table.remove(position, key.name)
    }

    /// Removes a key. An expired key counts as missing, and is removed if `may_vanish` allows it.
    #[inline]
    pub fn remove_live(
        &mut self,
        db: usize,
        key: Key<'_>,
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
    ) -> Lookup<Garbage> {
        let position = self.placement.position(key.hash);
        let Some(table) = self.tables.get_mut(db) else { return Lookup::Missing };
        match table.lookup_occupied(position, key.name, now_ms, may_vanish) {
            Lookup::Live(found) => {
                let garbage = found.remove();
                self.due[db].forget(key.hash);
                Lookup::Live(garbage)
            }
            Lookup::Expired(garbage) => Lookup::Expired(forget_if_gone(&mut self.due[db], key.hash, garbage)),
            Lookup::Missing => Lookup::Missing,
        }
    }

    /// Takes a key's value, deadline and clock out, to be put elsewhere.
    pub fn take(&mut self, db: usize, key: Key<'_>) -> Option<OwnedEntry> {
        let position = self.placement.position(key.hash);
        let table = self.tables.get_mut(db)?;
        self.due[db].forget(key.hash);
        table.take(position, key.name)
    }

    /// Puts a value with its deadline and clock under a key, whether or not it exists.
    pub fn put(&mut self, db: usize, key: Key<'_>, mut entry: OwnedEntry, now_ms: i64) -> (Previous, Garbage) {
        let deadline = entry.deadline.map_or(Deadline::Clear, Deadline::At);
        let moment = Moment { now_ms, clock: entry.clock };
        let body = Self::followed(entry.body(), key.name);
        self.needs_newest_format |= matches!(&body, Body::Object(object) if object.view().needs_newest_format());
        self.store(db, key, body, deadline, moment, |_| moment.clock)
    }

    /// Returns the number of keys in a database, with expired ones that were not removed yet.
    #[inline]
    pub fn len(&self, db: usize) -> usize {
        self.table(db).map_or(0, Table::len)
    }

    /// Returns the number of keys in a database that have a deadline.
    #[inline]
    pub fn volatile_len(&self, db: usize) -> usize {
        self.table(db).map_or(0, Table::volatile_len)
    }

    /// Returns the number of databases that this shard has tables for: no database from this number on has ever had a key
    /// here.
    pub fn databases(&self) -> usize {
        self.tables.len()
    }

    /// Returns the bytes of all keys and tables of this shard.
    pub fn memory(&self) -> usize {
        let due = self.due.iter().map(DueKeys::memory).sum::<usize>();
        self.tables.iter().map(Table::memory).sum::<usize>() + self.tables.capacity() * size_of::<Table>() + due
    }

    /// Empties a database, and returns its keys; none if it is empty.
    pub fn flush(&mut self, db: usize) -> Option<Flushed> {
        let table = self.tables.get_mut(db)?;
        self.due[db] = DueKeys::default();
        let flushed = std::mem::replace(table, Table::new(self.placement));
        self.needs_newest_format &= self.tables.iter().any(|table| table.len() > 0);
        (flushed.len() > 0).then_some(Flushed(flushed))
    }

    /// Gives back the memory of the tables of empty databases.
    pub fn trim(&mut self) {
        let empty = self.tables.iter_mut().filter(|table| table.len() == 0);
        empty.for_each(|table| *table = Table::new(self.placement));
        let used = self.tables.iter().rposition(|table| table.len() > 0).map_or(0, |last| last + 1);
        self.tables.truncate(used);
        self.tables.shrink_to_fit();
        self.due.truncate(used);
    }

    /// Exchanges the contents of two databases.
    pub fn swap(&mut self, one: usize, other: usize) {
        if one.max(other) >= self.tables.len() && self.len(one) + self.len(other) == 0 {
            return;
        }
        self.table_mut(one.max(other));
        self.tables.swap(one, other);
        self.due.swap(one, other);
    }

    /// Shows all entries of a database, in no particular order, expired ones included.
    pub fn for_each<'a>(&'a self, db: usize, show: impl FnMut(EntryRef<'a>)) {
        if let Some(table) = self.table(db) {
            table.for_each(show);
        }
    }

    /// Returns an entry of a database that `random` chooses, expired or not. All entries are about equally likely.
    pub fn random(&self, db: usize, random: u64) -> Option<EntryRef<'_>> {
        self.table(db)?.random(random)
    }

    /// Returns an entry with a deadline that `random` chooses in a database, expired or not. Returns none if a short search
    /// finds none, even though there may be some.
    pub fn random_volatile(&self, db: usize, random: u64) -> Option<EntryRef<'_>> {
        self.table(db)?.random_volatile(random)
    }

    /// Looks at up to `budget_buckets` buckets of a database, from where the last step ended, and removes the keys that have
    /// expired. `on_expired` receives each of them and its memory to be freed. A database without volatile keys costs
    /// nothing.
    pub fn expire_step(
        &mut self,
        db: usize,
        now_ms: i64,
        budget_buckets: usize,
        mut on_expired: impl FnMut(&[u8], Garbage),
    ) -> ExpireReport {
        let placement = self.placement;
        match self.tables.get_mut(db) {
            Some(table) if table.volatile_len() > 0 => {
                let due = &mut self.due[db];
                table.expire_step(now_ms, budget_buckets, &mut |key, garbage| {
                    if !due.is_empty() {
                        due.forget(placement.hash(key));
                    }
                    on_expired(key, garbage);
                })
            }
            _ => ExpireReport { wrapped: true, ..ExpireReport::default() },
        }
    }

    /// Keeps the list of hashes with expiring fields up to date when a key gets another value.
    #[inline(always)]
    fn follow(&mut self, db: usize, key: Key<'_>, due_ms: Option<i64>) {
        if due_ms.is_some() || self.due.get(db).is_some_and(|due| !due.is_empty()) {
            self.table_mut(db);
            self.due[db].forget(key.hash);
            if let Some(due_ms) = due_ms {
                self.due[db].announce(key.hash, key.name, due_ms);
            }
        }
    }

    /// Takes a prefetch step towards the entries of keys that will be looked up soon.
    #[inline]
    pub fn prefetch(&self, db: usize, keys: &[Hash], step: PrefetchStep) {
        if let Some(table) = self.table(db) {
            table.prefetch(keys.iter().map(|hash| self.placement.position(*hash)), step);
        }
    }

    #[inline]
    pub(crate) fn walk<'a>(
        &'a self,
        db: usize,
        position: u64,
        wanted: usize,
        show: impl FnMut(EntryRef<'a>),
    ) -> (Option<u64>, usize, usize) {
        match self.table(db) {
            Some(table) => {
                let step = table.walk(position, wanted, show);
                (step.next, step.shown, step.buckets)
            }
            None => (None, 0, 0),
        }
    }
}

/// Removes a key from the list of hashes with expiring fields, if the key was removed because it had expired.
#[cold]
pub(super) fn forget_if_gone(due: &mut DueKeys, hash: Hash, garbage: Option<Garbage>) -> Option<Garbage> {
    if garbage.is_some() {
        due.forget(hash);
    }
    garbage
}

/// Calls a function with the body of an entry for this collection.
#[inline]
pub(super) fn with_body<C: Collection, R>(collection: C, put: impl FnOnce(Body<'_>) -> R) -> R {
    match Body::inline(&collection) {
        Some(body) => put(body),
        None => put(Body::Object(Object::new(collection))),
    }
}

/// Returns the time when the first part of a value is due to be removed: the next field of a hash that expires; see
/// [`Collection::due_ms`].
#[inline]
pub(super) fn due_ms(body: &Body<'_>) -> Option<i64> {
    match body {
        Body::Object(object) => object.view().due_ms(),
        Body::Packed(form, bytes) => Map::view(*form, bytes)?.due_ms(),
        _ => None,
    }
}
