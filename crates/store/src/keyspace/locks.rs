//! The lock of a shard, and several of them held at once without an allocation.
//!
//! A [`ShardSet`] gathers the shards that a command's keys need; [`Locked`] locks them in ascending order, which is
//! the order that every thread keeps, and unlocks them all when it is dropped. A caller must not hold the lock of one
//! shard while it asks for another one by other means.

use parking_lot::{Mutex, MutexGuard};
use std::marker::PhantomData;
use std::thread;
use std::time::Duration;

use super::shard::Shard;

/// The most shards that a store can have.
pub const SHARDS_MAX: usize = 256;

/// The pause of background work between two tries to lock a shard. The kernel makes some 50 us of it.
const PAUSE: Duration = Duration::from_micros(5);

/// The number of tries after which background work waits in line for a shard: a millisecond or so.
const TRIES_MAX: u32 = 20;

/// A locked shard.
pub type ShardGuard<'a> = MutexGuard<'a, Shard>;

/// A lock with its shard, on cache lines of its own so that two workers' locks never share one.
#[repr(align(128))]
pub(crate) struct ShardCell(Mutex<Shard>);

impl ShardCell {
    pub fn new(shard: Shard) -> Self {
        Self(Mutex::new(shard))
    }

    #[inline]
    pub fn lock(&self) -> ShardGuard<'_> {
        self.0.lock()
    }

    pub fn lock_in_background(&self) -> ShardGuard<'_> {
        for _ in 0..TRIES_MAX {
            if let Some(shard) = self.try_lock() {
                return shard;
            }
            thread::sleep(PAUSE);
        }
        self.lock()
    }

    #[inline]
    pub fn try_lock(&self) -> Option<ShardGuard<'_>> {
        self.0.try_lock()
    }

    #[inline]
    pub fn lock_within(&self, timeout: Duration) -> Option<ShardGuard<'_>> {
        self.0.try_lock_for(timeout)
    }
}

const WORDS: usize = SHARDS_MAX / 64;

/// A set of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet([u64; WORDS]);

impl ShardSet {
    /// Returns the set of the first `shards` shards.
    pub fn all(shards: usize) -> Self {
        (0..shards).collect()
    }

