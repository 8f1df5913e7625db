//! Keys that are added: in great numbers as a file is loaded, and one by one by a change.
//!
//! Under the shard's lock. No time is known here: an expired key counts as present.

use super::shard::{Shard, due_ms, with_body};
use crate::table::entry::body::Body;
use crate::value::collection::Collection;
use crate::value::key_hash::Key;

impl Shard {
    /// Adds a key; false, and nothing is done, if it is there.
    #[inline]
    pub(crate) fn add(&mut self, db: usize, key: Key<'_>, body: Body<'_>, deadline: Option<i64>, clock: u32) -> bool {
        let position = self.placement.position(key.hash);
        let is_new = self.table_mut(db).find(position, key.name).is_none();
        if is_new {
            self.insert(db, key, body, deadline, clock);
        }
        is_new
    }

    /// Adds a key with a collection; false, and nothing is done, if it is there.
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

    /// Adds a key with a collection. The caller has looked: it is not there.
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
