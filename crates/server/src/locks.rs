//! The shard locks that the running command holds.
//!
//! A command holds the shards of its keys. A command without keys that is about the whole keyspace takes one shard after
//! the other, or, when it must see one instant, all of them. Inside EXEC everything that the queue needs is taken at
//! once and nothing is added. Several locks are always taken together and in shard order, so no two threads can wait
//! for each other.

use sleeve_store::{Flushed, Hash, Locked, Shard, ShardGuard, ShardSet, Shards, Store};

/// Shards locked for one command or transaction. Unlocks when cleared or dropped.
pub struct Locks<'s> {
    store: &'s Store,
    held: Held<'s>,
}

enum Held<'s> {
    Nothing,
    One(usize, ShardGuard<'s>),
    /// Together with what is freed after they are unlocked: fields are dropped in their order.
    Several(Locked<'s>, Vec<Flushed>),
}

impl<'s> Locks<'s> {
    /// Holds nothing.
    pub fn new(store: &'s Store) -> Self {
        Self { store, held: Held::Nothing }
    }

    /// Takes the one shard of a key. Nothing may be held.
    #[inline]
    pub fn take_one(&mut self, hash: Hash) {
        debug_assert!(self.is_empty(), "a lock is taken on top of another");
        let index = self.store.shard_of(hash);
        self.held = Held::One(index, self.store.lock(index));
    }

    /// Takes the shards of these keys. Nothing may be held.
    pub fn take(&mut self, hashes: impl Iterator<Item = Hash>) {
        debug_assert!(self.is_empty(), "a lock is taken on top of another");
        let set: ShardSet = hashes.map(|hash| self.store.shard_of(hash)).collect();
        if !set.is_empty() {
            self.held = Held::Several(self.store.lock_set(set), Vec::new());
        }
    }

    /// Takes all shards. Nothing may be held, or all of them.
    pub fn take_all(&mut self) {
        if self.is_empty() {
            self.held = Held::Several(self.store.lock_all(), Vec::new());
        }
    }

    /// Whether no lock is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self.held, Held::Nothing)
    }

    /// Unlocks everything.
    #[inline]
    pub fn clear(&mut self) {
        self.held = Held::Nothing;
    }

    /// The locked shard of a key.
    ///
    /// # Panics
    /// When the shard is not held: the command's row in the table does not name this key.
    #[inline]
    pub fn shard(&mut self, hash: Hash) -> &mut Shard {
        let wanted = self.store.shard_of(hash);
        match &mut self.held {
            Held::One(index, guard) if *index == wanted => guard,
            Held::Several(locked, _) => locked.shard_mut(wanted),
            Held::One(..) | Held::Nothing => panic!("a key is used that the command's row does not name"),
        }
    }

    /// Runs `f` on one shard, taking its lock for that long when no locks are held.
    pub fn with<T>(&mut self, index: usize, f: impl FnOnce(&mut Shard) -> T) -> T {
        match &mut self.held {
            Held::Nothing => f(&mut self.store.lock(index)),
            Held::One(held, guard) if *held == index => f(guard),
            Held::Several(locked, _) => f(locked.shard_mut(index)),
            Held::One(..) => panic!("a shard is used that the command's row does not name"),
        }
    }

    /// Runs `f` on every shard in order; see [`Locks::with`].
    pub fn for_each(&mut self, mut f: impl FnMut(&mut Shard)) {
        (0..self.store.shards()).for_each(|index| self.with(index, &mut f));
    }

    /// Takes over what a flush has taken out and frees it as soon as all locks are given back.
    pub fn free_when_unlocked(&mut self, mut flushed: Vec<Flushed>) {
        if let Held::Several(_, garbage) = &mut self.held {
            garbage.append(&mut flushed);
        }
    }
}

impl Shards for Locks<'_> {
    fn look<R>(&mut self, shard: usize, look: impl FnOnce(&Shard) -> R) -> R {
        self.with(shard, |shard| look(shard))
    }
}
