//! Lookups: the keys that a command reads or is about to change, and walks over keys that it has not named.
//!
//! An expired key is removed, recorded and counted as it is found, so no command sees it. A command that reads or edits a key
//! renews its access clock, unless the client has asked for CLIENT NO-TOUCH. The functions that show keys of other databases,
//! or of a walk, count, touch and remove nothing.

use sleeve_store::{Collection, EntryMut, EntryRef, Find, Garbage, Hash, Lookup};

use super::Cx;
use super::key_change;
use super::key_change::{Cause, ChangeSource, Pending};
use super::notifications;
use super::notifications::EventClass;
use super::session_state::SessionState;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::journal::Recorder;
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::locks::Locks;
use crate::engine::observe::stats::Counters;
use crate::host::clock::Instant;
use crate::host::dice::Dice;
use crate::request::Key;
use crate::request::error::Error;
use crate::request::output::Output;

/// The number of fields of one hash that are examined at once for expired ones; a smaller hash is examined whole.
pub const FIELDS_A_LOOK: usize = 128;

/// The parts of a [`Cx`] to which a lookup reports, while the found entry is borrowed from the locks.
pub(super) struct KeyLookup<'c> {
    engine: &'c Engine,
    counters: &'c Counters,
    state: &'c SessionState,
    dice: &'c Dice,
    pending: &'c mut Pending,
    out: &'c mut Output,
    now: Instant,
    due_ms: i64,
}

impl KeyLookup<'_> {
    /// Looks a key up, once. An expired one is removed, except during a pause: then nothing changes, and the key only looks
    /// gone.
    #[inline(always)]
    pub(super) fn find<'l>(&mut self, locks: &'l mut Locks<'_>, key: Key<'_>) -> Option<EntryRef<'l>> {
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        match shard.lookup(database, key, self.due_ms, || key_change::may_vanish(engine, now)) {
            Lookup::Live(entry) => Some(entry),
            Lookup::Missing => None,
            Lookup::Expired(garbage) => {
                self.expired(recorder, key.name, key.hash, garbage);
                None
            }
        }
    }

    /// Looks a key up as [`KeyLookup::find`] does, and returns the entry to be changed.
    #[inline(always)]
    pub(super) fn find_mut<'l>(&mut self, locks: &'l mut Locks<'_>, key: Key<'_>) -> Option<EntryMut<'l>> {
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        match shard.lookup_mut(database, key, self.due_ms, || key_change::may_vanish(engine, now)) {
            Lookup::Live(entry) => Some(entry),
            Lookup::Missing => None,
            Lookup::Expired(garbage) => {
                self.expired(recorder, key.name, key.hash, garbage);
                None
            }
        }
    }

    /// Frees the value of an expired key and reports that it is gone; does nothing if the key could not vanish (`garbage` is
    /// None). Like all functions here that are seldom called, it takes the parts of the key one by one: if it took a [`Key`],
    /// the key would lie in memory on the common path, for the sake of this call.
    #[cold]
    pub(super) fn expired(&mut self, recorder: &mut Recorder<'_>, name: &[u8], hash: Hash, garbage: Option<Garbage>) {
        if let Some(garbage) = garbage {
            let (engine, counters, state) = (self.engine, self.counters, self.state);
            engine.keyspace.lazy_free.now_or_later(garbage, engine.config.flag(Opt::LazyfreeLazyExpire));
            let source = ChangeSource { engine, counters, state: Some(state), pending: self.pending, recorder };
            key_change::tell(source, Cause::Expired, state.database, Key { name, hash });
        }
    }

    /// Renews the access clock, as long as the client has not said NO-TOUCH.
    #[inline]
    fn touch(&self, entry: &EntryRef<'_>) {
        if !self.state.no_touch {
            key_clock::touch((&self.engine.config, self.dice), entry, self.now);
        }
    }

    #[inline]
    fn note_hit(&self, entry: &EntryRef<'_>) {
        self.counters.hits.add(1);
        self.touch(entry);
    }

    /// Counts a lookup of a missing key, and publishes the event if its class is enabled. It is no part of the path of a hit.
    #[inline(never)]
    fn note_miss(&mut self, name: &[u8]) {
        self.counters.misses.add(1);
        let by = (self.engine, self.state.own(), &mut self.pending.wakeups);
        notifications::publish(by, self.state.database, (EventClass::KeyMiss, "keymiss"), name);
    }
}

