//! The cost of a replica: a full sync and its effect on clients, the primary's cost of feeding a replica that keeps up, and
//! the replica's cost of applying the stream.
//!
//! Each server has a replica of its own kind, but for the last figure: there all follow the same primary.

use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::Server;

use super::builds::Builds;
use super::durability::snapshot::{BESIDE_VALKEY, idle_ms, probed};
use super::effort::Effort;
use super::filling::ask;
use super::fleet::{Contender, Fleet};
use super::generator::{Figure, Load, measure as run};
use super::plan::random_keys;
use super::process::cpu_seconds;
use super::report::{Bar, Table};

/// The name that `--only` takes.
pub const NAME: &str = "replication";

/// The number of keys. With their values of 200 bytes they take 1 GiB.
pub const KEYS: u64 = 4_970_000;

/// The number of SETs in the stream that is sent or applied; a process's CPU time comes in hundredths of a second.
const REQUESTS: u64 = 4_000_000;

const OPTIONS: &[&str] = &[
    "--repl-diskless-sync-delay",
    "0",
    "--repl-backlog-size",
    "64mb",
    "--client-output-buffer-limit",
    "replica 0 0 0",
    "--repl-timeout",
    "600",
];

pub const SLEEVE: Contender = Contender { cpus: &[0, 1], options: OPTIONS, ..Contender::SLEEVE };
pub const VALKEY: Contender = Contender { cpus: &[0, 1], options: OPTIONS, ..Contender::VALKEY };
const CONTENDERS: [Contender; 3] = [SLEEVE, Contender { cpus: &[0, 1], options: OPTIONS, ..Contender::REDIS8 }, VALKEY];

/// The figures that are read from a round, each with its bar.
const FIGURES: [(&str, Option<Bar>); 6] = [
    ("seconds of a full synchronization of 1 GiB", Some(Bar::Ratio(1.0))),
    ("a probe's p99.9 at the primary without it (ms)", None),
    ("a probe's p99.9 at the primary with it (ms)", None),
    ("a probe's p99.9 with it, less 1.5 times that without (ms)", Some(Bar::Absolute("sleeve", 1.0))),
    ("CPU that a replica adds at the primary, SET at depth 16 (us)", Some(Bar::Absolute("sleeve", 0.15))),
    ("CPU of the replica, SET applied from a Valkey's stream (us)", Some(Bar::Ratio(0.667))),
];

/// Fills primaries, and has replicas follow them. A quick run leaves out the other servers.
///
/// # Errors
/// When a server or the generator fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "A replica: 4,970,000 keys of 16 bytes with 200-byte values, then SETs of 16 bytes";
    println!("\n==> {title}");
    let contenders = if effort.divisor > 1 { &CONTENDERS[..1] } else { &CONTENDERS[..] };
    let primaries = Fleet::start(contenders, builds)?;
    primaries.fill(KEYS)?;
    let load = Load { requests: REQUESTS, clients: 50, pipeline: 16, ..random_keys("set") }.divided(effort.divisor);
    let lines = primaries.measure(FIGURES, BESIDE_VALKEY, effort.rounds, |contender, primary| {
        let added = added_us(contender, builds, &load)?;
        let [seconds, idle, syncing, beyond] = synchronized(contender, builds, primary)?;
        Ok([seconds, idle, syncing, beyond, added, applied_us(contender, builds, &load)?])
    })?;
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

/// Measures the first four figures: a replica without data gets all data.
///
/// # Errors
/// When a server fails.
pub fn synchronized(contender: &Contender, builds: &Builds, primary: &Server) -> Result<[f64; 4], String> {
    let idle_ms = idle_ms(primary)?;
    let replica = contender.start(builds)?;
    let (syncing_ms, seconds) = probed(primary, || {
        let begun = Instant::now();
        follow(&replica, primary)?;
        Ok(begun.elapsed().as_secs_f64())
    })?;
    Ok([seconds, idle_ms, syncing_ms, syncing_ms - 1.5 * idle_ms])
}

/// Returns the primary's additional time for each request with a replica.
fn added_us(contender: &Contender, builds: &Builds, load: &Load) -> Result<f64, String> {
    let primary = Contender { cpus: &[0], ..*contender }.start(builds)?;
    load.fill(builds.generator(), &primary)?;
    let without = run(builds.generator(), &primary, load, Figure::ServerCpu)?;
    let replica = Contender { cpus: &[1], ..*contender }.start(builds)?;
    follow(&replica, &primary)?;
    Ok(run(builds.generator(), &primary, load, Figure::ServerCpu)? - without)
}

/// Returns the time that a replica of a Valkey needs for each request of the stream.
fn applied_us(contender: &Contender, builds: &Builds, load: &Load) -> Result<f64, String> {
    let primary = Contender { cpus: &[1], options: OPTIONS, ..Contender::VALKEY }.start(builds)?;
    load.fill(builds.generator(), &primary)?;
    let replica = Contender { cpus: &[0], ..*contender }.start(builds)?;
    follow(&replica, &primary)?;
    let before = cpu_seconds(replica.process_id())?;
    run(builds.generator(), &primary, load, Figure::ServerCpu)?;
    caught_up(&replica, &primary)?;
    Ok((cpu_seconds(replica.process_id())? - before) * 1e6 / load.requests as f64)
}

/// Makes a server follow another, and waits until it has caught up.
fn follow(replica: &Server, primary: &Server) -> Result<(), String> {
    ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &primary.port().to_string()])?;
    caught_up(replica, primary)
}

fn caught_up(replica: &Server, primary: &Server) -> Result<(), String> {
    let (mut ours, mut theirs) = (replica.connect(), primary.connect());
    loop {
        let text = ask(&mut ours, &["INFO", "replication"])?;
        let offset = field(&ask(&mut theirs, &["INFO", "replication"])?, "master_repl_offset").to_owned();
        if field(&text, "master_link_status") == "up" && field(&text, "slave_repl_offset") == offset {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a line of INFO; nothing where there is none.
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim_end()
}
