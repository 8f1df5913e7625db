//! Setting, replacing and removing keys as a whole. Each of these tells of the change; a command that edits in place does so
//! with [`Cx::changed`].

use sleeve_store::{Collection, Deadline, Garbage, Previous, Value};

use super::Cx;
use super::key_change::Cause;
use super::notifications::EventClass;
use crate::config::Opt;
use crate::request::Key;

impl Cx<'_> {
    /// Sets a key, whatever was there.
    #[inline]
    pub fn set(&mut self, key: Key<'_>, value: &Value<'_>, deadline: Deadline) {
        let (database, moment) = (self.state.database as usize, self.moment());
        let shard = self.locks.shard(key.hash);
        let (previous, garbage) = shard.set(database, key, value, deadline, moment);
        self.engine.lazy_free.now_or_later(garbage, self.engine.config.flag(Opt::LazyfreeLazyServerDel));
        if previous == Previous::Expired {
            self.tell(Cause::Expired, self.state.database, key);
        }
        self.changed(key);
        if previous != Previous::Live {
            self.notify(EventClass::New, "new", key);
        }
    }

    /// Puts a collection under a key, whatever was there, or removes the key if the collection is empty: the way of the
    /// commands that store a result. Whether there is a key now.
    pub fn set_collection<C: Collection>(&mut self, key: Key<'_>, collection: C) -> bool {
        if collection.is_empty() {
            self.remove(key);
            return false;
        }
        let is_new = self.peek(key).is_none();
        let (database, moment) = (self.state.database as usize, self.moment());
        let shard = self.locks.shard(key.hash);
        drop(shard.set_collection(database, key, collection, Deadline::Clear, moment));
        self.changed(key);
        if is_new {
            self.notify(EventClass::New, "new", key);
        }
        true
    }

    /// Removes a key; whether it was there. One whose time has come was not.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        self.take_off(Cause::Command, key).is_some()
    }

    /// As [`Cx::remove`], where the removal may be part of something else, and what it leaves is freed elsewhere.
    pub fn take_off(&mut self, cause: Cause<'_>, key: Key<'_>) -> Option<Garbage> {
        if self.expire_if_due(key) {
            return None;
        }
        let database = self.state.database;
        let garbage = self.locks.shard(key.hash).remove(database as usize, key)?;
        self.tell(cause, database, key);
        Some(garbage)
    }
}
