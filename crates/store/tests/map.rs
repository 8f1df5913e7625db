//! Hashes against a plain twin, a `BTreeMap`: random operations under several limits with a clock that moves, everything
//! compared after each; then the order in which a shard finds the hashes that are due.
//!
//! All randomness comes from a seed, which a failure prints. Small enough to run under Miri.

use std::collections::BTreeMap;

use sleeve_store::{
    Collection, Deadline, Digits, Encoding, Find, HashKey, Key, Map, MapLimits, MapRef, Moment, Options, Shard, Store,
    Value, ValueRef,
};

use crate::random::Random;

const ROUNDS: u64 = if cfg!(miri) { 1 } else { 80 };
const STEPS: usize = if cfg!(miri) { 30 } else { 500 };

type Twin = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

impl Random {
    fn field(&mut self, spread: usize) -> Vec<u8> {
        let number = self.below(spread);
        if number.is_multiple_of(3) { number.to_string() } else { format!("field:{number:05}") }.into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.below(40) {
            0..=19 => self.below(100_000).to_string().into_bytes(),
            20..=37 => format!("value {}", self.below(9)).into_bytes(),
            38 => vec![b'x'; self.below(300)],
            _ => vec![b'y'; self.below(6_000)],
        }
    }
}

fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}

fn contents(map: MapRef<'_>, now_ms: i64) -> Twin {
    let mut seen = Twin::new();
    map.for_each_with_deadline(now_ms, |field, value, deadline| {
        assert!(seen.insert(text(field), (text(value), deadline)).is_none(), "a field is there once");
    });
    seen
}

fn scanned(map: MapRef<'_>, count: usize, now_ms: i64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut seen, mut cursor) = (BTreeMap::new(), 0);
    loop {
        cursor = map.scan(cursor, count, now_ms, |field, value| {
            assert!(seen.insert(text(field), text(value)).is_none(), "a field is shown once");
        });
        if cursor == 0 {
            return seen;
        }
    }
}

fn live(twin: &Twin, now_ms: i64) -> Twin {
    let is_live = |deadline: &Option<i64>| deadline.is_none_or(|deadline| now_ms <= deadline);
    twin.iter()
        .filter(|(_, (_, deadline))| is_live(deadline))
        .map(|(field, item)| (field.clone(), item.clone()))
        .collect()
}

fn set(map: &mut Map, twin: &mut Twin, random: &mut Random, spread: usize, limits: MapLimits, now_ms: i64) {
    let (field, value) = (random.field(spread), random.value());
    let deadline = match random.below(4) {
        0 => Deadline::At(now_ms + 1 + random.below(60) as i64),
        1 => Deadline::Keep,
        _ => Deadline::Clear,
    };
    let old = live(twin, now_ms).get(&field).cloned();
    let kept = match deadline {
        Deadline::At(at_ms) => Some(at_ms),
        Deadline::Keep => old.as_ref().and_then(|(_, deadline)| *deadline),
        Deadline::Clear => None,
    };
    assert_eq!(map.set(&field, &value, deadline, limits, now_ms), old.is_none());
    twin.insert(field, (value, kept));
}

fn step(map: &mut Map, twin: &mut Twin, random: &mut Random, limits: MapLimits, spread: usize, now_ms: i64) {
    match random.below(20) {
        0..=10 => set(map, twin, random, spread, limits, now_ms),
        11..=14 => {
            let field = random.field(spread);
            assert_eq!(map.remove(&field, now_ms), live(twin, now_ms).contains_key(&field));
            twin.remove(&field);
        }
        15..=16 => {
            let field = random.field(spread);
            let deadline = (random.below(3) > 0).then(|| now_ms + random.below(60) as i64);
            if let Some(item) = live(twin, now_ms).get(&field) {
                map.set_deadline(&field, deadline);
                twin.insert(field, (item.0.clone(), deadline));
            }
        }
        17 => *map = map.clone(),
        _ => {
            let mut gone = Vec::new();
            map.expire(now_ms, 1 + random.below(40), |field| gone.push(field.to_vec()));
            for field in gone {
                let (_, deadline) = twin.remove(&field).expect("what expires was there");
                assert!(deadline.is_some_and(|deadline| deadline < now_ms));
            }
        }
    }
}

fn same(map: &Map, twin: &Twin, random: &mut Random, spread: usize, now_ms: i64) {
    let (view, live) = (map.as_ref(), live(twin, now_ms));
    assert_eq!((view.len(), map.is_empty()), (twin.len(), twin.is_empty()));
    assert_eq!(contents(view, now_ms), live);
    let field = random.field(spread);
    let expected = live.get(&field).cloned();
    assert_eq!(view.get_with_deadline(&field, now_ms).map(|(value, at)| (text(value), at)), expected);
    assert_eq!(view.get(&field, now_ms).map(text), expected.map(|(value, _)| value));
    let pairs = scanned(view, 1 + random.below(20), now_ms);
    assert!(pairs.iter().eq(live.iter().map(|(field, (value, _))| (field, value))));
    let chosen = view.random(random.next(), now_ms).map(|(field, value)| (text(field), text(value)));
    match chosen {
        Some((field, value)) => assert_eq!(live.get(&field).map(|(value, _)| value), Some(&value)),
        None => assert!(live.is_empty()),
    }
    let earliest = twin.values().filter_map(|(_, deadline)| *deadline).min();
    if let Some(earliest) = earliest {
        let due = view.due_ms().expect("a field has a deadline");
        assert!(due <= earliest.max(now_ms + 2), "{due} is later than {earliest}");
    }
}

