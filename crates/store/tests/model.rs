//! The store against a plain twin: random operations on both, and every answer compared.
//!
//! The twin is a `HashMap` for each database with the rules of deadlines and encodings written out naively. All
//! randomness comes from a seed, which a failure prints.

use sleeve_store::{
    Deadline, Digits, EMBEDDED_MAX, EntryRef, Find, INLINE_MAX, Lookup, Moment, Options, PrefetchStep, Previous,
    SlotOf, Store, Value,
};
use std::collections::HashMap;

use crate::elsewhere::put_elsewhere;
use crate::slots;

const DATABASES: usize = 3;

#[derive(Clone, Debug, PartialEq)]
struct Plain {
    bytes: Vec<u8>,
    encoding: &'static str,
    deadline: Option<i64>,
}

struct Model {
    store: Store,
    twin: Vec<HashMap<Vec<u8>, Plain>>,
    now_ms: i64,
    random: Random,
    keys: u64,
}

/// A small generator (SplitMix64): good enough to choose operations, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = match self.below(40) {
            0..=19 => self.below(60),
            20..=37 => self.below(400),
            38 => self.below(2 * INLINE_MAX as u64),
            _ => INLINE_MAX as u64 - 2 + self.below(5),
        };
        let first = self.next() as u8;
        (0..length).map(|index| first.wrapping_add(index as u8)).collect()
    }
}

fn encoding_of(bytes: &[u8]) -> &'static str {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    if text.parse::<i64>().is_ok_and(|number| number.to_string() == text) {
        "int"
    } else if bytes.len() <= EMBEDDED_MAX {
        "embstr"
    } else {
        "raw"
    }
}

fn plain(entry: EntryRef<'_>) -> Plain {
    let mut digits = Digits::default();
    let bytes = entry.value().bytes(&mut digits).to_vec();
    assert_eq!(entry.value().len(), bytes.len());
    assert_eq!(entry.shared().is_some(), entry.value().len() > INLINE_MAX || entry.shared().is_some());
    Plain { bytes, encoding: entry.encoding().name(), deadline: entry.deadline() }
}

impl Model {
    fn new(seed: u64, shards: usize, keys: u64, slot_of: Option<SlotOf>) -> Self {
        let secret = seed.to_le_bytes().repeat(2).try_into().unwrap();
        let options = Options { databases: DATABASES, shards, secret, slot_of };
        let twin = vec![HashMap::new(); DATABASES];
        Self { store: Store::new(options), twin, now_ms: 1_000_000, random: Random(seed), keys }
    }

    fn key(&mut self) -> (usize, Vec<u8>) {
        let (db, number) = (self.random.below(DATABASES as u64) as usize, self.random.below(self.keys));
        let key = match number % 50 {
            0 => format!("{number}").repeat(1 + (number % 90) as usize),
            1 if number < 100 && !cfg!(miri) => "long".repeat(16_383) + &format!("{number:08}"),
            2 => number.to_string(),
            _ => format!("key:{number:012}"),
        };
        (db, key.into_bytes())
    }

    fn live(&self, db: usize, key: &[u8]) -> Option<Plain> {
        let plain = self.twin[db].get(key)?;
        plain.deadline.is_none_or(|deadline| self.now_ms <= deadline).then(|| plain.clone())
    }

    fn previous(&self, db: usize, key: &[u8]) -> Previous {
        match (self.twin[db].contains_key(key), self.live(db, key)) {
            (false, _) => Previous::Missing,
            (true, None) => Previous::Expired,
            (true, Some(_)) => Previous::Live,
        }
    }

    fn moment(&self) -> Moment {
        Moment { now_ms: self.now_ms, clock: 0xab_cdef }
    }

    fn step(&mut self, growing: bool) {
        let (db, key) = self.key();
        let choice = self.random.below(100);
        match choice {
            0..30 if growing => self.set(db, &key),
            30..55 if !growing => self.remove(db, &key),
            0..15 => self.set(db, &key),
            15..30 => self.find(db, &key),
            30..35 => self.lookup(db, &key),
            35..45 => self.append(db, &key),
            45..55 => self.edit(db, &key),
            55..65 => self.increment(db, &key),
            65..75 => self.set_deadline(db, &key),
            75..78 => self.remove(db, &key),
            78..80 => self.remove_live(db, &key),
            80..90 => self.rename(db, &key),
            90..95 => self.expire_some(),
            95..98 => self.now_ms += self.random.below(50) as i64,
            _ => self.whole_databases(),
        }
    }

