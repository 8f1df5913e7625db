//! The INFO of a server at a moment, and the difference between two of them.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use sleeve_wire::frame::{Frame, decode};

use crate::doctor::evidence::{Calls, Evidence, Forks, Log, Server, SlowCommand, Traffic};
use crate::doctor::session::{Fault, NAME, Own, Session, Tally};
use crate::replies::info::Info;

/// The silence, in seconds, after which a connection does not count as active. CLIENT LIST reports whole seconds only.
const IDLE_SECONDS_MAX: u64 = 1;
/// The number of entries of the slow log that are read.
const ENTRIES: &str = "128";
/// The number of characters of a slow command that are shown.
const TEXT_MAX: usize = 80;

/// INFO, and the number of requests that the doctor had sent by then.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The time of the reading.
    pub at: Instant,
    /// The server's INFO.
    pub info: Info,
    own: Own,
}

impl Reading {
    /// Asks for INFO. The counts between this reading and a later one include this request and all that follow.
    pub fn take(session: &mut Session, tally: &Tally) -> Result<Self, Fault> {
        let own = tally.borrow().clone();
        let info = Info::parse(&session.ask_text(&["INFO", "all"])?);
        Ok(Self { at: Instant::now(), info, own })
    }

    /// Returns the growth of a line of INFO since another reading.
    fn grown(&self, before: &Self, name: &str) -> u64 {
        self.info.number(name).saturating_sub(before.info.number(name))
    }

    /// Returns the number of commands that others sent since another reading.
    pub fn commands_since(&self, before: &Self) -> u64 {
        self.grown(before, "total_commands_processed").saturating_sub(self.own.count - before.own.count)
    }

    /// Returns the number of forks so far.
    pub fn forks(&self) -> u64 {
        self.info.number("total_forks")
    }

    /// Returns the share of so many seconds that the server says that its workers were busy.
    pub fn busy_since(&self, before: &Self, seconds: f64) -> Option<f64> {
        let sum = |reading: &Self, names: [&str; 2]| -> f64 {
            names.iter().filter_map(|name| reading.info.text(name).parse::<f64>().ok()).sum()
        };
        let used = |names: [&str; 2]| sum(self, names) - sum(before, names);
        let main = used(["used_cpu_sys_main_thread", "used_cpu_user_main_thread"]);
        let all = used(["used_cpu_sys", "used_cpu_user"]);
        let used = if main > 0.0 { main } else { all / workers(&self.info) };
        (seconds > 0.0 && sum(self, ["used_cpu_sys", "used_cpu_user"]) > 0.0).then_some(used / seconds)
    }

    /// Returns the growth since another reading, as far as INFO tells it.
    pub fn since(&self, before: &Self) -> Evidence {
        let info = &self.info;
        let own = |part: fn(&Own) -> u64| part(&self.own) - part(&before.own);
        Evidence {
            traffic: Traffic {
                commands: self.commands_since(before),
                reads: self.grown(before, "total_reads_processed").saturating_sub(own(|own| own.count)),
                connects: self.grown(before, "total_connections_received"),
                bytes_in: self.grown(before, "total_net_input_bytes").saturating_sub(own(|own| own.bytes_in)),
                bytes_out: self.grown(before, "total_net_output_bytes").saturating_sub(own(|own| own.bytes_out)),
                ..Traffic::default()
            },
            calls: self.calls_since(before),
            server: Server {
                workers: workers(info),
                used_bytes: info.number("used_memory"),
                resident_bytes: info.number("used_memory_rss"),
                ..Server::default()
            },
            forks: Forks { count: self.forks().saturating_sub(before.forks()), longest_us: 0 },
            log: Log {
                is_on: info.number("aof_enabled") == 1,
                policy: None,
                delayed: self.grown(before, "aof_delayed_fsync"),
            },
            ..Evidence::default()
        }
    }

    /// Returns the microseconds that the doctor's own commands took in the server since another reading, without commands
    /// that other clients use too.
    pub fn own_us_since(&self, before: &Self) -> f64 {
        let earlier: HashMap<&str, (u64, f64)> = calls(&before.info).collect();
        let own = |name: &str, own: &Own| own.commands.get(name).copied().unwrap_or_default();
        let time_us = |(name, (count, time_us)): (&str, (u64, f64))| {
            let (count_before, time_before_us) = earlier.get(name).copied().unwrap_or_default();
            let is_own = own(name, &self.own) - own(name, &before.own) >= count.saturating_sub(count_before);
            if is_own { time_us - time_before_us } else { 0.0 }
        };
        calls(&self.info).map(time_us).sum()
    }

