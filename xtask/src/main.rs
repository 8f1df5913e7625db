//! The project's chores: `cargo xtask NAME`.
//!
//! Each chore is one file. It sets itself up on a fresh machine, or names the parts that it could not set up. It is no build
//! system: it runs cargo, the tests and the peers, prints its steps, and counts. It runs on one thread.

mod bench;
mod clients;
mod counts;
mod exporter;
mod fuzz;
mod machine;
mod miri;
mod peers;
mod redis_tests;
mod release;
mod soak;
mod steps;
mod tools;
mod verify;
mod walk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use release::{book, crates, deny, dist, image, manifests, package, sbom};

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                          everything, on a fresh machine as well
  cargo xtask check                         the quick part: formatting, clippy, tidy
  cargo xtask quick                         unit tests, transcripts against Sleeve, tidy
  cargo xtask golden --server redis string  the transcripts of strings against redis-server
  cargo xtask golden --record               write the reference servers' replies into the transcripts
  cargo xtask bench --quick                 every measurement, small
  cargo xtask fuzz request 600              one fuzz target for ten minutes
  cargo xtask walk GET                      the source files that a GET goes through, and its instructions in each
  cargo xtask counts                        the instructions of the hot paths, held to what is recorded
  cargo xtask soak linearizable             a test in its long form; without a name, the list
";

/// The project's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Set the machine up, then run every check and every test; the last line counts them
    Test,
    /// Formatting, clippy and the tidy rules; a minute, no servers
    Check,
    /// Unit tests, golden transcripts against Sleeve and tidy: minutes, for the time between edits
    Quick,
    /// Measure Sleeve, redis-server and Valkey in one run and write bench/results/
    Bench(bench::Options),
    /// Play the golden transcripts against Sleeve, Redis and Valkey, or record them
    Golden(verify::Golden),
    /// Run a fuzz target, or each of them in turn
    Fuzz(fuzz::Options),
    /// Run the tests of store, client, rings and wire in an interpreter that sees undefined behaviour
    Miri,
    /// Run tests in their long form, which takes minutes or hours
    #[command(after_help = soak::EXAMPLES)]
    Soak(soak::Options),
    /// Follow one command through the source: files in the order of entry, instructions in each
    Walk(walk::Options),
    /// Count the instructions of the hot paths' micro-benchmarks, and compare them with the recorded ceilings
    Counts(counts::Options),
    /// Build the binary as it is handed on: stripped, with its debug information beside it, in target/dist
    Dist,
    /// Build a package of Debian with the binary, a unit, man pages and completions, in target/package
    Package(package::Options),
    /// Build the image of containers without a daemon, and compare its behaviour with that of Redis's programs
    Image(image::Options),
    /// Render docs/ as a site with a search, and follow its links
    Book,
    /// Check the examples for Compose and Kubernetes against the schemas
    Manifests,
    /// Write packaging/sbom.cdx.json, the list of the libraries in the binary
    Sbom(sbom::Options),
    /// Check licences, sources and duplicates of the libraries by the rules of deny.toml
    Deny,
    /// Package each crate that is to be published, and build it from its package
    Crates,
    /// Build the documentation of every crate; a broken link is an error
    Doc,
    /// Install the peers of the tests: redis-server, Valkey and the client libraries
    Peers,
    /// Write docs/redis-tests.md from the results of a run of Redis's own tests
    RedisTests(redis_tests::Options),
    /// Talk to a server through redis-cli, redis-benchmark, client libraries and frameworks
    Clients(clients::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Test => verify::test(),
        Chore::Check => verify::check(),
        Chore::Quick => verify::quick(),
        Chore::Bench(options) => bench::run(&options),
        Chore::Golden(options) => verify::golden(&options),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Miri => miri::run(),
        Chore::Soak(options) => soak::run(&options),
        Chore::Walk(options) => walk::run(&options),
        Chore::Counts(options) => counts::run(&options),
        Chore::Dist => dist::run(),
        Chore::Package(options) => package::run_chore(&options),
        Chore::Image(options) => image::run_chore(&options),
        Chore::Book => book::run(),
        Chore::Manifests => manifests::run(),
        Chore::Sbom(options) => sbom::run_chore(&options),
        Chore::Deny => deny::run_chore(),
        Chore::Crates => crates::run_chore(),
        Chore::Doc => verify::doc(),
        Chore::Peers => peers::set_up().map(|_| ()),
        Chore::RedisTests(options) => redis_tests::run(&options),
        Chore::Clients(options) => clients::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            if !reason.is_empty() {
                eprintln!("cargo xtask: {reason}");
            }
            ExitCode::FAILURE
        }
    }
}
