//! `sleeve check`: reports the contents of a server's files, or their faults. Nothing is changed unless the user asked for
//! it.
//!
//! Called by the name of one of Redis's tools, the program answers as that tool does.

mod aof;
mod rdb;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  sleeve check rdb dump.rdb
  sleeve check aof appendonlydir/appendonly.aof.manifest

A program that is called redis-check-rdb or redis-check-aof answers as Redis's tool does.
";

/// Reports the contents of a server's files, or their faults
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct CheckOptions {
    /// The kind of file.
    #[command(subcommand)]
    pub what: What,
}

/// The kinds of files.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum What {
    Rdb(rdb::CheckRdbOptions),
    Aof(aof::CheckAofOptions),
}

/// Runs the check with these options; the exit code is 0 if the file is whole, and 1 if it is not.
pub fn run(options: &CheckOptions) -> ExitCode {
    match &options.what {
        What::Rdb(options) => rdb::run(options),
        What::Aof(options) => aof::run(options),
    }
}

/// Returns the function of the Redis tool that has this name, if there is one. The function takes the arguments behind the
/// name.
pub fn tool_called(program: Option<&OsStr>) -> Option<fn(&[OsString]) -> ExitCode> {
    match Path::new(program?).file_name()?.to_str()? {
        "redis-check-rdb" => Some(rdb::run_words),
        "redis-check-aof" => Some(aof::run_words),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_file_counts() {
        assert!(tool_called(Some(OsStr::new("/usr/bin/redis-check-rdb"))).is_some());
        assert!(tool_called(Some(OsStr::new("redis-check-aof"))).is_some());
        assert!(tool_called(Some(OsStr::new("/redis-check-rdb/sleeve"))).is_none());
        assert!(tool_called(None).is_none());
    }
}