    fn set(&mut self, db: usize, key: &[u8]) {
        let bytes = match self.random.below(3) {
            0 => (self.random.next() as i64 >> self.random.below(60)).to_string().into_bytes(),
            _ => self.random.bytes(),
        };
        let shape = self.random.below(4);
        let value = match shape {
            0 => Value::Raw(&bytes),
            1 => Value::Bytes(&bytes),
            2 => Value::Shared(bytes.clone().into()),
            _ => Value::Plain(&bytes),
        };
        let encoding = match (shape, encoding_of(&bytes)) {
            (0, _) => "raw",
            (1 | 2, "int") => "embstr",
            (_, natural) => natural,
        };
        let deadline = match self.random.below(4) {
            0 => Deadline::Keep,
            1 => Deadline::At(self.now_ms + self.random.below(300) as i64 - 20),
            _ => Deadline::Clear,
        };
        let twin_deadline = match deadline {
            Deadline::Keep => self.live(db, key).and_then(|plain| plain.deadline),
            Deadline::At(at) => Some(at),
            Deadline::Clear => None,
        };
        let named = self.store.key(key);
        let (previous, garbage) = self.store.lock_of(named.hash).set(db, named, &value, deadline, self.moment());
        drop(garbage);
        assert_eq!(previous, self.previous(db, key));
        self.twin[db].insert(key.to_vec(), Plain { bytes, encoding, deadline: twin_deadline });
        self.find(db, key);
    }

    fn find(&mut self, db: usize, key: &[u8]) {
        let named = self.store.key(key);
        let shard = self.store.lock_of(named.hash);
        [PrefetchStep::Segment, PrefetchStep::Bucket, PrefetchStep::Entry]
            .into_iter()
            .for_each(|step| shard.prefetch(db, &[named.hash], step));
        let (found, expected) = match shard.find(db, named, self.now_ms) {
            Find::Missing => (None, Previous::Missing),
            Find::Expired(entry) => (Some(entry), Previous::Expired),
            Find::Live(entry) => (Some(entry), Previous::Live),
        };
        assert_eq!(expected, self.previous(db, key));
        assert_eq!(found.map(plain).as_ref(), self.twin[db].get(key));
        if let Some(entry) = found {
            assert_eq!(entry.key(), key);
            entry.touch(0x12_3456);
            assert_eq!((entry.clock(), plain(entry)), (0x12_3456, self.twin[db][key].clone()));
        }
    }

    /// Looks a key up and removes it if it is expired.
    fn lookup(&mut self, db: usize, key: &[u8]) {
        let named = self.store.key(key);
        let may_vanish = self.random.below(2) == 0;
        let (previous, mut shard) = (self.previous(db, key), self.store.lock_of(named.hash));
        let found = match shard.lookup(db, named, self.now_ms, || may_vanish) {
            Lookup::Missing => Previous::Missing,
            Lookup::Expired(gone) => {
                assert_eq!(gone.is_some(), may_vanish);
                self.twin[db].retain(|other, _| !may_vanish || other != key);
                Previous::Expired
            }
            Lookup::Live(entry) => {
                assert_eq!(plain(entry), self.twin[db][key]);
                Previous::Live
            }
        };
        drop(shard);
        assert_eq!(found, previous);
        self.find(db, key);
    }

    fn append(&mut self, db: usize, key: &[u8]) {
        let suffix = self.random.bytes();
        let named = self.store.key(key);
        let mut shard = self.store.lock_of(named.hash);
        let held = shard.get(db, named, self.now_ms).and_then(|entry| entry.shared());
        let held_bytes = held.as_ref().map(|buffer| buffer.to_vec());
        let may_vanish = self.random.below(2) == 0;
        match shard.lookup_mut(db, named, self.now_ms, || may_vanish) {
            Lookup::Live(mut entry) => {
                let length = entry.append(&suffix);
                let twin = self.twin[db].get_mut(key).unwrap();
                twin.bytes.extend_from_slice(&suffix);
                twin.encoding = "raw";
                assert_eq!((length, plain(entry.view())), (twin.bytes.len(), twin.clone()));
            }
            Lookup::Missing => assert!(!self.twin[db].contains_key(key)),
            Lookup::Expired(gone) => {
                assert_eq!((self.previous(db, key), gone.is_some()), (Previous::Expired, may_vanish));
                self.twin[db].retain(|other, _| !may_vanish || other != key);
            }
        }
        // A value that left as a shared reference is not changed by later writes.
        assert_eq!(held.map(|buffer| buffer.to_vec()), held_bytes);
    }

