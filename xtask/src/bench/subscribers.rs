//! The measurement of one message to many subscribers: the server's CPU time for it, one message at a time.
//!
//! The next message is published when every subscriber has the last one, so none shares its way with another.

use std::io::Read;
use std::net::TcpStream;

use super::builds::{Builds, bound_to};
use super::effort::Effort;
use super::fleet::{Contender, Fleet};
use super::plan::BEST_PEER;
use super::report::{Bar, Line, Table};
use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Server};

/// The name that `--only` takes.
pub const NAME: &str = "subscribers";

const CONTENDERS: [Contender; 4] = [Contender::SLEEVE, Contender::REDIS, Contender::REDIS8, Contender::VALKEY];
const SUBSCRIBERS: usize = 1000;
const MESSAGES: u64 = 400;
const PAYLOAD_BYTES: usize = 64;
const CHANNEL: &str = "news";
const RATIO_MAX: f64 = 0.70;

/// Publishes to the same subscribers, round after round.
///
/// # Errors
/// When a server fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "A 64-byte message to 1,000 subscribers: server CPU (us)";
    println!("\n==> {title}");
    let fleet = Fleet::start(&CONTENDERS, builds)?;
    let mut samples: Vec<(&'static str, Vec<f64>)> = CONTENDERS.map(|contender| (contender.name, Vec::new())).into();
    for round in 1..=effort.rounds {
        for ((contender, server), (_, samples)) in fleet.servers.iter().zip(&mut samples) {
            // The publisher runs on another CPU than the servers.
            let value = bound_to(&[1], || publish(server, MESSAGES / effort.divisor))??;
            println!("    round {round}: {} {value:.1}", contender.name);
            samples.push(value);
        }
    }
    let (ratio, bar) = (Some(BEST_PEER), Some(Bar::Ratio(RATIO_MAX)));
    let line = Line { label: "PUBLISH".to_owned(), samples, ratio, bar };
    Ok(Table { name: NAME, title: title.to_owned(), lines: vec![line] })
}

/// Returns the server's CPU time for each of so many messages, in microseconds.
fn publish(server: &Server, messages: u64) -> Result<f64, String> {
    let mut subscribers = (0..SUBSCRIBERS).map(|_| subscribe(server)).collect::<std::io::Result<Vec<_>>>();
    let subscribers = subscribers.as_mut().map_err(|error| error.to_string())?;
    let mut publisher = server.connect();
    let payload = "x".repeat(PAYLOAD_BYTES);
    let message = request(&["PUBLISH", CHANNEL, &payload]);
    let mut expected = vec![0; request(&["message", CHANNEL, &payload]).len()];
    let mut send = || -> std::io::Result<()> {
        publisher.send(&message)?;
        publisher.reply()?;
        subscribers.iter_mut().try_for_each(|subscriber: &mut TcpStream| subscriber.read_exact(&mut expected))
    };
    send().map_err(|error| error.to_string())?;
    let before = cpu_ns(server.process_id())?;
    for _ in 0..messages {
        send().map_err(|error| error.to_string())?;
    }
    Ok((cpu_ns(server.process_id())? - before) as f64 / messages as f64 / 1_000.0)
}

fn subscribe(server: &Server) -> std::io::Result<TcpStream> {
    let mut connection = Connection::open(server.address())?;
    connection.command(&["SUBSCRIBE", CHANNEL])?;
    connection.stream().try_clone()
}

/// Returns the CPU time of all threads of a process: the first number of `schedstat` (Linux's `sched-stats.rst`).
fn cpu_ns(process_id: u32) -> Result<u64, String> {
    let tasks = std::fs::read_dir(format!("/proc/{process_id}/task")).map_err(|error| error.to_string())?;
    let mut total = 0;
    for task in tasks.flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).map_err(|error| error.to_string())?;
        let first = text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        total += first.ok_or("the kernel keeps no schedstat")?;
    }
    Ok(total)
}
