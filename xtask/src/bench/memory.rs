//! Bytes of resident memory per key or element: what a server's process grows by while they are written.

use super::builds::Builds;
use super::effort::Effort;
use super::filling::write;
use super::fleet::Contender;
use super::plan::BEST_PEER;
use super::process;
use super::report::{Bar, Line, Table};
use sleeve_tests::Server;

/// The name that `--only` takes.
pub const NAME: &str = "memory";

/// Requests that come first, and are taken back.
const WARM: u64 = 1_000;

/// What is written.
struct Shape {
    label: &'static str,
    requests: u64,
    /// Keys or elements that one request writes.
    each: u64,
    /// The words of a request by its number.
    words: fn(u64) -> Vec<String>,
    /// Bytes per key or element.
    bar: f64,
}

const SHAPES: [Shape; 7] = [
    Shape {
        label: "1,000,000 keys of 16 bytes, 32-byte values",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SET", &format!("key:{number:012}"), &format!("value:{number:026}")]),
        bar: 74.0,
    },
    Shape {
        label: "1,000,000 keys of 16 bytes, 6-digit integers",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SET", &format!("key:{number:012}"), &(100_000 + number % 900_000).to_string()]),
        bar: 52.0,
    },
    Shape {
        label: "200,000 hashes of 10 fields, 7-byte fields, 8-byte values",
        requests: 200_000,
        each: 10,
        words: |number| {
            with_pairs(["HSET", &format!("key:{number:012}")], 10, |field| {
                (format!("field:{field}"), format!("v{:07}", number * 10 + field))
            })
        },
        bar: 25.0,
    },
    Shape {
        label: "100,000 sorted sets of 20, 12-byte members",
        requests: 100_000,
        each: 20,
        words: |number| {
            with_pairs(["ZADD", &format!("key:{number:012}")], 20, |member| {
                (
                    ((number * 7 + member * 13) % 10_000).to_string(),
                    format!("member:{:05}", (number * 20 + member) % 100_000),
                )
            })
        },
        bar: 22.0,
    },
    Shape {
        label: "one set of 1,000,000, 20-byte members",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SADD", "set", &format!("element:{number:012}")]),
        bar: 40.0,
    },
    Shape {
        label: "one sorted set of 1,000,000, 20-byte members, mixed scores",
        requests: 1_000_000,
        each: 1,
        words: |number| {
            words(["ZADD", "zset", &(number * 7919 % 1_000_003).to_string(), &format!("element:{number:012}")])
        },
        bar: 64.0,
    },
    Shape {
        label: "one list of 1,000,000, 16-byte elements",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["RPUSH", "list", &format!("value:{number:010}")]),
        bar: 18.5,
    },
];

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

fn with_pairs<const N: usize>(head: [&str; N], count: u64, pair: impl Fn(u64) -> (String, String)) -> Vec<String> {
    let mut all = words(head);
    for (first, second) in (0..count).map(pair) {
        all.extend([first, second]);
    }
    all
}

/// Writes each shape into a fresh server of each kind. Sizes need no rounds, but a tenth of them would be another size,
/// so a quick run leaves out the other servers instead.
///
/// # Errors
/// When a server fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "Memory: growth of resident memory per key or element (bytes)";
    println!("\n==> {title}");
    let all = [Contender::SLEEVE, Contender::REDIS, Contender::REDIS8, Contender::VALKEY];
    let contenders = if effort.divisor > 1 { &all[..1] } else { &all[..] };
    let mut lines = Vec::new();
    for shape in SHAPES {
        let mut samples = Vec::new();
        for contender in contenders {
            let server = contender.start(builds)?;
            let growth = growth(&server, &shape)?;
            println!("    {}: {} {growth:.1}", shape.label, contender.name);
            samples.push((contender.name, vec![growth]));
        }
        let (ratio, bar) = (Some(BEST_PEER), Some(Bar::Absolute("sleeve", shape.bar)));
        lines.push(Line { label: shape.label.to_owned(), samples, ratio, bar });
    }
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

fn growth(server: &Server, shape: &Shape) -> Result<f64, String> {
    let mut connection = server.connect();
    // What the first requests touch of the program itself is none of the data's.
    write(&mut connection, 0..WARM, shape.words)?;
    connection.command(&["FLUSHALL", "SYNC"]).map_err(|error| error.to_string())?;
    let before = process::resident_bytes(server.process_id())?;
    write(&mut connection, 0..shape.requests, shape.words)?;
    let after = process::resident_bytes(server.process_id())?;
    Ok((after.saturating_sub(before)) as f64 / (shape.requests * shape.each) as f64)
}