#[test]
fn a_hash_is_what_its_plain_twin_is() {
    for round in 0..ROUNDS {
        let mut random = Random(round);
        let limits = MapLimits {
            entries_max: [0, 4, 40, 512][random.below(4)],
            value_bytes_max: [0, 20, 64, 10_000][random.below(4)],
        };
        let spread = [5, 30, 700][random.below(3)];
        let (mut map, mut twin, mut now_ms) = (Map::new(HashKey::new([7; 16])), Twin::new(), 1_000_000);
        for at in 0..STEPS {
            now_ms += random.below(3) as i64;
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                step(&mut map, &mut twin, &mut random, limits, spread, now_ms);
                same(&map, &twin, &mut random, spread, now_ms);
            }));
            assert!(result.is_ok(), "round {round}, step {at}");
        }
        // After enough small slices all expired fields are removed.
        now_ms += 1_000;
        for _ in 0..2_000 {
            map.expire(now_ms, 3, |_| ());
            now_ms += 1;
        }
        assert_eq!(map.as_ref().len(), live(&twin, now_ms).len());
    }
}

#[test]
fn the_encoding_follows_the_limits_and_never_goes_back() {
    let limits = MapLimits { entries_max: 4, value_bytes_max: 8 };
    let fresh = || Map::new(HashKey::new([7; 16]));
    let mut map = fresh();
    for number in 0..4 {
        map.set(format!("f{number}").as_bytes(), b"12345678", Deadline::Clear, limits, 0);
        assert_eq!(map.encoding(), Encoding::Listpack);
    }
    map.set_deadline(b"f1", Some(10));
    assert_eq!(map.encoding(), Encoding::ListpackEx);
    map.set_deadline(b"f1", None);
    assert_eq!((map.encoding(), map.as_ref().due_ms()), (Encoding::ListpackEx, None));
    map.set(b"f4", b"", Deadline::Clear, limits, 0);
    assert_eq!(map.encoding(), Encoding::Hashtable);
    map.remove(b"f4", 0);
    assert_eq!(map.encoding(), Encoding::Hashtable);
    for (field, value) in [(b"123456789".as_slice(), b"v".as_slice()), (b"f", b"123456789")] {
        let mut map = fresh();
        map.set(field, value, Deadline::Clear, limits, 0);
        assert_eq!(map.encoding(), Encoding::Hashtable);
    }
}

const LIMITS: MapLimits = MapLimits { entries_max: 512, value_bytes_max: 64 };

fn give(shard: &mut Shard, key: Key<'_>, fields: usize, at_ms: i64) {
    let moment = Moment { now_ms: 0, clock: 0 };
    let set = |map: &mut Map| {
        for number in 0..fields {
            map.set(format!("field{number}").as_bytes(), b"v", Deadline::At(at_ms), LIMITS, 0);
        }
    };
    shard.update(0, key, moment, || false, |_| {}, set).expect("the key is a hash");
}

#[test]
fn a_shard_finds_the_hashes_that_are_due_whatever_happened_to_their_keys() {
    let store = Store::new(Options { shards: 1, ..Options::new([7; 16]) });
    let mut shard = store.lock(0);
    let key = |name: &'static str| store.key(name.as_bytes());
    for (name, fields, at_ms) in
        [("small", 3, 20), ("large", 2_000, 10), ("string", 1, 10), ("gone", 1, 10), ("old", 5, 5)]
    {
        give(&mut shard, key(name), fields, at_ms);
    }
    drop(shard.set(0, key("string"), &Value::Plain(b"v"), Deadline::Clear, Moment { now_ms: 0, clock: 0 }));
    drop(shard.remove(0, key("gone")));
    let moved = shard.take(0, key("old")).expect("it is there");
    drop(shard.put(0, key("new"), moved, 0));
    assert!(!shard.has_due_fields(0, 5) && shard.has_due_fields(0, 6));
    let mut order = Vec::new();
    for now_ms in 0..200 {
        while let Some((hash, name)) = shard.pop_due(0, now_ms) {
            let expired = shard.expire_fields(0, Key { name: &name, hash }, now_ms, 100).expect("something is over");
            if expired.emptied {
                order.push(String::from_utf8(name.to_vec()).expect("our own names"));
            }
        }
    }
    assert_eq!(order, ["new", "large", "small"]);
    assert_eq!(shard.len(0), 1);
    assert!(matches!(shard.find(0, key("string"), 0), Find::Live(_)));
    give(&mut shard, key("small"), 3, 20);
    drop(shard.flush(0));
    assert!(!shard.has_due_fields(0, 1_000) && shard.pop_due(0, 1_000).is_none());
}
