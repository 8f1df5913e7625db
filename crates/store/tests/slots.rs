//! A store that is placed by slot: each slot against a plain twin, however uneven the slots are, and the bounds of its memory.

use proptest::prelude::*;
use sleeve_store::{
    Deadline, Moment, Options, SlotOf, Store, Value, keys_in_slot, remove_in_slot, slot_digest, walk_slot,
};
use std::collections::{BTreeMap, HashMap};

const MOMENT: Moment = Moment { now_ms: 1000, clock: 0 };

fn mixed(key: &[u8]) -> u64 {
    let hash =
        key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

/// Spreads keys over all slots.
pub fn of_all(key: &[u8]) -> u16 {
    (mixed(key) % 16_384) as u16
}

/// Puts most keys into five slots, two of them neighbours in the table, and the others into one in eight of the rest.
pub fn of_few(key: &[u8]) -> u16 {
    let mixed = mixed(key);
    match mixed % 16 {
        at @ 0..12 => [5, 5 + 8192, 100, 9999, 16_383][at as usize % 5],
        _ => (mixed / 16 % 2048 * 8) as u16,
    }
}

/// Puts all keys into one slot, as one hash tag does.
pub fn of_one(_: &[u8]) -> u16 {
    12_182
}

/// Puts keys into the first third of the slots, as in the first node of three.
fn of_third(key: &[u8]) -> u16 {
    (mixed(key) % 5461) as u16
}

/// Puts keys into 164 slots side by side, as in a node of a hundred.
fn of_hundredth(key: &[u8]) -> u16 {
    3000 + (mixed(key) % 164) as u16
}

fn store(shards: usize, slot_of: SlotOf) -> Store {
    Store::new(Options { shards, slot_of: Some(slot_of), ..Options::new([7; 16]) })
}

fn set(store: &Store, key: &str, deadline: Deadline) {
    let named = store.key(key.as_bytes());
    drop(store.lock_of(named.hash).set(0, named, &Value::Plain(b"value"), deadline, MOMENT));
}

fn remove(store: &Store, key: &str) -> bool {
    let named = store.key(key.as_bytes());
    store.lock_of(named.hash).remove(0, named).is_some()
}

fn in_slot(store: &Store, slot: u16, wanted: usize) -> Vec<String> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let shard = store.lock(store.shard_of_slot(slot));
        from = walk_slot(&shard, (0, slot), from, wanted, |entry| {
            names.push(String::from_utf8(entry.key().to_vec()).expect("keys are words"));
        });
        if from.is_none() {
            names.sort();
            return names;
        }
    }
}

fn digest_of(store: &Store, slot: u16) -> [u8; 20] {
    let shard = store.lock(store.shard_of_slot(slot));
    slot_digest(&shard, (0, slot), |entry| {
        let mut digest = [0; 20];
        digest[..8].copy_from_slice(&mixed(entry.key()).to_le_bytes());
        digest
    })
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Add { from: u16, count: u16 },
    Remove { from: u16, count: u16 },
    Clear { slot_of_key: u16, limit: u16 },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        4 => (0..3000u16, 1..900u16).prop_map(|(from, count)| Operation::Add { from, count }),
        3 => (0..3000u16, 1..900u16).prop_map(|(from, count)| Operation::Remove { from, count }),
        1 => (0..3900u16, 1..400u16).prop_map(|(slot_of_key, limit)| Operation::Clear { slot_of_key, limit }),
    ];
    prop::collection::vec(operation, 1..if cfg!(miri) { 3 } else { 14 })
}

fn key(number: u16) -> String {
    format!("key:{number}")
}

