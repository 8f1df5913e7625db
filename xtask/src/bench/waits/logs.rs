//! Rows about the AOF: synced before each reply, and synced every second.

use crate::bench::builds::Builds;
use crate::bench::durability::synced::ALWAYS;
use crate::bench::effort::Effort;
use crate::bench::fleet::{Contender, Fleet};
use crate::bench::generator::{Figure, Load, run};
use crate::bench::plan::{BESIDE_NO_LOG, BEST_PEER, EVERY_SECOND, NO_LOG, VALKEY_EVERY_SECOND, random_keys};
use crate::bench::report::{Bar, Line};

/// Servers that sync the AOF before each reply.
const SYNCED: [Contender; 4] = [
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::SLEEVE },
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::REDIS },
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::REDIS8 },
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::VALKEY },
];

/// Measures SETs of 50 clients, one at a time each, that are synced before their replies.
///
/// # Errors
/// When a server or the generator fails.
pub fn always(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let fleet = Fleet::start(&SYNCED, builds)?;
    let load = Load { pipeline: 1, requests: 100_000, ..random_keys("set") }.divided(effort.divisor);
    let rows = [
        ("appendfsync always, SET, 50 clients, depth 1: thousand requests a second", Some(Bar::RatioMin(1.0))),
        ("appendfsync always, SET, 50 clients, depth 1: server CPU (us)", Some(Bar::Ratio(1.2))),
    ];
    fleet.measure(rows, BEST_PEER, effort.rounds, |_, server| {
        let run = run(builds.generator(), server, &load)?;
        Ok([Figure::Rate.of(&run)?, Figure::ServerCpu.of(&run)?])
    })
}

/// Measures SETs at depth 16 with an AOF that is synced every second: CPU time beside no AOF, latency beside Valkey's AOF.
///
/// # Errors
/// When a server or the generator fails.
pub fn every_second(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let fleet = Fleet::start(&[EVERY_SECOND, NO_LOG, VALKEY_EVERY_SECOND], builds)?;
    let load = Load { requests: 3_000_000, ..random_keys("set") }.divided(effort.divisor);
    for (contender, server) in &fleet.servers {
        println!("    filling {}", contender.name);
        load.fill(builds.generator(), server)?;
    }
    let rows = [
        ("appendfsync everysec, SET, depth 16: server CPU (us)", Some(Bar::Ratio(1.15))),
        ("appendfsync everysec, SET, depth 16: p99.9 (ms)", Some(Bar::Ratio(1.0))),
    ];
    let mut lines = fleet.measure(rows, BESIDE_NO_LOG, effort.rounds, |_, server| {
        let run = run(builds.generator(), server, &load)?;
        Ok([Figure::ServerCpu.of(&run)?, Figure::P999.of(&run)?])
    })?;
    lines[1].ratio = Some(("everysec", &["valkey, everysec"]));
    Ok(lines)
}
