//! The command line of `sleeve cli`: redis-cli's names, as clap reads them.
//!
//! `modes` says which option belongs to which mode, and `unsupported` lists the options that do not exist here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use super::cluster_options::ClusterOptions;
pub use super::replica::ReplicaOptions;
use crate::endpoint::address::Address;
use crate::unsupported;

const EXAMPLES: &str = "\
When no command is given, an interactive shell starts; `help` explains it.

Examples:
  sleeve cli SET greeting hello
  sleeve cli -n 2 -r 5 -i 0.5 INCR visits
  cat /etc/hostname | sleeve cli -x SET host
  sleeve cli --scan --pattern 'user:*'
  sleeve cli --json CONFIG GET 'max*'
  cat commands.txt | sleeve cli --pipe
  sleeve cli --eval script.lua key1 key2 , argument1
  sleeve cli --bigkeys -i 0.1
  sleeve cli --latency -i 5 --csv
  sleeve cli --stat
  sleeve cli --rdb backup.rdb
  sleeve cli -c -p 7000 SET greeting hello
  sleeve cli --cluster create 10.0.0.1:6379 10.0.0.2:6379 10.0.0.3:6379
  sleeve cli --cluster help
  sleeve cli -- -word-with-a-dash
";

fn after_help() -> String {
    format!("{EXAMPLES}\n{}", unsupported::listing(unsupported::OF_CLI))
}

/// A command-line client with redis-cli's options, output formats and exit codes.
#[derive(Clone, Debug, clap::Args)]
#[command(version, disable_version_flag = true, disable_help_flag = true, after_help = after_help())]
#[group(id = "mode", multiple = false, args = [
    "pipe", "scan", "eval", "stat", "latency", "latency_history", "latency_dist", "intrinsic_latency", "bigkeys",
    "memkeys", "memkeys_samples", "hotkeys", "rdb", "functions_rdb", "replica", "cluster",
])]
pub struct ShellOptions {
    /// The server.
    #[command(flatten)]
    pub address: Address,
    /// The session at the server.
    #[command(flatten)]
    pub login: LoginOptions,
    /// The commands, and their repetition.
    #[command(flatten)]
    pub input: Input,
    /// The format of the replies.
    #[command(flatten)]
    pub output: Output,
    /// The modes other than commands.
    #[command(flatten)]
    pub modes: ModeOptions,
    /// The modes in which the shell acts as a replica.
    #[command(flatten)]
    pub replica: ReplicaOptions,
    /// The management of a cluster.
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Output this help and exit
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// Output version and exit
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    pub version: Option<bool>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND ARGS")]
    pub command: Vec<OsString>,
}

/// The protocol, the database and the password of the session.
#[derive(Clone, Debug, clap::Args)]
pub struct LoginOptions {
    /// Database number
    #[arg(short = 'n', value_name = "db")]
    pub database: Option<u32>,
    /// Start the session in RESP2 protocol mode
    #[arg(short = '2', conflicts_with = "resp3")]
    pub resp2: bool,
    /// Ask for the password on the terminal, even if -a or REDISCLI_AUTH is given
    #[arg(long)]
    pub askpass: bool,
    /// Do not warn about a password on the command line
    #[arg(long)]
    pub no_auth_warning: bool,
    /// Follow the redirections of a cluster (-ASK and -MOVED)
    #[arg(short = 'c')]
    pub follow: bool,
}

/// The source of the commands' words, and the repetition of commands.
#[derive(Clone, Debug, clap::Args)]
pub struct Input {
    /// Execute the command N times; negative: for ever
    #[arg(short = 'r', value_name = "repeat", default_value_t = 1, allow_negative_numbers = true)]
    pub repeat: i64,
    /// Wait so many seconds (fractions are fine): between repetitions, SCANs and lines of --stat, after every 100 SCANs of
    /// --bigkeys and the like; for --latency and its kin the time of one measurement
    #[arg(short = 'i', value_name = "interval", value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Read the last argument from standard input
    #[arg(short = 'x')]
    pub last_from_stdin: bool,
    /// Read the argument that is equal to this tag from standard input
    #[arg(short = 'X', value_name = "tag", conflicts_with = "last_from_stdin")]
    pub tag_from_stdin: Option<OsString>,
    /// End at the first command that fails, with status 1
    #[arg(short = 'e')]
    pub exit_error: bool,
    /// Take the arguments as quoted strings
    #[arg(long)]
    pub quoted_input: bool,
}