fn keys_in_twin(twin: &BTreeMap<u16, Vec<String>>, slot: u16) -> Vec<String> {
    twin.get(&slot).cloned().unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 120 }, ..ProptestConfig::default() })]

    #[test]
    fn each_slot_has_the_keys_of_its_twin(
        operations in operations(),
        shard_bits in 0..9u32,
        kind in 0..5usize,
        wanted in 1..40usize,
    ) {
        let slot_of = [of_all, of_few, of_one, of_third, of_hundredth][kind];
        let store = store(1 << shard_bits, slot_of);
        let mut twin: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Add { from, count } => (from..from + count).map(key).for_each(|key| {
                    set(&store, &key, Deadline::Clear);
                    let keys = twin.entry(slot_of(key.as_bytes())).or_default();
                    if let Err(at) = keys.binary_search(&key) {
                        keys.insert(at, key);
                    }
                }),
                Operation::Remove { from, count } => (from..from + count).map(key).for_each(|key| {
                    let keys = twin.entry(slot_of(key.as_bytes())).or_default();
                    let at = keys.binary_search(&key);
                    assert_eq!(remove(&store, &key), at.map(|at| keys.remove(at)).is_ok());
                }),
                Operation::Clear { slot_of_key, limit } => {
                    let slot = slot_of(key(slot_of_key).as_bytes());
                    let mut shard = store.lock(store.shard_of_slot(slot));
                    let keys = twin.entry(slot).or_default();
                    let before = keys.len();
                    let left = remove_in_slot(&mut shard, (0, slot), usize::from(limit), |key, garbage| {
                        drop(garbage);
                        keys.retain(|other| other.as_bytes() != key);
                    });
                    assert_eq!((left as usize, keys.len()), (before.saturating_sub(limit.into()), left as usize));
                }
            }
            assert_eq!(store.len(0), twin.values().map(Vec::len).sum::<usize>());
        }
        for slot in twin.keys().copied().chain([0, 8191, 8192, 16_383]) {
            let expected = keys_in_twin(&twin, slot);
            assert_eq!(store.keys_in_slot(0, slot), expected.len() as u64);
            assert_eq!(in_slot(&store, slot, wanted), expected);
        }
        let mut scanned = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = store.scan(0, cursor, wanted, |entry| scanned.push(entry.key().to_vec()));
            if cursor == 0 {
                break;
            }
        }
        let mut all: Vec<_> = twin.into_values().flatten().map(String::into_bytes).collect();
        scanned.sort();
        all.sort();
        assert_eq!(scanned, all);
    }
}

/// Checks that keys that stay are shown exactly once, by SCAN and by walks of their slots, while others come and go.
fn walks_meet_what_stays(shards: usize, slot_of: SlotOf, stay: usize, others: usize, count: usize) {
    let store = store(shards, slot_of);
    (0..stay).for_each(|number| set(&store, &format!("stay:{number}"), Deadline::Clear));
    let change = |steps: usize| {
        for number in 0..others {
            let key = format!("other:{number}");
            if steps % 4 < 2 { set(&store, &key, Deadline::Clear) } else { _ = remove(&store, &key) }
        }
    };
    let (mut seen, mut cursor, mut steps) = (HashMap::new(), 0, 0);
    loop {
        cursor = store.scan(0, cursor, count, |entry| *seen.entry(entry.key().to_vec()).or_insert(0) += 1);
        assert!(cursor < 1 << 48);
        if cursor == 0 {
            break;
        }
        change(steps);
        steps += 1;
    }
    let slot = slot_of(b"stay:0");
    let (mut in_slot, mut from) = (HashMap::new(), None);
    loop {
        let shard = store.lock(store.shard_of_slot(slot));
        let show = |entry: sleeve_store::EntryRef<'_>| *in_slot.entry(entry.key().to_vec()).or_insert(0) += 1;
        from = walk_slot(&shard, (0, slot), from, count, show);
        drop(shard);
        if from.is_none() {
            break;
        }
        change(steps);
        steps += 1;
    }
    for key in (0..stay).map(|number| format!("stay:{number}").into_bytes()) {
        assert_eq!(seen.get(&key), Some(&1), "key {key:?}");
        assert_eq!(in_slot.get(&key).copied(), (slot_of(&key) == slot).then_some(1), "key {key:?}");
    }
}