    fn edit(&mut self, db: usize, key: &[u8]) {
        let limit = if self.random.below(30) == 0 { 9000 } else { 200 };
        let at = self.random.below(limit) as usize;
        let named = self.store.key(key);
        let live = self.live(db, key);
        let previous = self.previous(db, key);
        let mut shard = self.store.lock_of(named.hash);
        let (mut entry, expired) = shard.entry_or_insert(db, named, &Value::Zeros(at), self.moment());
        assert_eq!(expired.is_some(), previous == Previous::Expired);
        entry.with_bytes_mut(at + 1, std::slice::from_ref(&(at..at + 1)), |bytes| bytes[at] ^= 0x55);
        let mut twin = live.unwrap_or(Plain { bytes: Vec::new(), encoding: "raw", deadline: None });
        twin.encoding = "raw";
        twin.bytes.resize(twin.bytes.len().max(at + 1), 0);
        twin.bytes[at] ^= 0x55;
        assert_eq!(plain(entry.view()), twin);
        self.twin[db].insert(key.to_vec(), twin);
    }

    fn increment(&mut self, db: usize, key: &[u8]) {
        let named = self.store.key(key);
        let mut shard = self.store.lock_of(named.hash);
        let Lookup::Live(mut entry) = shard.lookup_mut(db, named, self.now_ms, || false) else { return };
        let Some(number) = entry.value().integer() else { return };
        drop(entry.set_integer(number.wrapping_add(1)));
        let twin = self.twin[db].get_mut(key).unwrap();
        (twin.bytes, twin.encoding) = (number.wrapping_add(1).to_string().into_bytes(), "int");
        assert_eq!(plain(entry.view()), *twin);
    }

    fn set_deadline(&mut self, db: usize, key: &[u8]) {
        let deadline = match self.random.below(3) {
            0 => None,
            _ => Some(self.now_ms + self.random.below(200) as i64),
        };
        let named = self.store.key(key);
        let mut shard = self.store.lock_of(named.hash);
        let is_there = match shard.lookup_mut(db, named, i64::MIN, || true) {
            Lookup::Live(mut entry) => {
                entry.set_deadline(deadline);
                true
            }
            Lookup::Expired(_) | Lookup::Missing => false,
        };
        drop(shard);
        assert_eq!(is_there, self.twin[db].contains_key(key));
        if let Some(twin) = self.twin[db].get_mut(key) {
            twin.deadline = deadline;
        }
        self.find(db, key);
    }

    fn remove(&mut self, db: usize, key: &[u8]) {
        let named = self.store.key(key);
        let garbage = self.store.lock_of(named.hash).remove(db, named);
        assert_eq!(garbage.is_some(), self.twin[db].remove(key).is_some());
        self.find(db, key);
    }

    /// Removes a key; an expired key counts as absent, whether or not it may vanish.
    fn remove_live(&mut self, db: usize, key: &[u8]) {
        let (named, may_vanish) = (self.store.key(key), self.random.below(2) == 0);
        let previous = self.previous(db, key);
        let removed = match self.store.lock_of(named.hash).remove_live(db, named, self.now_ms, || may_vanish) {
            Lookup::Missing => Previous::Missing,
            Lookup::Expired(gone) => {
                assert_eq!(gone.is_some(), may_vanish);
                Previous::Expired
            }
            Lookup::Live(_) => Previous::Live,
        };
        assert_eq!(removed, previous);
        self.twin[db].retain(|other, _| other != key || previous == Previous::Expired && !may_vanish);
        self.find(db, key);
    }

    /// Does RENAME, MOVE or COPY.
    fn rename(&mut self, db: usize, key: &[u8]) {
        let (to_db, to_key) = self.key();
        if (db, key) == (to_db, &to_key[..]) {
            return;
        }
        let copies = self.random.below(2) == 0;
        let previous = put_elsewhere(&self.store, (db, key), (to_db, &to_key), copies, self.now_ms);
        assert_eq!(previous.is_some(), self.twin[db].contains_key(key));
        let Some(previous) = previous else { return };
        assert_eq!(previous, self.previous(to_db, &to_key));
        let twin = self.twin[db][key].clone();
        if !copies {
            self.twin[db].remove(key);
        }
        self.twin[to_db].insert(to_key.clone(), twin);
        self.find(db, key);
        self.find(to_db, &to_key);
    }

    fn expire_some(&mut self) {
        let (db, shard) = (self.random.below(DATABASES as u64) as usize, self.random.below(self.store.shards() as u64));
        let budget = 1 + self.random.below(40) as usize;
        let (now_ms, mut seen) = (self.now_ms, 0);
        let twin = &mut self.twin[db];
        let report = self.store.lock(shard as usize).expire_step(db, now_ms, budget, |key, garbage| {
            drop(garbage);
            let plain = twin.remove(key).expect("what expires was there");
            assert!(plain.deadline.is_some_and(|deadline| deadline < now_ms));
            seen += 1;
        });
        assert_eq!(report.expired, seen);
        assert!(report.sampled >= seen && report.buckets <= budget);
    }

