//! The binary `sleeve`: argument parsing and printing only, and the load generator.
//!
//! One sub-command per file or folder. Nothing here knows how a command works: facts come from wire's table, data from
//! the server, replies from the client.

mod address;
mod allocator;
mod bench;
mod endpoint;
mod output;
mod replies;
mod sealed;
mod serve;
mod shell;
mod tour;
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
    Serve(serve::Options),
    Bench(bench::options::Options),
    Cli(shell::options::Options),
    Tour(tour::Options),
}

/// Servers allocate and free small pieces on several threads all the time, which mimalloc does in fewer instructions than
/// the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    allocator::enter();
    let mut words = std::env::args_os();
    if serve::is_asked_for_by(words.next().as_deref()) {
        return serve::run_words(words.collect());
    }
    match Arguments::parse().command {
        Command::Serve(options) => serve::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Cli(options) => shell::run(&options),
        Command::Tour(options) => tour::run(&options),
    }
}
