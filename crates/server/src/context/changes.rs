//! Changes of keys, with their notices, events and effects.
//!
//! A command that sets, replaces or removes a key as a whole gives the notice by doing so. A command that changes a
//! collection gives it with [`Cx::changed`]. As in Redis a use is counted once for each look: a command that has looked at a
//! key already uses the functions ending in `_seen`, which count no second use.
//!
//! Between `begin` and `end` (`execute`) a command notes its changes. If its request would not do as the record of its
//! effect, it records other commands instead; otherwise `end` records the request as it came. The effects of one command,
//! transaction or script are one piece, which goes to the journal before the locks of the changed keys are given back, so the
//! journal has them in the order in which they happened. All of this runs on the executing thread.

use std::ops::Range;

use sleeve_store::{
    Collection, Deadline, EntryMut, EntryRef, Flushed, Garbage, Lookup, OtherKind, OwnedEntry, Previous, Updated, Value,
};
use sleeve_wire::commands::Command;
use sleeve_wire::reply::Writer;

use super::Cx;
use super::key_change;
use super::key_change::{Cause, ChangeSource, Turnover};
use super::notifications;
use super::notifications::EventClass;
use crate::config::Opt;
use crate::engine::clients::watch::Presence;
use crate::engine::keyspace::key_clock;
use crate::request::error::Error;
use crate::request::{Key, Request};

/// The most elements that one effect names. A command with more of them records several effects.
pub const ELEMENTS_MAX: usize = 1_000;

