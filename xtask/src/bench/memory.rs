//! Bytes of resident memory per key: what a server's process grows by when a million keys are written.

use std::path::Path;

use super::fleet::Contender;
use super::report::{Bar, Line, Table};
use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Server};

/// The name that `--only` takes.
pub const NAME: &str = "memory";

const KEYS: u64 = 1_000_000;

/// Keys that are written at once; their replies fit into any socket buffer.
const CHUNK: u64 = 1000;

/// A kind of data set: its label, the value of the n-th key, and the bar in bytes per key.
type Shape = (&'static str, fn(u64) -> String, f64);

const SHAPES: [Shape; 2] = [
    ("16-byte key, 32-byte value", |number| format!("value:{number:026}"), 74.0),
    ("16-byte key, 6-digit integer", |number| (100_000 + number % 900_000).to_string(), 52.0),
];

/// Writes each shape into a fresh server of each kind.
///
/// # Errors
/// When a server fails.
pub fn measure(sleeve: &Path) -> Result<Table, String> {
    let title = "Memory: growth of resident memory per key (bytes), 1,000,000 keys";
    println!("\n==> {title}");
    let mut lines = Vec::new();
    for (label, value, bar) in SHAPES {
        let mut samples = Vec::new();
        for contender in [Contender::SLEEVE, Contender::REDIS, Contender::VALKEY] {
            let server = contender.start(sleeve)?;
            let growth = growth(&server, KEYS, value)?;
            println!("    {label}: {} {growth:.1}", contender.name);
            samples.push((contender.name, vec![growth]));
        }
        let bar = Some(Bar::Absolute("sleeve", bar));
        lines.push(Line { label: label.to_owned(), samples, ratio: Some(("sleeve", "valkey")), bar });
    }
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

fn growth(server: &Server, keys: u64, value: fn(u64) -> String) -> Result<f64, String> {
    let mut connection = server.connect();
    let before = resident_bytes(server.process_id())?;
    for first in (0..keys).step_by(CHUNK as usize) {
        write(&mut connection, first..(first + CHUNK).min(keys), value).map_err(|error| error.to_string())?;
    }
    let after = resident_bytes(server.process_id())?;
    Ok((after.saturating_sub(before)) as f64 / keys as f64)
}

fn write(connection: &mut Connection, keys: std::ops::Range<u64>, value: fn(u64) -> String) -> std::io::Result<()> {
    let count = keys.end - keys.start;
    let mut bytes = Vec::new();
    for key in keys {
        bytes.extend_from_slice(&request(&["SET", &format!("key:{key:012}"), &value(key)]));
    }
    connection.send(&bytes)?;
    for _ in 0..count {
        let reply = connection.reply()?;
        if reply != b"+OK\r\n" {
            return Err(std::io::Error::other(String::from_utf8_lossy(&reply).into_owned()));
        }
    }
    Ok(())
}

/// `VmRSS` of `/proc/PID/status`, which Linux gives in KiB (proc(5)).
fn resident_bytes(process_id: u32) -> Result<u64, String> {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status")).map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the process has no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(|_| "VmRSS is no number")?;
    Ok(kib * 1024)
}
