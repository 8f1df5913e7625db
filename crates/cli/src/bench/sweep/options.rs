//! The command line of `sleeve bench sweep`.

use std::path::PathBuf;
use std::time::Duration;

use crate::bench::time::time;

const EXAMPLES: &str = "\
Examples:
  The drivers of this machine against each other, over 1 to 1,024 clients and pipelines of 1 to 512:
    $ sleeve bench sweep

  With peers: programs that are started, and one that runs already; the generator on the second CPU:
    $ sleeve bench sweep --server 'redis=redis-server' --server 'valkey=valkey-server --io-threads 1' \\
        --server 'here=redis://127.0.0.1:6379' --server-cpu 0 --cpu 1

  A first look within two minutes:
    $ sleeve bench sweep --tests get,set --clients 1,16,256 --depths 1,16 --rounds 1 --memory-keys 0

  A program that takes its port in another way:
    $ sleeve bench sweep --server 'other=other-server 127.0.0.1 {port}'
";

/// Measures servers over numbers of clients and lengths of pipelines, and writes CSV, JSON and a report in HTML
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepOptions {
    /// A server: a URL, or a command line that is started for each run, in an empty folder, on a port of its own.
    /// Where it has no {port}, it is given redis-server's options `--port`, `--save ""` and `--appendonly no`.
    /// Without this option: this program with each driver that it has
    #[arg(long = "server", value_name = "name=what")]
    pub servers: Vec<String>,
    /// The comma-separated list of tests (`sleeve bench --list` names them)
    #[arg(long, value_name = "tests", default_value = "ping_inline,ping_mbulk,get,set,incr,mset")]
    pub tests: String,
    /// Numbers of clients, each with one request in flight
    #[arg(long, value_name = "list", value_delimiter = ',', default_values_t = powers(1024),
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub clients: Vec<u32>,
    /// Requests in flight for each of 50 clients
    #[arg(long, value_name = "list", value_delimiter = ',', default_values_t = powers(512),
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub depths: Vec<u32>,
    /// How often each point is measured; the servers take turns at each, and medians are reported
    #[arg(long, value_name = "number", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// How long a point is measured in each round, as in 500ms or 2s
    #[arg(long, value_name = "time", default_value = "500ms", value_parser = time)]
    pub time: Duration,
    /// Bytes of a value
    #[arg(short = 'd', value_name = "size", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 29))]
    pub data_size: u32,
    /// Keys that are read and written
    #[arg(short = 'r', value_name = "keys", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub keyspace: u64,
    /// Keys that the memory of the started servers is measured with; 0 leaves that out
    #[arg(long, value_name = "keys", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    pub memory_keys: u64,
    /// Run the started servers on these CPUs only, as in 0 or 0,2-3
    #[arg(long, value_name = "cpus")]
    pub server_cpu: Option<String>,
    /// Run the generator on these CPUs only
    #[arg(long, value_name = "cpus")]
    pub cpu: Option<String>,
    /// Draw the report anew from the sweep.json of an earlier run, and measure nothing
    #[arg(long, value_name = "file", conflicts_with_all = ["servers", "cpu", "server_cpu"])]
    pub redraw: Option<PathBuf>,
    /// The folder that sweep.csv, sweep.json, sweep.html and its main plot, sweep.svg, are written into
    #[arg(short = 'o', long = "out", value_name = "folder", default_value = "sweep")]
    pub out: PathBuf,
    /// Output this help and exit
    #[arg(short = 'h', long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Returns 1, 2, 4 … up to this power of two.
fn powers(last: u32) -> Vec<u32> {
    (0..=last.ilog2()).map(|exponent| 1 << exponent).collect()
}
