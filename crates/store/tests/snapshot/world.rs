//! A store that is changed at random, in every way in which commands change one.

use std::slice;
use std::sync::Arc;

use sleeve_store::{
    BlockLimits, Collection, Deadline, End, Flushed, Keep, Kind, List, ListLimit, Lookup, Map, MapLimits, Moment,
    Options, Pending, Set, SetLimits, SlotOf, SortedSet, SortedSetLimits, Store, Stream, StreamCounters, StreamGroup,
    StreamId, Value,
};

use crate::elsewhere::put_elsewhere;

pub const DATABASES: usize = 3;

const MAP_LIMITS: MapLimits = MapLimits { entries_max: 8, value_bytes_max: 64 };
const SET_LIMITS: SetLimits = SetLimits { integers_max: 16, packed_max: 8, packed_value_max: 64 };
const SORTED_SET_LIMITS: SortedSetLimits = SortedSetLimits { entries_max: 8, value_max: 64 };
const BLOCK_LIMITS: BlockLimits = BlockLimits { bytes_max: 4000, entries_max: 20 };

/// A small generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The kinds of values in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Short strings only.
    Small,
    /// Values of all types, mostly small.
    All,
    /// Large values of this type.
    Large(Kind),
}

pub struct World {
    pub store: Store,
    pub random: Random,
    pub mix: Mix,
    keys: u64,
    now_ms: i64,
    /// The flushed databases that are not freed yet.
    pub flushed: Vec<Flushed>,
    /// A long value that is on its way out, as in a reply.
    replied: Option<Arc<Vec<u8>>>,
}

fn field(number: u64) -> Vec<u8> {
    format!("field:{number:06}").into_bytes()
}

impl World {
    pub fn new(seed: u64, shards: usize, keys: u64, mix: Mix) -> Self {
        let secret = seed.to_le_bytes().repeat(2).try_into().unwrap();
        // Every third world is placed by slot.
        let slot_of = (seed % 3 == 2).then_some(crate::slots::of_few as SlotOf);
        let store = Store::new(Options { databases: DATABASES, shards, secret, slot_of });
        Self { store, random: Random(seed), mix, keys, now_ms: 1_000_000, flushed: Vec::new(), replied: None }
    }

    fn key(&mut self) -> (usize, Vec<u8>) {
        let (db, number) = (self.random.below(DATABASES as u64) as usize, self.random.below(self.keys));
        let key = if number % 20 == 7 { "long".repeat(70) + &number.to_string() } else { format!("key:{number:08}") };
        (db, key.into_bytes())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = match self.random.below(30) {
            0 => self.random.below(20_000),
            1..=5 => self.random.below(600),
            _ => self.random.below(60),
        };
        let first = self.random.next() as u8;
        (0..length).map(|index| first.wrapping_add(index as u8)).collect()
    }

    fn moment(&mut self) -> Moment {
        Moment { now_ms: self.now_ms, clock: self.random.next() as u32 & 0xff_ffff }
    }

    /// Puts values of about this many parts under all keys.
    pub fn fill(&mut self, parts: u64) {
        for _ in 0..self.keys {
            let (db, key) = self.key();
            for _ in 0..1 + self.random.below(2 * parts) {
                self.change(db, &key);
            }
        }
    }

    pub fn step(&mut self) {
        let (db, key) = self.key();
        match self.random.below(100) {
            0..4 => self.remove(db, &key),
            4..10 => self.set_deadline(db, &key),
            10..20 => self.put_elsewhere(db, &key),
            20..24 => self.expire_some(),
            24..26 => self.now_ms += self.random.below(50) as i64,
            26..28 => self.whole_databases(),
            28..30 => self.flushed.truncate(self.random.below(3) as usize),
            30..32 => self.crowd(),
            _ => self.change(db, &key),
        }
    }

    fn change(&mut self, db: usize, key: &[u8]) {
        let kinds = [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash, Kind::Stream];
        let kind = match self.mix {
            Mix::Small => Kind::String,
            Mix::All => kinds[self.random.below(6) as usize],
            Mix::Large(Kind::String) => return self.change_long(db, key),
            Mix::Large(kind) => kind,
        };
        match kind {
            Kind::String => self.change_string(db, key),
            Kind::List => self.change_list(db, key),
            Kind::Set => self.change_set(db, key),
            Kind::SortedSet => self.change_sorted_set(db, key),
            Kind::Hash => self.change_hash(db, key),
            Kind::Stream => self.change_stream(db, key),
        }
    }

