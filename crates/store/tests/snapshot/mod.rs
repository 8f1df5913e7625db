//! Snapshots against plain copies: a store is changed at random while a snapshot is walked, and the records of the snapshot
//! must equal the contents of the store at the instant.

mod seen;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seen::{Gathered, Whole, copy, seen, seen_in_file};
use sleeve_store::rdb::file::{Access, Format, Writer};
use sleeve_store::rdb::{Limits, Version};
use sleeve_store::snapshot::{Budget, Progress, Record, Snapshot, SnapshotWriter, Unfinished, Waiting};
use sleeve_store::{Deadline, Kind, Lookup, Moment, Options, ShardSet, Store, Value};
use world::{DATABASES, Mix, Random, World};

use crate::file::load;

/// Returns the number of random runs: `short`, unless a soak asks for another number.
fn seeds(short: u64) -> u64 {
    let asked = std::env::var("SLEEVE_SOAK_COUNT").ok();
    let seeds = asked.map_or(short, |count| count.parse().expect("a number"));
    if cfg!(miri) { 1 } else { seeds }
}

/// Returns the number of snapshots of one world; an interpreter takes fewer.
fn rounds(usual: u64) -> u64 {
    if cfg!(miri) { 2 } else { usual }
}

/// A world with a counter of the bytes that wait.
struct Run {
    world: World,
    waiting: Arc<Waiting>,
}

impl Run {
    fn new(seed: u64, shards: usize, keys: u64, mix: Mix) -> Self {
        println!("seed {seed}, {shards} shards, {keys} keys, {mix:?}");
        Self { world: World::new(seed, shards, keys, mix), waiting: Arc::default() }
    }

    /// Frees the flushed databases: only they can hold the rest back.
    fn wait(&mut self) {
        assert!(!self.world.flushed.is_empty(), "the rest is nowhere");
        self.world.flushed.clear();
    }

    fn begin(&self) -> Snapshot {
        let store = &self.world.store;
        Snapshot::begin(store, &mut store.lock_all(), Arc::clone(&self.waiting)).expect("none is unfinished")
    }

    fn budget(&mut self) -> Budget {
        let random = &mut self.world.random;
        Budget { bytes: 1 + random.below(6000) as usize, pieces: 1 + random.below(60) as usize }
    }

    /// Takes a snapshot while so many changes happen between two steps, and compares it. Returns the number of values that
    /// were opened.
    fn compare(&mut self, changes: u64) -> usize {
        // The snapshot is gathered directly, or written to a file that is read back.
        let in_file = self.world.random.one_in(2);
        let expected = copy(&self.world.store, if in_file { seen_in_file } else { seen });
        let mut snapshot = self.begin();
        let keys: usize = snapshot.sizes().iter().map(|size| size.keys).sum();
        assert_eq!(keys, expected.len());
        let (mut gathered, mut snapshot_writer) = (Gathered::default(), SnapshotWriter::default());
        let version = if self.world.random.one_in(2) { Version::Twelve } else { Version::Valkey80 };
        let mut writer = Writer::new(Format { version, is_compressing: true, is_summing: true });
        let mut sink = |record: Record<'_>| match in_file {
            true => snapshot_writer.write(&mut writer, record, |_| Access::Unknown),
            false => gathered.take(record),
        };
        loop {
            for _ in 0..self.world.random.below(changes + 1) {
                self.world.step();
            }
            let budget = self.budget();
            match snapshot.step(&self.world.store, budget, &mut sink) {
                Ok(Progress::Done) => break,
                Ok(Progress::More) => {}
                Ok(Progress::Waiting) => self.wait(),
                Err(torn) => panic!("{torn}"),
            }
        }
        drop(snapshot);
        if in_file {
            gathered.whole = loaded(writer);
        }
        for (key, value) in &expected {
            // Values may be megabytes, so the message names the key only.
            let is_right = gathered.whole.get(key) == Some(value);
            assert!(is_right, "database {}, key {} is another", key.0, String::from_utf8_lossy(&key.1));
        }
        assert_eq!(gathered.whole.len(), expected.len());
        assert_eq!(self.waiting.bytes(), 0, "nothing waits behind the end");
        gathered.opened
    }

    /// Begins a snapshot and drops it at some point; before the next one its pending entries are brought to their end.
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
        assert!(Snapshot::unfinished(store).is_none());
        drop(snapshot);
        assert_eq!(self.waiting.bytes(), 0);
        let again = Snapshot::begin(store, &mut store.lock_all(), Arc::clone(&self.waiting));
        assert_eq!(again.map(drop), Err(Unfinished));
        let mut rest = Snapshot::unfinished(&self.world.store).expect("it was aborted");
        loop {
            for _ in 0..self.world.random.below(changes + 1) {
                self.world.step();
            }
            let budget = self.budget();
            match rest.step(&self.world.store, budget, &mut |_| panic!("an aborted snapshot gives out nothing")) {
                Ok(Progress::Done) => break,
                Ok(Progress::More) => {}
                Ok(Progress::Waiting) => self.wait(),
                Err(torn) => panic!("{torn}"),
            }
        }
        assert_eq!(self.waiting.bytes(), 0);
    }
}

