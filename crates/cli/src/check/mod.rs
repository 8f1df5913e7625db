//! `sleeve check`: reports the contents of a server's files, or their faults. Nothing is changed unless the user asked for
//! it.
//!
//! From top to bottom: here → `salvage` (a new file of the keys that can be read) → `rdb`, `aof`. Called by the name of one of
//! Redis's tools, the program answers as that tool does.

mod aof;
pub mod rdb;
mod salvage;

use std::process::ExitCode;

pub use aof::run_words as run_aof_words;
pub use rdb::run_words as run_rdb_words;

const EXAMPLES: &str = "\
Examples:
  sleeve check rdb dump.rdb
  sleeve check rdb --salvage saved.rdb dump.rdb
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
        What::Rdb(rdb::CheckRdbOptions { salvage: Some(out), file }) => salvage::run(file, out),
        What::Rdb(options) => rdb::run(options),
        What::Aof(options) => aof::run(options),
    }
}
