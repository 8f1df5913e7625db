//! The shard locks that the running command holds.
//!
//! A command holds the shards that its row's reach names: those of its keys, or all; or it takes one after the other. Inside
//! EXEC everything that the queue needs is taken at once and nothing is added. Several locks are always taken together and
//! in shard order, and a single one is given back before another is taken, so no two threads can wait for each other.
//!
//! Who has all shards may be a script that runs for long, and whoever needs a shard then is told so instead of waiting. Who
//! goes from shard to shard could not be told on the way, so either one command has all of them, or any number go
//! ([`AllOrEach`]).
//!
//! A single lock outlives its command until the next one of the batch wants another: with one shard, which is what one
//! worker has, a whole batch takes its lock once. Nothing is sent and nothing is waited for meanwhile.

use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::memory_accounting::Estimate;
use sleeve_store::{Flushed, Hash, Locked, Shard, ShardGuard, ShardSet, Shards, Store};

/// Shards locked for one command or transaction. Unlocks when cleared or dropped.
pub struct Locks<'s> {
    store: &'s Store,
    all_or_each: &'s AllOrEach,
    held: Held<'s>,
    turn: Turn<'s>,
}

/// Exclusive for who has all shards, shared among those who take one after the other.
pub type AllOrEach = RwLock<()>;

/// Which part of [`AllOrEach`] is held. The guards are held for their ends alone.
enum Turn<'s> {
    Neither,
    Each { _guard: RwLockReadGuard<'s, ()> },
    All { _guard: RwLockWriteGuard<'s, ()> },
}

enum Held<'s> {
    Nothing,
    One(usize, ShardGuard<'s>),
    /// Together with what is freed after they are unlocked: fields are dropped in their order.
    Several(Locked<'s>, Vec<Flushed>),
}

impl<'s> Locks<'s> {
    /// Holds nothing.
    pub fn new(store: &'s Store, all_or_each: &'s AllOrEach) -> Self {
        Self { store, all_or_each, held: Held::Nothing, turn: Turn::Neither }
    }

    /// Gives back what is held, and says that single shards will be taken one after the other; false when somebody has all
    /// of them and does not give them back in time.
    pub fn begin_each_within(&mut self, patience: Duration) -> bool {
        self.held = Held::Nothing;
        if !matches!(self.turn, Turn::Each { .. }) {
            self.turn = Turn::Neither;
            let Some(guard) = self.all_or_each.try_read_for(patience) else { return false };
            self.turn = Turn::Each { _guard: guard };
        }
        true
    }

    /// Takes the one shard of a key, or keeps it if it is held alone.
    #[inline]
    pub fn take_one(&mut self, hash: Hash) {
        let index = self.store.shard_of(hash);
        if !matches!(self.held, Held::One(held, _) if held == index) {
            self.held = Held::Nothing;
            self.held = Held::One(index, self.store.lock(index));
        }
    }

    /// Takes the one shard of a key, or keeps it if it is held alone; false, and nothing is held, when it does not come
    /// free in time.
    #[inline]
    pub fn take_one_within(&mut self, hash: Hash, patience: Duration) -> bool {
        let index = self.store.shard_of(hash);
        if !matches!(self.held, Held::One(held, _) if held == index) {
            self.held = Held::Nothing;
            let Some(guard) = self.store.lock_within(index, patience) else { return false };
            self.held = Held::One(index, guard);
        }
        true
    }

    /// Takes those of the shards of these keys that no other thread has, instead of what is held; a lone shard is kept.
    pub fn take_free(&mut self, hashes: impl Iterator<Item = Hash>) {
        if self.store.shards() > 1 {
            self.held = Held::Nothing;
            let set = hashes.map(|hash| self.store.shard_of(hash)).collect();
            self.held = Held::Several(self.store.lock_free(set), Vec::new());
        } else if self.is_empty() {
            self.held = self.store.try_lock(0).map_or(Held::Nothing, |guard| Held::One(0, guard));
        }
    }

    /// Takes the shards of these keys instead of what is held; false, and nothing is held, when they do not come free in
    /// time.
    pub fn take_within(&mut self, hashes: impl Iterator<Item = Hash>, patience: Duration) -> bool {
        let set = hashes.map(|hash| self.store.shard_of(hash)).collect();
        self.take_set_within(set, patience)
    }

    /// Takes all shards instead of the one that is held, as [`Locks::take_within`]; if several are, they must be all of
    /// them.
    pub fn take_all_within(&mut self, patience: Duration) -> bool {
        if matches!(self.held, Held::Several(..)) {
            return true;
        }
        self.clear();
        let Some(guard) = self.all_or_each.try_write_for(patience) else { return false };
        let is_taken = self.take_set_within(ShardSet::all(self.store.shards()), patience);
        // Who holds a shard may be waiting for its turn to go on to another.
        self.turn = if is_taken { Turn::All { _guard: guard } } else { Turn::Neither };
        is_taken
    }

    fn take_set_within(&mut self, set: ShardSet, patience: Duration) -> bool {
        self.held = Held::Nothing;
        if set.is_empty() {
            return true;
        }
        let Some(locked) = self.store.lock_set_within(set, patience) else { return false };
        self.held = Held::Several(locked, Vec::new());
        true
    }

    /// Takes the shards of these keys instead of the one that is held. While that is held nobody has all shards, and who is
    /// about to take them gives up his turn when one does not come free: so this waits for short commands alone.
    pub fn take(&mut self, hashes: impl Iterator<Item = Hash>) {
        self.turn = Turn::Neither;
        // Active expiry has a turn of its own around this.
        let guard = self.all_or_each.read_recursive();
        self.turn = Turn::Each { _guard: guard };
        self.held = Held::Nothing;
        let set: ShardSet = hashes.map(|hash| self.store.shard_of(hash)).collect();
        if !set.is_empty() {
            self.held = Held::Several(self.store.lock_set(set), Vec::new());
        }
    }

    /// Whether the shard of a key is held.
    pub fn holds(&self, hash: Hash) -> bool {
        let wanted = self.store.shard_of(hash);
        match &self.held {
            Held::Nothing => false,
            Held::One(index, _) => *index == wanted,
            Held::Several(locked, _) => locked.set().contains(wanted),
        }
    }

    /// Whether no lock is held.
    pub fn is_empty(&self) -> bool {
        matches!(self.held, Held::Nothing)
    }

    /// Ends a command: a single lock stays, because the next command of the batch often wants the same one.
    #[inline]
    pub fn end_command(&mut self) {
        if !matches!(self.held, Held::One(..)) {
            self.clear();
        }
    }

    /// Unlocks what is held, and goes on taking shards one after the other if that was begun.
    pub fn unlock(&mut self) {
        self.held = Held::Nothing;
    }

    /// Unlocks everything.
    #[inline]
    pub fn clear(&mut self) {
        self.held = Held::Nothing;
        self.turn = Turn::Neither;
    }

    /// Says what the shards that are held weigh now.
    pub fn weigh(&self, estimate: &Estimate) {
        match &self.held {
            Held::Nothing => {}
            Held::One(index, guard) => estimate.note(*index, guard.memory()),
            Held::Several(locked, _) => {
                locked.set().iter().for_each(|index| estimate.note(index, locked.shard(index).memory()));
            }
        }
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

    /// The same, for whoever reads several keys at once.
    ///
    /// # Panics
    /// As [`Locks::shard`].
    pub fn view(&self, hash: Hash) -> &Shard {
        let wanted = self.store.shard_of(hash);
        match &self.held {
            Held::One(index, guard) if *index == wanted => guard,
            Held::Several(locked, _) => locked.shard(wanted),
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
