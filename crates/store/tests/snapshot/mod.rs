//! Snapshots against plain copies: a store is changed at random while a snapshot is walked, and what comes of it must be
//! what there was at the instant.

mod seen;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seen::{Gathered, copy};
use sleeve_store::Kind;
use sleeve_store::snapshot::{Budget, Progress, Snapshot, Unfinished};
use world::{Mix, World};

/// How many random runs there are: `short`, unless a soak asks for another number.
fn seeds(short: u64) -> u64 {
    let asked = std::env::var("SLEEVE_SOAK_COUNT").ok();
    let seeds = asked.map_or(short, |count| count.parse().expect("a number"));
    if cfg!(miri) { 1 } else { seeds }
}

/// A world with a counter of the bytes that wait.
struct Run {
    world: World,
    waiting: Arc<AtomicUsize>,
}

impl Run {
    fn new(seed: u64, shards: usize, keys: u64, mix: Mix) -> Self {
        println!("seed {seed}, {shards} shards, {keys} keys, {mix:?}");
        Self { world: World::new(seed, shards, keys, mix), waiting: Arc::default() }
    }

    fn begin(&self) -> Snapshot {
        let store = &self.world.store;
        Snapshot::begin(store, &mut store.lock_all(), Arc::clone(&self.waiting)).expect("none is unfinished")
    }

    fn budget(&mut self) -> Budget {
        let random = &mut self.world.random;
        Budget { bytes: 1 + random.below(6000) as usize, pieces: 1 + random.below(60) as usize }
    }

    /// Takes a snapshot while so many changes happen between two steps, and compares it. Returns how many values were open.
    fn compare(&mut self, changes: u64) -> usize {
        let expected = copy(&self.world.store);
        let mut snapshot = self.begin();
        let keys: usize = snapshot.sizes().iter().map(|size| size.keys).sum();
        assert_eq!(keys, expected.len());
        let mut gathered = Gathered::default();
        loop {
            for _ in 0..self.world.random.below(changes + 1) {
                self.world.step();
            }
            let budget = self.budget();
            match snapshot.step(&self.world.store, budget, &mut |record| gathered.take(record)) {
                Ok(Progress::Done) => break,
                Ok(Progress::More) => {}
                // What was flushed and not freed holds the rest.
                Ok(Progress::Waiting) => self.world.flushed.clear(),
                Err(torn) => panic!("{torn}"),
            }
        }
        drop(snapshot);
        for (key, value) in &expected {
            assert_eq!(gathered.whole.get(key), Some(value), "{} {}", key.0, String::from_utf8_lossy(&key.1));
        }
        assert_eq!(gathered.whole.len(), expected.len());
        assert_eq!(self.waiting.load(Ordering::Relaxed), 0, "nothing waits behind the end");
        gathered.opened
    }

    /// Begins a snapshot and drops it somewhere; before the next one its marks are brought to their end.
    fn abort(&mut self, changes: u64) {
        let mut snapshot = self.begin();
        for _ in 0..self.world.random.below(20) {
            for _ in 0..self.world.random.below(changes + 1) {
                self.world.step();
            }
            let budget = self.budget();
            if snapshot.step(&self.world.store, budget, &mut |_| {}) == Ok(Progress::Done) {
                return;
            }
        }
        let store = &self.world.store;
        assert!(store.unfinished_snapshot().is_none());
        drop(snapshot);
        assert_eq!(self.waiting.load(Ordering::Relaxed), 0);
        let again = Snapshot::begin(store, &mut store.lock_all(), Arc::clone(&self.waiting));
        assert_eq!(again.map(drop), Err(Unfinished));
        let mut rest = self.world.store.unfinished_snapshot().expect("it was aborted");
        loop {
            for _ in 0..self.world.random.below(changes + 1) {
                self.world.step();
            }
            let budget = self.budget();
            match rest.step(&self.world.store, budget, &mut |_| panic!("an aborted snapshot gives out nothing")) {
                Ok(Progress::Done) => break,
                Ok(Progress::More) => {}
                Ok(Progress::Waiting) => self.world.flushed.clear(),
                Err(torn) => panic!("{torn}"),
            }
        }
        assert_eq!(self.waiting.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn small_keys_come_as_they_were() {
    for seed in 0..seeds(40) {
        let mut run = Run::new(seed, [1, 4, 2][seed as usize % 3], 10 + seed, Mix::Small);
        run.world.fill(1);
        (0..4).for_each(|changes| _ = run.compare(3 * changes));
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn tables_that_grow_and_shrink_meanwhile_lose_nothing() {
    for seed in 1000..1000 + seeds(2) {
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 8_000, Mix::Small);
        run.world.fill(1);
        (0..4).for_each(|_| _ = run.compare(40));
    }
}

#[test]
fn values_of_all_types_come_as_they_were() {
    let parts = if cfg!(miri) { 3 } else { 40 };
    for seed in 2000..2000 + seeds(12) {
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 24, Mix::All);
        run.world.fill(parts);
        (0..6).for_each(|changes| _ = run.compare(3 * changes));
    }
}

fn large(kind: Kind, first: u64) {
    let parts = if cfg!(miri) { 40 } else { 200 };
    let mut opened = 0;
    for seed in first..first + seeds(4) {
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 5, Mix::Large(kind));
        run.world.fill(parts);
        for changes in 0..5 {
            opened += run.compare(4 * changes);
            run.world.fill(parts / 4);
        }
    }
    assert!(opened > 0, "no value was large");
}

#[test]
fn large_sets_come_as_they_were() {
    large(Kind::Set, 3000);
}

#[test]
fn large_sorted_sets_come_as_they_were() {
    large(Kind::SortedSet, 4000);
}

#[test]
fn large_hashes_come_as_they_were() {
    large(Kind::Hash, 5000);
}

#[test]
fn large_lists_come_as_they_were() {
    large(Kind::List, 6000);
}

#[test]
fn large_streams_come_as_they_were() {
    large(Kind::Stream, 7000);
}

#[test]
fn an_aborted_snapshot_leaves_nothing_behind() {
    for seed in 8000..8000 + seeds(10) {
        let kinds = [Kind::Set, Kind::SortedSet, Kind::Hash, Kind::List, Kind::Stream];
        let mix = if seed % 3 == 0 { Mix::All } else { Mix::Large(kinds[seed as usize % 5]) };
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 6, mix);
        run.world.fill(if cfg!(miri) { 3 } else { 60 });
        for changes in 0..4 {
            run.abort(3 * changes);
            run.compare(3 * changes);
        }
    }
}
