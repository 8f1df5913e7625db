//! Real clients against a server: redis-cli, redis-benchmark, and the libraries of `tests/clients/`.
//!
//! Each library has one small program there that takes host and port, runs the same scenario, prints what it did and
//! ends with 0 only if every answer was right.

use std::path::PathBuf;
use std::process::Command;

use crate::peers::{self, Peers};
use crate::steps::{Count, Steps, build_sleeve, output_of};
use sleeve_tests::{Kind, Server, Settings};

/// Which server the clients talk to.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The server
    #[arg(long, default_value = "sleeve", value_parser = ["sleeve", "redis", "valkey"])]
    server: String,
}

/// `cargo xtask clients`.
pub fn run(options: &Options) -> Result<(), String> {
    let peers = peers::set_up()?;
    let kind = Kind::parse(&options.server).ok_or("no such server")?;
    let binary = if kind == Kind::Sleeve { build_sleeve("checked")? } else { kind.binary()? };
    let server = Server::launch(kind, &binary, Settings::default())?;
    let mut steps = Steps::default();
    steps.step("client libraries", || check(&peers, &server));
    steps.close()
}

/// Runs every client against a running server.
///
/// # Errors
/// None; a client that fails is counted.
pub fn check(peers: &Peers, server: &Server) -> Result<Count, String> {
    let mut count = Count { skipped: peers.skipped.len(), ..Count::default() };
    for (name, reason) in &peers.skipped {
        println!("    {name}: skipped, {reason}");
    }
    let port = server.port().to_string();
    let mut tally = |name: &str, outcome: Result<String, String>| match outcome {
        Ok(said) => {
            println!("    {name}: {said}");
            count.passed += 1;
        }
        Err(reason) => {
            println!("    {name}: FAILED: {reason}");
            count.failed += 1;
        }
    };
    tally("redis-cli", redis_cli(&port));
    tally("redis-benchmark", redis_benchmark(&port));
    for library in &peers.libraries {
        let mut words = library.command.iter().cloned();
        let mut command = Command::new(words.next().unwrap_or_else(PathBuf::new));
        command.args(words).args(["127.0.0.1", &port]);
        let said = output_of(&mut command);
        tally(library.name, said.map(|said| said.trim().lines().last().unwrap_or_default().to_owned()));
    }
    Ok(count)
}

fn redis_cli(port: &str) -> Result<String, String> {
    let exchanges: &[(&[&str], &str)] = &[
        (&["PING"], "PONG"),
        (&["SET", "cli:key", "a value"], "OK"),
        (&["GET", "cli:key"], "a value"),
        (&["GET", "cli:none"], ""),
        (&["-n", "3", "INCR", "cli:counter"], "1"),
        (&["-n", "3", "DEL", "cli:counter"], "1"),
        (&["-3", "--json", "MGET", "cli:key", "cli:none"], "[\"a value\",null]"),
        (&["--no-raw", "SETRANGE", "cli:key", "2", "n"], "(integer) 7"),
        (&["--csv", "MGET", "cli:key", "cli:none"], "\"a nalue\",NULL"),
        (&["--scan", "--pattern", "cli:*"], "cli:key"),
        (&["DEL", "cli:key"], "1"),
    ];
    for (arguments, expected) in exchanges {
        let said = output_of(Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", port]).args(*arguments))?;
        if said.trim_end() != *expected {
            return Err(format!("{arguments:?} printed {said:?} instead of {expected:?}"));
        }
    }
    Ok(format!("{} exchanges", exchanges.len()))
}

fn redis_benchmark(port: &str) -> Result<String, String> {
    let tests = "ping_inline,ping_mbulk,set,get,incr,mset";
    let options = ["-h", "127.0.0.1", "-p", port, "-q", "--csv", "-n", "20000", "-P", "16", "-r", "10000", "-t", tests];
    let said = output_of(Command::new("redis-benchmark").args(options))?;
    if said.contains("rror") {
        return Err(said);
    }
    let lines = said.lines().filter(|line| line.starts_with('"')).count();
    // A heading, and one line for each test.
    if lines == 7 { Ok("6 tests".to_owned()) } else { Err(format!("it printed {lines} lines\n{said}")) }
}
