//! `cargo xtask bench`: Sleeve, redis-server, Redis 8 and Valkey in one run, measured by Sleeve's own load generator.
//!
//! The compared figure is the server's CPU time per request, which a busy machine disturbs least. Servers run on CPU 0, the
//! generator on CPU 1. Rounds are interleaved: each round measures every server once, so that a change of the machine's speed
//! hits all of them, and a ratio is the median of the rounds' ratios. It judges nothing but the bars of `plan`, and it never
//! fails because of one: it prints and writes figures for people to read.

mod builds;
mod clients;
mod durability;
mod effort;
pub mod filling;
mod fleet;
mod generator;
mod memory;
mod plan;
mod process;
mod replication;
mod report;
mod subscribers;
mod waits;
mod workloads;

use builds::Builds;
use durability::{restart, snapshot, synced};
use effort::Effort;
use report::Table;
use report::page::Report;

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench                     every table, five rounds, about half an hour
  cargo xtask bench --quick             every table with a tenth of the requests, one round, five minutes
  cargo xtask bench --only depth        one table; see --help for their names
  cargo xtask bench --rounds 9 --only unpipelined --no-write
  cargo xtask bench clients --help      client libraries side by side
  cargo xtask bench waits --help        waiting: awaited calls, syncs, probes beside other work
  SLEEVE_BIN=other/sleeve cargo xtask bench --only depth --no-write
";

/// The tables to measure, and how thoroughly.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// A tenth of the requests, one round
    #[arg(long)]
    quick: bool,
    /// How often every server is measured
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,
    /// Only these tables
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = plan::NAMES.to_vec())]
    only: Vec<String>,
    /// Print, but leave bench/results/ alone
    #[arg(long)]
    no_write: bool,
}

/// The other measurements.
#[derive(Debug, clap::Subcommand)]
enum Other {
    /// Client libraries side by side
    Clients(clients::Options),
    /// Waiting: awaited calls, syncs of the log, and probes beside other work, in one table with a bar for each row
    Waits(waits::Options),
}

/// Builds, measures, prints and writes.
///
/// # Errors
/// When a server cannot be had or a measurement fails.
pub fn run(options: &Options) -> Result<(), String> {
    fleet::need_two_cpus()?;
    match &options.other {
        Some(Other::Clients(options)) => return clients::run(options),
        Some(Other::Waits(options)) => return waits::run(options),
        None => {}
    }
    let effort = Effort::new(options.quick, options.rounds);
    let builds = Builds::set_up(effort)?;
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut tables = Vec::new();
    for comparison in plan::comparisons().iter().filter(|comparison| wanted(comparison.name)) {
        tables.push(show(comparison.measure(&builds, effort)?));
    }
    if wanted(synced::NAME) {
        tables.extend(synced::measure(&builds, effort)?.map(show));
    }
    if wanted(subscribers::NAME) {
        tables.push(show(subscribers::measure(&builds, effort)?));
    }
    if wanted(memory::NAME) {
        tables.extend(memory::measure(&builds, effort)?.map(show));
    }
    if wanted(restart::NAME) {
        tables.push(show(restart::measure(&builds, effort)?));
    }
    if wanted(snapshot::NAME) {
        tables.push(show(snapshot::measure(&builds, effort)?));
    }
    if wanted(replication::NAME) {
        tables.push(show(replication::measure(&builds, effort)?));
    }
    if wanted(workloads::NAME) {
        tables.push(show(workloads::measure(&builds, effort)?));
    }
    let versions = &builds.versions();
    let placement = "Servers on CPU 0, the generator on CPU 1.";
    let report = Report { tables: &tables, versions, effort, placement, suffix: "" };
    if options.no_write { Ok(()) } else { report.write() }
}

fn show(table: Table) -> Table {
    println!("\n{}", table.as_markdown());
    table
}
