//! Bytes of a server's process for a connection that has sent one request and is idle. The kernel's memory for it is not
//! counted: it is the same for every server.

use super::super::builds::Builds;
use super::super::effort::Effort;
use super::super::fleet::Contender;
use super::super::plan::BEST_PEER;
use super::super::report::{Bar, Line, Table};
use super::resident::{NAME, at_rest, contenders};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sleeve_tests::{Connection, Server};

const CONNECTIONS: u64 = 10_000;

/// The number of connections that are opened first, and not counted: they touch parts of the program itself.
const WARM: u64 = 100;

/// The limit of the bytes of each connection.
const BAR: f64 = 2_048.0;

const OPTIONS: &[&str] = &["--maxclients", "11000"];

/// Opens the connections to each server in turn.
///
/// # Errors
/// When a server fails, or this process may not have so many descriptors.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "Memory: growth of resident memory per idle connection (bytes)";
    println!("\n==> {title}");
    allow_descriptors(CONNECTIONS + 1_000)?;
    let mut samples = Vec::new();
    for contender in contenders(effort) {
        let bytes = bytes_per_connection(&Contender { options: OPTIONS, ..contender }, builds)?;
        println!("    {}: {bytes:.0}", contender.name);
        samples.push((contender.name, vec![bytes]));
    }
    let label = "10,000 connections that have sent one PING".to_owned();
    let line = Line { label, samples, ratio: Some(BEST_PEER), bar: Some(Bar::Absolute("sleeve", BAR)) };
    Ok(Table { name: NAME, title: title.to_owned(), lines: vec![line] })
}

fn bytes_per_connection(contender: &Contender, builds: &Builds) -> Result<f64, String> {
    let server = contender.start(builds)?;
    let open = |count| (0..count).map(|_| greeted(&server)).collect::<Result<Vec<Connection>, String>>();
    let _warm = open(WARM)?;
    let before = at_rest(&server)?;
    let _idle = open(CONNECTIONS)?;
    let after = at_rest(&server)?;
    Ok(after.saturating_sub(before) as f64 / CONNECTIONS as f64)
}

/// Opens a connection, and waits for its first reply.
fn greeted(server: &Server) -> Result<Connection, String> {
    let mut connection = server.connect();
    connection.command(&["PING"]).map_err(|error| error.to_string())?;
    Ok(connection)
}

/// Raises the limit of open files of this process and of the servers that it starts.
fn allow_descriptors(count: u64) -> Result<(), String> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let wanted = Rlimit { current: Some(count), maximum: maximum.map(|maximum| maximum.max(count)) };
    setrlimit(Resource::Nofile, wanted).map_err(|error| format!("{count} open files are not allowed: {error}"))
}
