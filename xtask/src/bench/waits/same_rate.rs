//! Rows about a load that comes at the same rate to every server, so that none gains by larger batches.
//!
//! The rate is a part of the greatest rate of the best peer. A server that cannot bear it is measured at the rate that it
//! reaches; the table names the rates.

use crate::bench::builds::Builds;
use crate::bench::effort::Effort;
use crate::bench::fleet::{Contender, Fleet};
use crate::bench::generator::{Figure, Load, State, measure as run_for, run};
use crate::bench::plan::{ALL, BEST_PEER, random_keys};
use crate::bench::process::cpu_time;
use crate::bench::report::{Bar, Line, median};
use sleeve_tests::{Kind, Server};

/// The part of the best peer's greatest rate that is sent.
const PART: f64 = 0.9;

/// The number of runs at full speed, of which the median counts.
const RUNS_AT_FULL_SPEED: u32 = 3;

/// Measures GETs at depth 16: CPU time beside the best peer, the kernel's part of it beside Valkey.
///
/// # Errors
/// When a server or the generator fails.
pub fn get(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let [cpu, mut kernel, reached] = measure(builds, effort, Load { requests: 2_000_000, ..random_keys("get") })?;
    kernel.ratio = Some(("sleeve", &["valkey"]));
    kernel.bar = Some(Bar::Ratio(1.0));
    Ok(vec![cpu, kernel, reached])
}

/// Measures INCRs at depth 16: CPU time beside the best peer.
///
/// # Errors
/// When a server or the generator fails.
pub fn incr(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    measure(builds, effort, Load { requests: 2_000_000, ..random_keys("incr") }).map(Vec::from)
}

/// Measures LPOPs at depth 16: CPU time beside the best peer.
///
/// # Errors
/// When a server or the generator fails.
pub fn lpop(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    // The kernel's part would be that of filling the list and of the load together.
    let [cpu, _, reached] = measure(builds, effort, Load { state: State::Filled, ..random_keys("lpop") })?;
    Ok(vec![cpu, reached])
}

/// Returns a line each for the server's CPU time, the kernel's part of it, and the rate that is reached.
fn measure(builds: &Builds, effort: Effort, load: Load) -> Result<[Line; 3], String> {
    let (fleet, load) = (Fleet::start(ALL, builds)?, load.divided(effort.divisor));
    for (contender, server) in &fleet.servers {
        println!("    filling {}", contender.name);
        load.fill(builds.generator(), server)?;
    }
    let rate = bearable_rate(&fleet, builds, effort, &load)?;
    let (load, label) = (Load { rate: Some(rate), ..load }, load.label());
    println!("    {label}: {rate} requests a second");
    let labels = ["server CPU (us)", "kernel's part of it (us)", "thousand requests a second, reached"];
    let [cpu, kernel, reached] = labels.map(|figure| format!("{label} at {} k/s: {figure}", rate / 1_000));
    let rows = [(&*cpu, Some(Bar::Ratio(0.70))), (&*kernel, None), (&*reached, None)];
    let lines = fleet.measure(rows, BEST_PEER, effort.rounds, |_, server| at_rate(builds, server, &load))?;
    let mut lines: [Line; 3] = lines.try_into().map_err(|_| "three lines are measured")?;
    lines[2].ratio = None;
    Ok(lines)
}

/// Returns the server's CPU time of a request, the kernel's part of it, and thousand requests a second.
fn at_rate(builds: &Builds, server: &Server, load: &Load) -> Result<[f64; 3], String> {
    let before = cpu_time(server.process_id())?;
    let run = run(builds.generator(), server, load)?;
    let after = cpu_time(server.process_id())?;
    let (user, kernel) = (after.user - before.user, after.kernel - before.kernel);
    let cpu_us = Figure::ServerCpu.of(&run)?;
    Ok([cpu_us, cpu_us * kernel / (user + kernel), Figure::Rate.of(&run)?])
}

/// Returns the rate that the best peer just bears.
fn bearable_rate(fleet: &Fleet, builds: &Builds, effort: Effort, load: &Load) -> Result<u32, String> {
    let peers: Vec<&(Contender, Server)> =
        fleet.servers.iter().filter(|(_, server)| server.kind() != Kind::Sleeve).collect();
    let mut rates: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
    for _ in 0..effort.rounds.min(RUNS_AT_FULL_SPEED) {
        for ((contender, server), rates) in peers.iter().zip(&mut rates) {
            let rate = run_for(builds.generator(), server, load, Figure::Rate)?;
            println!("    {} at full speed: {} {rate:.0} k/s", load.label(), contender.name);
            rates.push(rate);
        }
    }
    let greatest = rates.iter().filter_map(|rates| median(rates)).reduce(f64::max).ok_or("no peer was measured")?;
    Ok((greatest * PART * 1_000.0) as u32)
}
