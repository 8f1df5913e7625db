//! Real clients against a server: the tools, and the libraries and frameworks of `tests/interop/clients/`.
//!
//! Each library has one small program there that takes host and port, runs its scenario, prints its steps and exits with 0
//! only if every answer was right. Each is run against a server with one worker, and one with two; those that need a cluster
//! are run against three primaries with a replica each.

use std::path::Path;
use std::process::Command;

use crate::exporter;
use crate::peers::{self, Library, Peers};
use crate::steps::{Count, Steps, build_sleeve, is_installed, output_of};
use crate::tools;
use sleeve_tests::{Cluster, Kind, Server, Settings};

/// The timeout of one program, in seconds. Only a program that hangs gets near it.
const SECONDS_MAX: &str = "180";

/// The server that the clients use.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The server
    #[arg(long, default_value = "sleeve", value_parser = ["sleeve", "redis", "valkey"])]
    server: String,
    /// Only the clients with this text in their name
    name: Option<String>,
}

/// Runs `cargo xtask clients`.
pub fn run(options: &Options) -> Result<(), String> {
    let mut peers = peers::set_up()?;
    let kind = Kind::parse(&options.server).ok_or("no such server")?;
    let is_named = std::env::var_os("SLEEVE_BIN").is_some();
    let binary = if kind == Kind::Sleeve && !is_named { build_sleeve("checked")? } else { kind.binary()? };
    let part = options.name.as_deref().unwrap_or_default();
    peers.libraries.retain(|library| library.name.contains(part));
    let mut steps = Steps::default();
    check(&mut steps, &peers, kind, &binary, part);
    steps.close()
}

/// Runs every client against servers of this kind: for Sleeve one with one worker, and one with two.
pub fn check(steps: &mut Steps, peers: &Peers, kind: Kind, binary: &Path, part: &str) {
    let workers: &[&str] = if kind == Kind::Sleeve { &["1", "2"] } else { &[""] };
    for workers in workers {
        let arguments = if workers.is_empty() { vec![] } else { vec!["--workers".to_owned(), (*workers).to_owned()] };
        let name = if workers.is_empty() { "clients".to_owned() } else { format!("clients, workers {workers}") };
        steps.step(&name, || {
            let server = Server::launch(kind, binary, Settings { arguments, password: None })?;
            Ok(check_one(peers, &server.port().to_string(), part))
        });
    }
    if kind == Kind::Sleeve && "redis_exporter".contains(part) {
        steps.step("redis_exporter", || {
            let mut count = Count::default();
            if is_installed("dpkg") {
                tally("redis_exporter", exporter::check(binary), &mut count);
            } else {
                println!("    skipped: it is a package of Debian");
                count.skipped += 1;
            }
            Ok(count)
        });
    }
    if peers.libraries.iter().any(|library| library.needs_cluster) {
        steps.step("clients, cluster", || {
            // A busy machine delays a process, and no primary may be replaced for that.
            let cluster = Cluster::launch(kind, binary, 3, 1, &["--cluster-node-timeout", "5000"])?;
            let mut count = Count::default();
            run_libraries(peers, &cluster.servers[0].port().to_string(), true, &mut count);
            if count.failed > 0 {
                cluster.servers.iter().for_each(|node| println!("node {}:\n{}", node.port(), node.log_tail()));
            }
            Ok(count)
        });
    }
}

fn check_one(peers: &Peers, port: &str, part: &str) -> Count {
    let mut count = Count { skipped: peers.skipped.len(), ..Count::default() };
    for (name, reason) in &peers.skipped {
        println!("    {name}: skipped, {reason}");
    }
    for (name, check) in tools::ALL.into_iter().filter(|(name, _)| name.contains(part)) {
        tally(name, check(port), &mut count);
    }
    run_libraries(peers, port, false, &mut count);
    count
}

/// Runs the programs that need a cluster, or those that need none.
fn run_libraries(peers: &Peers, port: &str, needs_cluster: bool, count: &mut Count) {
    for library in peers.libraries.iter().filter(|library| library.needs_cluster == needs_cluster) {
        tally(library.name, run_library(library, port), count);
    }
}

fn tally(name: &str, outcome: Result<String, String>, count: &mut Count) {
    match outcome {
        Ok(said) => {
            println!("    {name}: {said}");
            count.passed += 1;
        }
        Err(reason) => {
            println!("    {name}: FAILED: {reason}");
            count.failed += 1;
        }
    }
}

fn run_library(library: &Library, port: &str) -> Result<String, String> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", SECONDS_MAX]).args(&library.command).args(["127.0.0.1", port]);
    // Python would leave its compiled files beside the programs.
    let said = output_of(command.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(said.trim().lines().last().unwrap_or_default().to_owned())
}