    fn calls_since(&self, before: &Self) -> Vec<Calls> {
        let earlier: HashMap<&str, (u64, f64)> = calls(&before.info).collect();
        let new = calls(&self.info).map(|(name, (count, time_us))| {
            let (count_before, time_before_us) = earlier.get(name).copied().unwrap_or_default();
            let own = |own: &Own| own.commands.get(name).copied().unwrap_or_default();
            let all = count.saturating_sub(count_before);
            let others = all.saturating_sub(own(&self.own) - own(&before.own));
            // The time of the doctor's own commands is not known; each is taken to last as long as the others.
            let time_us = (time_us - time_before_us) * others as f64 / all.max(1) as f64;
            Calls { name: name.to_owned(), count: others, time_us }
        });
        new.filter(|calls| calls.count > 0).collect()
    }
}

/// Returns the number of threads that execute commands: Redis and Valkey have one.
fn workers(info: &Info) -> f64 {
    info.number("workers").max(1) as f64
}

/// Reads `cmdstat_get:calls=3,usec=7,usec_per_call=2.33`.
fn calls(info: &Info) -> impl Iterator<Item = (&str, (u64, f64))> {
    info.beginning("cmdstat_").map(|(name, line)| {
        let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)?.parse::<f64>().ok());
        (name, (field("calls=").unwrap_or_default() as u64, field("usec=").unwrap_or_default()))
    })
}

/// The connected clients.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// The doctor's addresses.
    pub own: Vec<String>,
    /// The number of other clients that were active lately.
    pub others: usize,
}

/// Asks the server for its connected clients.
pub fn clients(session: &mut Session) -> Result<Clients, Fault> {
    session.ask_text(&["CLIENT", "LIST"]).map(|list| list_of_clients(&list))
}

fn list_of_clients(list: &str) -> Clients {
    let mut clients = Clients::default();
    for line in list.lines() {
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let is_idle = field("idle").and_then(|idle| idle.parse().ok()).is_some_and(|idle: u64| idle > IDLE_SECONDS_MAX);
        // These flags mark replicas, primaries, connections of MONITOR, subscribers, and blocked clients.
        let does_not_ask = field("flags").is_some_and(|flags| flags.contains(['S', 'M', 'O', 'P', 'b']));
        if field("name") == Some(NAME) {
            clients.own.extend(field("addr").map(str::to_owned));
        } else if !is_idle && !does_not_ask {
            clients.others += 1;
        }
    }
    clients
}

/// Returns the slow log: entries by their number.
pub fn slow_log(session: &mut Session) -> Result<Vec<(i64, SlowCommand)>, Fault> {
    let reply = session.ask(&["SLOWLOG", "GET", ENTRIES])?;
    let Ok((Frame::Array(entries), _)) = decode(&reply) else { return Ok(Vec::new()) };
    Ok(entries.flatten().filter_map(slow_entry).collect())
}

fn slow_entry(entry: Frame<'_>) -> Option<(i64, SlowCommand)> {
    let Frame::Array(mut fields) = entry else { return None };
    let mut number = || match fields.next() {
        Some(Ok(Frame::Integer(number))) => Some(number),
        _ => None,
    };
    let (id, _, time_us) = (number()?, number()?, number()?);
    let Some(Ok(Frame::Array(words))) = fields.next() else { return None };
    let words = words.flatten().filter_map(|word| match word {
        Frame::Bulk(word) => Some(String::from_utf8_lossy(word).into_owned()),
        _ => None,
    });
    let text: String = words.collect::<Vec<_>>().join(" ").chars().take(TEXT_MAX).collect();
    Some((id, SlowCommand { time_us: u64::try_from(time_us).ok()?, text }))
}

/// Returns the entries that were not there before, the slowest first.
pub fn new_entries(before: &[(i64, SlowCommand)], now: Vec<(i64, SlowCommand)>) -> Vec<SlowCommand> {
    let last = before.iter().map(|(id, _)| *id).max();
    let new = now.into_iter().filter(|(id, _)| last.is_none_or(|last| *id > last));
    let mut new: Vec<SlowCommand> = new.map(|(_, entry)| entry).collect();
    new.sort_by_key(|entry| std::cmp::Reverse(entry.time_us));
    new
}

/// Returns the value of `appendfsync`.
pub fn sync_policy(session: &mut Session) -> Result<Option<String>, Fault> {
    let reply = session.ask(&["CONFIG", "GET", "appendfsync"])?;
    let Ok((Frame::Array(pair), _)) = decode(&reply) else { return Ok(None) };
    Ok(match pair.flatten().nth(1) {
        Some(Frame::Bulk(value)) => Some(String::from_utf8_lossy(value).into_owned()),
        _ => None,
    })
}

