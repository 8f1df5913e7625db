//! The command line of `sleeve bench`: redis-benchmark's names wherever redis-benchmark has one.

use std::ffi::OsString;
use std::time::Duration;

use super::time::{bandwidth, round_trip};
use crate::endpoint::address::Address;
use crate::unsupported;

const EXAMPLES: &str = "\
Examples:
  The default tests against 127.0.0.1:6379:
    $ sleeve bench

  GET and SET on a million keys that exist, sixteen requests in flight per connection:
    $ sleeve bench -t get,set -r 1000000 --fill -d 16 -P 16 -n 4000000 -q

  One command of your own, with random keys:
    $ sleeve bench -r 10000 -n 100000 APPEND log:__rand_int__ line

  A document's workload through the client library, on a LAN's distance from the server:
    $ sleeve bench --workload booksleeve --url redis://127.0.0.1:6379 --rtt 0.3ms

  The same over a narrow one: 48 ms and 1.8 Mbit/s, as over the VPN of Redis in Action:
    $ sleeve bench --workload update-token --url redis://127.0.0.1:6379 --rtt 48ms --bandwidth 1.8mbit

  Figures for a program, the generator kept on the second CPU:
    $ sleeve bench -t get --json --cpu 1

  Latency at a load that the server bears, for a minute after five seconds nobody counts:
    $ sleeve bench -t get -r 100000 --rps 20000 --warmup 5 --duration 60

  A value from a file, and a hundred connections that only stay:
    $ sleeve bench -n 1000 -x SET page < page.html
    $ sleeve bench -I -c 100
";

fn after_help() -> String {
    format!("{EXAMPLES}\n{}", unsupported::listing(unsupported::OF_BENCH))
}

/// The options that a workload ignores: it brings its own commands, and uses the client library.
const OF_THE_GENERATOR: [&str; 21] = [
    "resp3",
    "tests",
    "command",
    "clients",
    "requests",
    "duration",
    "warmup",
    "rps",
    "data_size",
    "threads",
    "keep_alive",
    "keyspace",
    "fill",
    "seed",
    "pipeline",
    "enable_tracking",
    "last_from_stdin",
    "endless",
    "quiet",
    "csv",
    "precision",
];

/// The options that have no meaning for idle connections (`-I`).
const OF_REQUESTS: [&str; 20] = [
    "tests",
    "command",
    "requests",
    "duration",
    "warmup",
    "rps",
    "data_size",
    "threads",
    "keep_alive",
    "keyspace",
    "fill",
    "seed",
    "pipeline",
    "last_from_stdin",
    "endless",
    "quiet",
    "csv",
    "json",
    "precision",
    "workload",
];

/// A load generator with redis-benchmark's options, and the server's CPU time per request.
#[derive(Clone, Debug, clap::Args)]
#[command(version, disable_version_flag = true, disable_help_flag = true, after_help = after_help())]
#[command(args_conflicts_with_subcommands = true, subcommand_value_name = "sweep")]
pub struct BenchOptions {
    /// A measurement other than one test after the other.
    #[command(subcommand)]
    pub mode: Option<Mode>,
    /// The server.
    #[command(flatten)]
    pub address: Address,
    /// The number and the rate of the requests.
    #[command(flatten)]
    pub load: Load,
    /// SELECT the specified database number
    #[arg(long, value_name = "db")]
    pub dbnum: Option<u32>,
    /// The way in which requests are made and sent.
    #[command(flatten)]
    pub generator: Generator,
    /// Only run the comma-separated list of tests (see --list)
    #[arg(short = 't', value_name = "tests", conflicts_with = "command")]
    pub tests: Option<String>,
    /// A workload of a document, and the line that it goes over.
    #[command(flatten)]
    pub document: DocumentWorkload,
    /// List the tests that -t knows
    #[arg(long, exclusive = true)]
    pub list: bool,
    /// The format of the results.
    #[command(flatten)]
    pub output: Output,
    /// Run the generator on these CPUs only, as in 1 or 0,2-3
    #[arg(long, value_name = "cpus")]
    pub cpu: Option<String>,
    /// Output this help and exit
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// Output version and exit
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    pub version: Option<bool>,
    /// A command of your own instead of the named tests
    #[arg(trailing_var_arg = true, value_name = "COMMAND ARGS")]
    pub command: Vec<OsString>,
}

