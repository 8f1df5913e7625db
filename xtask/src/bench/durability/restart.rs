//! A start with data: from the program's start until it serves, and its CPU time.
//!
//! Each server loads the files that it has written itself, from the page cache: this measures the server and not the disk.

use std::time::{Duration, Instant};

use crate::bench::builds::{Builds, bound_to};
use crate::bench::effort::Effort;
use crate::bench::filling::{Noise, ask, key, string, write};
use crate::bench::fleet::Contender;
use crate::bench::plan::BEST_PEER;
use crate::bench::process;
use crate::bench::report::{Bar, Line, Table};
use sleeve_tests::{Connection, Server};

/// The name that `--only` takes.
pub const NAME: &str = "restart";

/// The bar for the elapsed time of a start with an RDB of strings.
const RATIO_MAX: f64 = 0.45;

const LOGGED: &[&str] = &["--appendonly", "yes", "--appendfsync", "no"];

/// The data.
struct Shape {
    label: &'static str,
    requests: u64,
    /// The function that returns a request by its number.
    words: fn(u64, &mut Noise) -> Vec<Vec<u8>>,
    /// True if half of the data is in the increment of an AOF, the other half in its base; otherwise all of it is in an RDB.
    is_logged: bool,
    ratio_max: Option<f64>,
}

const SHAPES: [Shape; 3] = [
    Shape {
        label: "4,000,000 keys of 16 bytes, 200-byte values, RDB",
        requests: 4_000_000,
        words: string,
        is_logged: false,
        ratio_max: Some(RATIO_MAX),
    },
    Shape {
        label: "250,000 hashes, sets, sorted sets, lists and streams of 10 elements, 2,500 of 1,000, RDB",
        requests: 250_000,
        words: collection,
        is_logged: false,
        ratio_max: None,
    },
    Shape {
        label: "1,000,000 keys of 16 bytes, 200-byte values, half in a log's base, half in its increment",
        requests: 1_000_000,
        words: string,
        is_logged: true,
        ratio_max: None,
    },
];

/// Returns the command that writes a collection: one of five types in turn, and one in a hundred large.
fn collection(number: u64, noise: &mut Noise) -> Vec<Vec<u8>> {
    let size = if (number / 5).is_multiple_of(100) { 1_000 } else { 10 };
    let key = key(number);
    let command = ["HSET", "SADD", "ZADD", "RPUSH", "EVAL"][(number % 5) as usize];
    if command == "EVAL" {
        // A script adds the entries of a stream: a request for each would be another load.
        let code =
            "for at = 1, ARGV[1] do redis.call('XADD', KEYS[1], at .. '-1', 'number', at * 7, 'word', 'w' .. at) end";
        return ["EVAL", code, "1", &key, &size.to_string()].map(|word| word.as_bytes().to_vec()).into();
    }
    let mut words = vec![command.to_owned(), key];
    for place in 0..size {
        let random = noise.next() % 1_000_000_000;
        match command {
            "HSET" => words.extend([format!("field:{place}"), format!("value:{random:010}")]),
            "ZADD" => words.extend([format!("{}", random as f64 / 1e6), format!("member:{place}")]),
            _ => words.push(format!("element:{place}:{random}")),
        }
    }
    words.into_iter().map(String::into_bytes).collect()
}

/// A server that has ended, and the contents of its folder.
struct Stopped {
    contender: Contender,
    server: Server,
}

/// Fills servers, and starts them again and again.
///
/// # Errors
/// When a server fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "A start with data in the page cache: seconds until it serves, and of CPU";
    println!("\n==> {title}");
    let mut lines = Vec::new();
    for shape in SHAPES {
        let mut stopped = Vec::new();
        for contender in [Contender::SLEEVE, Contender::REDIS, Contender::REDIS8, Contender::VALKEY] {
            println!("    filling {}", contender.name);
            let options = if shape.is_logged { LOGGED } else { &[] };
            let contender = Contender { workers: None, cpus: &[0, 1], options, ..contender };
            stopped.push(Stopped { contender, server: filled(&contender, builds, &shape, effort)? });
        }
        for (cpus, suffix) in [(&[0, 1][..], "two CPUs"), (&[0], "one CPU")] {
            let label = |figure| format!("{}, {suffix}{figure}", shape.label);
            let samples = || stopped.iter().map(|each| (each.contender.name, Vec::new())).collect::<Vec<_>>();
            let (mut elapsed, mut used) = (samples(), samples());
            for round in 1..=effort.rounds {
                for (index, each) in stopped.iter_mut().enumerate() {
                    let (seconds, cpu) = start(&mut each.server, cpus)?;
                    println!("    {} round {round}: {} {seconds:.3}, CPU {cpu:.2}", label(""), each.contender.name);
                    elapsed[index].1.push(seconds);
                    used[index].1.push(cpu);
                }
            }
            let bar = shape.ratio_max.map(Bar::Ratio);
            lines.push(Line { label: label(""), samples: elapsed, ratio: Some(BEST_PEER), bar });
            lines.push(Line { label: label(", CPU"), samples: used, ratio: Some(BEST_PEER), bar: None });
        }
    }
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

/// Starts a server that has ended, waits until it serves, and ends it; returns the seconds until then, and the seconds of CPU
/// time.
fn start(server: &mut Server, cpus: &[usize]) -> Result<(f64, f64), String> {
    let begun = Instant::now();
    bound_to(cpus, || server.restart())??;
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds(server.process_id())?;
    server.kill();
    Ok((seconds, cpu))
}

/// Starts a server that writes its data and ends.
fn filled(contender: &Contender, builds: &Builds, shape: &Shape, effort: Effort) -> Result<Server, String> {
    let mut server = contender.start(builds)?;
    let mut connection = server.connect();
    let (requests, mut noise) = (shape.requests / effort.divisor, Noise(7));
    let half = requests / 2;
    write(&mut connection, 0..half, |number| (shape.words)(number, &mut noise))?;
    if shape.is_logged {
        ask(&mut connection, &["BGREWRITEAOF"])?;
        wait_for_rewrite(&mut connection)?;
    }
    write(&mut connection, half..requests, |number| (shape.words)(number, &mut noise))?;
    if !shape.is_logged {
        ask(&mut connection, &["SAVE"])?;
    }
    server.kill();
    Ok(server)
}

fn wait_for_rewrite(connection: &mut Connection) -> Result<(), String> {
    loop {
        let text = ask(connection, &["INFO", "persistence"])?;
        if text.contains("aof_rewrite_in_progress:0") && text.contains("aof_rewrite_scheduled:0") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
