//! The keyspace with all databases: shards behind locks, and operations that span more than one shard.
//!
//! The highest bits of a key's hash choose its shard. In a node of a cluster these are bits of the key's slot, so that one
//! slot is in one shard; `value/key_hash` has the reasons. A caller that knows its keys locks their shards, one with
//! [`Store::lock`] or several with [`Store::lock_set`], and works on [`Shard`]s. The other functions here go through the
//! shards one after the other and hold one lock at a time. Any thread may call any of them.

pub mod capture;
pub mod due;
pub mod exchange;
pub mod locks;
pub mod shard;
pub mod slots;
pub mod updating;

use std::time::Duration;

use crate::table::entry::handle::EntryRef;
use crate::value::capture::queue::SnapshotQueue;
use crate::value::key_hash::{Hash, HashKey, Key};
use crate::value::key_hash::{Placement, SlotOf};
use locks::{Locked, SHARDS_MAX, ShardCell, ShardGuard, ShardSet};
use parking_lot::Mutex;
use shard::Shard;
use std::sync::Arc;

/// The settings with which a store is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of numbered databases, at least one.
    pub databases: usize,
    /// The number of shards: a power of two, at most [`SHARDS_MAX`].
    pub shards: usize,
    /// The secret of the keyed hash: 16 bytes from a good random source.
    pub secret: [u8; 16],
    /// The function that returns the slot of a key, if the keys of each slot are to lie together; see `slots`.
    pub slot_of: Option<SlotOf>,
}

/// The shards of a store unless the caller asks for another number.
pub const SHARDS_DEFAULT: usize = 64;

impl Options {
    /// Returns the options for 16 databases in [`SHARDS_DEFAULT`] shards.
    pub fn new(secret: [u8; 16]) -> Self {
        Self { databases: 16, shards: SHARDS_DEFAULT, secret, slot_of: None }
    }
}

/// The keyspace: all databases.
pub struct Store {
    shards: Box<[ShardCell]>,
    placement: Placement,
    /// The right shift that leaves the bits of a hash that choose the shard: 64 less their number.
    shard_shift: u32,
    databases: usize,
    /// The queue of the snapshot that has not ended, if there is one.
    pub(crate) queue: Mutex<Option<Arc<SnapshotQueue>>>,
}

/// Access to any shard of a store, one at a time: through the store itself, which locks it for the call, or through a caller
/// that may hold locks already.
pub trait Shards {
    /// Shows the shard of this index.
    fn look<R>(&mut self, shard: usize, look: impl FnOnce(&Shard) -> R) -> R;
}

impl Shards for &Store {
    fn look<R>(&mut self, shard: usize, look: impl FnOnce(&Shard) -> R) -> R {
        look(&self.lock(shard))
    }
}

impl Store {
    /// Returns an empty store.
    ///
    /// # Panics
    /// If `databases` is 0, or `shards` is not a power of two from 1 to [`SHARDS_MAX`].
    pub fn new(options: Options) -> Self {
        assert!(options.databases > 0, "a store has at least one database");
        let shards = options.shards;
        assert!(shards.is_power_of_two() && shards <= SHARDS_MAX, "the number of shards is a power of two up to 256");
        let placement = Placement::of_keys(HashKey::new(options.secret), shards, options.slot_of);
        Self::placed(placement, shards, options.databases)
    }

