//! Expired fields of hashes, and their removal by the shard.
//!
//! The shard keeps the hashes with such fields in the order in which they are due (`due`), and updates that order whenever
//! the value of a key changes. A caller that knows the time asks whether a hash is due, takes one hash after the other, and
//! removes a bounded part of its fields. Under the shard's lock.

use super::shard::Shard;
use crate::table::Lookup;
use crate::types::hash::Map;
use crate::value::key_hash::{Hash, Key};

/// Fields of one hash that were removed because their time had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredFields {
    /// Their names; at least one.
    pub fields: Vec<Box<[u8]>>,
    /// They were the last, so the key has been removed.
    pub emptied: bool,
}

impl Shard {
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

    /// Removes expired fields of a hash, looking at some `budget` of them: all of a small one. None if there are none.
    pub fn expire_fields(&mut self, db: usize, key: Key<'_>, now_ms: i64, budget: usize) -> Option<ExpiredFields> {
        let mut fields = Vec::new();
        let expire = |map: &mut Map| map.expire(now_ms, budget, |field| fields.push(field.into()));
        let Ok(Lookup::Live(updated)) = self.update_present(db, key, now_ms, || false, |_| {}, expire) else {
            return None;
        };
        let emptied = updated.emptied;
        (!fields.is_empty()).then_some(ExpiredFields { fields, emptied })
    }
}
