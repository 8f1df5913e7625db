//! The documents' workloads through the client library, beside a bare socket program, with redis-server under both.

use std::process::Command;

use super::builds::Builds;
use super::effort::Effort;
use super::fleet::Contender;
use super::report::{Bar, Line, Table};
use crate::steps::output_of;
use serde_json::Value;

/// The name that `--only` takes.
pub const NAME: &str = "client";

/// The server is left where the kernel puts it: the client has two threads and wants the rest.
const SERVER: Contender = Contender { cpus: &[0, 1], ..Contender::REDIS };

const COLUMNS: (&str, &[&str]) = ("client", &["raw socket"]);

/// The bars: workload, the beginning of the step's title, whether CPU is meant, and the limit.
const BARS: [(&str, &str, bool, Bar); 5] = [
    ("booksleeve", "pipelined", false, Bar::Ratio(2.5)),
    ("booksleeve", "fire and forget", false, Bar::Absolute("client", 200.0)),
    ("pipelining", "issued together", false, Bar::Absolute("client", 1000.0)),
    ("mass-set", "pipelined", false, Bar::Ratio(2.0)),
    ("mass-set", "pipelined", true, Bar::Absolute("client", 800.0)),
];

/// Runs all workloads once a round.
///
/// # Errors
/// When the server or the program fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "The client library and a bare socket program, Redis 7.0 under both (ns per operation)";
    println!("\n==> {title}");
    let server = SERVER.start(builds)?;
    let mut lines: Vec<Line> = Vec::new();
    for round in 1..=effort.rounds {
        println!("    round {round}");
        let url = server.url();
        let arguments = ["bench", "--workload", "all", "--json", "--url", &url];
        let text = output_of(Command::new(builds.generator()).args(arguments))?;
        let steps: Vec<Value> = serde_json::from_str(&text).map_err(|error| format!("{error} in\n{text}"))?;
        for step in &steps {
            add(&mut lines, step, "", false);
            add(&mut lines, step, ", CPU", true);
        }
    }
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

/// Adds one round's figures of a step to its line.
fn add(lines: &mut Vec<Line>, step: &Value, suffix: &str, cpu: bool) {
    let (workload, title) = (step["workload"].as_str().unwrap_or_default(), step["step"].as_str().unwrap_or_default());
    let [client, raw] = if cpu { ["cpu_each_ns", "raw_cpu_each_ns"] } else { ["each_ns", "raw_each_ns"] };
    let label = format!("{workload}: {title}{suffix}");
    let place = lines.iter().position(|line| line.label == label).unwrap_or_else(|| {
        let bar = BARS
            .iter()
            .find(|(name, begins, of_cpu, _)| *name == workload && title.starts_with(begins) && *of_cpu == cpu);
        lines.push(Line {
            label,
            samples: vec![(COLUMNS.0, Vec::new()), (COLUMNS.1[0], Vec::new())],
            ratio: Some(COLUMNS),
            bar: bar.map(|(.., bar)| *bar),
        });
        lines.len() - 1
    });
    for ((_, samples), field) in lines[place].samples.iter_mut().zip([client, raw]) {
        samples.extend(step[field].as_f64());
    }
}
