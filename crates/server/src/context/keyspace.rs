//! The keyspace beyond the keys of the selected database that a command has named: keys of other databases, whole databases,
//! walks, looks without a trace.
//!
//! The functions that look count, touch and remove nothing: an expired key is hidden, or shown to callers that can tell. The
//! functions that change report it as a change in the selected database does.

use std::ops::Range;

use sleeve_store::{EntryRef, Find, Flushed, OwnedEntry, Shard};

use super::Cx;
use super::key_change;
use super::key_change::{Cause, Turnover};
use super::notifications::EventClass;
use crate::config::Opt;
use crate::engine::clients::watch::Presence;
use crate::request::Key;

/// Looking.
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
        let (key, database) = (self.engine.store.key(name), self.database());
        let place = self.engine.store.shard_of(key.hash);
        self.locks.with(place, |shard| shard.get(database, key, now_ms).map(show))
    }

    /// Shows each shard.
    pub fn show_shards(&mut self, mut show: impl FnMut(&Shard)) {
        self.locks.for_each(|shard| show(shard));
    }

    /// Does one step of a walk over the selected database; see [`sleeve_store::Store::scan`].
    pub fn walk(&mut self, cursor: u64, count: usize, show: impl FnMut(EntryRef<'_>)) -> u64 {
        let database = self.database();
        self.engine.store.scan_in(&mut self.locks, database, cursor, count, show)
    }

    /// Shows a key of the selected database that chance chooses; None if there is none.
    pub fn show_random<R>(&mut self, show: impl FnOnce(EntryRef<'_>) -> R) -> Option<R> {
        let (database, random) = (self.database(), self.dice.number());
        self.engine.store.random_in(&mut self.locks, database, random, show)
    }

    /// Removes a key of the selected database that a walk found to be due, unless it has been given another life since.
    pub fn remove_due(&mut self, name: &[u8]) {
        let key = self.engine.store.key(name);
        let is_free = self.locks.is_empty();
        if is_free {
            self.locks.take_one(key.hash);
        }
        // Looking is enough: a key that is due does not survive it.
        self.peek(key);
        if is_free {
            self.locks.unlock();
        }
    }
}

/// Changing keys of any database.
impl Cx<'_> {
    /// Puts a value with its deadline and clock under a key of any database, in place of any value there. The caller has
    /// looked at the key ([`Cx::peek`]), so an expired one is gone and reported.
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

/// Changing whole databases, with all shards locked. How many changes that is the caller counts.
impl Cx<'_> {
    /// Empties databases, and reports it. Their contents are freed when the locks have been given back, unless `elsewhere`
    /// takes them away; returns how many keys there were.
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

    /// Reports that all keys of these databases are about to go, and that those of another one, if any, take their place.
    fn tell_all(&mut self, turnover: Turnover, databases: Range<usize>, successor: Option<usize>) {
        let (engine, locks, now_ms) = (self.engine, &mut self.locks, self.now.wall_ms());
        let databases = databases.start as u32..databases.end as u32;
        let from = (engine, Some(&*self.state), &mut *self.pending);
        key_change::tell_all(from, turnover, databases, |database, name| {
            let key = engine.store.key(name);
            let shard = locks.shard(key.hash);
            let presence = |database| Presence::of(shard.find(database, key, now_ms));
            (presence(database as usize), successor.map_or(Presence::Missing, presence))
        });
    }
}
