//! How long a snapshot holds a shard: the processor time of its begin, of each step, and of the first change of a large
//! value, on a million keys and on values of a million elements. One shard, as one worker has.
//! `cargo run --release -p sleeve-store --example snapshot_holds [KEYS]`

use std::sync::Arc;

use sleeve_store::snapshot::{Budget, Progress, Snapshot};
use sleeve_store::{
    BlockLimits, Collection, Deadline, End, List, ListLimit, Map, MapLimits, Moment, Options, Set, SetLimits,
    SortedSet, SortedSetLimits, Store, Stream, StreamId, Value,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MOMENT: Moment = Moment { now_ms: 1_000, clock: 1 };

/// The budget that a server gives one step.
const BUDGET: Budget = Budget { bytes: 256 << 10, pieces: 1_000 };

/// Returns the processor time of this thread in microseconds.
fn spent_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, f64) {
    let begun = spent_us();
    let result = work();
    (result, spent_us() - begun)
}

/// Takes a snapshot of the store, after `touch` has changed one key of it, and prints how long each part took.
fn measure(name: &str, store: &Store, touch: impl FnOnce(&Store)) {
    let mut all = store.lock_all();
    let (begun, begin_us) = timed(|| Snapshot::begin(store, &mut all, Arc::default()));
    drop(all);
    let mut snapshot = begun.expect("no other is unfinished");
    let (_, touch_us) = timed(|| touch(store));
    let mut steps = Vec::new();
    loop {
        let (progress, step_us) = timed(|| snapshot.step(store, BUDGET, &mut |_| {}));
        steps.push(step_us);
        if progress.expect("nothing is missing") == Progress::Done {
            break;
        }
    }
    let total_us: f64 = steps.iter().sum();
    steps.sort_by(f64::total_cmp);
    let part = |of_thousand: usize| steps[(steps.len() - 1) * of_thousand / 1000];
    println!(
        "{name}: begin {begin_us:.0} us, first change {touch_us:.0} us, {} steps of {:.0} us (p99 {:.0}, longest {:.0}), \
         {:.0} ms in all",
        steps.len(),
        part(500),
        part(990),
        part(1000),
        total_us / 1e3,
    );
}

fn change<C: Collection>(store: &Store, key: &[u8], change: impl FnOnce(&mut C)) {
    let named = store.key(key);
    store.lock_of(named.hash).update(0, named, MOMENT, || false, |_| {}, change).expect("the key is of this type");
}

fn empty() -> Store {
    Store::new(Options { shards: 1, ..Options::new([9; 16]) })
}

fn strings(count: u64) {
    let (store, value) = (empty(), [b'x'; 200]);
    let set = |store: &Store, number: u64| {
        let key = format!("key:{number:012}");
        let named = store.key(key.as_bytes());
        let value = Value::Plain(&value);
        drop(store.lock(0).set(0, named, &value, Deadline::Clear, MOMENT));
    };
    (0..count).for_each(|number| set(&store, number));
    measure("strings of 200 bytes", &store, |store| set(store, 1));
    let store = empty();
    let key = b"long".as_slice();
    let named = store.key(key);
    let value = vec![7; 512 << 20];
    drop(store.lock(0).set(0, named, &Value::Raw(&value), Deadline::Clear, MOMENT));
    drop(value);
    measure("a string of 512 MiB", &store, |store| {
        let mut shard = store.lock(0);
        let sleeve_store::Lookup::Live(mut entry) = shard.lookup_mut(0, named, 0, || false) else { return };
        entry.with_bytes_mut(0, std::slice::from_ref(&(1 << 28..(1 << 28) + 1)), |bytes| bytes[1 << 28] ^= 1);
    });
}

fn collections(count: u64) {
    let name = |number: u64| format!("member:{number:012}");
    let sorted = SortedSetLimits { entries_max: 128, value_max: 64 };
    let store = empty();
    change::<SortedSet>(&store, b"key", |set| {
        (0..count).for_each(|number| _ = set.set(name(number).as_bytes(), number as f64, sorted));
    });
    measure("a sorted set", &store, |store| {
        change::<SortedSet>(store, b"key", |set| _ = set.set(name(7).as_bytes(), -1.0, sorted));
    });
    let limits = SetLimits { integers_max: 512, packed_max: 128, packed_value_max: 64 };
    let store = empty();
    change::<Set>(&store, b"key", |set| (0..count).for_each(|number| _ = set.add(name(number).as_bytes(), &limits)));
    measure("a set", &store, |store| change::<Set>(store, b"key", |set| _ = set.remove(name(7).as_bytes())));
    let limits = MapLimits { entries_max: 512, value_bytes_max: 64 };
    let store = empty();
    let set = |map: &mut Map, number: u64, value: &[u8]| {
        _ = map.set(name(number).as_bytes(), value, Deadline::Clear, limits, 0);
    };
    change::<Map>(&store, b"key", |map| (0..count).for_each(|number| set(map, number, &[b'y'; 20])));
    measure("a hash", &store, |store| change::<Map>(store, b"key", |map| set(map, 7, b"z")));
    let limit = ListLimit::new(-2);
    let store = empty();
    change::<List>(&store, b"key", |list| {
        list.prepare(1 << 20, 1 << 20, limit);
        (0..count).for_each(|number| list.push(End::Back, name(number).as_bytes(), limit));
    });
    measure("a list", &store, |store| {
        change::<List>(store, b"key", |list| _ = list.set(count as usize / 2, b"other".as_slice(), limit));
    });
    let limits = BlockLimits { bytes_max: 4096, entries_max: 100 };
    let store = empty();
    let append = |stream: &mut Stream, number: u64| {
        stream.append(StreamId::new(number, 0), [b"field".as_slice(), name(number).as_bytes()].into_iter(), limits);
    };
    change::<Stream>(&store, b"key", |stream| (1..=count).for_each(|number| append(stream, number)));
    measure("a stream", &store, |store| change::<Stream>(store, b"key", |stream| append(stream, count + 1)));
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    strings(count);
    collections(count);
}
