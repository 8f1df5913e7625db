//! The command line of `sleeve doctor`.

use std::time::Duration;

use crate::bench::time::time;
use crate::endpoint::address::TlsOptions;

const EXAMPLES: &str = "\
URL is redis://[[user:]password@]host[:port], rediss:// for TLS, or unix:///path: write it as the program does, proxies included.
A password may stand in REDISCLI_AUTH instead. The report goes to the standard output, what the program prints to the error output.

It needs INFO. CLIENT LIST, CONFIG GET appendfsync, SLOWLOG GET, MONITOR, ECHO and EXISTS make it see more, and what it may not use it
names: ACL SETUSER doctor on >secret ~sleeve-doctor resetchannels +ping +echo +info +exists +client|list +client|setname
+config|get +slowlog|get +monitor. It writes nothing. MONITOR, which costs a server up to half of its speed, runs for a second at
most, or 2,000 commands; --no-monitor does without.

Exit codes: 0 nothing is wrong; 1 something is; 2 it could not be found out. docs/doctor.md has the table of causes.

Examples:
  sleeve doctor redis://127.0.0.1:6379                       # what runs already, for 5 seconds
  sleeve doctor redis://127.0.0.1:6379 --for 30s --json
  sleeve doctor redis://app:secret@cache:6379/2 -- ./import --all
  sleeve doctor rediss://cache:6380 --cacert ca.pem --for 20s -- java -jar shop.jar    # ended after 20 seconds
";

/// Reports the share of the possible rate that a program reaches with a server, the causes that hold it up, and the remedies
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct DoctorOptions {
    /// The server, as the program reaches it: Sleeve, Redis or Valkey
    #[arg(value_name = "URL")]
    pub url: String,
    /// The program that is to be watched, from its start to its end; without one, the programs that use the server already
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<String>,
    /// For how long to watch: 5s, 500ms; a program is ended then [default: 5s, or as long as the program runs]
    #[arg(long = "for", value_name = "time", value_parser = time)]
    pub time: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Do without MONITOR: no hot keys, no round trips of a request
    #[arg(long)]
    pub no_monitor: bool,
    /// The certificates to trust and to show.
    #[command(flatten)]
    pub tls_options: TlsOptions,
}
