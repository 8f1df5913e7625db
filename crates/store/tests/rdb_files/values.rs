//! Random values of every type and encoding, and the contents of a store, written out plainly.

use std::collections::BTreeMap;

use sleeve_store::rdb::Limits;
use sleeve_store::{
    BlockLimits, Collection, Deadline, Digits, EntryRef, Kind, List, Map, Moment, Options, Pending, Set, SortedSet,
    Store, Stream, StreamGroup, StreamId, Value, ValueRef,
};

const SECRET: [u8; 16] = [7; 16];
pub const NOW: Moment = Moment { now_ms: 1_000_000, clock: 0 };
pub const LATER_MS: i64 = NOW.now_ms + 5_000_000;

/// A small generator (SplitMix64), the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 8) % limit
    }

    /// Returns a number of up to `bits` bits, each length as likely as the others.
    pub fn scale(&mut self, bits: u64) -> u64 {
        let limit = 2 << self.below(bits);
        self.below(limit)
    }

    /// Returns words, integers of every width, and bytes that can be compressed and that cannot.
    fn bytes(&mut self, length_max: u64) -> Vec<u8> {
        match self.below(6) {
            0 => (self.scale(55) as i64 * if self.below(2) == 0 { 1 } else { -1 }).to_string().into_bytes(),
            1 => b"ab".repeat(self.below(length_max / 2 + 1) as usize),
            2 => (0..self.below(length_max + 1)).map(|_| self.below(256) as u8).collect(),
            _ => format!("word-{}", self.below(1000)).into_bytes(),
        }
    }
}

pub fn store() -> Store {
    Store::new(Options { databases: 4, shards: 4, ..Options::new(SECRET) })
}

pub fn limits(store: &Store) -> Limits {
    Limits { now_ms: i64::MIN, ..Limits::usual(store.hash_key()) }
}

/// Returns a number of elements: few, or so many that the collection is a large one.
fn size(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => 1 + random.below(5),
        1 => 1 + random.below(150),
        _ => 100 + random.below(900),
    }
}

fn random_list(random: &mut Random, limits: &Limits) -> List {
    let elements: Vec<Vec<u8>> = (0..size(random)).map(|_| random.bytes(200)).collect();
    List::collect(elements.iter().map(Vec::as_slice), limits.list)
}

fn random_set(random: &mut Random, limits: &Limits) -> Set {
    let (mut set, integers) = (Set::new(limits.hash_key), random.below(2) == 0);
    for _ in 0..size(random) {
        match integers {
            true => set.add(random.below(1 << 40) as i64, &limits.set),
            false => set.add(random.bytes(80).as_slice(), &limits.set),
        };
    }
    set
}

fn random_sorted_set(random: &mut Random, limits: &Limits) -> SortedSet {
    let mut set = SortedSet::new(limits.hash_key);
    for _ in 0..size(random) {
        let score = match random.below(8) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => random.below(1 << 50) as f64,
            _ => random.below(1000) as f64 / 7.0 - 50.0,
        };
        set.set(&random.bytes(70), score, limits.sorted_set);
    }
    set
}

fn random_map(random: &mut Random, limits: &Limits, is_timed: bool) -> Map {
    let mut map = Map::new(limits.hash_key);
    for _ in 0..size(random) {
        let deadline = match is_timed && random.below(3) == 0 {
            true => Deadline::At(LATER_MS + random.below(1 << 41) as i64),
            false => Deadline::Clear,
        };
        map.set(&random.bytes(70), &random.bytes(70), deadline, limits.hash, NOW.now_ms);
    }
    map
}

fn random_stream(random: &mut Random, limits: &Limits) -> Stream {
    let (mut stream, mut id) = (Stream::new(limits.hash_key), StreamId { ms: 5, seq: 0 });
    for _ in 0..size(random) {
        id = StreamId { ms: id.ms + random.below(3), seq: id.seq + 1 + random.scale(20) };
        let fields: Vec<Vec<u8>> = (0..2 + 2 * random.below(3)).map(|_| random.bytes(30)).collect();
        stream.append(id, fields.iter().map(Vec::as_slice), BlockLimits { bytes_max: 4096, entries_max: 100 });
    }
    for _ in 0..random.below(3) {
        let deleted = stream.range(StreamId { ms: 5 + random.below(20), seq: 0 }, StreamId::MAX).next();
        let deleted = deleted.map(|entry| entry.id);
        deleted.map(|id| stream.delete(id));
    }
    for number in 0..random.below(3) {
        let mut group = StreamGroup::new(id, (number == 0).then_some(3));
        for consumer in 0..random.below(3) {
            let consumer = group.add(format!("consumer-{consumer}").as_bytes(), 77);
            // Version 10 assumes that a consumer that was seen was active.
            group.consumer_mut(consumer).active_ms = Some(77);
            for entry in stream.range(StreamId::MIN, StreamId::MAX).skip(random.below(4) as usize).step_by(3) {
                group.set_pending(entry.id, Pending { consumer, delivered_ms: 99, deliveries: 1 + number });
            }
        }
        stream.add_group(format!("group-{number}").as_bytes(), group);
    }
    stream
}