#[test]
fn walks_by_slot_meet_every_key_that_stays_exactly_once() {
    if cfg!(miri) {
        return walks_meet_what_stays(1, of_one, 120, 60, 5);
    }
    for slot_of in [of_all, of_few, of_one, of_third, of_hundredth] {
        walks_meet_what_stays(1, slot_of, 50, 5000, 10);
        walks_meet_what_stays(1, slot_of, 3000, 10_000, 40);
        walks_meet_what_stays(4, slot_of, 1000, 10_000, 10);
        walks_meet_what_stays(64, slot_of, 10_000, 10_000, 250);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn a_step_of_a_slot_is_bounded_whatever_else_is_there() {
    let store = store(1, of_few);
    (0..50_000).for_each(|number| set(&store, &format!("key:{number}"), Deadline::Clear));
    for slot in [5, 5 + 8192, 100, 8] {
        let (mut from, mut shown, mut steps) = (None, 0, 0);
        loop {
            let before = shown;
            from = walk_slot(&store.lock(0), (0, slot), from, 10, |_| shown += 1);
            assert!(shown - before < 10 + 40, "a step for 10 keys showed {}", shown - before);
            steps += 1;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(shown as u64, store.keys_in_slot(0, slot));
        assert!(steps <= 2 + shown / 3, "{steps} steps for {shown} keys");
    }
}

/// Returns the bytes of a store beyond those of one by hash with the same keys.
fn extra_memory(shards: usize, slot_of: SlotOf, keys: usize) -> isize {
    let (by_slot, by_hash) = (store(shards, slot_of), Store::new(Options { shards, ..Options::new([7; 16]) }));
    for key in (0..keys).map(|number| format!("key:{number}")) {
        set(&by_slot, &key, Deadline::Clear);
        set(&by_hash, &key, Deadline::Clear);
    }
    by_slot.memory() as isize - by_hash.memory() as isize
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn placing_by_slot_takes_at_most_512_kib_a_database() {
    let kinds: [(&str, SlotOf); 5] =
        [("all", of_all), ("few", of_few), ("one", of_one), ("third", of_third), ("hundredth", of_hundredth)];
    for shards in [1, 16, 256] {
        for (name, slot_of) in kinds {
            for keys in [1, 100, 3000, 20_000, 100_000] {
                let extra = extra_memory(shards, slot_of, keys);
                println!("{shards} shards, {keys} keys in {name}: {extra}");
                // The sizes of arrays differ by chance, by a few hundredths of the eight or nine bytes a key.
                let chance = keys as isize;
                assert!(extra < (512 << 10) + chance, "{shards} shards, {keys} keys in {name}: {extra} bytes more");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn one_slot_holds_two_million_keys_and_gives_all_memory_back() {
    let (store, keys) = (store(1, of_one), 2_000_000);
    (0..keys).for_each(|number| set(&store, &format!("{{tag}}{number}"), Deadline::Clear));
    assert_eq!(store.keys_in_slot(0, 12_182), keys);
    assert_eq!(store.keys_in_slot(0, 12_181) + store.keys_in_slot(0, 12_183) + store.keys_in_slot(1, 12_182), 0);
    let shard = store.lock(0);
    for number in (0..keys).step_by(1001) {
        let name = format!("{{tag}}{number}");
        assert!(shard.get(0, store.key(name.as_bytes()), 0).is_some());
        assert!(shard.get(0, store.key(format!("{{tag}}-{number}").as_bytes()), 0).is_none());
    }
    drop(shard);
    let mut left = keys;
    while left > 0 {
        let mut removed = 0;
        left = remove_in_slot(&mut store.lock(0), (0, 12_182), 1000, |_, _| removed += 1);
        assert!(removed == 1000 && left % 1000 == 0);
    }
    assert!(store.is_empty(0) && store.memory() < 200 << 10, "{} bytes are left", store.memory());
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn random_keys_of_uneven_slots_are_about_equally_likely() {
    for slot_of in [of_all, of_few, of_one, of_third, of_hundredth] {
        for (shards, keys) in [(1, 1), (64, 3), (1, 100), (1, 1000), (16, 1000), (1, 3000)] {
            let store = store(shards, slot_of);
            (0..keys).for_each(|number| set(&store, &format!("key:{number}"), Deadline::Clear));
            let (mut seen, rounds) = (HashMap::new(), keys * 200);
            for round in 0..rounds {
                let random = (round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                *seen.entry(store.random(0, random, |entry| entry.key().to_vec())).or_insert(0) += 1;
            }
            assert_eq!(seen.len(), keys, "every key is chosen at some time");
            assert!(seen.values().all(|&times| times > 20), "no key is rare: {:?}", seen.values().min());
            assert!(seen.values().all(|&times| times < 800), "no key is frequent: {:?}", seen.values().max());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn keys_with_deadlines_in_one_slot_are_all_drawn_and_all_expire() {
    let store = store(64, of_one);
    for number in 0..2000 {
        set(&store, &format!("key:{number}"), if number % 2 == 0 { Deadline::At(500) } else { Deadline::Clear });
    }
    let index = store.shard_of_slot(12_182);
    let mut drawn = HashMap::new();
    for round in 0..100_000u64 {
        let random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = store.lock(index).random_volatile(0, random).expect("half have one").key().to_vec();
        *drawn.entry(key).or_insert(0) += 1;
    }
    assert!(drawn.len() > 950, "{} of 1000 keys were drawn", drawn.len());
    let (mut expired, mut wrapped) = (0, 0);
    while wrapped < 2 {
        let report = store.lock(index).expire_step(0, 1000, 7, |_, garbage| drop(garbage));
        (expired, wrapped) = (expired + report.expired, wrapped + usize::from(report.wrapped));
    }
    assert_eq!((expired, store.len(0), store.keys_in_slot(0, 12_182)), (1000, 1000, 1000));
}

#[test]
fn a_digest_of_a_slot_knows_its_keys_and_not_their_order() {
    let (one, other) = (store(4, of_few), store(1, of_few));
    let keys: Vec<_> = (0..if cfg!(miri) { 30 } else { 500 }).map(key).collect();
    keys.iter().for_each(|key| set(&one, key, Deadline::Clear));
    keys.iter().rev().for_each(|key| set(&other, key, Deadline::Clear));
    let slot = of_few(keys[0].as_bytes());
    assert_eq!(digest_of(&one, slot), digest_of(&other, slot));
    remove(&other, &keys[0]);
    assert_ne!(digest_of(&one, slot), digest_of(&other, slot));
    assert_eq!(digest_of(&one, 77), [0; 20]);
}

#[test]
fn a_store_by_hash_has_no_keys_in_any_slot() {
    let store = Store::new(Options::new([7; 16]));
    (0..100).for_each(|number| set(&store, &key(number), Deadline::Clear));
    let all: u64 = (0..16_384).map(|slot| store.keys_in_slot(0, slot)).sum();
    let shard = store.lock(store.shard_of_slot(5));
    let mut shown = 0;
    assert_eq!(walk_slot(&shard, (0, 5), None, 10, |_| shown += 1), None);
    assert_eq!((all, shown, keys_in_slot(&shard, 0, 5), store.is_by_slot()), (0, 0, 0, false));
}

#[test]
fn contents_by_slot_change_places_with_a_sibling_and_are_flushed() {
    let store = store(4, of_few);
    (0..300).for_each(|number| set(&store, &key(number), Deadline::Clear));
    let (slot, other) = (of_few(b"key:0"), store.sibling());
    let count = store.keys_in_slot(0, slot);
    store.exchange(&mut store.lock_all(), &other);
    assert_eq!((store.keys_in_slot(0, slot), other.keys_in_slot(0, slot)), (0, count));
    store.exchange(&mut store.lock_all(), &other);
    store.lock_all().for_each_mut(|_, shard| shard.swap(0, 3));
    assert_eq!((store.keys_in_slot(0, slot), store.keys_in_slot(3, slot)), (0, count));
    store.lock_all().for_each_mut(|_, shard| drop(shard.flush(3)));
    assert_eq!(store.keys_in_slot(3, slot), 0);
}