    fn change_string(&mut self, db: usize, key: &[u8]) {
        let (named, moment, bytes) = (self.store.key(key), self.moment(), self.bytes());
        let number = self.random.next() as i64 >> self.random.below(60);
        let deadline = match self.random.below(3) {
            0 => Deadline::Keep,
            1 => Deadline::At(self.now_ms + self.random.below(300) as i64 - 20),
            _ => Deadline::Clear,
        };
        let (choice, at) = (self.random.below(8), self.random.below(300) as usize);
        let mut shard = self.store.lock_of(named.hash);
        if choice < 4 {
            let value = match choice {
                0 => Value::Integer(number),
                1 => Value::Raw(&bytes),
                _ => Value::Plain(&bytes),
            };
            return drop(shard.set(db, named, &value, deadline, moment));
        }
        let Lookup::Live(mut entry) = shard.lookup_mut(db, named, self.now_ms, || false) else { return };
        if !entry.view().is_string() {
            return;
        }
        match choice {
            4 => _ = entry.append(&bytes),
            5 => entry.with_bytes_mut(at + 1, slice::from_ref(&(at..at + 1)), |bytes| bytes[at] ^= 0x55),
            6 => drop(entry.set_integer(number)),
            _ => entry.touch(number as u32),
        }
    }

    /// Changes strings of one to three megabytes here and there.
    fn change_long(&mut self, db: usize, key: &[u8]) {
        let (named, moment, bytes, choice) = (self.store.key(key), self.moment(), self.bytes(), self.random.below(20));
        let at = self.random.below(3 << 20) as usize;
        let mut shard = self.store.lock_of(named.hash);
        let short = shard.get(db, named, self.now_ms).is_none_or(|entry| entry.value().len() < 1000);
        if short {
            let mut value = vec![at as u8; (1 << 20) + at];
            value.chunks_mut(10_000).zip(0_u32..).for_each(|(chunk, mark)| chunk[0] = mark as u8);
            return drop(shard.set(db, named, &Value::Raw(&value), Deadline::Clear, moment));
        }
        let Lookup::Live(mut entry) = shard.lookup_mut(db, named, self.now_ms, || false) else { return };
        let length = entry.value().len();
        match choice {
            0 => drop(entry.set_integer(at as i64)),
            1 => self.replied = entry.view().shared(),
            2 | 3 => self.replied = None,
            4..8 => _ = entry.append(&bytes),
            8 => drop(shard.set(db, named, &Value::Raw(&bytes), Deadline::Keep, moment)),
            9 => entry.with_bytes_mut(at + 1, slice::from_ref(&(at..at + 1)), |bytes| bytes[at] ^= 0x55),
            10..13 => {
                let touched = at % length..length.min(at % length + 200_000);
                entry.with_bytes_mut(0, slice::from_ref(&touched), |bytes| bytes[touched.clone()].reverse());
            }
            _ => {
                let ends = [0..1, length - 1..length];
                entry.with_bytes_mut(0, &ends, |bytes| {
                    bytes[0] ^= 1;
                    bytes[length - 1] ^= 1;
                });
            }
        }
    }

    fn change_set(&mut self, db: usize, key: &[u8]) {
        let (named, moment, choice) = (self.store.key(key), self.moment(), self.random.below(200));
        let numbers: Vec<u64> = (0..1 + self.random.below(12)).map(|_| self.random.below(2000)).collect();
        let goes = self.random.below(10) < 4;
        let change = |set: &mut Set| match choice {
            // As SPOP of all members does.
            0 => drop(std::mem::replace(set, Set::new(set.hash_key()))),
            _ => numbers.iter().for_each(|&number| {
                let _ = if goes { set.remove(&*field(number)) } else { set.add(&*field(number), &SET_LIMITS) };
            }),
        };
        _ = self.store.lock_of(named.hash).update(db, named, moment, || false, |_| {}, change);
    }

