//! Setting, replacing and removing keys as a whole, with the notice of the change; changing collections, where the command
//! itself gives the notice with [`Cx::changed`]; and looking at a key that may be changed then.
//!
//! As in Redis a use is counted once for each look: a command that has looked already changes the entry that it has seen
//! (`_seen`).

use sleeve_store::{Collection, Deadline, EntryMut, EntryRef, Garbage, Lookup, OtherKind, Previous, Updated, Value};

use super::Cx;
use super::key_change;
use super::key_change::Cause;
use super::notifications::EventClass;
use crate::config::Opt;
use crate::engine::keyspace::key_clock;
use crate::request::Key;
use crate::request::error::Error;

impl Cx<'_> {
    /// Sets a key, in place of any value there.
    #[inline]
    pub fn set(&mut self, key: Key<'_>, value: &Value<'_>, deadline: Deadline) {
        let (database, moment) = (self.state.database as usize, self.moment());
        let renew = replacement(self, moment.clock, self.state.no_touch);
        let replaced = self.locks.shard(key.hash).replace(database, key, value, deadline, moment, renew);
        self.replaced(key, replaced);
    }

    /// Sets a key as [`Cx::set`] does, where a look at the key has renewed its access clock already.
    pub fn set_seen(&mut self, key: Key<'_>, value: &Value<'_>, deadline: Deadline) {
        let (database, moment) = (self.state.database as usize, self.moment());
        let renew = replacement(self, moment.clock, true);
        let replaced = self.locks.shard(key.hash).replace(database, key, value, deadline, moment, renew);
        self.replaced(key, replaced);
    }

    /// Puts a collection under a key, in place of any value there, or removes the key if the collection is empty: for the
    /// commands that store a result. Returns whether there is a key now.
    pub fn set_collection<C: Collection>(&mut self, key: Key<'_>, collection: C) -> bool {
        if collection.is_empty() {
            self.remove(key, Opt::LazyfreeLazyServerDel);
            return false;
        }
        let (database, moment) = (self.state.database as usize, self.moment());
        let renew = replacement(self, moment.clock, self.state.no_touch);
        let shard = self.locks.shard(key.hash);
        let replaced = shard.replace_collection(database, key, collection, Deadline::Clear, moment, renew);
        self.replaced(key, replaced);
        true
    }

    /// Frees the old value of a key that has just been set, and notes the change.
    #[inline]
    fn replaced(&mut self, key: Key<'_>, (previous, garbage): (Previous, Garbage)) {
        self.free(garbage, Opt::LazyfreeLazyServerDel);
        if previous == Previous::Expired {
            self.tell(Cause::Expired, self.state.database, key);
        }
        self.changed(key);
        if previous != Previous::Live {
            self.notify(EventClass::New, "new", key);
        }
    }

    /// Removes a key; returns whether it was there. An expired one was not. The option says whether large values are freed on
    /// another thread.
    pub fn remove(&mut self, key: Key<'_>, is_lazy: Opt) -> bool {
        self.take_off(Cause::Command, key).map(|garbage| self.free(garbage, is_lazy)).is_some()
    }

    /// Frees the value that a key has left, on another thread if it is large and the option says so.
    #[inline]
    pub fn free(&self, garbage: Garbage, is_lazy: Opt) {
        self.engine.lazy_free.now_or_later(garbage, self.engine.config.flag(is_lazy));
    }

    /// Removes a key as [`Cx::remove`] does, where the removal may be part of another change. The caller frees the value that
    /// the key leaves.
    pub fn take_off(&mut self, cause: Cause<'_>, key: Key<'_>) -> Option<Garbage> {
        let garbage = self.remove_live(key)?;
        self.tell(cause, self.state.database, key);
        Some(garbage)
    }

    /// Takes a key out; returns its value, to be freed. An expired one was not there. The caller notes the change.
    #[inline]
    fn remove_live(&mut self, key: Key<'_>) -> Option<Garbage> {
        self.expire_due_fields(key);
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let now_ms = self.due_ms;
        let (locks, mut looker) = self.parted();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        match shard.remove_live(database, key, now_ms, || key_change::may_vanish(engine, now)) {
            Lookup::Live(garbage) => Some(garbage),
            Lookup::Missing => None,
            Lookup::Expired(garbage) => {
                looker.expired(recorder, key.name, key.hash, garbage);
                None
            }
        }
    }

    /// Changes the collection of a key, which is made first if the key is missing. One that is left empty is removed with its
    /// key. The caller reports its changes with [`Cx::changed`].
    pub fn update<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Updated<R>, Error> {
        self.expire_due_fields(key);
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let (moment, renew) = (self.moment(), renewal(self));
        let (locks, mut looker) = self.parted();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        let may_vanish = || key_change::may_vanish(engine, now);
        let updated = shard.update(database, key, moment, may_vanish, renew, change);
        let (updated, expired) = updated.map_err(|OtherKind| Error::WRONG_TYPE)?;
        if expired.is_some() {
            looker.expired(recorder, key.name, key.hash, expired);
        }
        if updated.created && !updated.emptied {
            self.notify(EventClass::New, "new", key);
        }
        Ok(updated)
    }

    /// Changes the collection of a key; None when the key is missing. See [`Cx::update`].
    pub fn update_present<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<Updated<R>>, Error> {
        let renew = renewal(self);
        self.update_renewing(key, renew, change)
    }

    /// Changes a collection as [`Cx::update_present`] does, where a look at the key has renewed its access clock already.
    pub fn update_seen<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<Updated<R>>, Error> {
        self.update_renewing(key, |_| (), change)
    }

    #[inline(always)]
    fn update_renewing<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        renew: impl FnOnce(&EntryRef<'_>),
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<Updated<R>>, Error> {
        self.expire_due_fields(key);
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let now_ms = self.due_ms;
        let (locks, mut looker) = self.parted();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        let may_vanish = || key_change::may_vanish(engine, now);
        match shard.update_present(database, key, now_ms, may_vanish, renew, change) {
            Ok(Lookup::Live(updated)) => Ok(Some(updated)),
            Ok(Lookup::Missing) => Ok(None),
            Ok(Lookup::Expired(garbage)) => {
                looker.expired(recorder, key.name, key.hash, garbage);
                Ok(None)
            }
            Err(OtherKind) => Err(Error::WRONG_TYPE),
        }
    }
}