/// Returns the contents of a file.
fn loaded(mut writer: Writer) -> Whole {
    writer.end().unwrap();
    let file = writer.drain(<[u8]>::to_vec);
    let store = Store::new(Options { databases: DATABASES, ..Options::new([9; 16]) });
    let limits = Limits { now_ms: i64::MIN, ..Limits::usual(store.hash_key()) };
    load(&store, file.as_slice(), limits, Moment { now_ms: i64::MIN, clock: 0 }).unwrap();
    copy(&store, seen_in_file)
}

#[test]
fn small_keys_come_as_they_were() {
    for seed in 0..seeds(40) {
        let mut run = Run::new(seed, [1, 4, 2][seed as usize % 3], 10 + seed, Mix::Small);
        run.world.fill(1);
        (0..rounds(4)).for_each(|changes| _ = run.compare(3 * changes));
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
        (0..rounds(6)).for_each(|changes| _ = run.compare(3 * changes));
    }
}

fn large(kind: Kind, first: u64) {
    let parts = if cfg!(miri) { 6 } else { 200 };
    let mut opened = 0;
    for seed in first..first + seeds(4) {
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 5, Mix::Large(kind));
        run.world.fill(parts);
        for changes in 0..rounds(5) {
            opened += run.compare(4 * changes);
            run.world.fill(parts / 4);
        }
    }
    assert!(opened > 0 || cfg!(miri), "no value was large");
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
#[cfg_attr(miri, ignore = "copies megabytes, byte by byte")]
fn long_strings_come_as_they_were() {
    let mut opened = 0;
    for seed in 9000..9000 + seeds(4) {
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 2, Mix::Large(Kind::String));
        for changes in 0..5 {
            (0..10).for_each(|_| run.world.step());
            opened += run.compare(changes / 2);
        }
    }
    assert!(opened > 0, "no value was large");
}

#[test]
fn what_writers_hand_over_is_counted_until_it_is_taken() {
    const KEYS: u64 = if cfg!(miri) { 300 } else { 2_000 };
    let store = Store::new(Options { shards: 4, ..Options::new([7; 16]) });
    let moment = Moment { now_ms: 0, clock: 0 };
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| format!("key:{number}").into_bytes()).collect();
    for key in &keys {
        let named = store.key(key);
        drop(store.lock_of(named.hash).set(0, named, &Value::Plain(&[b'x'; 200]), Deadline::Clear, moment));
    }
    let waiting: Arc<Waiting> = Arc::default();
    let mut snapshot = Snapshot::begin(&store, &mut store.lock_all(), Arc::clone(&waiting)).unwrap();
    for key in &keys {
        let named = store.key(key);
        drop(store.lock_of(named.hash).remove(0, named));
    }
    let before = waiting.bytes();
    // The last table of each shard has delivered everything, because all keys were removed.
    assert!((200 * KEYS as usize..300 * KEYS as usize).contains(&before), "{before} bytes wait");
    let mut given = 0;
    let mut count = |record: Record<'_>| {
        let Record::Keys(entries) = record else { panic!("no value is large") };
        entries.for_each(|_| given += 1);
    };
    let budget = Budget { bytes: 1 << 20, pieces: 1 << 20 };
    while snapshot.step(&store, budget, &mut count).unwrap() != Progress::Done {}
    assert_eq!((given, waiting.bytes()), (KEYS, 0));
}

