//! The shard locks that the running command holds.
//!
//! A command holds the shards that its row's reach names: those of its keys, or all; or it takes one after the other. Inside
//! EXEC all shards that the queue needs are taken at once and none is added. Several locks are always taken together and in
//! shard order, and a single one is released before another is taken, so no two threads can wait for each other.
//!
//! A script holds all shards, or, in a cluster, that of its slot, and it may run for long. A client that needs a shard then
//! gets an error instead of waiting. A command that goes from shard to shard could not get that error in the middle. So one
//! command has all shards, or any number of commands go from shard to shard, or any number of scripts have a shard each
//! ([`Turns`]).
//!
//! A script with one shard may turn out to need others. It keeps its shard and takes the others as soon as it is the only
//! script that runs. Two scripts that need this at the same time would wait for each other, so the second is refused.
//!
//! Changes that were recorded under locks go to the journal before the locks are released, and only this module releases them
//! ([`Recorder`]).
//!
//! A single lock is kept after its command until the next command of the batch needs another shard. With one shard, which is
//! the number for one worker, a whole batch takes its lock once. While a lock is kept in this way, nothing is sent and no
//! thread waits.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::memory_accounting::Estimate;
use super::turns::{Turn, TurnKind, Turns, Widened};
use crate::engine::journal::Recorder;
use sleeve_store::snapshot::{Snapshot, Unfinished, Waiting};
use sleeve_store::{Flushed, Hash, Locked, Shard, ShardGuard, ShardSet, Shards, Store};

/// Shards locked for one command or transaction. Unlocks when cleared or dropped.
pub struct Locks<'s> {
    store: &'s Store,
    turns: &'s Turns,
    held: Held<'s>,
    turn: Option<Turn<'s>>,
    /// The changes that are recorded under the locks.
    pub recorder: Recorder<'s>,
}

/// The time that a thread which serves no client waits for all shards before it lets other threads have a turn.
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(5);