    /// Adds a shard.
    ///
    /// # Panics
    /// If the index is not below [`SHARDS_MAX`].
    #[inline]
    pub fn insert(&mut self, shard: usize) {
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    /// Returns whether the shard is in the set.
    #[inline]
    pub fn contains(&self, shard: usize) -> bool {
        self.0.get(shard / 64).is_some_and(|word| word >> (shard % 64) & 1 == 1)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Returns an iterator over the shards, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(index, &word): (usize, &u64)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> Self {
        let mut set = Self::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

/// Shards that are locked together.
pub struct Locked<'a> {
    cells: &'a [ShardCell],
    set: ShardSet,
    /// A marker that keeps this type on its thread: a lock is released by the thread that took it.
    guards: PhantomData<ShardGuard<'a>>,
}

impl<'a> Locked<'a> {
    pub(crate) fn new(cells: &'a [ShardCell], set: ShardSet) -> Self {
        for shard in set.iter() {
            std::mem::forget(cells[shard].lock());
        }
        Self { cells, set, guards: PhantomData }
    }

    /// Locks all shards of the set. If one of them is not free within `timeout`, none is locked.
    pub(crate) fn within(cells: &'a [ShardCell], set: ShardSet, timeout: Duration) -> Option<Self> {
        let mut locked = Self { cells, set: ShardSet::default(), guards: PhantomData };
        for shard in set.iter() {
            std::mem::forget(cells[shard].lock_within(timeout)?);
            locked.set.insert(shard);
        }
        Some(locked)
    }

    /// Locks the shards of the set that are not locked yet. If one of them is not free within `timeout`, returns false, and
    /// the shards that were locked before stay the only ones. The other threads' locks must be such that they never wait
    /// for a shard of this value.
    pub fn add_within(&mut self, set: ShardSet, timeout: Duration) -> bool {
        let missing = set.iter().filter(|shard| !self.set.contains(*shard)).collect();
        let Some(mut added) = Self::within(self.cells, missing, timeout) else { return false };
        added.set.iter().for_each(|shard| self.set.insert(shard));
        added.set = ShardSet::default();
        true
    }

    /// Locks the shards of the set that no other thread has locked.
    pub(crate) fn free(cells: &'a [ShardCell], set: ShardSet) -> Self {
        let mut locked = Self { cells, set: ShardSet::default(), guards: PhantomData };
        for shard in set.iter() {
            if let Some(guard) = cells[shard].try_lock() {
                std::mem::forget(guard);
                locked.set.insert(shard);
            }
        }
        locked
    }

    /// Returns the shards that are locked.
    pub fn set(&self) -> &ShardSet {
        &self.set
    }

    /// Returns a locked shard.
    ///
    /// # Panics
    /// If this shard is not among those that were locked.
    #[inline]
    pub fn shard(&self, shard: usize) -> &Shard {
        assert!(self.set.contains(shard), "the shard is locked");
        // SAFETY: this value holds the lock, and gives the shard out mutably only while it is borrowed mutably itself.
        unsafe { &*self.cells[shard].0.data_ptr() }
    }

    /// Returns a locked shard, to be changed.
    ///
    /// # Panics
    /// If this shard is not among those that were locked.
    #[inline]
    pub fn shard_mut(&mut self, shard: usize) -> &mut Shard {
        assert!(self.set.contains(shard), "the shard is locked");
        // SAFETY: this value holds the lock and is borrowed mutably.
        unsafe { &mut *self.cells[shard].0.data_ptr() }
    }

    /// Calls a function with each locked shard and its index, in ascending order, to change it.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(usize, &mut Shard)) {
        let set = self.set;
        set.iter().for_each(|shard| change(shard, self.shard_mut(shard)));
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        for shard in self.set.iter() {
            // SAFETY: `new`, `within` or `free` locked this shard and forgot the guard.
            drop(unsafe { MutexGuard::from(self.cells[shard].0.make_guard_unchecked()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::Store;

    #[test]
    fn only_free_shards_are_locked_and_all_of_them_given_back() {
        let store = Store::new(Options { shards: 4, ..Options::new([0; 16]) });
        let held = store.lock(2);
        let set = ShardSet::from_iter([1, 2, 3]);
        assert_eq!(*store.lock_free(set).set(), ShardSet::from_iter([1, 3]));
        assert_eq!(*store.lock_free(set).set(), ShardSet::from_iter([1, 3]));
        drop(held);
        assert_eq!(*store.lock_free(set).set(), set);
    }

    #[test]
    fn background_work_gets_a_shard_that_was_held_for_a_moment_or_for_long() {
        let store = Store::new(Options { shards: 2, ..Options::new([0; 16]) });
        for held in [Duration::ZERO, PAUSE * TRIES_MAX * 40] {
            let guard = store.lock(1);
            thread::scope(|scope| {
                let background = scope.spawn(|| drop(store.lock_in_background(1)));
                thread::sleep(held);
                assert!(!background.is_finished(), "it has a shard that is held");
                drop(guard);
            });
        }
    }

    #[test]
    fn shards_are_added_together_or_not_at_all() {
        let store = Store::new(Options { shards: 4, ..Options::new([0; 16]) });
        let mut locked = store.lock_set(ShardSet::from_iter([1]));
        let other = store.lock(2);
        assert!(!locked.add_within(ShardSet::all(4), Duration::ZERO));
        assert_eq!((*locked.set(), store.try_lock(0).is_some()), (ShardSet::from_iter([1]), true));
        drop(other);
        assert!(locked.add_within(ShardSet::all(4), Duration::ZERO) && store.try_lock(0).is_none());
        assert_eq!(*locked.set(), ShardSet::all(4));
        drop(locked);
        assert_eq!(*store.lock_free(ShardSet::all(4)).set(), ShardSet::all(4));
    }
}
