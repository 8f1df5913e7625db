//! The cost of a call for a client with many calls in flight: a program for an instruction counter.
//!
//! `valgrind --tool=callgrind TARGET/release/deps/calls-… redis://127.0.0.1:6379 200000`, and again with another count: the
//! difference of the two totals, divided by the difference of the counts, is the instructions a call, all threads and both
//! ways together. GETs go out in rounds of this many before the first wait.

use sleeve::Client;
use sleeve::prelude::*;

/// Calls that are on their way together.
const ROUND: usize = 100;

fn main() {
    let mut arguments = std::env::args().filter(|argument| argument != "--bench").skip(1);
    let (Some(url), Some(count)) = (arguments.next(), arguments.next()) else {
        // `cargo test --benches` gives none, and counts nothing.
        return println!("give a URL and a count: calls redis://127.0.0.1:6379 200000");
    };
    let count: usize = count.parse().expect("a number of calls");
    let client = Client::connect(&url).expect("a server");
    client.set("key", "a value of some length").wait().expect("it is set");
    let mut replies = Vec::with_capacity(ROUND);
    for _ in 0..count / ROUND {
        replies.extend((0..ROUND).map(|_| client.get::<String>("key")));
        for reply in replies.drain(..) {
            assert_eq!(reply.wait().expect("an answer").len(), 22);
        }
    }
}