fn for_any_thread<T: Send>(value: T) -> T {
    value
}

/// Checks snapshots beside threads that move units from one key to another under the locks of both: the sum is always the
/// same, at any interleaving of the threads between two steps.
#[test]
fn a_snapshot_beside_threads_is_of_one_instant() {
    const KEYS: u64 = if cfg!(miri) { 20 } else { 300 };
    let (threads, snapshots) = if cfg!(miri) { (2, 1) } else { (3, 8) };
    let store = Store::new(Options { shards: 4, ..Options::new([7; 16]) });
    let moment = Moment { now_ms: 0, clock: 0 };
    let key = |number: u64| format!("account:{number}").into_bytes();
    for number in 0..KEYS {
        let (key, value) = (key(number), Value::Integer(100));
        let named = store.key(&key);
        drop(store.lock_of(named.hash).set(0, named, &value, Deadline::Clear, moment));
    }
    let is_over = AtomicBool::new(false);
    let work = |seed: u64| {
        let mut random = Random(seed);
        while !is_over.load(Ordering::Relaxed) {
            let keys = [key(random.below(KEYS)), key(random.below(KEYS))];
            let hashes = [store.hash(&keys[0]), store.hash(&keys[1])];
            if keys[0] == keys[1] {
                continue;
            }
            let mut locked = store.lock_set(ShardSet::from_iter(hashes.map(|hash| store.shard_of(hash))));
            for (at, unit) in [-1, 1].into_iter().enumerate() {
                let shard = locked.shard_mut(store.shard_of(hashes[at]));
                let Lookup::Live(mut entry) = shard.lookup_mut(0, store.key(&keys[at]), 0, || false) else {
                    panic!("it is there")
                };
                let units = entry.value().integer().unwrap();
                drop(entry.set_integer(units + unit));
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        (0..threads).for_each(|seed| _ = scope.spawn(move || work(seed)));
        for _ in 0..snapshots {
            let waiting = Arc::default();
            let mut snapshot = for_any_thread(Snapshot::begin(&store, &mut store.lock_all(), waiting).unwrap());
            let (mut sum, mut keys) = (0, 0);
            let mut add = |record: Record<'_>| {
                let Record::Keys(entries) = record else { panic!("no value is large") };
                entries.for_each(|entry| (sum, keys) = (sum + entry.value().integer().unwrap(), keys + 1));
            };
            let budget = Budget { bytes: 500, pieces: 5 };
            while snapshot.step(&store, budget, &mut add).unwrap() != Progress::Done {}
            assert_eq!((sum, keys), (100 * KEYS as i64, KEYS));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_aborted_snapshot_leaves_nothing_behind() {
    for seed in 8000..8000 + seeds(10) {
        let kinds = [Kind::Set, Kind::SortedSet, Kind::Hash, Kind::List, Kind::Stream];
        let mix = if seed % 3 == 0 { Mix::All } else { Mix::Large(kinds[seed as usize % 5]) };
        let mut run = Run::new(seed, [1, 4][seed as usize % 2], 6, mix);
        run.world.fill(if cfg!(miri) { 2 } else { 60 });
        for changes in 0..rounds(4) {
            run.abort(3 * changes);
            run.compare(3 * changes);
        }
    }
}