    fn change_sorted_set(&mut self, db: usize, key: &[u8]) {
        let (named, moment, choice) = (self.store.key(key), self.moment(), self.random.below(300));
        let numbers: Vec<u64> = (0..1 + self.random.below(12)).map(|_| self.random.below(2000)).collect();
        let (goes, start) = (self.random.below(10) < 4, self.random.below(400) as usize);
        let change = |set: &mut SortedSet| match choice {
            0..3 => set.remove_ranks(start..start + 50),
            3..5 => set.settle(SortedSetLimits { entries_max: 300, value_max: 64 }),
            _ => numbers.iter().for_each(|&number| {
                if goes {
                    _ = set.remove(&field(number));
                } else {
                    _ = set.set(&field(number), (start * 7 + number as usize) as f64 / 4.0, SORTED_SET_LIMITS);
                }
            }),
        };
        _ = self.store.lock_of(named.hash).update(db, named, moment, || false, |_| {}, change);
    }

    fn change_hash(&mut self, db: usize, key: &[u8]) {
        let (named, moment, choice, bytes) = (self.store.key(key), self.moment(), self.random.below(10), self.bytes());
        let numbers: Vec<u64> = (0..1 + self.random.below(8)).map(|_| self.random.below(1500)).collect();
        let at_ms = self.now_ms + self.random.below(100) as i64;
        let now_ms = self.now_ms;
        let change = |map: &mut Map| {
            numbers.iter().for_each(|&number| match choice {
                0..3 => _ = map.remove(&field(number), now_ms),
                3 => _ = map.set(&field(number), &bytes, Deadline::At(at_ms), MAP_LIMITS, now_ms),
                4 => map.set_deadline(&field(number), (number % 3 > 0).then_some(at_ms)),
                _ => _ = map.set(&field(number), &bytes, Deadline::Keep, MAP_LIMITS, now_ms),
            });
        };
        let mut shard = self.store.lock_of(named.hash);
        _ = shard.update(db, named, moment, || false, |_| {}, change);
        if choice == 9 {
            _ = shard.expire_fields(db, named, now_ms, 40);
        }
    }

    fn change_list(&mut self, db: usize, key: &[u8]) {
        let (named, moment, choice, bytes) = (self.store.key(key), self.moment(), self.random.below(40), self.bytes());
        let limit = match key.len() % 3 {
            0 => ListLimit::new(6),
            1 => ListLimit::new(-1),
            _ => ListLimit::new(-1).compressed_beyond(1),
        };
        let (index, count) = (self.random.below(200) as usize, self.random.below(40) as usize);
        let elements: Vec<u64> = (0..1 + self.random.below(20)).map(|_| self.random.below(300)).collect();
        let end = if self.random.one_in(2) { End::Front } else { End::Back };
        let change = |list: &mut List| match choice {
            0..5 => {
                list.pop_many(end, count);
                list.shrink(limit);
            }
            5 => {
                list.trim(index, 400);
                list.shrink(limit);
            }
            6..9 => {
                list.prepare(bytes.len(), 1, limit);
                _ = list.set(index, &*bytes, limit);
            }
            9..14 => {
                let pivot = field(elements[0]);
                list.prepare(bytes.len(), 1, limit);
                _ = list.insert((&*pivot).into(), end, (&*bytes).into(), limit);
            }
            14..18 => {
                _ = list.remove(end, &*field(elements[0]), count);
                list.shrink(limit);
            }
            _ => {
                list.prepare(12 * elements.len(), elements.len(), limit);
                elements.iter().for_each(|&element| list.push(end, &*field(element), limit));
            }
        };
        _ = self.store.lock_of(named.hash).update(db, named, moment, || false, |_| {}, change);
    }

    fn change_stream(&mut self, db: usize, key: &[u8]) {
        let (named, moment, choice, bytes) = (self.store.key(key), self.moment(), self.random.below(20), self.bytes());
        let numbers: Vec<u64> = (0..1 + self.random.below(20)).map(|_| self.random.below(400)).collect();
        let keep = self.random.below(600);
        let append = |stream: &mut Stream, number: u64| {
            let id = StreamId::new(stream.last_id().ms + 1 + number % 2, 0);
            let (name, value) = (field(number % 3), &bytes[..bytes.len().min(200)]);
            stream.append(id, [name.as_slice(), value].into_iter(), BLOCK_LIMITS);
        };
        let change = |stream: &mut Stream| match choice {
            0 | 1 => _ = stream.trim(Keep::Last(keep), choice == 0, None),
            2 => _ = stream.trim(Keep::From(StreamId::new(1_000 + keep, 0)), false, Some(keep)),
            3..6 => numbers.iter().for_each(|&number| {
                let first = stream.first_id();
                _ = stream.delete(StreamId::new(first.ms + number % 60, 0));
            }),
            6..11 => change_groups(stream, &numbers, choice),
            11 if keep < 60 => _ = stream.remove_group(format!("group:{}", numbers[0] % 3).as_bytes()),
            12 if keep < 60 => {
                // Ids are set back, so that new blocks stand before the former last one.
                _ = stream.trim(Keep::Last(0), false, None);
                let counters = StreamCounters { last_id: StreamId::new(keep, 0), ..stream.counters() };
                stream.set_counters(counters);
                numbers.iter().for_each(|_| append(stream, 1));
            }
            _ => numbers.iter().for_each(|&number| append(stream, number)),
        };
        _ = self.store.lock_of(named.hash).update(db, named, moment, || false, |_| {}, change);
    }