/// Puts `count` random keys into a store.
pub fn fill(store: &Store, count: u64, seed: u64, is_timed: bool) {
    let (mut random, limits) = (Random(seed), limits(store));
    for number in 0..count {
        let key = format!("key:{number}:{}", random.below(9)).into_bytes();
        let (database, named) = (random.below(4) as usize % 3, store.key(&key));
        let deadline = if random.below(3) == 0 { Deadline::At(LATER_MS) } else { Deadline::Clear };
        let shard = &mut store.lock_of(named.hash);
        match random.below(7) {
            0 => drop(shard.set_collection(database, named, random_list(&mut random, &limits), deadline, NOW)),
            1 => drop(shard.set_collection(database, named, random_set(&mut random, &limits), deadline, NOW)),
            2 => drop(shard.set_collection(database, named, random_sorted_set(&mut random, &limits), deadline, NOW)),
            3 => drop(shard.set_collection(database, named, random_map(&mut random, &limits, is_timed), deadline, NOW)),
            4 => drop(shard.set_collection(database, named, random_stream(&mut random, &limits), deadline, NOW)),
            _ => {
                let bytes = random.bytes(if number % 9 == 0 { 100_000 } else { 90 });
                drop(shard.set(database, named, &Value::Plain(&bytes), deadline, NOW));
            }
        }
    }
}

fn text(value: ValueRef<'_>) -> String {
    value.bytes(&mut Digits::default()).escape_ascii().to_string()
}

/// Returns a value written out plainly; elements without an order are sorted.
fn plainly(entry: &EntryRef<'_>) -> Vec<String> {
    let mut lines = match entry.kind() {
        Kind::String => return vec![text(entry.value())],
        Kind::List => return entry.collection::<List>().unwrap().iter().map(text).collect(),
        Kind::Stream => return stream_plainly(entry.collection::<Stream>().unwrap()),
        Kind::Set => {
            let mut lines = Vec::new();
            entry.collection::<Set>().unwrap().for_each(|member| lines.push(text(member)));
            lines
        }
        Kind::SortedSet => {
            let (set, mut lines) = (entry.collection::<SortedSet>().unwrap(), Vec::new());
            set.visit(0..set.len(), false, |member, score| lines.push(format!("{} {score}", text(member))));
            return lines;
        }
        Kind::Hash => {
            let mut lines = Vec::new();
            entry.collection::<Map>().unwrap().for_each_with_deadline(i64::MIN, |field, value, deadline| {
                lines.push(format!("{} {} {deadline:?}", text(field), text(value)));
            });
            lines
        }
    };
    lines.sort();
    lines
}

fn stream_plainly(stream: &Stream) -> Vec<String> {
    let mut lines = vec![format!("{:?} {:?} {}", stream.counters(), stream.first_id(), stream.len())];
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        let fields: Vec<String> = entry.fields().map(|(name, value)| text(name) + "=" + &text(value)).collect();
        lines.push(format!("{:?} {fields:?}", entry.id));
    }
    for (name, group) in stream.groups() {
        lines.push(format!("{name:?} {:?} {:?}", group.last_id, group.entries_read));
        for (id, pending) in group.pending_in(StreamId::MIN..=StreamId::MAX) {
            let consumer = &group.consumer(pending.consumer).name;
            lines.push(format!("{id:?} {consumer:?} {} {}", pending.delivered_ms, pending.deliveries));
        }
        for consumer in group.consumers() {
            let pending = consumer.pending_len();
            lines.push(format!("{:?} {} {:?} {pending}", consumer.name, consumer.seen_ms, consumer.active_ms));
        }
    }
    lines
}

pub type Plain = BTreeMap<(usize, Vec<u8>), (Option<i64>, &'static str, Vec<String>)>;

/// Returns all that a store holds.
pub fn contents(store: &Store) -> Plain {
    let (locked, mut all) = (store.lock_all(), BTreeMap::new());
    for shard in locked.set().iter() {
        for database in 0..locked.shard(shard).databases() {
            locked.shard(shard).for_each(database, |entry| {
                let plain = (entry.deadline(), entry.encoding().name(), plainly(&entry));
                all.insert((database, entry.key().to_vec()), plain);
            });
        }
    }
    all
}
