//! The cost of a read that is answered from the near cache: a program for an instruction counter, and for a clock.
//!
//! `near URL COUNT` reads as often and prints the time that a hit has taken. For instructions: `valgrind --tool=callgrind
//! TARGET/release/deps/near-… redis://127.0.0.1:6379 200000`, and again with another count: the difference of the two totals,
//! divided by three times that of the counts, because each of three types is read as often.

use std::sync::Arc;
use std::time::Instant;

use sleeve::prelude::*;
use sleeve::{Cached, Client, Error, FromReply};

/// Keys that are read in turn.
const KEYS: usize = 1_000;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().filter(|argument| argument != "--bench").skip(1);
    let (Some(url), Some(count)) = (arguments.next(), arguments.next()) else {
        // `cargo test --benches` gives none, and counts nothing.
        println!("give a URL and a count: near redis://127.0.0.1:6379 1000000");
        return Ok(());
    };
    let count: usize = count.parse().expect("a number of reads");
    let client = Client::connect(&url)?;
    let cached = client.cached()?;
    read::<i64>(&client, &cached, "short", "12345", count)?;
    read::<String>(&client, &cached, "copied", &"x".repeat(100), count)?;
    read::<Arc<[u8]>>(&client, &cached, "shared", &"x".repeat(100), count)
}

/// Reads keys with this value in turn.
fn read<T: FromReply>(client: &Client, cached: &Cached, name: &str, value: &str, count: usize) -> Result<(), Error> {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("near:{name}:{number}")).collect();
    for key in &keys {
        client.set(key, value).wait()?;
    }
    // A reply is kept when nothing is heard of its key any more.
    loop {
        let hits = cached.stats().hits;
        for key in &keys {
            cached.get::<T>(key).wait()?;
        }
        if cached.stats().hits == hits + KEYS as u64 {
            break;
        }
    }
    let begun = Instant::now();
    for key in keys.iter().cycle().take(count) {
        std::hint::black_box(cached.get::<T>(key).wait()?);
    }
    println!("{name}: {:.1} ns", begun.elapsed().as_nanos() as f64 / count as f64);
    Ok(())
}