    fn remove(&mut self, db: usize, key: &[u8]) {
        let named = self.store.key(key);
        drop(self.store.lock_of(named.hash).remove(db, named));
    }

    fn set_deadline(&mut self, db: usize, key: &[u8]) {
        let deadline = (!self.random.one_in(3)).then(|| self.now_ms + self.random.below(400) as i64);
        let named = self.store.key(key);
        if let Lookup::Live(mut entry) = self.store.lock_of(named.hash).lookup_mut(db, named, i64::MIN, || false) {
            entry.set_deadline(deadline);
        }
    }

    /// Does RENAME, MOVE or COPY.
    fn put_elsewhere(&mut self, db: usize, key: &[u8]) {
        let (to_db, to_key) = self.key();
        if (db, key) == (to_db, &to_key[..]) {
            return;
        }
        let copies = self.random.one_in(4);
        put_elsewhere(&self.store, (db, key), (to_db, &to_key), copies, self.now_ms);
    }

    fn expire_some(&mut self) {
        let (db, shard) = (self.random.below(DATABASES as u64) as usize, self.random.below(self.store.shards() as u64));
        let budget = 1 + self.random.below(40) as usize;
        self.store.lock(shard as usize).expire_step(db, self.now_ms, budget, |_, garbage| drop(garbage));
    }

    /// Adds and removes many keys, so that segments grow, split, shrink and merge.
    fn crowd(&mut self) {
        let (db, goes) = (self.random.below(DATABASES as u64) as usize, self.random.one_in(2));
        let most = if cfg!(miri) { 8 } else { 400 };
        let (start, count) = (self.random.below(3000), 1 + self.random.below(most));
        let moment = self.moment();
        for number in start..start + count {
            let key = format!("crowd:{number}").into_bytes();
            let named = self.store.key(&key);
            let mut shard = self.store.lock_of(named.hash);
            if goes {
                drop(shard.remove(db, named));
            } else {
                drop(shard.set(db, named, &Value::Integer(number as i64), Deadline::Clear, moment));
            }
        }
    }

    fn whole_databases(&mut self) {
        let (one, other) = (self.random.below(DATABASES as u64) as usize, self.random.below(DATABASES as u64) as usize);
        match self.random.below(12) {
            0 => self.store.lock_all().for_each_mut(|_, shard| self.flushed.extend(shard.flush(one))),
            1 => self.store.lock_all().for_each_mut(|_, shard| shard.trim()),
            _ => self.store.lock_all().for_each_mut(|_, shard| shard.swap(one, other)),
        }
    }
}

fn change_groups(stream: &mut Stream, numbers: &[u64], choice: u64) {
    let name = format!("group:{}", numbers[0] % 3).into_bytes();
    if stream.group(&name).is_none() {
        _ = stream.add_group(&name, StreamGroup::new(StreamId::MIN, Some(0)));
    }
    _ = stream.change_group(&name, |group, stream| {
        let consumers = ["one", "other"].map(|name| match group.find(name.as_bytes()) {
            Some(consumer) => consumer,
            None => group.add(name.as_bytes(), 5),
        });
        for &number in numbers {
            let id = StreamId::new(stream.first_id().ms + number / 5, 0);
            let consumer = consumers[number as usize % 2];
            match number % 5 {
                0 => _ = group.acknowledge(id),
                1 if choice == 6 && number % 50 == 1 => {
                    _ = group.remove(b"other");
                    return;
                }
                _ => group.set_pending(id, Pending { consumer, delivered_ms: number as i64, deliveries: number % 7 }),
            }
        }
    });
}
