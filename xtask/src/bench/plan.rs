//! The comparisons, their loads, and the project's own bars.

use super::builds::Builds;
use super::effort::Effort;
use super::fleet::{Contender, Fleet};
use super::generator::{Figure, Load, State, measure};
use super::report::{Bar, Line, Ratio, Table};

/// The names that `--only` takes.
pub const NAMES: [&str; 13] = [
    "depth",
    "types",
    "unpipelined",
    "workers",
    "single",
    "log",
    "sync",
    "subscribers",
    "memory",
    "restart",
    "snapshot",
    "replication",
    "client",
];

/// A table: the same loads sent to several servers.
#[derive(Debug)]
pub struct Comparison {
    pub name: &'static str,
    title: &'static str,
    contenders: &'static [Contender],
    ratio: Ratio,
    loads: Vec<Judged>,
}

/// A load, the figure that is read from it, and the bar for the ratio.
#[derive(Debug)]
struct Judged {
    load: Load,
    figure: Figure,
    ratio_max: Option<f64>,
}

const SINGLE_WORKER: Contender = Contender { name: "sleeve", workers: Some(1), cpus: &[0], ..Contender::SLEEVE };
const TWO_WORKERS: Contender = Contender { name: "2 workers", workers: Some(2), cpus: &[0], ..Contender::SLEEVE };
const TWO_CPUS: Contender =
    Contender { name: "2 workers, 2 CPUs", workers: Some(2), cpus: &[0, 1], ..Contender::SLEEVE };
/// One worker of Sleeve beside its peers, all on one CPU.
pub const ALL: &[Contender] = &[SINGLE_WORKER, Contender::REDIS, Contender::REDIS8, Contender::VALKEY];

const EVERYSEC: &[&str] = &["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];
pub const NO_LOG: Contender = Contender { name: "no log", ..Contender::SLEEVE };
pub const EVERY_SECOND: Contender = Contender { name: "everysec", options: EVERYSEC, ..Contender::SLEEVE };
pub const VALKEY_EVERY_SECOND: Contender =
    Contender { name: "valkey, everysec", options: EVERYSEC, ..Contender::VALKEY };
/// The cost of a log is about the same server without one.
pub const BESIDE_NO_LOG: Ratio = ("everysec", &["no log"]);

/// A bar is about the best of all peers in the same round.
pub const BEST_PEER: Ratio = ("sleeve", &["redis", "redis 8", "valkey"]);

/// Returns all comparisons, in the order of the page.
pub fn comparisons() -> Vec<Comparison> {
    vec![depth(), types(), unpipelined(), workers(), single(), log()]
}

fn depth() -> Comparison {
    let bars = [
        (16, [("get", 0.60), ("set", 0.50), ("incr", 0.55), ("mset", 0.45)]),
        (64, [("get", 0.40), ("set", 0.35), ("incr", 0.45), ("mset", 0.40)]),
    ];
    let mut loads = Vec::new();
    for (pipeline, tests) in bars {
        for (test, ratio_max) in tests {
            let load = Load { pipeline, requests: requests(test, 3_000_000), ..random_keys(test) };
            loads.push(Judged { load, figure: Figure::ServerCpu, ratio_max: Some(ratio_max) });
        }
    }
    Comparison {
        name: "depth",
        title: "Pipelined: server CPU per request (us); 50 clients, 1,000,000 random keys, 16-byte values",
        contenders: ALL,
        ratio: BEST_PEER,
        loads,
    }
}

fn types() -> Comparison {
    let pipelined = |test, state, requests, keyspace| {
        let load = Load { requests, keyspace, state, ..random_keys(test) };
        Judged { load, figure: Figure::ServerCpu, ratio_max: Some(0.70) }
    };
    // A range costs as much as hundreds of requests of the other kinds.
    let range = |test, requests| pipelined(test, State::Kept("lrange_100"), requests, 1_000);
    Comparison {
        name: "types",
        title: "Collections: server CPU per request (us); 50 clients, depth 16, 16-byte elements, up to 1,000,000 of them",
        contenders: ALL,
        ratio: BEST_PEER,
        loads: vec![
            pipelined("lpush", State::Empty, 1_000_000, 1_000_000),
            pipelined("lpop", State::Filled, 1_000_000, 1_000_000),
            pipelined("sadd", State::Empty, 1_000_000, 1_000_000),
            pipelined("spop", State::Filled, 800_000, 1_000_000),
            pipelined("hset", State::Empty, 1_000_000, 1_000_000),
            pipelined("zadd", State::Grown(3_000_000), 800_000, 1_000_000),
            pipelined("evalsha", State::Filled, 400_000, 1_000_000),
            range("lrange_100", 160_000),
            range("lrange_300", 80_000),
            range("lrange_450", 40_000),
            range("lrange_600", 40_000),
        ],
    }
}

fn unpipelined() -> Comparison {
    let mut loads = Vec::new();
    for clients in [50, 256, 1024] {
        for test in ["ping_mbulk", "get", "set", "incr", "mset"] {
            let load =
                Load { clients, pipeline: 1, requests: 200_000, data_size: 1024, keyspace: 64, ..random_keys(test) };
            loads.push(Judged { load, figure: Figure::ServerCpu, ratio_max: Some(0.92) });
        }
    }
    Comparison {
        name: "unpipelined",
        title: "Unpipelined: server CPU per request (us); 64 keys, 1 KiB values",
        contenders: ALL,
        ratio: BEST_PEER,
        loads,
    }
}

fn workers() -> Comparison {
    let mut loads = Vec::new();
    for (pipeline, base) in [(1, 200_000), (16, 3_000_000)] {
        for test in ["get", "set", "incr", "mset"] {
            let base = if pipeline == 1 { base } else { requests(test, base) };
            let load = Load { pipeline, requests: base, ..random_keys(test) };
            loads.push(Judged { load, figure: Figure::ServerCpu, ratio_max: Some(1.08) });
        }
    }
    Comparison {
        name: "workers",
        title: "Two workers against one: server CPU per request (us); 50 clients, 1,000,000 random keys, 16-byte values",
        contenders: &[SINGLE_WORKER, TWO_WORKERS, TWO_CPUS],
        ratio: ("2 workers", &["sleeve"]),
        loads,
    }
}

fn single() -> Comparison {
    let judged = |test: &'static str, figure, ratio_max| {
        let load = Load { clients: 1, pipeline: 1, requests: 100_000, ..random_keys(test) };
        Judged { load, figure, ratio_max }
    };
    Comparison {
        name: "single",
        title: "One client, one request at a time: median latency (us) and server CPU per request (us)",
        contenders: ALL,
        ratio: BEST_PEER,
        loads: vec![
            judged("get", Figure::Latency, Some(1.0)),
            judged("get", Figure::ServerCpu, None),
            judged("set", Figure::Latency, None),
            judged("set", Figure::ServerCpu, None),
        ],
    }
}

