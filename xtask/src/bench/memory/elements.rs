//! Bytes of resident memory per key or element: the growth of a server's process while they are written.

use super::super::builds::Builds;
use super::super::effort::Effort;
use super::super::filling::{key, write};
use super::super::plan::BEST_PEER;
use super::super::report::{Bar, Line, Table};
use super::resident::{NAME, at_rest, contenders};
use sleeve_tests::Server;

/// The number of requests that come first, and are reverted.
const WARM: u64 = 1_000;

/// The data to write.
struct Shape {
    label: &'static str,
    requests: u64,
    /// The number of keys or elements that one request writes.
    each: u64,
    /// The function that returns the words of a request by its number.
    words: fn(u64) -> Vec<String>,
    bar: Option<Bar>,
}

const LARGE_LIST: Shape = Shape {
    label: "one list of 1,000,000, 16-byte elements",
    requests: 1_000_000,
    each: 1,
    words: |number| words(["RPUSH", "list", &format!("value:{number:010}")]),
    bar: Some(Bar::Absolute("sleeve", 18.5)),
};

const SHAPES: [Shape; 13] = [
    Shape {
        label: "1,000,000 keys of 16 bytes, 32-byte values",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SET", &key(number), &format!("value:{number:026}")]),
        bar: Some(Bar::Ratio(0.8)),
    },
    Shape {
        label: "1,000,000 keys of 16 bytes, 6-digit integers",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SET", &key(number), &(100_000 + number % 900_000).to_string()]),
        bar: Some(Bar::Ratio(0.8)),
    },
    Shape {
        label: "200,000 hashes of 10 fields, 7-byte fields, 8-byte values",
        requests: 200_000,
        each: 10,
        words: |number| {
            with_pairs(["HSET", &key(number)], 10, |field| {
                (format!("field:{field}"), format!("v{:07}", number * 10 + field))
            })
        },
        bar: Some(Bar::Ratio(0.9)),
    },
    Shape {
        label: "100,000 sorted sets of 20, 12-byte members",
        requests: 100_000,
        each: 20,
        words: |number| {
            with_pairs(["ZADD", &key(number)], 20, |member| {
                (
                    ((number * 7 + member * 13) % 10_000).to_string(),
                    format!("member:{:05}", (number * 20 + member) % 100_000),
                )
            })
        },
        bar: Some(Bar::Ratio(0.9)),
    },
    Shape {
        label: "one set of 1,000,000, 20-byte members",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SADD", "set", &format!("element:{number:012}")]),
        bar: Some(Bar::Ratio(0.8)),
    },
    Shape {
        label: "one sorted set of 1,000,000, 20-byte members, mixed scores",
        requests: 1_000_000,
        each: 1,
        words: |number| {
            words(["ZADD", "zset", &(number * 7919 % 1_000_003).to_string(), &format!("element:{number:012}")])
        },
        bar: Some(Bar::Ratio(0.8)),
    },
    LARGE_LIST,
    Shape {
        label: "100,000 sets of 20, 12-byte members",
        requests: 100_000,
        each: 20,
        words: |number| {
            with_each(["SADD", &key(number)], 20, |member| format!("member:{:05}", (number * 20 + member) % 100_000))
        },
        bar: Some(Bar::Ratio(0.8)),
    },
    Shape {
        label: "100,000 sets of 20, 5-digit integers",
        requests: 100_000,
        each: 20,
        words: |number| {
            with_each(["SADD", &key(number)], 20, |member| (10_000 + (number * 20 + member) % 90_000).to_string())
        },
        bar: Some(Bar::Ratio(0.8)),
    },
    Shape {
        label: "100,000 lists of 20, 12-byte elements",
        requests: 100_000,
        each: 20,
        words: |number| with_each(["RPUSH", &key(number)], 20, |element| format!("value:{:06}", number * 20 + element)),
        bar: None,
    },
    Shape {
        label: "one hash of 1,000,000, 16-byte fields, 16-byte values",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["HSET", "hash", &format!("field:{number:010}"), &format!("value:{number:010}")]),
        bar: None,
    },
    Shape {
        label: "one stream of 1,000,000 entries, 2 fields of 6 bytes, 8-byte values",
        requests: 1_000_000,
        each: 1,
        words: |number| {
            let id = format!("{}-1", 1_700_000_000_000 + number * 7);
            let (first, second) = (format!("v{number:07}"), format!("w{number:07}"));
            words(["XADD", "stream", &id, "field1", &first, "field2", &second])
        },
        bar: None,
    },
    Shape {
        label: "1,000,000 keys of 16 bytes, 6-digit integers, each with a time to live",
        requests: 1_000_000,
        each: 1,
        words: |number| words(["SET", &key(number), &(100_000 + number % 900_000).to_string(), "EX", "100000"]),
        bar: None,
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

fn with_each<const N: usize>(head: [&str; N], count: u64, word: impl Fn(u64) -> String) -> Vec<String> {
    words(head).into_iter().chain((0..count).map(word)).collect()
}

/// Writes each shape into a fresh server of each kind.
///
/// # Errors
/// When a server fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "Memory: growth of resident memory per key or element (bytes)";
    println!("\n==> {title}");
    let lines = SHAPES.iter().map(|shape| line(shape, builds, effort)).collect::<Result<_, String>>()?;
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

/// Measures the list of a million elements alone.
///
/// # Errors
/// When a server fails.
pub fn large_list(builds: &Builds, effort: Effort) -> Result<Line, String> {
    line(&LARGE_LIST, builds, effort)
}

/// Writes a shape into a fresh server of each kind.
fn line(shape: &Shape, builds: &Builds, effort: Effort) -> Result<Line, String> {
    let mut samples = Vec::new();
    for contender in contenders(effort) {
        let server = contender.start(builds)?;
        let growth = growth(&server, shape)?;
        println!("    {}: {} {growth:.1}", shape.label, contender.name);
        samples.push((contender.name, vec![growth]));
    }
    Ok(Line { label: shape.label.to_owned(), samples, ratio: Some(BEST_PEER), bar: shape.bar })
}

fn growth(server: &Server, shape: &Shape) -> Result<f64, String> {
    let mut connection = server.connect();
    // The first requests touch parts of the program itself, which do not count as data.
    write(&mut connection, 0..WARM, shape.words)?;
    connection.command(&["FLUSHALL", "SYNC"]).map_err(|error| error.to_string())?;
    let before = at_rest(server)?;
    write(&mut connection, 0..shape.requests, shape.words)?;
    let after = at_rest(server)?;
    Ok((after.saturating_sub(before)) as f64 / (shape.requests * shape.each) as f64)
}
