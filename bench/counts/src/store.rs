//! The store alone: keys hashed, found, missed and replaced, among so many that the table has grown and split.

use std::hint::black_box;

use sleeve_store::{Deadline, Moment, Options, Store, Value};

use crate::counting::{bench, key};

/// Keys that are there.
const KEYS: usize = 20_000;

/// Operations of one benchmark.
const COUNT: usize = 1_024;

const MOMENT: Moment = Moment { now_ms: 1_000, clock: 1 };

/// Runs all of this file.
pub fn run() {
    let store = Store::new(Options { shards: 1, ..Options::new([9; 16]) });
    for number in 0..KEYS {
        set(&store, &key(number), &Value::Plain(b"0123456789abcdef"));
    }
    let keys = |first: usize| -> Vec<String> { (0..COUNT).map(|number| key(first + number * 17)).collect() };
    let (present, missing) = (keys(0), keys(KEYS));
    bench("look-up/hash", COUNT, || present.iter().for_each(|key| _ = black_box(store.key(key.as_bytes()).hash)));
    bench("look-up/hit", COUNT, || present.iter().for_each(|key| assert!(is_there(&store, key))));
    bench("look-up/miss", COUNT, || missing.iter().for_each(|key| assert!(!is_there(&store, key))));
    bench("look-up/replace", COUNT, || {
        present.iter().for_each(|key| set(&store, key, &Value::Plain(b"fedcba9876543210")));
    });
}

fn is_there(store: &Store, name: &str) -> bool {
    let key = store.key(name.as_bytes());
    store.lock_of(key.hash).get(0, key, MOMENT.now_ms).is_some()
}

fn set(store: &Store, name: &str, value: &Value<'_>) {
    let key = store.key(name.as_bytes());
    drop(store.lock_of(key.hash).set(0, key, value, Deadline::Clear, MOMENT));
}
