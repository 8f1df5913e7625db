//! The keys of one slot, in a store that is placed by slot (`value/key_hash`): counted, walked, removed, and digested.
//!
//! All keys of a slot are in one shard, which [`Store::shard_of_slot`] names, and side by side in its table. So the count is one
//! load, and each step of a walk or a removal is bounded by the keys that its caller asks for and by one segment, however
//! many keys other slots have. Callers hold the shard's lock for a step, and may let go of it between two steps: a key that
//! stays is met exactly once, whatever else changes. A store that is placed by hash has no keys in any slot.

use crate::keyspace::Store;
use crate::keyspace::shard::Shard;
use crate::table::Table;
use crate::table::entry::handle::{EntryRef, Garbage};
use crate::value::key_hash::{Hash, SLOT_BITS};

/// The place at which a walk of a slot goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPosition(u64);

/// The bytes of a digest: those of SHA-1.
const DIGEST_BYTES: usize = 20;

/// The most keys that are taken out of a slot at once; their names are copied first.
const REMOVED_AT_ONCE: usize = 64;

impl Store {
    /// Returns whether the keys of each slot lie together.
    pub fn is_by_slot(&self) -> bool {
        self.placement.is_by_slot()
    }

    /// Returns the shard that has the keys of a slot, if the store is placed by slot.
    pub fn shard_of_slot(&self, slot: u16) -> usize {
        self.shard_of(Hash::first_of(slot))
    }

    /// Returns the number of keys in a slot of a database, with expired ones that were not removed yet. It takes the time of
    /// a lock and a load.
    pub fn keys_in_slot(&self, db: usize, slot: u16) -> u64 {
        keys_in_slot(&self.lock(self.shard_of_slot(slot)), db, slot)
    }
}

/// Returns the number of keys in a slot of this shard, as [`Store::keys_in_slot`] does.
pub fn keys_in_slot(shard: &Shard, db: usize, slot: u16) -> u64 {
    table_of(shard, db).map_or(0, |table| table.slot_len(row_of(shard, slot)) as u64)
}

/// Shows about `wanted` entries of a slot of this shard, expired ones included, from `from` on or from the first. Returns the
/// place at which the next step begins; none if the slot has been walked to its end.
pub fn walk_slot<'a>(
    shard: &'a Shard,
    (db, slot): (usize, u16),
    from: Option<SlotPosition>,
    wanted: usize,
    show: impl FnMut(EntryRef<'a>),
) -> Option<SlotPosition> {
    let row = row_of(shard, slot);
    let table = table_of(shard, db).filter(|table| table.slot_len(row) > 0)?;
    table.walk_slot(row, from.map_or(0, |from| from.0), wanted.max(1), show).map(SlotPosition)
}

/// Removes at most `limit` keys of a slot of this shard, expired ones too. `on_removed` receives each key and its memory, to be
/// freed. Returns the number of keys that are left.
pub fn remove_in_slot(
    shard: &mut Shard,
    (db, slot): (usize, u16),
    limit: usize,
    mut on_removed: impl FnMut(&[u8], Garbage),
) -> u64 {
    let mut left = limit;
    while left > 0 && keys_in_slot(shard, db, slot) > 0 {
        let wanted = left.min(REMOVED_AT_ONCE);
        let (mut names, mut from) = (Vec::<Box<[u8]>>::new(), None);
        while names.len() < wanted {
            from = walk_slot(shard, (db, slot), from, wanted - names.len(), |entry| names.push(entry.key().into()));
            if from.is_none() {
                break;
            }
        }
        // A step shows a few more entries than it was asked for.
        names.truncate(wanted);
        left -= names.len();
        for name in &names {
            if let Some(garbage) = shard.remove(db, shard.placement.key(name)) {
                on_removed(name, garbage);
            }
        }
    }
    keys_in_slot(shard, db, slot)
}

/// Returns a digest of all keys in a slot of this shard: the exclusive-or of the digests that `digest` returns for each of them,
/// so it does not depend on their order. The digest of no keys is zero.
pub fn slot_digest(
    shard: &Shard,
    (db, slot): (usize, u16),
    mut digest: impl FnMut(&EntryRef<'_>) -> [u8; DIGEST_BYTES],
) -> [u8; DIGEST_BYTES] {
    let (mut sum, mut from) = ([0; DIGEST_BYTES], None);
    loop {
        from = walk_slot(shard, (db, slot), from, usize::MAX, |entry| {
            let bytes = digest(&entry);
            sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
        });
        if from.is_none() {
            return sum;
        }
    }
}

fn table_of(shard: &Shard, db: usize) -> Option<&Table> {
    shard.tables.get(db).filter(|_| shard.placement.is_by_slot())
}

/// Returns the row of a slot in the tables of its shard.
fn row_of(shard: &Shard, slot: u16) -> usize {
    let position = shard.placement.position(Hash::first_of(slot));
    (position >> (64 - SLOT_BITS + shard.placement.shard_bits)) as usize
}
