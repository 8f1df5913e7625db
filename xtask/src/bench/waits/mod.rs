//! `cargo xtask bench waits`: the time that callers spend waiting, and the CPU time that their waits cost, in one table.
//!
//! A row compares its peers in one interleaved run, and has the project's bar for it. The first rows are about callers in a
//! program: tasks and threads that wait for replies. The others are about servers: logs that are synced, a load at the same
//! rate for each server, a lone client beside other work. The table is printed and written; a bar that does not hold is
//! printed as such and fails nothing.

mod callers;
mod logs;
mod probes;
mod same_rate;

use sleeve_tests::Kind;

use super::builds::Builds;
use super::effort::Effort;
use super::memory;
use super::report::page::Report;
use super::report::{Bar, Line, Table};
use callers::Callers;

/// The names that `--only` takes: rows about callers, then rows about servers.
const ROWS: [&str; 16] = [
    "task",
    "task-workers",
    "executors",
    "tasks-64",
    "tasks-512",
    "threads",
    "always",
    "everysec",
    "rate-get",
    "rate-incr",
    "rate-lpop",
    "idle",
    "snapshot",
    "snapshot-writes",
    "replica",
    "list",
];
/// The number of these, from the front, that are about callers.
const OF_CALLERS: usize = 6;

const PLACEMENT: &str = "\
Rows about callers: the server on CPU 0; all threads of the client on CPU 1, also both workers of the multi-thread runtime. \
Rows of everysec and of a fixed rate: servers on CPU 0, the generator on CPU 1. \
Rows of appendfsync always, probes, snapshots and replicas: servers may use both CPUs.";

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench waits                           every row, five rounds, about half an hour
  cargo xtask bench waits --only task,tasks-64      rows about callers need no build of the server
  cargo xtask bench waits --quick --no-write        every row with a tenth of the requests, one round
";

/// The rows to measure, and how thoroughly.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// A tenth of the requests, one round
    #[arg(long)]
    quick: bool,
    /// How often everything is measured
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,
    /// Only these rows
    #[arg(long, value_name = "ROW", value_delimiter = ',', value_parser = ROWS)]
    only: Vec<String>,
    /// The server of the rows about callers
    #[arg(long, default_value = "redis", value_parser = ["redis", "valkey", "sleeve"])]
    server: String,
    /// Print, but leave bench/results/ alone
    #[arg(long)]
    no_write: bool,
}

/// Measures the rows, prints the table and writes it.
///
/// # Errors
/// When a program cannot be had or a measurement fails.
pub fn run(options: &Options) -> Result<(), String> {
    let effort = Effort::new(options.quick, options.rounds);
    let is_wanted = |row: &&str| options.only.is_empty() || options.only.iter().any(|only| only == row);
    let (of_callers, of_servers) = ROWS.split_at(OF_CALLERS);
    let (mut lines, mut versions) = (Vec::new(), Vec::new());
    if of_callers.iter().any(&is_wanted) {
        let callers = Callers::start(Kind::parse(&options.server).ok_or("no such server")?, effort.rounds)?;
        for row in of_callers.iter().filter(|row| is_wanted(row)) {
            println!("\n==> {row}");
            lines.extend(row_of_callers(row, &callers)?);
        }
        versions.extend(callers.versions()?);
    }
    if of_servers.iter().any(&is_wanted) {
        let builds = Builds::set_up(effort)?;
        for row in of_servers.iter().filter(|row| is_wanted(row)) {
            println!("\n==> {row}");
            lines.extend(row_of_servers(row, &builds, effort)?);
        }
        versions.extend(builds.versions());
    }
    let title = format!("Waits: medians of {} rounds", effort.rounds);
    let table = Table { name: "waits", title, lines };
    println!("\n{}\n{PLACEMENT}", table.as_markdown());
    let report = Report { tables: &[table], versions: &versions, effort, placement: PLACEMENT, suffix: "-waits" };
    if options.no_write { Ok(()) } else { report.write() }
}

fn row_of_callers(row: &str, callers: &Callers) -> Result<Vec<Line>, String> {
    match row {
        "task" => callers.one_task("1"),
        "task-workers" => callers.one_task("2"),
        "executors" => callers.other_executors(),
        "tasks-64" => callers.many_tasks(64, 1.2),
        "tasks-512" => callers.many_tasks(512, 1.4),
        "threads" => callers.threads(64),
        _ => Err(format!("{row} is no row about callers")),
    }
}

fn row_of_servers(row: &str, builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    match row {
        "always" => logs::always(builds, effort),
        "everysec" => logs::every_second(builds, effort),
        "rate-get" => same_rate::get(builds, effort),
        "rate-incr" => same_rate::incr(builds, effort),
        "rate-lpop" => same_rate::lpop(builds, effort),
        "idle" => probes::idle(builds, effort),
        "snapshot" => probes::snapshot(builds, effort),
        "snapshot-writes" => probes::snapshot_writes(builds, effort),
        "replica" => probes::replica(builds, effort),
        "list" => {
            // Sizes need no rounds.
            let line = memory::large_list(builds, effort)?;
            let label = format!("{}: bytes of an element", line.label);
            Ok(vec![Line { label, bar: Some(Bar::Ratio(0.95)), ..line }])
        }
        _ => Err(format!("{row} is no row about servers")),
    }
}
