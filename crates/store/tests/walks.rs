//! The promises of SCAN, RANDOMKEY and active expiry while the table changes under them, and locking from many threads.

use sleeve_store::{Deadline, Moment, Options, Shard, ShardSet, Store, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

const MOMENT: Moment = Moment { now_ms: 1000, clock: 0 };

fn store(shards: usize) -> Store {
    Store::new(Options { shards, ..Options::new([7; 16]) })
}

fn set(store: &Store, key: &str, deadline: Deadline) {
    let named = store.key(key.as_bytes());
    let value = Value::Plain(key.as_bytes());
    drop(store.lock_of(named.hash).set(0, named, &value, deadline, MOMENT));
}

fn remove(store: &Store, key: &str) -> bool {
    let named = store.key(key.as_bytes());
    store.lock_of(named.hash).remove(0, named).is_some()
}

/// Checks that keys that stay are shown exactly once while thousands of others are added and removed between the steps.
fn scan_meets_what_stays(shards: usize, stay: usize, others: usize, count: usize) {
    let store = store(shards);
    (0..stay).for_each(|number| set(&store, &format!("stay:{number}"), Deadline::Clear));
    let (mut seen, mut cursor, mut steps) = (HashMap::new(), 0, 0);
    loop {
        cursor = store.scan(0, cursor, count, |entry| *seen.entry(entry.key().to_vec()).or_insert(0) += 1);
        assert!(cursor < 1 << 48);
        if cursor == 0 {
            break;
        }
        // There are two steps of growth and two of shrinking, so that segments split and merge in the middle of the walk.
        for number in 0..others {
            let key = format!("other:{number}");
            if steps % 4 < 2 { set(&store, &key, Deadline::Clear) } else { _ = remove(&store, &key) }
        }
        steps += 1;
    }
    assert!(steps > 3, "the walk took {steps} steps");
    for number in 0..stay {
        assert_eq!(seen.get(format!("stay:{number}").as_bytes()), Some(&1), "key {number}");
    }
}

#[test]
fn scan_meets_every_key_that_stays_exactly_once() {
    if cfg!(miri) {
        return scan_meets_what_stays(1, 120, 60, 5);
    }
    scan_meets_what_stays(1, 50, 5000, 10);
    scan_meets_what_stays(1, 3000, 30_000, 40);
    scan_meets_what_stays(4, 1000, 10_000, 10);
    scan_meets_what_stays(64, 20_000, 20_000, 500);
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn a_scan_step_is_bounded() {
    let store = store(64);
    (0..20_000).for_each(|number| set(&store, &format!("key:{number}"), Deadline::Clear));
    let (mut cursor, mut steps) = (0, 0);
    loop {
        let mut shown = 0;
        cursor = store.scan(0, cursor, 10, |_| shown += 1);
        steps += 1;
        assert!(shown < 10 + 40, "a step for 10 keys showed {shown}");
        if cursor == 0 {
            break;
        }
    }
    assert!(steps > 20_000 / 30);
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn any_cursor_is_valid() {
    let store = store(8);
    (0..3000).for_each(|number| set(&store, &format!("key:{number}"), Deadline::Clear));
    let mut cursor = 1u64;
    for _ in 0..2000 {
        cursor = cursor.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        store.scan(0, cursor, 10, |_| {});
    }
    assert_eq!(store.scan(0, u64::MAX, usize::MAX, |_| {}), 0);
    assert_eq!(store.scan(15, 0, 10, |_| {}), 0);
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn random_keys_are_about_equally_likely() {
    for keys in [1, 3, 100, 1000] {
        let store = store(64);
        (0..keys).for_each(|number| set(&store, &format!("key:{number}"), Deadline::Clear));
        let (mut seen, rounds) = (HashMap::new(), keys * 200);
        for round in 0..rounds {
            let random = (round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *seen.entry(store.random(0, random, |entry| entry.key().to_vec())).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), keys, "every key is chosen at some time");
        assert!(seen.values().all(|&times| times > 20), "no key is rare: {:?}", seen.values().min());
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for an interpreter")]
fn active_expiry_removes_all_that_has_expired_and_nothing_else() {
    let store = store(4);
    let total = 10_000;
    for number in 0..total {
        let deadline = match number % 4 {
            0 => Deadline::At(500),
            1 => Deadline::At(1000),
            2 => Deadline::At(5000),
            _ => Deadline::Clear,
        };
        set(&store, &format!("key:{number}"), deadline);
    }
    let mut expired = 0;
    for index in 0..store.shards() {
        let mut rounds = 0;
        while rounds < 2 {
            let report = store.lock(index).expire_step(0, 1000, 7, |_, garbage| drop(garbage));
            expired += report.expired;
            rounds += usize::from(report.wrapped);
            assert!(report.buckets <= 7 && report.sampled >= report.expired);
        }
    }
    assert_eq!((expired, store.len(0), store.volatile_len(0)), (total / 4, total * 3 / 4, total / 2));
    // A database without volatile keys costs nothing.
    let report = store.lock(0).expire_step(3, 1000, 100, |_, _| unreachable!("there is nothing"));
    assert_eq!((report.buckets, report.wrapped), (0, true));
}

/// Checks threads that move a fixed amount between counters under the locks of both, while others look at the whole.
#[test]
fn locks_of_many_threads_keep_the_sum() {
    let store = store(8);
    let (accounts, rounds) = if cfg!(miri) { (6, 20) } else { (40, 20_000) };
    let key = |number: u64| format!("account:{number}").into_bytes();
    let read = |shard: &Shard, key: &[u8]| shard.get(0, store.key(key), 0).unwrap().value().integer().unwrap();
    (0..accounts).for_each(|number| {
        let (key, hash) = (key(number), store.hash(&key(number)));
        drop(store.lock_of(hash).set(0, store.key(&key), &Value::Integer(100), Deadline::Clear, MOMENT));
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (1..4u64)
            .map(|seed| {
                let (store, key, read) = (&store, &key, &read);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let (from, to) = (key((round * seed) % accounts), key((round + seed * 7) % accounts));
                        let (from_hash, to_hash) = (store.hash(&from), store.hash(&to));
                        let (from_shard, to_shard) = (store.shard_of(from_hash), store.shard_of(to_hash));
                        let mut locked = store.lock_set(ShardSet::from_iter([from_shard, to_shard]));
                        let left = Value::Integer(read(locked.shard(from_shard), &from) - 1);
                        let shard = locked.shard_mut(from_shard);
                        drop(shard.set(0, store.key(&from), &left, Deadline::Clear, MOMENT));
                        let right = Value::Integer(read(locked.shard(to_shard), &to) + 1);
                        drop(locked.shard_mut(to_shard).set(0, store.key(&to), &right, Deadline::Clear, MOMENT));
                    }
                })
            })
            .collect();
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let locked = store.lock_all();
                let total: i64 = (0..accounts)
                    .map(|number| read(locked.shard(store.shard_of(store.hash(&key(number)))), &key(number)))
                    .sum();
                assert_eq!(total, 100 * accounts as i64);
            }
        });
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
}
