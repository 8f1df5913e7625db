//! Collections that are changed under their keys, wherever they lie.
//!
//! Under the shard's lock. A key is looked for once, whether or not keys of its database have deadlines.

use super::shard::{Moment, Shard, forget_if_gone};
use crate::table::Lookup;
use crate::table::entry::handle::{Change, EntryRef, Garbage};
use crate::value::Deadline;
use crate::value::collection::Collection;
use crate::value::key_hash::{Hash, Key};

/// The result of changing a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated<R> {
    /// The result that the change returned.
    pub result: R,
    /// The collection became empty, so the key was removed.
    pub emptied: bool,
    /// The key was not there before.
    pub created: bool,
}

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind;

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

    /// Puts a collection that was made under a key that has none. It is given the words of the key one by one, as on the way of
    /// a collection that is there they are never laid down.
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
            // It only looks gone, and gives way.
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
}
