//! Keys that come in great numbers and should not be there yet: the loading of a file.
//!
//! Under the shard's lock. No time is known here: a key whose time is over is there.

use super::shard::{Shard, due_ms};
use crate::table::entry::body::Body;
use crate::value::collection::{Collection, Object};
use crate::value::key_hash::Key;

impl Shard {
    /// Adds a key; false, and nothing is done, if it is there.
    #[inline]
    pub(crate) fn add(&mut self, db: usize, key: Key<'_>, body: Body<'_>, deadline: Option<i64>, clock: u32) -> bool {
        let position = self.placement.position(key.hash);
        let table = self.table_mut(db);
        if table.find(position, key.name).is_some() {
            return false;
        }
        let due_ms = due_ms(&body);
        table.insert(position, key.name, body, deadline, clock);
        if let Some(due_ms) = due_ms {
            self.due[db].announce(key.hash, key.name, due_ms);
        }
        true
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
        match Body::inline(&collection) {
            Some(body) => self.add(db, key, body, deadline, clock),
            None => self.add(db, key, Body::Object(Object::new(collection)), deadline, clock),
        }
    }
}