    fn whole_databases(&mut self) {
        let (one, other) = (self.random.below(DATABASES as u64) as usize, self.random.below(DATABASES as u64) as usize);
        if self.random.below(10) > 0 {
            self.store.lock_all().for_each_mut(|_, shard| shard.swap(one, other));
            self.twin.swap(one, other);
        } else if self.random.below(5) == 0 {
            let mut flushed = 0;
            let mut count = |keys: Option<sleeve_store::Flushed>| flushed += keys.map_or(0, |keys| keys.len());
            self.store.lock_all().for_each_mut(|_, shard| count(shard.flush(one)));
            assert_eq!(flushed, self.twin[one].len());
            self.twin[one].clear();
        }
    }

    /// Checks that all data, as each walk shows it, equals the twin's.
    fn check(&mut self) {
        for db in 0..DATABASES {
            let twin = &self.twin[db];
            assert_eq!(self.store.len(db), twin.len());
            let volatile = twin.values().filter(|plain| plain.deadline.is_some()).count();
            assert_eq!(self.store.volatile_len(db), volatile);
            let mut seen = HashMap::new();
            let mut see = |entry: EntryRef<'_>| assert_eq!(seen.insert(entry.key().to_vec(), plain(entry)), None);
            (0..self.store.shards()).for_each(|shard| self.store.lock(shard).for_each(db, &mut see));
            assert_eq!(&seen, twin);
            let (mut scanned, mut cursor) = (0, 0);
            loop {
                cursor = self.store.scan(db, cursor, 1 + self.random.below(30) as usize, |entry| {
                    assert!(twin.contains_key(entry.key()));
                    scanned += 1;
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(scanned, twin.len());
            let random = self.store.random(db, self.random.next(), |entry| entry.key().to_vec());
            assert_eq!(random.is_some(), !twin.is_empty());
            assert!(random.is_none_or(|key| twin.contains_key(&key)));
        }
    }
}

fn run(seed: u64, shards: usize, keys: u64, steps: u64, slot_of: Option<SlotOf>) {
    println!("seed {seed}, {shards} shards, {keys} keys, by slot: {}", slot_of.is_some());
    let mut model = Model::new(seed, shards, keys, slot_of);
    for step in 0..steps {
        model.step((step / (steps / 6)).is_multiple_of(2));
        if step % (steps / 12) == 0 {
            model.check();
        }
    }
    model.check();
    for db in 0..DATABASES {
        let keys: Vec<Vec<u8>> = model.twin[db].keys().cloned().collect();
        keys.iter().for_each(|key| model.remove(db, key));
    }
    model.check();
    // A table by itself is mostly two lists for each size of its cells.
    let counts = if slot_of.is_some() { 80 << 10 } else { 0 };
    let tables = model.store.shards() * DATABASES * 1_024 + 256 * 128 + DATABASES * counts;
    assert!(model.store.memory() < tables, "an emptied store keeps {} bytes", model.store.memory());
}

#[test]
fn a_small_store_equals_its_twin() {
    let (seeds, steps) = if cfg!(miri) { (1..2, 240) } else { (0..20, 6000) };
    for seed in seeds {
        run(seed, [1, 2, 8][seed as usize % 3], 40 + 10 * seed, steps, None);
    }
}

#[test]
fn a_small_store_by_slot_equals_its_twin() {
    let (seeds, steps) = if cfg!(miri) { (1..2, 240) } else { (0..20, 6000) };
    for seed in seeds {
        let slot_of: SlotOf = if seed % 2 == 0 { slots::of_few } else { slots::of_all };
        run(seed, [1, 2, 8][seed as usize % 3], 40 + 10 * seed, steps, Some(slot_of));
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn a_growing_and_shrinking_store_equals_its_twin() {
    for seed in 100..104 {
        run(seed, [1, 1, 4, 64][seed as usize % 4], 20_000, 150_000, None);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn a_growing_and_shrinking_store_by_slot_equals_its_twin() {
    let kinds: [(usize, SlotOf); 4] = [(1, slots::of_one), (1, slots::of_all), (4, slots::of_few), (64, slots::of_few)];
    for (seed, (shards, slot_of)) in (100..).zip(kinds) {
        run(seed, shards, 20_000, 150_000, Some(slot_of));
    }
}