/// Keys of the selected database that the command has named.
impl<'a> Cx<'a> {
    /// Returns the locks, and the parts to which a lookup under them reports.
    #[inline(always)]
    pub(super) fn split(&mut self) -> (&mut Locks<'a>, KeyLookup<'_>) {
        let lookup = KeyLookup {
            engine: self.engine,
            counters: self.counters,
            state: self.state,
            dice: self.dice,
            pending: self.pending,
            out: self.out,
            now: self.now,
            due_ms: self.due_ms,
        };
        (&mut self.locks, lookup)
    }

    /// Returns the value of a key, for a command that reads it: counted as hit or miss, and its access clock renewed.
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.expire_due_fields(key);
        let (locks, mut lookup) = self.split();
        let Some(entry) = lookup.find(locks, key) else {
            lookup.note_miss(key.name);
            return None;
        };
        lookup.note_hit(&entry);
        Some(entry)
    }

    /// Returns the string of a key, for a command that reads it; see [`Cx::read`].
    #[inline]
    pub fn read_string(&mut self, key: Key<'_>) -> Result<Option<EntryRef<'_>>, Error> {
        string(self.read(key))
    }

    /// Returns the string of a key, without a trace; see [`Cx::peek`].
    #[inline]
    pub fn peek_string(&mut self, key: Key<'_>) -> Result<Option<EntryRef<'_>>, Error> {
        string(self.peek(key))
    }

    /// Returns the collection of a key, for a command that reads it; see [`Cx::read`].
    #[inline]
    pub fn read_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        collection::<C>(self.read(key))
    }

    /// Returns the collection of a key, without a trace; see [`Cx::peek`].
    #[inline]
    pub fn peek_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        collection::<C>(self.peek(key))
    }

    /// Replies with the string of a key that is read; returns false, and gives no reply, if the key is missing. Always
    /// inline: a returned value would go through memory.
    #[inline(always)]
    pub fn reply_value(&mut self, key: Key<'_>) -> Result<bool, Error> {
        let (locks, mut lookup) = self.split();
        match lookup.find(locks, key) {
            Some(entry) if entry.is_string() => {
                lookup.note_hit(&entry);
                lookup.out.push_value(&entry);
                Ok(true)
            }
            Some(_) => self.read_collection(key.name, key.hash),
            None => {
                lookup.note_miss(key.name);
                Ok(false)
            }
        }
    }

    /// Returns the outcome of reading a collection as a string: WRONGTYPE, unless the key is a hash that is removed now
    /// because all its fields have expired.
    #[cold]
    fn read_collection(&mut self, name: &[u8], hash: Hash) -> Result<bool, Error> {
        self.read_string(Key { name, hash }).map(|string| string.is_some())
    }

    /// Returns the value of a key without counting a hit or miss and without renewing its access clock.
    #[inline]
    pub fn peek(&mut self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.expire_due_fields(key);
        let (locks, mut lookup) = self.split();
        lookup.find(locks, key)
    }

    /// Returns the entry of a key, to be changed. The caller reports its changes with [`Cx::changed`]. Always inline, as
    /// [`Cx::reply_value`].
    #[inline(always)]
    pub fn edit(&mut self, key: Key<'_>) -> Option<EntryMut<'_>> {
        self.expire_due_fields(key);
        let (locks, mut lookup) = self.split();
        let entry = lookup.find_mut(locks, key)?;
        lookup.touch(&entry.view());
        Some(entry)
    }

    /// Returns the string of a key, to be changed; see [`Cx::edit`].
    #[inline(always)]
    pub fn edit_string(&mut self, key: Key<'_>) -> Result<Option<EntryMut<'_>>, Error> {
        match self.edit(key) {
            Some(entry) if !entry.view().is_string() => Err(Error::WRONG_TYPE),
            entry => Ok(entry),
        }
    }

    /// Returns the entry as [`Cx::edit`] does, if the command has looked at the key and so renewed its access clock already.
    #[inline]
    pub fn edit_seen(&mut self, key: Key<'_>) -> Option<EntryMut<'_>> {
        self.expire_due_fields(key);
        let (locks, mut lookup) = self.split();
        lookup.find_mut(locks, key)
    }

    /// Returns the value of a key, for a command that may change it: not counted as read, and its access clock renewed.
    #[inline]
    pub fn look(&mut self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.expire_due_fields(key);
        let (locks, mut lookup) = self.split();
        let entry = lookup.find(locks, key)?;
        lookup.touch(&entry);
        Some(entry)
    }

    /// Returns the string of a key; see [`Cx::look`].
    #[inline]
    pub fn look_string(&mut self, key: Key<'_>) -> Result<Option<EntryRef<'_>>, Error> {
        string(self.look(key))
    }

    /// Returns the collection of a key; see [`Cx::look`].
    #[inline]
    pub fn look_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        collection::<C>(self.look(key))
    }

    /// Returns the collection of a key, for a command that goes on to change it: that change renews the access clock. If the
    /// key holds another type, the command ends here, so the clock is renewed here.
    #[inline]
    pub fn probe_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        self.expire_due_fields(key);
        let (locks, mut lookup) = self.split();
        let Some(entry) = lookup.find(locks, key) else { return Ok(None) };
        let found = entry.collection::<C>();
        if found.is_none() {
            lookup.touch(&entry);
        }
        found.map(Some).ok_or(Error::WRONG_TYPE)
    }

    /// Removes the expired fields of a hash. Always inline: nearly always it ends after two checks.
    #[inline(always)]
    pub(super) fn expire_due_fields(&mut self, key: Key<'_>) {
        if self.locks.shard(key.hash).has_due_fields(self.state.database as usize, self.due_ms) {
            self.expire_fields(key.name, key.hash);
        }
    }

    /// Removes the expired fields of a hash, all of a small hash and some of a large one; if the whole hash expires, removes
    /// the key. The removals are recorded apart from the command's own effects.
    #[cold]
    fn expire_fields(&mut self, name: &[u8], hash: Hash) {
        let key = Key { name, hash };
        let (database, now_ms) = (self.state.database, self.due_ms);
        let shard = self.locks.shard(key.hash);
        let is_due = shard.is_due(database as usize, key.hash, now_ms);
        let goes = matches!(shard.find(database as usize, key, now_ms), Find::Expired(_));
        if !is_due || goes || !key_change::may_vanish(self.engine, self.now) {
            return;
        }
        let expired = self.locks.shard(key.hash).expire_fields(database as usize, key, now_ms, FIELDS_A_LOOK);
        if let Some(expired) = expired {
            self.tell(Cause::FieldsExpired(&expired), database, key);
        }
    }
}

/// Keys of any database, and walks.
impl Cx<'_> {
    /// Returns the entry of a key of any database, with the shard held, unless it has expired.
    pub fn view(&self, database: u32, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.locks.view(key.hash).get(database as usize, key, self.due_ms)
    }

    /// Returns whether a key of any database, with the shard held, has expired.
    pub fn is_over(&self, database: u32, key: Key<'_>) -> bool {
        matches!(self.locks.view(key.hash).find(database as usize, key, self.now.wall_ms()), Find::Expired(_))
    }

    /// Shows the entry of a key of the selected database, which the command need not have named, unless it has expired by
    /// `now_ms`.
    pub fn show<R>(&mut self, name: &[u8], now_ms: i64, show: impl FnOnce(EntryRef<'_>) -> R) -> Option<R> {
        let (key, database) = (self.engine.keyspace.store.key(name), self.database());
        let place = self.engine.keyspace.store.shard_of(key.hash);
        self.locks.with(place, |shard| shard.get(database, key, now_ms).map(show))
    }

    /// Does one step of a walk over the selected database; see [`sleeve_store::Store::scan`].
    pub fn walk(&mut self, cursor: u64, count: usize, show: impl FnMut(EntryRef<'_>)) -> u64 {
        let database = self.database();
        self.engine.keyspace.store.scan_in(&mut self.locks, database, cursor, count, show)
    }

    /// Shows a random key of the selected database; returns None if the database is empty.
    pub fn show_random<R>(&mut self, show: impl FnOnce(EntryRef<'_>) -> R) -> Option<R> {
        let (database, random) = (self.database(), self.dice.number());
        self.engine.keyspace.store.random_in(&mut self.locks, database, random, show)
    }

    /// Removes a key of the selected database that a walk has found expired, unless it has got a new deadline or value since.
    pub fn remove_due(&mut self, name: &[u8]) {
        let key = self.engine.keyspace.store.key(name);
        let is_free = self.locks.is_empty();
        if is_free {
            self.locks.take_one(key.hash);
        }
        // A lookup is enough: it removes a key that has expired.
        self.peek(key);
        if is_free {
            self.locks.unlock();
        }
    }
}

#[inline]
fn string(entry: Option<EntryRef<'_>>) -> Result<Option<EntryRef<'_>>, Error> {
    match entry {
        Some(entry) if !entry.is_string() => Err(Error::WRONG_TYPE),
        entry => Ok(entry),
    }
}

#[inline]
fn collection<C: Collection>(entry: Option<EntryRef<'_>>) -> Result<Option<C::Ref<'_>>, Error> {
    match entry {
        None => Ok(None),
        Some(entry) => entry.collection::<C>().map(Some).ok_or(Error::WRONG_TYPE),
    }
}
