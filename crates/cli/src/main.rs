//! The binary `sleeve`: argument parsing and printing only, and the load generator.
//!
//! One sub-command per file or folder. Nothing here knows how a command works: facts come from wire's table, data from
//! the server, replies from the client.

mod address;
mod bench;
mod endpoint;
mod replies;
mod shell;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A Redis-compatible engine, its command line and its load generator in one binary.
#[derive(Debug, Parser)]
#[command(name = "sleeve", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::options::Options),
    Cli(shell::options::Options),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Bench(options) => bench::run(&options),
        Command::Cli(options) => shell::run(&options),
    }
}
