//! Measures the store alone: nanoseconds for each operation on random keys, with and without the two prefetch passes,
//! and resident memory for each key. `cargo run --release -p sleeve-store --example measure [KEYS [SHARDS [SCENARIO]]]`

use sleeve_store::{Deadline, Key, Lookup, Moment, Options, PrefetchStep, SHARDS_DEFAULT, Store, Value};
use std::hint::black_box;
use std::ops::Range;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MOMENT: Moment = Moment { now_ms: 1_000, clock: 1 };

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// `key:` and twelve digits: 16 bytes.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Returns the processor time of this thread in nanoseconds, so that a busy machine disturbs less.
fn spent_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Rss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).map_or(0, |kib| kib * 1024)
}

/// Inserts `keys` keys and prints memory for each, and the longest insertion.
fn fill(name: &str, keys: u64, shards: usize, value: &Value<'_>) -> Store {
    let before = resident_bytes();
    let store = Store::new(Options { shards, ..Options::new([9; 16]) });
    let (start_ns, mut longest_ns) = (spent_ns(), 0f64);
    for number in 0..keys {
        let key = key(number);
        let begun = if number % 16 == 0 { spent_ns() } else { 0.0 };
        let named = store.key(&key);
        drop(store.lock_of(named.hash).set(0, named, value, Deadline::Clear, MOMENT));
        longest_ns = if number % 16 == 0 { longest_ns.max(spent_ns() - begun) } else { longest_ns };
    }
    let spent = spent_ns() - start_ns;
    println!(
        "{name}: {:.1} ns an insertion, longest of every sixteenth {:.0} us; {:.1} bytes RSS a key, {:.1} counted",
        spent / keys as f64,
        longest_ns / 1000.0,
        resident_bytes().saturating_sub(before) as f64 / keys as f64,
        store.memory() as f64 / keys as f64,
    );
    store
}

/// Runs `act` on random keys in batches, after the prefetch passes if the batch is larger than 1, and prints the best of
/// sixteen parts.
fn run(name: &str, store: &Store, keys: Range<u64>, batch: usize, mut act: impl FnMut(&Store, Key<'_>)) {
    let mut random = Random(88_172_645_463_325_252);
    let chosen: Vec<[u8; 16]> =
        (0..4_000_000).map(|_| key(keys.start + random.next() % (keys.end - keys.start))).collect();
    let (mut hashed, mut best) = (Vec::with_capacity(batch), f64::MAX);
    for part in chosen.chunks(chosen.len() / 16) {
        let start_ns = spent_ns();
        for keys in part.chunks(batch) {
            hashed.clear();
            hashed.extend(keys.iter().map(|key| store.key(key)));
            if batch > 1 {
                for step in [PrefetchStep::Segment, PrefetchStep::Bucket, PrefetchStep::Entry] {
                    hashed.iter().for_each(|key| store.lock_of(key.hash).prefetch(0, &[key.hash], step));
                }
            }
            hashed.iter().for_each(|&key| act(store, key));
        }
        best = best.min((spent_ns() - start_ns) / part.len() as f64);
    }
    println!("  {name:<22} batch {batch:>2}: {best:>6.1} ns");
}

fn get(store: &Store, key: Key<'_>) {
    let shard = store.lock_of(key.hash);
    if let Some(entry) = shard.get(0, key, MOMENT.now_ms) {
        entry.touch(2);
        match entry.value() {
            sleeve_store::ValueRef::Bytes(bytes) => _ = black_box(bytes.last()),
            sleeve_store::ValueRef::Integer(number) => _ = black_box(number),
        }
    }
}

fn set(store: &Store, key: Key<'_>, value: &Value<'_>) {
    drop(store.lock_of(key.hash).set(0, key, value, Deadline::Clear, MOMENT));
}

fn increment(store: &Store, key: Key<'_>) {
    if let Lookup::Live(mut entry) = store.lock_of(key.hash).lookup_mut(0, key, MOMENT.now_ms, || false)
        && let Some(number) = entry.value().integer()
    {
        drop(entry.set_integer(number + 1));
    }
}

/// Prints the cost of one dependent read from 64 MiB in random order: the yardstick for the figures below.
fn print_yardstick() {
    let places = 1u32 << 24;
    let next: Vec<u32> =
        (0..places).map(|at| at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % places).collect();
    let (mut at, mut best) = (0, f64::MAX);
    for _ in 0..16 {
        let start_ns = spent_ns();
        (0..100_000).for_each(|_| at = next[at as usize]);
        best = best.min((spent_ns() - start_ns) / 100_000.0);
    }
    println!("one read from 64 MiB: {best:.1} ns ({})", black_box(at) % 2);
}

fn scenario(name: &str, keys: u64, shards: usize) {
    let long = [b'v'; 32];
    let value = match name {
        "strings" => Value::Plain(&long),
        "short" => Value::Plain(&long[..16]),
        "integers" => Value::Plain(b"123456"),
        _ => return print_yardstick(),
    };
    let store = fill(name, keys, shards, &value);
    for batch in [1, 16, 64] {
        run("GET", &store, 0..keys, batch, get);
        if name == "integers" {
            run("INCR", &store, 0..keys, batch, increment);
        } else {
            run("SET, same size", &store, 0..keys, batch, |store, key| set(store, key, &value));
        }
        run("GET of a missing key", &store, keys..2 * keys, batch, get);
    }
    let start_ns = spent_ns();
    drop(store);
    println!("  freed in {:.1} ms", (spent_ns() - start_ns) / 1e6);
}

/// Each scenario runs in a process of its own, so that none inherits memory from another.
fn main() {
    let mut arguments = std::env::args().skip(1);
    let keys = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let shards = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(SHARDS_DEFAULT);
    if let Some(name) = arguments.next() {
        return scenario(&name, keys, shards);
    }
    let program = std::env::current_exe().expect("the path of this program");
    for name in ["yardstick", "strings", "short", "integers"] {
        let mut child = std::process::Command::new(&program);
        child.args([&keys.to_string(), &shards.to_string(), name]).status().expect("this program starts again");
    }
}