/// The counts of this machine's TCP segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    sent: u64,
    sent_again: u64,
}

impl Segments {
    /// Returns the share of segments that were sent again; none if none was sent.
    pub fn sent_again_since(self, before: Self) -> Option<f64> {
        let sent = self.sent.checked_sub(before.sent).filter(|sent| *sent > 0)?;
        Some(self.sent_again.saturating_sub(before.sent_again) as f64 / sent as f64)
    }
}

/// Returns the segments that the kernel has counted so far (`/proc/net/snmp`, by RFC 1213).
pub fn tcp_segments() -> Option<Segments> {
    segments(&fs::read_to_string("/proc/net/snmp").ok()?)
}

fn segments(text: &str) -> Option<Segments> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        values.split_whitespace().nth(at)?.parse().ok()
    };
    Some(Segments { sent: value("OutSegs")?, sent_again: value("RetransSegs")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str, own: Own) -> Reading {
        Reading { at: Instant::now(), info: Info::parse(text), own }
    }

    #[test]
    fn the_doctors_own_requests_are_subtracted() {
        let before = reading(
            "total_commands_processed:10\r\ntotal_reads_processed:9\r\ncmdstat_get:calls=5,usec=50\r\n\
             cmdstat_info:calls=1,usec=80,usec_per_call=80.00\r\n",
            Own::default(),
        );
        let commands = HashMap::from([("info".to_owned(), 2), ("get".to_owned(), 5)]);
        let after = reading(
            "total_commands_processed:117\r\ntotal_reads_processed:36\r\ntotal_forks:1\r\nworkers:2\r\naof_enabled:1\r\n\
             cmdstat_get:calls=105,usec=250,usec_per_call=2.38\r\ncmdstat_info:calls=3,usec=240\r\n",
            Own { commands, count: 7, ..Own::default() },
        );
        let evidence = after.since(&before);
        assert_eq!((evidence.traffic.commands, evidence.traffic.reads, evidence.forks.count), (100, 20, 1));
        assert_eq!(evidence.calls, [Calls { name: "get".to_owned(), count: 95, time_us: 190.0 }]);
        assert_eq!((evidence.server.workers, evidence.log.is_on), (2.0, true));
        assert_eq!(after.own_us_since(&before), 160.0);
    }

    #[test]
    fn processor_time_is_that_of_the_thread_that_executes() {
        let before = reading("used_cpu_sys:1.0\r\nused_cpu_user:1.0\r\n", Own::default());
        let of_redis = "used_cpu_sys:2.0\r\nused_cpu_user:3.0\r\nused_cpu_sys_main_thread:1.0\r\nused_cpu_user_main_thread:0.5\r\n";
        assert_eq!(reading(of_redis, Own::default()).busy_since(&before, 2.0), Some(0.75));
        let of_sleeve = "used_cpu_sys:2.0\r\nused_cpu_user:2.0\r\nused_cpu_sys_main_thread:0.0\r\nworkers:2\r\n";
        assert_eq!(reading(of_sleeve, Own::default()).busy_since(&before, 2.0), Some(0.5));
        assert_eq!(reading("", Own::default()).busy_since(&before, 2.0), None);
    }

    #[test]
    fn asking_clients_are_counted() {
        let list = "id=1 addr=1.2.3.4:5 laddr=1.2.3.4:6379 fd=8 name=sleeve-doctor idle=0 flags=N\n\
                    id=2 addr=1.2.3.4:6 name= idle=0 flags=N\nid=3 addr=1.2.3.4:7 name= idle=9 flags=N\n\
                    id=4 addr=1.2.3.4:8 name= idle=0 flags=b\nid=5 addr=1.2.3.4:9 name= idle=1 flags=S\n";
        assert_eq!(list_of_clients(list), Clients { own: vec!["1.2.3.4:5".to_owned()], others: 1 });
    }

    #[test]
    fn segments_are_read_by_their_names() {
        let text = "Ip: a b\nIp: 1 2\nTcp: RtoMin InSegs OutSegs RetransSegs\nTcp: 200 5 1000 10\n";
        let before = segments(text).unwrap();
        let after = segments(&text.replace("1000 10", "1500 20")).unwrap();
        assert_eq!(after.sent_again_since(before), Some(0.02));
        assert_eq!(before.sent_again_since(before), None);
    }

    #[test]
    fn only_new_entries_of_the_slow_log_count() {
        let entry = |id, time_us| (id, SlowCommand { time_us, text: String::new() });
        let new = new_entries(&[entry(3, 9)], vec![entry(5, 10), entry(4, 30), entry(3, 9)]);
        assert_eq!(new.iter().map(|entry| entry.time_us).collect::<Vec<_>>(), [30, 10]);
    }
}
