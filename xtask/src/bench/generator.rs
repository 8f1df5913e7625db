//! A run of `sleeve bench` on CPU 1, and the figure that is wanted from it.

use std::path::Path;
use std::process::Command;

use crate::steps::output_of;
use serde_json::Value;
use sleeve_tests::Server;

/// The load that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The generator's name of the test.
    pub test: &'static str,
    pub clients: u32,
    /// The number of requests in flight per connection.
    pub pipeline: u32,
    pub requests: u64,
    /// Bytes of a value.
    pub data_size: u32,
    /// Number of different keys, members or elements.
    pub keyspace: u64,
    pub state: State,
    /// The most requests a second; `None` sends as fast as the server replies.
    pub rate: Option<u32>,
}

/// The data of a server when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Data that these tests need, written once and shared by all loads that need the same.
    Kept(&'static str),
    /// The data that the test itself needs and no other, written anew for every run: the load adds or removes data.
    Filled,
    /// A server without data: the test writes its own.
    Empty,
    /// The data that this many requests of the test itself leave behind, sent once: a set in the order of its growth.
    Grown(u64),
}

/// The figure that is read from a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// CPU microseconds of the server per request.
    ServerCpu,
    /// Median latency in microseconds.
    Latency,
    /// Microseconds of the run per request.
    Elapsed,
    /// Thousand requests a second.
    Rate,
    /// The latency in milliseconds that one request in a thousand exceeds.
    P999,
}

impl Figure {
    /// Returns the text behind the label where a table has both figures.
    pub fn suffix(self) -> &'static str {
        match self {
            Figure::ServerCpu => "",
            Figure::Latency => ", latency",
            Figure::Elapsed => ", elapsed",
            Figure::Rate => ", rate",
            Figure::P999 => ", p99.9",
        }
    }

    /// Returns the figure of a run.
    ///
    /// # Errors
    /// When the generator did not print it.
    pub fn of(self, run: &Value) -> Result<f64, String> {
        let value = match self {
            Figure::ServerCpu => run["server_cpu_us"].as_f64(),
            Figure::Latency => run["latency_ms"]["p50"].as_f64().map(|ms| ms * 1000.0),
            Figure::Elapsed => run["rps"].as_f64().map(|rate| 1e6 / rate),
            Figure::Rate => run["rps"].as_f64().map(|rate| rate / 1e3),
            Figure::P999 => run["latency_ms"]["p999"].as_f64(),
        };
        value.ok_or_else(|| format!("the generator printed no figure\n{run}"))
    }
}

impl Load {
    /// Returns a row's label, such as `GET, depth 16`.
    pub fn label(&self) -> String {
        let test = self.test.trim_end_matches("_mbulk").to_uppercase();
        let test = test.replace('_', " ");
        let test = if test == "MSET" { "MSET (10 keys)".to_owned() } else { test };
        match self.pipeline {
            1 if self.clients == 1 => test,
            1 => format!("{test}, {} clients", self.clients),
            depth => format!("{test}, depth {depth}"),
        }
    }

    /// Returns this load with fewer requests.
    pub fn divided(self, divisor: u64) -> Load {
        Load { requests: self.requests / divisor, ..self }
    }

    /// Brings the server to the state in which runs of this load begin, if that is reached only once.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn fill(&self, sleeve: &Path, server: &Server) -> Result<(), String> {
        let (tests, requests) = match self.state {
            State::Kept(tests) => (tests, 3200),
            State::Grown(requests) => (self.test, requests),
            State::Filled | State::Empty => return Ok(()),
        };
        empty(server)?;
        let load = Load { pipeline: 64, clients: 50, requests, ..*self };
        let mut command = load.command(sleeve, server);
        command.args(["-t", tests]);
        if matches!(self.state, State::Kept(_)) {
            command.arg("--fill");
        }
        output_of(&mut command).map(|_| ())
    }

    fn command(&self, sleeve: &Path, server: &Server) -> Command {
        let mut command = Command::new(sleeve);
        command.args(["bench", "--json", "--cpu", "1", "-h", "127.0.0.1"]);
        for (option, value) in [
            ("-p", u64::from(server.port())),
            ("-c", u64::from(self.clients)),
            ("-P", u64::from(self.pipeline)),
            ("-n", self.requests),
            ("-d", u64::from(self.data_size)),
            ("-r", self.keyspace),
        ] {
            command.args([option, &value.to_string()]);
        }
        command
    }
}

fn empty(server: &Server) -> Result<(), String> {
    server.connect().command(&["FLUSHALL", "SYNC"]).map(|_| ()).map_err(|error| error.to_string())
}

/// Runs the load once; returns one figure.
///
/// # Errors
/// When the generator fails or does not print the figure.
pub fn measure(sleeve: &Path, server: &Server, load: &Load, figure: Figure) -> Result<f64, String> {
    figure.of(&run(sleeve, server, load)?)
}

/// Runs the load once; returns all that the generator prints about it.
///
/// # Errors
/// When the generator fails.
pub fn run(sleeve: &Path, server: &Server, load: &Load) -> Result<Value, String> {
    let mut command = load.command(sleeve, server);
    command.args(["-t", load.test]);
    if let Some(rate) = load.rate {
        command.args(["--rps", &rate.to_string()]);
    }
    if matches!(load.state, State::Filled | State::Empty) {
        empty(server)?;
    }
    if load.state == State::Filled {
        command.arg("--fill");
    }
    let text = output_of(&mut command)?;
    let mut runs: Vec<Value> = serde_json::from_str(&text).map_err(|error| format!("{error} in\n{text}"))?;
    if runs.is_empty() { Err("the generator has run no test".to_owned()) } else { Ok(runs.swap_remove(0)) }
}
