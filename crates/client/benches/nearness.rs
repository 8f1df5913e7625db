//! The cost of a GET over one way to a server or another: its time, and the processors' time of both sides.
//!
//! `nearness URL COUNT` keeps so many GETs of 16 bytes in flight from one thread, for a line each, and prints the median and
//! the 99th percentile from a call to its reply, and CPU time a call of both sides. TCP is
//! `redis://127.0.0.1:6379?unix_socket=no`, a Unix socket `unix:///path?shared_memory=no`, shared memory `unix:///path`. It
//! writes the key `nearness`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Error, Reply};

/// How many calls are on their way at once, for a line each.
const AT_ONCE: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 512];

/// The number of calls of which one is timed.
const TIMED_ONE_OF: usize = 17;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().filter(|argument| argument != "--bench").skip(1);
    let (Some(url), Some(count)) = (arguments.next(), arguments.next()) else {
        // `cargo test --benches` gives none, and measures nothing.
        println!("give a URL and a count: nearness unix:///run/sleeve.sock 1000000");
        return Ok(());
    };
    let count: usize = count.parse().expect("a number of calls");
    let client = Client::connect(&url)?;
    client.set("nearness", "0123456789abcdef").wait()?;
    println!("at once    median       p99  server  client  (microseconds)");
    for at_once in AT_ONCE {
        // Calls that are not counted make the client choose its way and grow its buffers.
        measure(&client, at_once, count / 10)?;
        let (server_before, own_before) = (server_us(&client)?, own_us());
        let mut took = measure(&client, at_once, count)?;
        let own = (own_us() - own_before) / count as f64;
        let server = (server_us(&client)? - server_before) / count as f64;
        took.sort_unstable();
        let share = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1_000.0;
        println!("{at_once:>7} {:>9.2} {:>9.2} {server:>7.2} {own:>7.2}", share(0.5), share(0.99));
    }
    Ok(())
}

/// Returns how long calls took, of one in so many: two looks at the clock take a tenth of a call's time.
fn measure(client: &Client, at_once: usize, count: usize) -> Result<Vec<Duration>, Error> {
    let mut on_their_way: VecDeque<(Option<Instant>, Reply<String>)> = VecDeque::with_capacity(at_once);
    let mut took = Vec::with_capacity(count / TIMED_ONE_OF + 1);
    for number in 0..count + at_once {
        if on_their_way.len() == at_once || number >= count {
            let Some((since, reply)) = on_their_way.pop_front() else { break };
            reply.wait()?;
            took.extend(since.as_ref().map(Instant::elapsed));
        }
        if number < count {
            on_their_way.push_back((number.is_multiple_of(TIMED_ONE_OF).then(Instant::now), client.get("nearness")));
        }
    }
    Ok(took)
}

/// CPU time of the server until now, in microseconds.
fn server_us(client: &Client) -> Result<f64, Error> {
    let info: String = client.cmd("INFO").arg("cpu").send().wait()?;
    let seconds = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|seconds| seconds.trim().parse::<f64>().ok()).expect("seconds")
    };
    Ok((seconds("used_cpu_sys") + seconds("used_cpu_user")) * 1e6)
}

/// CPU time of this process until now, in microseconds, of the system's hundredths of a second.
fn own_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .map(|rest| rest.split_whitespace().filter_map(|field| field.parse().ok()).collect())
        .unwrap_or_default();
    // Behind the state, which is no number: user and system time are the 11th and the 12th.
    (fields[10] + fields[11]) * 10_000.0
}
