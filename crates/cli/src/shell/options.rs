//! The command line of `sleeve cli`: redis-cli's names.

use std::ffi::OsString;

use crate::address::Address;

const EXAMPLES: &str = "\
When no command is given, an interactive shell starts; `help` explains it.

Examples:
  sleeve cli SET greeting hello
  sleeve cli -n 2 -r 5 -i 0.5 INCR visits
  cat /etc/hostname | sleeve cli -x SET host
  sleeve cli --scan --pattern 'user:*'
  sleeve cli --json CONFIG GET 'max*'
  cat commands.txt | sleeve cli --pipe
";

/// A command-line client with redis-cli's options, output formats and exit codes.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub struct Options {
    /// The server.
    #[command(flatten)]
    pub address: Address,
    /// Database number
    #[arg(short = 'n', value_name = "db")]
    pub database: Option<u32>,
    /// Start the session in RESP2 protocol mode
    #[arg(short = '2', conflicts_with = "resp3")]
    pub resp2: bool,
    /// Force user to input the password with a mask
    #[arg(long)]
    pub askpass: bool,
    /// Do not warn about a password on the command line
    #[arg(long)]
    pub no_auth_warning: bool,
    /// Execute the command N times; negative: for ever
    #[arg(short = 'r', value_name = "repeat", default_value_t = 1, allow_negative_numbers = true)]
    pub repeat: i64,
    /// With -r, wait so many seconds between commands (fractions are fine)
    #[arg(short = 'i', value_name = "interval", default_value_t = 0.0)]
    pub interval: f64,
    /// Read the last argument from standard input
    #[arg(short = 'x')]
    pub last_from_stdin: bool,
    /// Read the argument that is equal to this tag from standard input
    #[arg(short = 'X', value_name = "tag", conflicts_with = "last_from_stdin")]
    pub tag_from_stdin: Option<OsString>,
    /// Delimiter between the elements of a raw reply
    #[arg(short = 'd', value_name = "delimiter", default_value = "\n")]
    pub between: OsString,
    /// Delimiter between raw replies
    #[arg(short = 'D', value_name = "delimiter", default_value = "\n")]
    pub end: OsString,
    /// Return an error exit code when the command fails
    #[arg(short = 'e')]
    pub exit_error: bool,
    /// Raw formatting (default when the output is not a terminal)
    #[arg(long)]
    pub raw: bool,
    /// Formatted output even when the output is not a terminal
    #[arg(long, conflicts_with = "raw")]
    pub no_raw: bool,
    /// Take the arguments as quoted strings
    #[arg(long)]
    pub quoted_input: bool,
    /// Output in CSV format
    #[arg(long)]
    pub csv: bool,
    /// Output in JSON format (RESP3 unless -2 is given)
    #[arg(long)]
    pub json: bool,
    /// Like --json, but with strings escaped to ASCII
    #[arg(long)]
    pub quoted_json: bool,
    /// Whether to print messages that the server pushes (default when the output is a terminal)
    #[arg(long, value_name = "yn")]
    pub show_pushes: Option<String>,
    /// Transfer raw protocol from standard input to the server
    #[arg(long)]
    pub pipe: bool,
    /// With --pipe, give up when no reply arrives for so many seconds after all data was sent; 0 waits for ever
    #[arg(long, value_name = "seconds", default_value_t = 30)]
    pub pipe_timeout: u32,
    /// List all keys with the SCAN command
    #[arg(long)]
    pub scan: bool,
    /// Pattern of the keys that --scan lists
    #[arg(long, value_name = "pattern")]
    pub pattern: Option<OsString>,
    /// Like --pattern, as a quoted string
    #[arg(long, value_name = "pattern", conflicts_with = "pattern")]
    pub quoted_pattern: Option<OsString>,
    /// COUNT of each SCAN
    #[arg(long, value_name = "count")]
    pub count: Option<u32>,
    /// Output this help and exit
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND ARGS")]
    pub command: Vec<OsString>,
}
