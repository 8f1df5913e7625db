//! `sleeve cli --stat`: a line about the server again and again, from INFO, with redis-cli's columns.
//!
//! It ends with Ctrl-C.

use std::io;
use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::session::Session;
use crate::interrupt::Interrupt;
use crate::output;

/// The number of lines below one heading.
const LINES_MAX: usize = 20;

/// Prints lines until Ctrl-C.
pub fn run(session: &mut Session, pause: Duration, interrupt: &Interrupt) -> io::Result<()> {
    let mut before = None;
    for line in 0.. {
        let Some(reply) = session.ask_until_answered(&["INFO"], interrupt)? else { break };
        let Ok((Frame::Bulk(info) | Frame::Verbatim { text: info, .. }, _)) = decode(&reply) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "Unexpected reply of INFO"));
        };
        let info = String::from_utf8_lossy(info);
        if line % LINES_MAX == 0 {
            output::line(format_args!("------- data ------ --------------------- load -------------------- - child -"));
            output::line(format_args!(
                "{:<11}{:<9}{:<8}{:<8}{:<20}{:<21}",
                "keys", "mem", "clients", "blocked", "requests", "connections"
            ));
        }
        let requests = number(&info, "total_commands_processed");
        let new = requests.saturating_sub(before.unwrap_or(requests));
        before = Some(requests);
        output::line(format_args!("{}", columns(&info, &format!("{requests} (+{new})"))));
        output::flush();
        if !interrupt.sleep(pause) {
            break;
        }
    }
    output::line(format_args!(""));
    Ok(())
}

fn columns(info: &str, requests: &str) -> String {
    format!(
        "{:<11}{:<9}{:<8}{:<8}{:<20}{:<12}{}",
        keys(info),
        size(number(info, "used_memory")),
        number(info, "connected_clients"),
        number(info, "blocked_clients"),
        requests,
        number(info, "total_connections_received"),
        child(info),
    )
}

/// Returns the background work of the server.
fn child(info: &str) -> String {
    let fields = [("rdb_bgsave_in_progress", "SAVE"), ("aof_rewrite_in_progress", "AOF"), ("loading", "LOAD")];
    let busy = fields.iter().filter(|(field, _)| number(info, field) != 0);
    busy.map(|(_, word)| *word).collect::<Vec<_>>().join("+")
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

fn number(info: &str, name: &str) -> u64 {
    field(info, name).and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Returns the number of keys in all databases, from lines such as `db0:keys=3,expires=0`.
fn keys(info: &str) -> u64 {
    let databases = info.lines().filter_map(|line| line.strip_prefix("db")?.split_once(":keys="));
    databases.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum()
}

/// Returns a number of bytes in the largest unit that it fills.
fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Memory\r\nused_memory:1488978\r\nused_memory_rss:9\r\nconnected_clients:2\r\nblocked_clients:0\r\n\
        total_connections_received:31\r\nloading:1\r\nrdb_bgsave_in_progress:1\r\n# Keyspace\r\ndb0:keys=11,expires=0\r\n\
        db9:keys=5,expires=1\r\n";

    #[test]
    fn columns_stand_where_redis_cli_has_them() {
        let line = columns(INFO, "53177 (+0)");
        assert_eq!(line, "16         1.42M    2       0       53177 (+0)          31          SAVE+LOAD");
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!([size(1023), size(1024), size(3 << 30)], ["1023B", "1.00K", "3.00G"]);
    }
}