    fn placed(placement: Placement, shards: usize, databases: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| ShardCell::new(Shard::new(placement))).collect(),
            placement,
            shard_shift: 64 - placement.shard_bits,
            databases,
            queue: Mutex::new(None),
        }
    }

    /// Returns the number of databases.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the secret with which collections hash; see [`Collection::new`](crate::Collection::new).
    pub fn hash_key(&self) -> HashKey {
        self.placement.hash_key
    }

    /// Returns the keyed hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Hash {
        self.placement.hash(key)
    }

    /// Returns a key of this name, hashed.
    #[inline]
    pub fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        self.placement.key(name)
    }

    /// Returns the index of the shard that has the keys with this hash.
    #[inline]
    pub fn shard_of(&self, hash: Hash) -> usize {
        hash.0.checked_shr(self.shard_shift).unwrap_or(0) as usize
    }

    /// Locks one shard, and waits for it if need be.
    #[inline]
    pub fn lock(&self, shard: usize) -> ShardGuard<'_> {
        self.shards[shard].lock()
    }

    /// Locks one shard for background work. If another thread has it, tries again after a pause instead of waiting in line: a
    /// worker that unlocks a shard has to wake the thread that waits in line for it, which takes the worker as long as
    /// twenty requests, and beside a busy worker that would happen for every few keys of a snapshot. After a millisecond, waits
    /// in line.
    pub(crate) fn lock_in_background(&self, shard: usize) -> ShardGuard<'_> {
        self.shards[shard].lock_in_background()
    }

    /// Locks one shard unless another thread has it.
    #[inline]
    pub fn try_lock(&self, shard: usize) -> Option<ShardGuard<'_>> {
        self.shards[shard].try_lock()
    }

    /// Locks one shard, unless it is not free within `timeout`.
    #[inline]
    pub fn lock_within(&self, shard: usize, timeout: Duration) -> Option<ShardGuard<'_>> {
        self.shards[shard].lock_within(timeout)
    }

    /// Locks the shard that has the keys with this hash.
    #[inline]
    pub fn lock_of(&self, hash: Hash) -> ShardGuard<'_> {
        self.lock(self.shard_of(hash))
    }

    /// Locks several shards, in their order, so that two callers never wait for each other.
    pub fn lock_set(&self, set: ShardSet) -> Locked<'_> {
        Locked::new(&self.shards, set)
    }

    /// Locks several shards, unless one of them is not free within `timeout`.
    pub fn lock_set_within(&self, set: ShardSet, timeout: Duration) -> Option<Locked<'_>> {
        Locked::within(&self.shards, set, timeout)
    }

    /// Locks those shards of the set that no other thread has locked.
    pub fn lock_free(&self, set: ShardSet) -> Locked<'_> {
        Locked::free(&self.shards, set)
    }

    /// Locks all shards.
    pub fn lock_all(&self) -> Locked<'_> {
        Locked::new(&self.shards, ShardSet::all(self.shards.len()))
    }

    /// Returns the number of keys in a database, with expired ones that were not removed yet.
    pub fn len(&self, db: usize) -> usize {
        self.shards.iter().map(|cell| cell.lock().len(db)).sum()
    }

    /// Returns whether a database has no keys.
    pub fn is_empty(&self, db: usize) -> bool {
        self.len(db) == 0
    }

    /// Returns the number of keys in a database that have a deadline.
    pub fn volatile_len(&self, db: usize) -> usize {
        self.shards.iter().map(|cell| cell.lock().volatile_len(db)).sum()
    }

    /// Returns the bytes of all keys and tables.
    pub fn memory(&self) -> usize {
        self.shards.iter().map(|cell| cell.lock().memory()).sum::<usize>() + self.fixed_memory()
    }

    /// Returns the bytes that an empty store takes; [`Store::memory`] counts them too. It locks no shard.
    pub fn fixed_memory(&self) -> usize {
        size_of_val(&*self.shards)
    }

    /// Walks one step over the keys of a database: shows about `count` entries from `cursor` on, expired ones included, and
    /// returns the next cursor, below 2^48. The walk begins with cursor 0 and has ended when 0 is returned. A key that is
    /// there from the first step to the last is shown exactly once, even if other keys change in between. Any cursor is
    /// valid. One shard is locked at a time.
    pub fn scan(&self, db: usize, cursor: u64, count: usize, show: impl FnMut(EntryRef<'_>)) -> u64 {
        self.scan_in(&mut &*self, db, cursor, count, show)
    }

    /// Does the same as [`Store::scan`], for a caller that has its own way to this store's shards.
    pub fn scan_in(
        &self,
        shards: &mut impl Shards,
        db: usize,
        cursor: u64,
        count: usize,
        mut show: impl FnMut(EntryRef<'_>),
    ) -> u64 {
        let shard_bits = self.placement.shard_bits;
        let (mut hash, mut wanted) = (Hash(cursor << CURSOR_SHIFT), count.max(1));
        let mut buckets_left = wanted.saturating_mul(SCAN_BUCKETS_PER_KEY);
        loop {
            let shard = self.shard_of(hash);
            let stopped_at = shards.look(shard, |shard| {
                let mut position = Some(hash.0 << shard_bits);
                while let Some(from) = position {
                    let (next, shown, buckets) = shard.walk(db, from, wanted, &mut show);
                    position = next;
                    wanted = wanted.saturating_sub(shown);
                    buckets_left = buckets_left.saturating_sub(buckets.max(1));
                    if next.is_some() && (wanted == 0 || buckets_left == 0) {
                        break;
                    }
                }
                position
            });
            if let Some(next) = stopped_at {
                return (self.start_of(shard) | next >> shard_bits) >> CURSOR_SHIFT;
            }
            if shard + 1 == self.shards.len() {
                return 0;
            }
            hash = Hash(self.start_of(shard + 1));
            if wanted == 0 || buckets_left == 0 {
                return hash.0 >> CURSOR_SHIFT;
            }
        }
    }

    /// Returns the lowest hash of a shard.
    fn start_of(&self, shard: usize) -> u64 {
        (shard as u64).checked_shl(self.shard_shift).unwrap_or(0)
    }

    /// Shows one entry of a database, expired or not, that `random` chooses; all are about equally likely. None if
    /// the database is empty.
    pub fn random<R>(&self, db: usize, random: u64, show: impl FnOnce(EntryRef<'_>) -> R) -> Option<R> {
        self.random_in(&mut &*self, db, random, show)
    }

    /// Does the same as [`Store::random`], for a caller that has its own way to this store's shards.
    pub fn random_in<R>(
        &self,
        shards: &mut impl Shards,
        db: usize,
        random: u64,
        show: impl FnOnce(EntryRef<'_>) -> R,
    ) -> Option<R> {
        let total: usize = (0..self.shards()).map(|at| shards.look(at, |shard| shard.len(db))).sum();
        let mut rest = ((u128::from(random) * total as u128) >> 64) as usize;
        let start = (0..self.shards()).position(|at| {
            let len = shards.look(at, |shard| shard.len(db));
            let is_here = rest < len;
            rest -= if is_here { 0 } else { len };
            is_here
        });
        // Keys may have been added or removed since they were counted; if so, any shard that has keys will do.
        let start = start.unwrap_or(0);
        let mut show = Some(show);
        (start..self.shards()).chain(0..start).find_map(|at| {
            shards.look(at, |shard| shard.random(db, random).and_then(|entry| show.take().map(|show| show(entry))))
        })
    }
}

/// A cursor is the upper 48 bits of a hash: the boundaries between buckets never need more.
const CURSOR_SHIFT: u32 = 16;

/// The largest number of buckets that a scan visits for each key that it was asked for.
const SCAN_BUCKETS_PER_KEY: usize = 10;