/// The number, the size and the rate of requests.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Number of parallel connections
    #[arg(short = 'c', value_name = "clients", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Total number of requests
    #[arg(short = 'n', value_name = "requests", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    /// Send requests for so many seconds instead of a certain number
    #[arg(long, value_name = "seconds", conflicts_with = "requests", value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// Send requests for so many seconds before each test without counting them
    #[arg(long, value_name = "seconds", value_parser = clap::value_parser!(u32).range(1..))]
    pub warmup: Option<u32>,
    /// Send no more requests a second than this, over all connections
    #[arg(long, value_name = "requests", value_parser = clap::value_parser!(u32).range(1..))]
    pub rps: Option<u32>,
    /// Data size of a value in bytes; in a command of your own __data__ stands for the value
    #[arg(short = 'd', value_name = "size", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1 << 29))]
    pub data_size: u32,
}

/// The way in which the generator makes requests and sends them.
#[derive(Clone, Debug, clap::Args)]
pub struct Generator {
    /// Number of generator threads, at the most one for each connection
    #[arg(long, value_name = "num", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub threads: u32,
    /// 1 = keep connections, 0 = reconnect for every batch
    #[arg(short = 'k', value_name = "boolean", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub keep_alive: u8,
    /// Replace __rand_int__ by a random number below this one, in 12 digits; without it all requests use one key
    #[arg(short = 'r', value_name = "keyspacelen", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub keyspace: Option<u64>,
    /// Write the keys or the script that the tests use: every key of the key space, so that reads hit, or the script of
    /// evalsha
    #[arg(long, conflicts_with = "command")]
    pub fill: bool,
    /// Start of the random numbers, for repeatable runs
    #[arg(long, value_name = "number", default_value_t = 1, requires = "keyspace")]
    pub seed: u64,
    /// Pipeline this many requests
    #[arg(short = 'P', value_name = "numreq", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pipeline: u32,
    /// Make the server track the keys that each connection reads (CLIENT TRACKING ON)
    #[arg(long)]
    pub enable_tracking: bool,
    /// Read the last argument of the command from standard input
    #[arg(short = 'x', requires = "command")]
    pub last_from_stdin: bool,
    /// Run the tests again and again, until Ctrl-C
    #[arg(short = 'l')]
    pub endless: bool,
    /// Only open the connections, and keep them until Ctrl-C
    #[arg(short = 'I', conflicts_with_all = OF_REQUESTS)]
    pub idle: bool,
}

/// A workload of a document, and the line that it goes over.
#[derive(Clone, Debug, clap::Args)]
pub struct DocumentWorkload {
    /// Run a document's workload through the client library: booksleeve, pipelining, mass-set, update-token, lookup,
    /// many-callers, fan-out or all
    #[arg(long, value_name = "name", conflicts_with_all = OF_THE_GENERATOR)]
    pub workload: Option<String>,
    /// With --workload, add this round trip, as in 0.3ms or 20ms
    #[arg(long, value_name = "time", requires = "workload", value_parser = round_trip)]
    pub rtt: Option<Duration>,
    /// With --rtt, have the line carry so many bits a second either way, as in 1.8mbit or 100mbit; large workloads are
    /// done in part
    #[arg(long, value_name = "rate", requires = "rtt", value_parser = bandwidth)]
    pub bandwidth: Option<u64>,
}

/// The format of the results.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// One line per test
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Output in CSV format
    #[arg(long)]
    pub csv: bool,
    /// Output in JSON format
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Digits behind the point of latencies, which are milliseconds
    #[arg(long, value_name = "digits", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub precision: u8,
}

/// The modes of `sleeve bench` other than one test after the other.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Mode {
    Sweep(Box<super::sweep::options::SweepOptions>),
}