impl Cx<'_> {
    /// Sets a key, in place of any value there.
    #[inline]
    pub fn set(&mut self, key: Key<'_>, value: &Value<'_>, deadline: Deadline) {
        let (database, moment) = (self.state.database as usize, self.moment());
        let renew = replacement(self, moment.clock, self.state.no_touch);
        let replaced = self.locks.shard(key.hash).replace(database, key, value, deadline, moment, renew);
        self.replaced(key, replaced);
    }

    /// Sets a key as [`Cx::set`] does, if the command has looked at the key and so renewed its access clock already.
    pub fn set_seen(&mut self, key: Key<'_>, value: &Value<'_>, deadline: Deadline) {
        let (database, moment) = (self.state.database as usize, self.moment());
        let renew = replacement(self, moment.clock, true);
        let replaced = self.locks.shard(key.hash).replace(database, key, value, deadline, moment, renew);
        self.replaced(key, replaced);
    }

    /// Puts a collection under a key, in place of any value there, or removes the key if the collection is empty: for the
    /// commands that store a result. Returns whether the key exists now.
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

    /// Frees the old value of a key that has just been set, and notes the change. Inlined, because each SET goes through it.
    #[inline(always)]
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

    /// Removes a key; returns whether it was there. An expired key was not. The option `is_lazy` says whether large values
    /// are freed on another thread.
    pub fn remove(&mut self, key: Key<'_>, is_lazy: Opt) -> bool {
        self.take_off(Cause::Command, key).map(|garbage| self.free(garbage, is_lazy)).is_some()
    }

    /// Frees the value of a key that was removed or replaced, on another thread if the value is large and the option says so.
    #[inline]
    pub fn free(&self, garbage: Garbage, is_lazy: Opt) {
        self.engine.keyspace.lazy_free.now_or_later(garbage, self.engine.config.flag(is_lazy));
    }

    /// Removes a key as [`Cx::remove`] does, if the removal may be part of another change. The caller frees the returned
    /// value.
    pub fn take_off(&mut self, cause: Cause<'_>, key: Key<'_>) -> Option<Garbage> {
        let garbage = self.remove_live(key)?;
        self.tell(cause, self.state.database, key);
        Some(garbage)
    }

    /// Takes a key out; returns its value, to be freed, or None if the key was missing or expired. The caller notes the
    /// change.
    #[inline]
    fn remove_live(&mut self, key: Key<'_>) -> Option<Garbage> {
        self.expire_due_fields(key);
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let now_ms = self.due_ms;
        let (locks, mut lookup) = self.split();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        match shard.remove_live(database, key, now_ms, || key_change::may_vanish(engine, now)) {
            Lookup::Live(garbage) => Some(garbage),
            Lookup::Missing => None,
            Lookup::Expired(garbage) => {
                lookup.expired(recorder, key.name, key.hash, garbage);
                None
            }
        }
    }

    /// Changes the collection of a key, which is made first if the key is missing. If the collection is empty afterwards, the
    /// key is removed. The caller reports its changes with [`Cx::changed`].
    pub fn update<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Updated<R>, Error> {
        self.expire_due_fields(key);
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let (moment, renew) = (self.moment(), renewal(self));
        let (locks, mut lookup) = self.split();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        let may_vanish = || key_change::may_vanish(engine, now);
        let updated = shard.update(database, key, moment, may_vanish, renew, change);
        let (updated, expired) = updated.map_err(|OtherKind| Error::WRONG_TYPE)?;
        if expired.is_some() {
            lookup.expired(recorder, key.name, key.hash, expired);
        }
        if updated.created && !updated.emptied {
            self.notify(EventClass::New, "new", key);
        }
        Ok(updated)
    }

    /// Changes the collection of a key; returns None if the key is missing. See [`Cx::update`].
    pub fn update_present<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<Updated<R>>, Error> {
        let renew = renewal(self);
        self.update_renewing(key, renew, change)
    }

    /// Changes a collection as [`Cx::update_present`] does, if the command has looked at the key and so renewed its access
    /// clock already.
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
        let (locks, mut lookup) = self.split();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        let may_vanish = || key_change::may_vanish(engine, now);
        match shard.update_present(database, key, now_ms, may_vanish, renew, change) {
            Ok(Lookup::Live(updated)) => Ok(Some(updated)),
            Ok(Lookup::Missing) => Ok(None),
            Ok(Lookup::Expired(garbage)) => {
                lookup.expired(recorder, key.name, key.hash, garbage);
                Ok(None)
            }
            Err(OtherKind) => Err(Error::WRONG_TYPE),
        }
    }

    /// Returns the entry of a key, to be changed; a missing key is first set to `value`. The caller has looked at the key,
    /// which has renewed its access clock.
    #[inline]
    pub fn edit_or_insert(&mut self, key: Key<'_>, value: &Value<'_>) -> EntryMut<'_> {
        self.expire_due_fields(key);
        if notifications::is_wanted(&self.engine.config, EventClass::New) && self.peek(key).is_none() {
            self.notify(EventClass::New, "new", key);
        }
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let moment = self.moment();
        let (locks, mut lookup) = self.split();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        let (entry, expired) = shard.entry_or_insert(database, key, value, moment);
        if expired.is_some() && key_change::may_vanish(engine, now) {
            lookup.expired(recorder, key.name, key.hash, expired);
        }
        entry
    }
}

/// Changing keys of any database.
impl Cx<'_> {
    /// Puts a value with its deadline and access clock under a key of any database, in place of any value there. The caller
    /// has looked at the key ([`Cx::peek`]), so an expired key was removed and reported.
    pub fn put(&mut self, database: u32, key: Key<'_>, entry: OwnedEntry) {
        if let Some(at_ms) = entry.deadline {
            self.deadline_given(database, key, at_ms);
        }
        let (_, garbage) = self.locks.shard(key.hash).put(database as usize, key, entry, self.due_ms);
        self.free(garbage, Opt::LazyfreeLazyServerDel);
        self.tell(Cause::Command, database, key);
        // Redis removes the old value and adds the key anew.
        self.notify_in(database, EventClass::New, "new", key);
    }

    /// Moves an entry to another key, with its deadline, in place of any value there. It counts as one change, as in Redis.
    pub fn relocate(&mut self, (from_database, from): (u32, Key<'_>), (to_database, to): (u32, Key<'_>)) {
        let Some(entry) = self.locks.shard(from.hash).take(from_database as usize, from) else { return };
        self.tell(Cause::Uncounted, from_database, from);
        self.put(to_database, to, entry);
    }
}

