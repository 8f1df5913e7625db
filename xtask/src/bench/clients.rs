//! Client libraries side by side: the programs of `bench/clients/` against one server, each in its own idiom.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use sleeve_tests::{Kind, Server};

use super::builds::start_on;
use super::report::{Line, Ratio, Table};
use crate::peers;
use crate::steps::output_of;
use sleeve_tests::server::workspace_root;

/// The workloads, as the programs call them.
const WORKLOADS: [&str; 7] = ["callers-1", "callers-64", "callers-512", "pings", "increments", "fan-out", "mass-set"];

/// The libraries; the first is compared with the others.
const LIBRARIES: [&str; 10] =
    ["sleeve", "redis-rs", "fred", "rustis", "kevy", "rueidis", "lettuce", "ioredis", "redis-py", "glide"];
const BESIDE_OTHERS: Ratio =
    ("sleeve", &["redis-rs", "fred", "rustis", "kevy", "rueidis", "lettuce", "ioredis", "redis-py", "glide"]);

/// The number of libraries, from the front, that belong to the program for Rust.
const IN_RUST: usize = 5;
/// The number of these that have a runtime of tokio's with so many threads.
const ON_TOKIO: usize = 4;
const THREADS: [&str; 2] = ["1", "2"];

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench clients                                       all libraries, all workloads, three rounds
  cargo xtask bench clients --libraries sleeve,rustis --workloads callers-64,callers-512
  cargo xtask bench clients --server sleeve --rounds 5
";

/// The libraries and the workloads that they run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Only these libraries
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = LIBRARIES)]
    libraries: Vec<String>,
    /// Only these workloads
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = WORKLOADS)]
    workloads: Vec<String>,
    /// The server that they talk to
    #[arg(long, default_value = "redis", value_parser = ["redis", "valkey", "sleeve"])]
    server: String,
    /// How often each is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
}

/// A library as it is started: host, port and workload follow, and for Rust the runtime.
pub struct Program {
    pub name: &'static str,
    pub command: Vec<PathBuf>,
}

impl Program {
    /// Runs a workload once against a server without data; returns the program's output.
    ///
    /// # Errors
    /// When the server or the program fails.
    pub fn run(&self, server: &Server, workload: &str, runtime: Option<&str>) -> Result<Value, String> {
        server.connect().command(&["FLUSHALL", "SYNC"]).map_err(|error| error.to_string())?;
        let (path, words) = self.command.split_first().ok_or("a program without a name")?;
        let mut command = Command::new(path);
        command.args(words).args(["127.0.0.1", &server.port().to_string(), workload]).args(runtime);
        let text = output_of(&mut command)?;
        serde_json::from_str(&text).map_err(|error| format!("{error} in\n{text}"))
    }
}

/// Builds the programs, runs them in turn and prints the tables.
///
/// # Errors
/// When a program cannot be built or fails.
pub fn run(options: &Options) -> Result<(), String> {
    let kind = Kind::parse(&options.server).ok_or("no such server")?;
    peers::set_up_servers()?;
    let wanted = |names: &[String], name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let mut programs = Vec::new();
    for (index, name) in LIBRARIES.into_iter().enumerate().filter(|(_, name)| wanted(&options.libraries, name)) {
        let command = if index < IN_RUST { rust_program(name) } else { peers::set_up_bench(name) };
        match command {
            Ok(command) => programs.push(Program { name, command }),
            Err(reason) => println!("    {name}: skipped, {reason}"),
        }
    }
    let server = start_on(&[0, 1], kind, &kind.binary()?, Vec::new())?;
    let mut tables = [
        ("time per call (us)", "seconds", Vec::new()),
        ("CPU time of the client per call (us)", "cpu_seconds", Vec::new()),
        ("latency that one call in a hundred exceeds (us)", "p99_us", Vec::new()),
    ];
    for workload in WORKLOADS.into_iter().filter(|name| wanted(&options.workloads, name)) {
        for threads in THREADS {
            let runs = all_rounds(&programs, workload, threads, &server, options.rounds)?;
            for (_, field, lines) in &mut tables {
                let samples: Vec<_> = runs.iter().map(|(name, runs)| (*name, figures(runs, field))).collect();
                if samples.iter().all(|(_, samples)| samples.is_empty()) {
                    continue;
                }
                let label = format!("{workload}, {threads} thread{}", if threads == "1" { "" } else { "s" });
                lines.push(Line { label, samples, ratio: Some(BESIDE_OTHERS), bar: None });
            }
        }
    }
    for (title, _, lines) in tables {
        let title = format!("Clients of {}: {title}", kind.name());
        println!("\n{}", Table { name: "clients", title, lines }.as_markdown());
    }
    Ok(())
}

/// Builds the program for Rust, as its users build it.
///
/// # Errors
/// When it does not compile.
pub fn rust_program(name: &str) -> Result<Vec<PathBuf>, String> {
    println!("    building {name}'s program");
    let target = workspace_root().join(".peers/bench-clients");
    let manifest = workspace_root().join("bench/clients/rust/Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]).arg(manifest);
    output_of(cargo.env("CARGO_TARGET_DIR", &target))?;
    Ok(vec![target.join("release/clients"), name.into()])
}

type Runs = Vec<(&'static str, Vec<Value>)>;

/// Returns the output of each program, round by round. Only Rust's runtimes take a number of threads: other programs run
/// once, beside one thread.
fn all_rounds(
    programs: &[Program],
    workload: &str,
    threads: &str,
    server: &Server,
    rounds: u32,
) -> Result<Runs, String> {
    let mut all: Runs = programs.iter().map(|program| (program.name, Vec::new())).collect();
    for round in 1..=rounds {
        for (program, (name, runs)) in programs.iter().zip(&mut all) {
            let is_rust = LIBRARIES[..IN_RUST].contains(name);
            if !LIBRARIES[..ON_TOKIO].contains(name) && threads != THREADS[0] {
                continue;
            }
            let run = program.run(server, workload, is_rust.then_some(threads))?;
            let microseconds = figures(std::slice::from_ref(&run), "seconds");
            println!("    {workload}, {threads} threads, round {round}: {name} {microseconds:.3?} us");
            runs.push(run);
        }
    }
    Ok(all)
}

/// Returns a figure of each run: times in seconds are divided by the number of calls and given in microseconds.
pub fn figures(runs: &[Value], field: &str) -> Vec<f64> {
    let figure = |run: &Value| {
        let value = run[field].as_f64()?;
        if field.ends_with("seconds") { Some(value * 1e6 / run["calls"].as_f64()?) } else { Some(value) }
    };
    runs.iter().filter_map(figure).collect()
}