/// The format of the replies.
#[derive(Clone, Debug, clap::Args)]
pub struct Output {
    /// Delimiter between the elements of a raw reply
    #[arg(short = 'd', value_name = "delimiter", default_value = "\n", conflicts_with_all = NOT_RAW)]
    pub between: OsString,
    /// Delimiter between raw replies
    #[arg(short = 'D', value_name = "delimiter", default_value = "\n", conflicts_with_all = NOT_RAW)]
    pub end: OsString,
    /// Raw formatting (default when the output is not a terminal)
    #[arg(long)]
    pub raw: bool,
    /// Formatted output even when the output is not a terminal
    #[arg(long, conflicts_with = "raw")]
    pub no_raw: bool,
    /// Output in CSV format
    #[arg(long, conflicts_with_all = ["raw", "no_raw"])]
    pub csv: bool,
    /// Output in JSON format (RESP3 unless -2 is given)
    #[arg(long, conflicts_with_all = ["raw", "no_raw", "csv"])]
    pub json: bool,
    /// Like --json, but with strings escaped to ASCII
    #[arg(long, conflicts_with_all = ["raw", "no_raw", "csv", "json"])]
    pub quoted_json: bool,
    /// Whether to print messages that the server pushes (default when the output is a terminal)
    #[arg(long, value_name = "yn")]
    pub show_pushes: Option<String>,
}

/// The modes other than commands, and the options of such modes.
#[derive(Clone, Debug, clap::Args)]
pub struct ModeOptions {
    /// Transfer raw protocol from standard input to the server
    #[arg(long)]
    pub pipe: bool,
    /// With --pipe, give up when no reply arrives for so many seconds after all data was sent; 0 waits for ever
    #[arg(long, value_name = "seconds", default_value_t = 30)]
    pub pipe_timeout: u32,
    /// List all keys with the SCAN command
    #[arg(long)]
    pub scan: bool,
    /// Pattern of the keys that --scan, --bigkeys, --memkeys and --hotkeys look at
    #[arg(long, value_name = "pattern")]
    pub pattern: Option<OsString>,
    /// Like --pattern, as a quoted string
    #[arg(long, value_name = "pattern", conflicts_with = "pattern")]
    pub quoted_pattern: Option<OsString>,
    /// COUNT of each SCAN
    #[arg(long, value_name = "count")]
    pub count: Option<u32>,
    /// Send the Lua script of a file; the command's words are keys, a comma, and arguments
    #[arg(long, value_name = "file")]
    pub eval: Option<PathBuf>,
    /// Print a line about the server every second, or every -i seconds
    #[arg(long)]
    pub stat: bool,
    /// Measure how long a PING takes, until Ctrl-C; where the output is no terminal, for a second (or -i), in one line
    #[arg(long)]
    pub latency: bool,
    /// Like --latency, with a line every 15 (or -i) seconds
    #[arg(long)]
    pub latency_history: bool,
    /// Show latencies as a spectrum, a line every second (or -i seconds); needs a terminal of 256 colours
    #[arg(long)]
    pub latency_dist: bool,
    /// Measure for so many seconds how long this machine stops a program that only computes; no server takes part
    #[arg(long, value_name = "seconds", value_parser = clap::value_parser!(u32).range(1..))]
    pub intrinsic_latency: Option<u32>,
    /// Look for the keys with the most elements or bytes of each type
    #[arg(long)]
    pub bigkeys: bool,
    /// Look for the keys that take the most memory
    #[arg(long)]
    pub memkeys: bool,
    /// Like --memkeys, with so many elements of each key looked at; 0 for all
    #[arg(long, value_name = "n")]
    pub memkeys_samples: Option<u32>,
    /// Look for the keys that are used the most; the server's maxmemory-policy must be one of LFU
    #[arg(long)]
    pub hotkeys: bool,
}

/// The options that replace the raw format.
const NOT_RAW: [&str; 4] = ["no_raw", "csv", "json", "quoted_json"];

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