/// Changing whole databases, with all shards locked. The caller counts the changes.
impl Cx<'_> {
    /// Empties databases, and reports it. Their contents are freed when the locks have been given back, unless `elsewhere`
    /// takes them away. Returns the number of keys that were removed.
    pub fn flush(
        &mut self,
        databases: Range<usize>,
        elsewhere: impl FnOnce(Vec<Flushed>, usize) -> Result<(), Vec<Flushed>>,
    ) -> usize {
        self.tell_all(Turnover::Replaced, databases.clone(), None);
        let mut flushed = Vec::new();
        self.locks.for_each(|shard| {
            let written = databases.start..databases.end.min(shard.databases());
            flushed.extend(written.filter_map(|database| shard.flush(database)));
        });
        let count = flushed.iter().map(Flushed::len).sum();
        if let Err(flushed) = elsewhere(flushed, count) {
            self.locks.free_when_unlocked(flushed);
        }
        count
    }

    /// Exchanges two databases, and reports it.
    pub fn swap(&mut self, one: usize, other: usize) {
        self.tell_all(Turnover::Exchanged, one..one + 1, Some(other));
        self.tell_all(Turnover::Exchanged, other..other + 1, Some(one));
        self.locks.for_each(|shard| shard.swap(one, other));
    }

    /// Reports that all keys of these databases are about to be removed, and that those of the database `successor`, if any,
    /// take their place.
    fn tell_all(&mut self, turnover: Turnover, databases: Range<usize>, successor: Option<usize>) {
        let (engine, locks, now_ms) = (self.engine, &mut self.locks, self.now.wall_ms());
        let databases = databases.start as u32..databases.end as u32;
        let from = (engine, Some(&*self.state), &mut *self.pending);
        key_change::tell_all(from, turnover, databases, |database, name| {
            let key = engine.keyspace.store.key(name);
            let shard = locks.shard(key.hash);
            let presence = |database| Presence::of(shard.find(database, key, now_ms));
            (presence(database as usize), successor.map_or(Presence::Missing, presence))
        });
    }
}

/// Notices and events.
impl Cx<'_> {
    /// Reports that a key has changed or vanished.
    #[inline]
    pub fn tell(&mut self, cause: Cause<'_>, database: u32, key: Key<'_>) {
        let source = ChangeSource {
            engine: self.engine,
            counters: self.counters,
            state: Some(&*self.state),
            pending: self.pending,
            recorder: &mut self.locks.recorder,
        };
        key_change::tell(source, cause, database, key);
    }

    /// Reports that a key of the selected database has changed.
    #[inline]
    pub fn changed(&mut self, key: Key<'_>) {
        self.tell(Cause::Command, self.state.database, key);
    }

    /// Reports that a key of the selected database has changed, and counts `count` changes: one for each element, as in
    /// Redis.
    #[inline]
    pub fn changed_by(&mut self, key: Key<'_>, count: usize) {
        self.tell(Cause::Uncounted, self.state.database, key);
        self.pending.changes += count as u64;
    }

    /// Reports that so many elements of a collection were removed, and if none is left, that its key was removed too.
    #[inline]
    pub fn removed(&mut self, key: Key<'_>, class: EventClass, event: &'static str, (count, emptied): (usize, bool)) {
        self.changed_by(key, count);
        self.notify(class, event, key);
        if emptied {
            self.notify(EventClass::Generic, "del", key);
        }
    }

    /// Replies how many elements of a collection were removed, and reports it as [`Cx::removed`] does if any were.
    pub fn reply_removed(
        &mut self,
        key: Key<'_>,
        class: EventClass,
        event: &'static str,
        updated: Option<Updated<usize>>,
    ) {
        let (count, emptied) = updated.map_or((0, false), |updated| (updated.result, updated.emptied));
        if count > 0 {
            self.removed(key, class, event, (count, emptied));
        }
        self.reply().integer(count as i64);
    }

    /// Notes that a key has been given a deadline, by a client or by an applied stream or AOF. On a replica, only this note
    /// tells the deadlines that its own clients have given from those of the primary.
    #[inline]
    pub fn deadline_given(&self, database: u32, key: Key<'_>, at_ms: i64) {
        let replication = &self.engine.replication;
        if replication.role.is_replica() && !self.state.origin.is_replaying {
            replication.own_deadlines.note(database, key.name, at_ms);
        }
    }

    /// Counts `count` changes that are reported in other ways, or of which no client is notified.
    pub fn changed_many(&mut self, count: u64) {
        self.pending.changes += count;
    }

    /// Publishes an event about a key of the selected database, in Redis's words, behind the change.
    #[inline]
    pub fn notify(&mut self, class: EventClass, event: &'static str, key: Key<'_>) {
        self.notify_in(self.state.database, class, event, key);
    }

    /// Publishes an event about a key of another database.
    #[inline]
    pub fn notify_in(&mut self, database: u32, class: EventClass, event: &'static str, key: Key<'_>) {
        let by = (self.engine, self.state.own(), &mut self.pending.wakeups);
        notifications::publish(by, database, (class, event), key.name);
    }
}

