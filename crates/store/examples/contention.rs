//! The cost that threads on one store cause each other: nanoseconds of a GET under its shard's lock, for one thread and for
//! two, on keys that are spread and on one that both want. `cargo run --release -p sleeve-store --example contention`
//!
//! Time is taken in short slices. For each figure, only slices in which all threads were at work count, and of these the
//! lower quartile: on a busy machine, it is nearest to the figure of a quiet one.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use sleeve_store::{Deadline, Moment, Options, Store, Value};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MOMENT: Moment = Moment { now_ms: 1_000, clock: 1 };

/// The number of keys, when they are spread: their entries stay in the nearest caches, for the example measures the cost of
/// locks.
const KEYS: usize = 4_096;

/// Shards, as two workers have them.
const SHARDS: usize = 16;

/// Operations of one slice, and slices of one figure.
const SLICE: usize = 512;
const SLICES: usize = 40_000;

/// The number of blocks into which the other threads divide a slice: a thread that has done half of them during a slice did
/// not stand still.
const BLOCKS: usize = 8;

fn main() {
    let store = Store::new(Options { shards: SHARDS, ..Options::new([9; 16]) });
    let names: Vec<String> = (0..KEYS).map(|number| format!("key:{number:012}")).collect();
    for name in &names {
        let key = store.key(name.as_bytes());
        drop(store.lock_of(key.hash).set(0, key, &Value::Plain(b"0123456789abcdef"), Deadline::Clear, MOMENT));
    }
    let hashing = |_: &Store, name: &str| _ = black_box(store.key(name.as_bytes()).hash);
    println!("hashing a key             {:7.1} ns", slices(&store, &names, 1, &hashing));
    for (keys, what) in [(&names[..], "spread keys"), (&names[..1], "one key")] {
        for threads in [1, 2] {
            println!("{what:<12} {threads} threads   {:7.1} ns", slices(&store, keys, threads, &get));
        }
    }
    let lock = |store: &Store, _: &str| drop(black_box(store.lock(0)));
    for threads in [1, 2] {
        println!("the lock     {threads} threads   {:7.1} ns", slices(&store, &names, threads, &lock));
    }
}

fn get(store: &Store, name: &str) {
    let key = store.key(name.as_bytes());
    if let Some(entry) = store.lock_of(key.hash).get(0, key, MOMENT.now_ms) {
        entry.touch(2);
        _ = black_box(entry.value());
    }
}

/// Returns the lower quartile of a slice's nanoseconds an operation, of those slices of the first thread in which the others
/// did not stand still.
fn slices(store: &Store, names: &[String], threads: usize, act: &(impl Fn(&Store, &str) + Sync)) -> f64 {
    let (ends, barrier) = (AtomicBool::new(false), Barrier::new(threads));
    let progress: Vec<AtomicUsize> = (1..threads).map(|_| AtomicUsize::new(0)).collect();
    let all = || -> Vec<usize> { progress.iter().map(|blocks| blocks.load(Ordering::Relaxed)).collect() };
    thread::scope(|scope| {
        for (index, blocks) in progress.iter().enumerate() {
            let (ends, barrier) = (&ends, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut at = (index + 1) * names.len() / threads;
                while !ends.load(Ordering::Relaxed) {
                    at = run(store, names, at, SLICE / BLOCKS, act);
                    blocks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        barrier.wait();
        let (mut at, mut times) = (0, Vec::with_capacity(SLICES));
        for _ in 0..SLICES {
            let (before, begun) = (all(), Instant::now());
            at = run(store, names, at, SLICE, act);
            let time = begun.elapsed().as_nanos() as f64 / SLICE as f64;
            if all().iter().zip(before).all(|(now, before)| now - before >= BLOCKS / 2) {
                times.push(time);
            }
        }
        ends.store(true, Ordering::Relaxed);
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 4).copied().unwrap_or(f64::NAN)
    })
}

/// Runs so many operations, and says with which key to go on. The step is prime to the number of keys, and passes over shards.
fn run(store: &Store, names: &[String], mut at: usize, count: usize, act: &impl Fn(&Store, &str)) -> usize {
    for _ in 0..count {
        at = (at + 1_237) % names.len();
        act(store, &names[at]);
    }
    at
}
