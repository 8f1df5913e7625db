//! `sleeve serve`: a server process, started as redis-server is started.
//!
//! The arguments behind the sub-command go to the server as they are, so that redis.conf's syntax has one reader.

pub mod allocator;
mod http;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use sleeve_server::boot::check;
use sleeve_server::config::table;
use sleeve_server::{REDIS_VERSION, boot};

use crate::output;

const ABOUT: &str = "\
[FILE] is a configuration file in redis.conf's syntax, before the options or behind them; options on the command line
count more than it does.
A single - reads configuration lines from standard input.

Examples:
  sleeve serve
  sleeve serve /etc/sleeve.conf
  sleeve serve --port 7777 --workers 2
  sleeve serve --http 9121
  sleeve serve /etc/sleeve.conf --loglevel verbose --maxmemory 1gb
  echo 'maxmemory 2mb' | sleeve serve -
  sleeve serve --check /etc/sleeve.conf
  sleeve serve --options
";

/// Serves over TCP and Unix sockets, configured as redis-server is
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "sleeve serve [--check] [FILE] [--option value ...] [-]", after_help = ABOUT)]
pub struct ServeOptions {
    /// List every configuration option with its default, and exit
    #[arg(long, exclusive = true)]
    pub options: bool,
    /// Read a configuration and print its effects, or everything that is wrong; status 0 if a server would start
    #[arg(long)]
    pub check: bool,
    /// Configuration file and options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FILE | --option value", hide = true)]
    pub arguments: Vec<OsString>,
}

/// Runs the server with these options.
pub fn run(options: &ServeOptions) -> ExitCode {
    if options.options {
        list();
        return ExitCode::SUCCESS;
    }
    if options.check {
        return check(options.arguments.clone());
    }
    run_words(options.arguments.clone())
}

/// Prints the effects that the configuration would have on a server.
fn check(words: Vec<OsString>) -> ExitCode {
    let words: Vec<Vec<u8>> = words.into_iter().map(OsString::into_vec).collect();
    match check::check(&words) {
        Ok(lines) => {
            lines.iter().for_each(|line| output::line(format_args!("{line}")));
            ExitCode::SUCCESS
        }
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{}", fault.trim_start()));
            eprintln!("A server would not start with this configuration.");
            ExitCode::FAILURE
        }
    }
}

/// Serves with redis-server's arguments until the server ends.
pub fn run_words(words: Vec<OsString>) -> ExitCode {
    if let [word] = words.as_slice() {
        match word.to_str() {
            Some("-v" | "--version") => {
                let version = env!("CARGO_PKG_VERSION");
                output::line(format_args!(
                    "Redis server v={REDIS_VERSION} sha=00000000:0 malloc=mimalloc bits=64 build=sleeve-{version}"
                ));
                return ExitCode::SUCCESS;
            }
            Some("-h" | "--help") => {
                output::line(format_args!("Usage: [FILE] [--option value ...] [-]\n\n{ABOUT}"));
                return ExitCode::SUCCESS;
            }
            _ => {}
        }
    }
    if words.iter().any(|word| word == "--sentinel") {
        return refuse_sentinel();
    }
    let words: Vec<Vec<u8>> = words.into_iter().map(OsString::into_vec).collect();
    match boot::serve(&words, http::start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Says that there is no Sentinel here, and which one to use.
pub fn refuse_sentinel() -> ExitCode {
    eprintln!(
        "Sleeve has no Sentinel of its own yet. Run the Sentinel of Redis or Valkey (redis-sentinel, valkey-sentinel) beside it: \
         it watches Sleeve servers and fails over between them as it does for Redis."
    );
    ExitCode::FAILURE
}

/// Prints the table of options, aliases under their own names.
fn list() {
    for (row, name) in table::names() {
        let default = if row.default_shown().is_empty() { "\"\"" } else { row.default_shown() };
        output::line(format_args!("{:<40} {}", format!("{name} {default}"), row.doc));
    }
}