/// Effects. A command that changes something and records nothing here is recorded as it came.
impl Cx<'_> {
    /// Records an effect on the selected database in other words than the request's.
    pub fn record(&mut self, effect: &[&[u8]]) {
        self.record_with(effect, std::iter::empty());
    }

    /// Records an effect as [`Cx::record`] does; the arguments are those of `head`, then those of `rest`.
    pub fn record_with<'w>(&mut self, head: &[&[u8]], rest: impl ExactSizeIterator<Item = &'w [u8]>) {
        if let Some(mut words) = self.effect(head.len() + rest.len()) {
            words.bulks(head);
            rest.for_each(|word| words.bulk(word));
        }
    }

    /// Begins the record of an effect with `words` arguments, which the caller writes as bulk strings. Returns None if no
    /// effects are recorded.
    #[inline]
    pub fn effect(&mut self, words: usize) -> Option<Writer<'_>> {
        let recorder = &mut self.locks.recorder;
        recorder.begin_record().then(|| recorder.effect(self.state.database, words))
    }

    /// Records the request as it came.
    pub fn record_request(&mut self, request: &Request<'_>) {
        let (recorder, database) = (&mut self.locks.recorder, self.state.database);
        if !recorder.begin_record() {
            return;
        }
        let are_names_own = self.engine.names.are_own();
        if let Some(bytes) = request.args.as_multibulk().filter(|_| are_names_own) {
            return recorder.verbatim(database, bytes);
        }
        // A reader of the journal knows the commands by their original names.
        let original = request.row.parent.map_or(request.row, Command::row).name.as_bytes();
        let mut words = recorder.effect(database, request.len());
        words.bulk(if are_names_own { request.arg(0) } else { original });
        request.args.iter().skip(1).for_each(|word| words.bulk(word));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::context::key_change::Pending;
    use crate::context::session_state::SessionState;
    use crate::engine::Engine;
    use crate::engine::clients::client_info::ClientSocket;
    use crate::execute::scratch::Scratch;
    use crate::host::clock::Instant;
    use crate::messaging::mail::Mailbox;
    use crate::request::output::Output;

    #[test]
    fn who_begins_to_read_while_a_transaction_runs_never_sees_half_of_it() {
        let engine = Engine::new(Config::default());
        let (scratch, mut output) = (Scratch::new(&engine, Instant::now()), Output::default());
        let socket =
            ClientSocket { address: "test:0".into(), local_address: "test:0".into(), descriptor: -1, is_tls: false };
        let mut state = SessionState::new(
            engine.clients.list.enter(socket, Arc::new(Mailbox::new(|| ())), 0),
            engine.acl.default_user(),
        );
        let mut pending = Pending::default();
        let mut cx = Cx::new(scratch.thread_context(), &mut state, &mut output, &mut pending, |_, _| ());
        cx.locks.recorder.begin_transaction();
        cx.record(&[b"DEL", b"first"]);
        let mut reader = engine.journal.subscribe();
        cx.record(&[b"DEL", b"second"]);
        cx.locks.recorder.end_transaction(false);
        cx.locks.clear();
        let mut journal = Vec::new();
        reader.read(&mut journal);
        assert!(journal.is_empty());
        cx.record(&[b"DEL", b"third"]);
        cx.locks.clear();
        reader.read(&mut journal);
        assert!(journal.ends_with(b"$5\r\nthird\r\n"));
    }
}