enum Held<'s> {
    Nothing,
    One(usize, ShardGuard<'s>),
    /// Several shards, and the memory that is freed after they are unlocked: fields are dropped in their order.
    Several(Locked<'s>, Vec<Flushed>),
}

impl<'s> Locks<'s> {
    /// Makes a value that holds no lock.
    pub fn new(store: &'s Store, turns: &'s Turns, recorder: Recorder<'s>) -> Self {
        Self { store, turns, held: Held::Nothing, turn: None, recorder }
    }

    /// Releases the held shards, after the changes that were recorded under them have been appended to the journal.
    #[inline]
    fn give_back(&mut self) {
        if self.recorder.is_due() {
            self.settle();
        } else if !self.is_empty() {
            self.held = Held::Nothing;
        }
    }

    #[inline(never)]
    fn settle(&mut self) {
        match &self.held {
            Held::Nothing => self.recorder.settle(std::iter::empty()),
            Held::One(index, _) => self.recorder.settle(std::iter::once(*index)),
            Held::Several(locked, _) => self.recorder.settle(locked.set().iter()),
        }
        self.held = Held::Nothing;
        self.recorder.ring();
    }

    /// Releases the held shards, and announces that single shards will be taken one after the other. Returns false if another
    /// thread has all shards, or runs a script, and does not end in time.
    pub fn begin_each_within(&mut self, timeout: Duration) -> bool {
        self.give_back();
        if !self.turn.as_ref().is_some_and(|turn| turn.kind() == TurnKind::Each) {
            self.turn = None;
            self.turn = self.turns.take_within(TurnKind::Each, timeout);
        }
        self.turn.is_some()
    }

    /// Takes the shard of a key instead of the held ones, unless it is the only one held.
    #[inline]
    pub fn take_one(&mut self, hash: Hash) {
        let index = self.store.shard_of(hash);
        if !matches!(self.held, Held::One(held, _) if held == index) {
            self.give_back();
            self.held = Held::One(index, self.store.lock(index));
        }
    }

    /// Takes the shard of a key as [`Locks::take_one`] does. Returns false, with nothing held, if it does not become free in
    /// time.
    #[inline]
    pub fn take_one_within(&mut self, hash: Hash, timeout: Duration) -> bool {
        let index = self.store.shard_of(hash);
        if !matches!(self.held, Held::One(held, _) if held == index) {
            self.give_back();
            let Some(guard) = self.store.lock_within(index, timeout) else { return false };
            self.held = Held::One(index, guard);
        }
        true
    }

    /// Takes, instead of the held shards, those of these keys that no other thread holds; a single held shard is kept.
    pub fn take_free(&mut self, hashes: impl Iterator<Item = Hash>) {
        if self.store.shards() > 1 {
            self.give_back();
            let set = hashes.map(|hash| self.store.shard_of(hash)).collect();
            self.held = Held::Several(self.store.lock_free(set), Vec::new());
        } else if self.is_empty() {
            self.held = self.store.try_lock(0).map_or(Held::Nothing, |guard| Held::One(0, guard));
        }
    }

    /// Takes the shards of these keys instead of the held ones. Returns false, with nothing held, if they do not become free
    /// in time.
    pub fn take_within(&mut self, hashes: impl Iterator<Item = Hash>, timeout: Duration) -> bool {
        let set = hashes.map(|hash| self.store.shard_of(hash)).collect();
        self.take_set_within(set, timeout)
    }

    /// Takes all shards instead of the held one, as [`Locks::take_within`] does; if several shards are held, they must be all
    /// of them.
    pub fn take_all_within(&mut self, timeout: Duration) -> bool {
        if matches!(self.held, Held::Several(..)) {
            return true;
        }
        self.clear();
        self.take_for_turn_within(TurnKind::All, ShardSet::all(self.store.shards()), timeout)
    }

    /// Takes the shard of a slot's keys for a script, instead of the held ones. Returns false, with nothing held, if it does
    /// not become free in time.
    pub fn take_for_script_within(&mut self, hash: Hash, timeout: Duration) -> bool {
        self.clear();
        let set = ShardSet::from_iter([self.store.shard_of(hash)]);
        self.take_for_turn_within(TurnKind::Script, set, timeout)
    }

    fn take_for_turn_within(&mut self, kind: TurnKind, set: ShardSet, timeout: Duration) -> bool {
        self.turn = self.turns.take_within(kind, timeout);
        let is_taken = self.turn.is_some() && self.take_set_within(set, timeout);
        if !is_taken {
            // The holder of a shard may itself be waiting for its turn to go on to another shard.
            self.turn = None;
        }
        is_taken
    }

    /// Takes all other shards beside that of the script. Its shard is not released, so the script still sees one instant of
    /// it. No thread that holds several shards waits for the script's without giving up.
    ///
    /// # Panics
    /// If the shards were not taken for a script or for a holder of all.
    pub fn widen_within(&mut self, timeout: Duration) -> Widened {
        let (Held::Several(locked, _), Some(turn)) = (&mut self.held, &mut self.turn) else {
            panic!("only a script takes further shards");
        };
        match self.turns.widen_within(turn, timeout) {
            Widened::Done if !locked.add_within(ShardSet::all(self.store.shards()), timeout) => Widened::Late,
            outcome => outcome,
        }
    }

    /// Takes all shards, however long other threads hold them, for a thread that serves no client in that time. While it
    /// waits, commands wait for it, so it lets them have a turn now and then. Returns false, with nothing held, as soon as
    /// `is_given_up` returns true.
    pub fn take_all_unless(&mut self, is_given_up: impl Fn() -> bool) -> bool {
        while !self.take_all_within(OTHERS_WAIT_MAX) {
            if is_given_up() {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    fn take_set_within(&mut self, set: ShardSet, timeout: Duration) -> bool {
        self.give_back();
        if set.is_empty() {
            return true;
        }
        let Some(locked) = self.store.lock_set_within(set, timeout) else { return false };
        self.held = Held::Several(locked, Vec::new());
        true
    }

    /// Takes the shards of these keys instead of the held one. While a shard is held no thread has all shards, and a thread
    /// that is about to take all gives up its turn if a shard does not become free. So this waits for short commands only.
    pub fn take(&mut self, hashes: impl Iterator<Item = Hash>) {
        self.turn = None;
        // Active expiry has such a turn already.
        self.turn = Some(self.turns.take_each_again());
        self.give_back();
        let set: ShardSet = hashes.map(|hash| self.store.shard_of(hash)).collect();
        if !set.is_empty() {
            self.held = Held::Several(self.store.lock_set(set), Vec::new());
        }
    }

    /// Returns whether the shard of a key is held.
    pub fn holds(&self, hash: Hash) -> bool {
        self.held(hash).is_some()
    }

    /// Returns the shard of a key, if it is held.
    #[inline]
    pub fn held(&self, hash: Hash) -> Option<&Shard> {
        let wanted = self.store.shard_of(hash);
        match &self.held {
            Held::One(index, guard) if *index == wanted => Some(guard),
            Held::Several(locked, _) if locked.set().contains(wanted) => Some(locked.shard(wanted)),
            _ => None,
        }
    }

    /// Calls `show` with each held shard and those of these keys that are in it. If the store has only one shard, calls it
    /// once with all keys.
    #[inline]
    pub fn show_held(&self, keys: &[Hash], mut show: impl FnMut(&Shard, &[Hash])) {
        match &self.held {
            Held::One(_, guard) if self.store.shards() == 1 => show(guard, keys),
            _ => keys.iter().for_each(|key| _ = self.held(*key).map(|shard| show(shard, slice::from_ref(key)))),
        }
    }

    /// Returns whether all shards are held.
    pub fn holds_all(&self) -> bool {
        match &self.held {
            Held::Nothing => false,
            Held::One(..) => self.store.shards() == 1,
            Held::Several(locked, _) => *locked.set() == ShardSet::all(self.store.shards()),
        }
    }

    /// Returns the first shard that is held.
    pub fn first(&self) -> Option<usize> {
        match &self.held {
            Held::Nothing => None,
            Held::One(index, _) => Some(*index),
            Held::Several(locked, _) => locked.set().iter().next(),
        }
    }

    /// Returns whether no lock is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self.held, Held::Nothing)
    }

    /// Ends a command: a single lock is kept, because the next command of the batch often needs the same one.
    #[inline]
    pub fn end_command(&mut self) {
        if !matches!(self.held, Held::One(..)) {
            self.clear();
        }
    }

    /// Unlocks the held shards. If the command takes single shards one after the other, it may take the next.
    pub fn unlock(&mut self) {
        self.give_back();
    }

    /// Unlocks all shards, and ends the taking of single ones.
    #[inline]
    pub fn clear(&mut self) {
        self.give_back();
        self.turn = None;
    }

    /// Updates the estimate with the present size of the held shards.
    pub fn weigh(&self, estimate: &Estimate) {
        match &self.held {
            Held::Nothing => {}
            Held::One(index, guard) => estimate.note(*index, guard.memory()),
            Held::Several(locked, _) => {
                locked.set().iter().for_each(|index| estimate.note(index, locked.shard(index).memory()));
            }
        }
    }

    /// Returns the locked shard of a key.
    ///
    /// # Panics
    /// If the shard is not held: the command's row in the table does not name this key.
    #[inline]
    pub fn shard(&mut self, hash: Hash) -> &mut Shard {
        self.shard_and_recorder(hash).0
    }

    /// Returns the locked shard of a key, and the recorder of its changes.
    ///
    /// # Panics
    /// As [`Locks::shard`].
    #[inline]
    pub fn shard_and_recorder(&mut self, hash: Hash) -> (&mut Shard, &mut Recorder<'s>) {
        let wanted = self.store.shard_of(hash);
        let shard = match &mut self.held {
            Held::One(index, guard) if *index == wanted => guard,
            Held::Several(locked, _) => locked.shard_mut(wanted),
            Held::One(..) | Held::Nothing => panic!("a key is used that the command's row does not name"),
        };
        (shard, &mut self.recorder)
    }

    /// Returns the locked shard of a key as a shared reference, for a caller that reads several keys at once.
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

    /// Runs `f` on one shard. If no locks are held, takes its lock for that long.
    pub fn with<T>(&mut self, index: usize, f: impl FnOnce(&mut Shard) -> T) -> T {
        match &mut self.held {
            Held::Nothing => {
                let mut shard = self.store.lock(index);
                let seen = f(&mut shard);
                self.recorder.show(index);
                seen
            }
            Held::One(held, guard) if *held == index => f(guard),
            Held::Several(locked, _) => f(locked.shard_mut(index)),
            Held::One(..) => panic!("a shard is used that the command's row does not name"),
        }
    }

    /// Runs `f` on every shard in order; see [`Locks::with`].
    pub fn for_each(&mut self, mut f: impl FnMut(&mut Shard)) {
        (0..self.store.shards()).for_each(|index| self.with(index, &mut f));
    }

    /// Begins a snapshot of this instant. All shards are held.
    ///
    /// # Errors
    /// The previous snapshot has not ended.
    ///
    /// # Panics
    /// If not all shards are held.
    pub fn begin_snapshot(&mut self, waiting: Arc<Waiting>) -> Result<Snapshot, Unfinished> {
        match &mut self.held {
            Held::Several(locked, _) => Snapshot::begin(self.store, locked, waiting),
            Held::One(..) | Held::Nothing => panic!("a snapshot begins with all shards held"),
        }
    }

    /// Exchanges all contents with another store.
    ///
    /// # Panics
    /// If not all shards are held, or if the stores are not made from the same options.
    pub fn exchange(&mut self, other: &Store) {
        match &mut self.held {
            Held::Several(locked, _) => self.store.exchange(locked, other),
            Held::One(..) | Held::Nothing => panic!("contents are exchanged with all shards held"),
        }
    }

    /// Takes over the memory that a flush has removed, and frees it as soon as all locks are released.
    pub fn free_when_unlocked(&mut self, mut flushed: Vec<Flushed>) {
        if let Held::Several(_, garbage) = &mut self.held {
            garbage.append(&mut flushed);
        }
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Shards for Locks<'_> {
    fn look<R>(&mut self, shard: usize, look: impl FnOnce(&Shard) -> R) -> R {
        self.with(shard, |shard| look(shard))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::config::{Config, Opt};
    use crate::engine::Engine;
    use crate::engine::journal::{BatchBuffer, Reader};

    fn engine() -> Arc<Engine> {
        let config = Config::default();
        config.assign(Opt::Shards, &[b"2"]).expect("an option of the table");
        Engine::new(config)
    }

    fn locks<'s>(engine: &'s Engine, batch_buffer: &'s BatchBuffer) -> Locks<'s> {
        Locks::new(
            &engine.keyspace.store,
            &engine.keyspace.turns,
            Recorder::new(&engine.journal, &engine.keyspace.offsets, batch_buffer),
        )
    }

    /// A key of each shard.
    fn hashes(engine: &Engine) -> [Hash; 2] {
        [0, 1].map(|shard| {
            let mut hashes = (0..100_u8).map(|number| engine.keyspace.store.hash(&[number]));
            hashes.find(|hash| engine.keyspace.store.shard_of(*hash) == shard).expect("some key is in it")
        })
    }

    fn record(locks: &mut Locks<'_>, word: &str) {
        locks.recorder.effect(0, 1).bulk(word.as_bytes());
        locks.recorder.end_piece();
    }

    fn text(reader: &mut Reader) -> String {
        let mut bytes = Vec::new();
        reader.read(&mut bytes);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn records_are_appended_together_before_a_shard_is_released() {
        let (engine, batch_buffer) = (engine(), BatchBuffer::default());
        let ([one, other], mut reader) = (hashes(&engine), engine.journal.subscribe());
        let mut locks = locks(&engine, &batch_buffer);
        locks.take_one(one);
        record(&mut locks, "first");
        locks.take_one(one);
        record(&mut locks, "second");
        locks.end_command();
        assert_eq!(text(&mut reader), "", "the shard is still held");
        locks.take_one(other);
        let told = text(&mut reader);
        assert!(told.contains("first") && told.ends_with("second\r\n"), "{told}");
        record(&mut locks, "third");
        drop(locks);
        assert!(text(&mut reader).ends_with("third\r\n"));
    }

    #[test]
    fn who_has_seen_a_shard_has_seen_the_last_piece_about_it_and_no_other() {
        let (engine, batch_buffer) = (engine(), BatchBuffer::default());
        let ([one, other], _reader) = (hashes(&engine), engine.journal.subscribe());
        let mut writer = locks(&engine, &batch_buffer);
        writer.take_one(one);
        record(&mut writer, "written");
        writer.clear();
        let written = engine.journal.end();
        assert_eq!(writer.recorder.shown_offset(), written);
        let shown = |see: &dyn Fn(&mut Locks<'_>)| {
            let batch_buffer = BatchBuffer::default();
            let mut reader = locks(&engine, &batch_buffer);
            see(&mut reader);
            reader.clear();
            reader.recorder.shown_offset()
        };
        assert_eq!(shown(&|locks| locks.take_one(other)), 0);
        assert_eq!(shown(&|locks| locks.take_one(one)), written);
        assert_eq!(shown(&|locks| _ = locks.take_all_within(Duration::MAX)), written);
        assert_eq!(shown(&|locks| locks.with(engine.keyspace.store.shard_of(one), |_| ())), written);
        assert_eq!(shown(&|locks| locks.with(engine.keyspace.store.shard_of(other), |_| ())), 0);
    }

    #[test]
    fn a_thread_that_fails_leaves_whole_pieces_alone() {
        let (engine, batch_buffer) = (engine(), BatchBuffer::default());
        let ([one, _], mut reader) = (hashes(&engine), engine.journal.subscribe());
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let mut locks = locks(&engine, &batch_buffer);
            locks.take_one(one);
            record(&mut locks, "whole");
            locks.recorder.effect(0, 1).bulk(b"half");
            panic!("on purpose");
        }));
        assert!(failed.is_err());
        let told = text(&mut reader);
        assert!(told.ends_with("whole\r\n") && !told.contains("half"), "{told}");
    }
}