/// Looking at a key that is about to be changed.
impl Cx<'_> {
    /// Returns the entry as [`Cx::edit`] does, where a look at the key has renewed its access clock already.
    #[inline]
    pub fn edit_seen(&mut self, key: Key<'_>) -> Option<EntryMut<'_>> {
        self.expire_due_fields(key);
        let (locks, mut looker) = self.parted();
        looker.lookup_mut(locks, key)
    }

    /// Returns the value of a key, for a command that may change it: not counted as read, and its access clock renewed.
    #[inline]
    pub fn look(&mut self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.expire_due_fields(key);
        let (locks, mut looker) = self.parted();
        let entry = looker.lookup(locks, key)?;
        looker.touch(&entry);
        Some(entry)
    }

    /// Returns the string of a key; see [`Cx::look`].
    #[inline]
    pub fn look_string(&mut self, key: Key<'_>) -> Result<Option<EntryRef<'_>>, Error> {
        super::string(self.look(key))
    }

    /// Returns the collection of a key; see [`Cx::look`].
    #[inline]
    pub fn look_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        super::collection::<C>(self.look(key))
    }

    /// Returns the collection of a key, for a command that goes on to change it, which renews the access clock. If the
    /// command ends here because the key holds another type, the clock is renewed here.
    #[inline]
    pub fn probe_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        self.expire_due_fields(key);
        let (locks, mut looker) = self.parted();
        let Some(entry) = looker.lookup(locks, key) else { return Ok(None) };
        let found = entry.collection::<C>();
        if found.is_none() {
            looker.touch(&entry);
        }
        found.map(Some).ok_or(Error::WRONG_TYPE)
    }
}

/// Returns the function that makes the access clock of a key that is about to be replaced, from the old one and a fresh one.
#[inline]
fn replacement<'a>(cx: &Cx<'a>, fresh: u32, is_silent: bool) -> impl FnOnce(u32) -> u32 + use<'a> {
    let (engine, dice, now) = (cx.engine, cx.dice, cx.now);
    move |old| key_clock::replaced((&engine.config, dice), old, fresh, now, is_silent)
}

/// Returns the function that renews the access clock of a key that is about to be changed.
#[inline]
fn renewal<'a>(cx: &Cx<'a>) -> impl FnOnce(&EntryRef<'_>) + use<'a> {
    let (engine, dice, now, is_silent) = (cx.engine, cx.dice, cx.now, cx.state.no_touch);
    move |entry| {
        if !is_silent {
            key_clock::touch((&engine.config, dice), entry, now);
        }
    }
}