/// Compares an AOF that is synced once a second with no AOF. The AOF is not rewritten during the load.
fn log() -> Comparison {
    let load = Load { requests: 3_000_000, ..random_keys("set") };
    let judged = |figure, ratio_max| Judged { load, figure, ratio_max: Some(ratio_max) };
    Comparison {
        name: "log",
        title: "A log that is synced every second: server CPU per request and elapsed time per request (us); 50 clients, \
                depth 16, 1,000,000 random keys, 16-byte values",
        contenders: &[NO_LOG, EVERY_SECOND, Contender::VALKEY, VALKEY_EVERY_SECOND],
        ratio: BESIDE_NO_LOG,
        loads: vec![judged(Figure::ServerCpu, 1.15), judged(Figure::Elapsed, 1.11)],
    }
}

pub fn random_keys(test: &'static str) -> Load {
    let state = State::Kept("get,incr");
    Load { test, clients: 50, pipeline: 16, requests: 1_000_000, data_size: 16, keyspace: 1_000_000, state, rate: None }
}

/// Returns the number of requests of a test: an MSET of ten keys is about ten times the work of a simple command.
fn requests(test: &str, simple: u64) -> u64 {
    if test == "mset" { simple / 8 } else { simple }
}

impl Comparison {
    /// Starts the contenders, fills them, and runs all rounds.
    ///
    /// # Errors
    /// When a server or the generator fails.
    pub fn measure(&self, builds: &Builds, effort: Effort) -> Result<Table, String> {
        println!("\n==> {}", self.title);
        let fleet = Fleet::start(self.contenders, builds)?;
        let mut lines = Vec::new();
        let mut filled = None;
        for Judged { load, figure, ratio_max } in &self.loads {
            let load = load.divided(effort.divisor);
            if filled != Some((load.keyspace, load.data_size, load.state)) {
                for (contender, server) in &fleet.servers {
                    println!("    filling {}", contender.name);
                    load.fill(builds.generator(), server)?;
                }
                filled = Some((load.keyspace, load.data_size, load.state));
            }
            let mut samples: Vec<(&'static str, Vec<f64>)> =
                fleet.servers.iter().map(|(contender, _)| (contender.name, Vec::new())).collect();
            for round in 1..=effort.rounds {
                for (index, (contender, server)) in fleet.servers.iter().enumerate() {
                    let value = measure(builds.generator(), server, &load, *figure)?;
                    println!("    {} round {round}: {} {value:.3}", load.label(), contender.name);
                    samples[index].1.push(value);
                }
            }
            let label = format!("{}{}", load.label(), figure.suffix());
            lines.push(Line { label, samples, ratio: Some(self.ratio), bar: ratio_max.map(Bar::Ratio) });
        }
        Ok(Table { name: self.name, title: self.title.to_owned(), lines })
    }
}
