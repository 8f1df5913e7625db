//! A sample of commands as they come, by MONITOR, and the facts that it shows: connections, keys, and the pauses between
//! requests.
//!
//! MONITOR costs a server up to half of its speed, so it runs once, on a thread and a connection of its own, for a second or
//! for some thousand commands.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_wire::arguments::{Args, OwnedArgs, Span};
use sleeve_wire::commands::find;
use sleeve_wire::frame::{Frame, decode};
use sleeve_wire::inline::{quote, split};

use crate::doctor::evidence::{Bursts, MonitorSample, Times};
use crate::endpoint::{Endpoint, Login, exchange};
use crate::shell::connection::{Connection, Target, error_of};

/// The most commands of a sample.
const HEARD_MAX: usize = 2_000;

/// The most bytes of lines that are taken; the lines are kept in memory.
const BYTES_MAX: u64 = 64 << 20;
/// The duration of the sample.
const TIME: Duration = Duration::from_secs(1);
/// The longest duration of the sample, if few commands arrive.
const TIME_MAX: Duration = Duration::from_secs(3);
/// The number of commands below which the sample takes longer.
const FEW: usize = 200;
/// The silence after which the clock is read.
const SILENCE: Duration = Duration::from_millis(50);
/// The least length of a pause, in round trips: the work of a program between two commands of one request is shorter.
const PAUSE_ROUND_TRIPS: f64 = 10.0;
/// The least length of a pause, in microseconds. A machine with other work often holds up a program for less, because it
/// gives a processor away for three or four milliseconds at once.
const PAUSE_US_MIN: f64 = 5_000.0;
/// The time span, in microseconds, below which a sample may have missed connections.
const SPAN_US_MIN: f64 = 200_000.0;
/// The share of the median by which the lengths of similar bursts may differ.
const ALIKE_SHARE: f64 = 0.25;
/// The share of a round trip below which two commands were sent together.
const TOGETHER_SHARE: f64 = 0.5;

/// A command as MONITOR tells it.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The time of its execution, in microseconds.
    at_us: f64,
    /// The address of the client that sent it.
    from: String,
    words: OwnedArgs,
}

/// The commands of a sample.
#[derive(Debug, Default)]
pub struct Take {
    heard: Vec<Heard>,
    /// The bytes that the server sent for the sample.
    pub bytes: u64,
    /// The reason why there is no sample, if the server refuses MONITOR.
    pub refused: Option<String>,
}

/// Starts MONITOR on a thread; the sample arrives on the receiver at its end.
pub fn listen(endpoint: &Endpoint, login: &Login) -> Receiver<Take> {
    let (sender, receiver) = channel();
    let (endpoint, login) = (endpoint.clone(), login.clone());
    thread::spawn(move || {
        let mut take = Take::default();
        if let Err(error) = take.fill(&endpoint, &login) {
            take.refused = Some(format!("MONITOR: {error}"));
        }
        // The receiver is gone if the program ended first.
        _ = sender.send(take);
    });
    receiver
}

impl Take {
    fn fill(&mut self, endpoint: &Endpoint, login: &Login) -> io::Result<()> {
        let mut connection = Connection::open(&Target::Server(endpoint.clone()))?;
        if let Some(stream) = connection.socket() {
            let (requests, count) = login.requests();
            exchange(stream, &requests, count)?;
        }
        let reply = connection.ask(&["MONITOR"])?;
        if let Some(text) = error_of(&reply) {
            return Err(io::Error::other(text));
        }
        if let Some(stream) = connection.socket() {
            stream.set_read_timeout(Some(SILENCE))?;
        }
        let begun = Instant::now();
        loop {
            let time = if self.heard.len() < FEW { TIME_MAX } else { TIME };
            if self.heard.len() >= HEARD_MAX || self.bytes >= BYTES_MAX || begun.elapsed() >= time {
                return Ok(());
            }
            match connection.receive() {
                Ok(frame) => {
                    self.bytes += frame.len() as u64;
                    if let Ok((Frame::Simple(line), _)) = decode(&frame) {
                        self.heard.extend(parse(line));
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the facts about the commands that other addresses than these sent, over a way with such round trips.
    pub fn sample(&self, own: &HashSet<String>, round_trip_us: Times) -> MonitorSample {
        let is_other = |heard: &&Heard| !own.contains(&heard.from) && heard.from != "lua";
        let heard: Vec<&Heard> = self.heard.iter().filter(is_other).collect();
        let mut by_client: HashMap<&str, Vec<&Heard>> = HashMap::new();
        for heard in &heard {
            by_client.entry(&heard.from).or_default().push(heard);
        }
        let (key_count, hottest) = hottest(&heard);
        let is_named = |from: &str| !from.is_empty() && !from.starts_with("unix:");
        let clients = by_client.keys().all(|from| is_named(from)).then(|| equally_busy(&by_client));
        let span_us = heard.last().map_or(0.0, |last| last.at_us) - heard.first().map_or(0.0, |first| first.at_us);
        let clients = clients.filter(|clients| *clients > 0.0 && span_us >= SPAN_US_MIN);
        let bursts = clients.and_then(|_| bursts(&by_client, round_trip_us));
        MonitorSample { clients, key_count, hottest, bursts }
    }
}

/// Reads `1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
fn parse(line: &[u8]) -> Option<Heard> {
    let open = memchr::memchr(b'[', line)?;
    let close = memchr::memmem::find(line, b"] \"")?;
    let at: f64 = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
    let place = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
    let (_, from) = place.split_once(' ')?;
    let (mut bytes, mut spans): (Vec<u8>, Vec<Span>) = (Vec::new(), Vec::new());
    if !split(line.get(close + 2..)?, &mut bytes, &mut spans) {
        return None;
    }
    let words = OwnedArgs::collect(Args::new(&bytes, &spans).iter());
    Some(Heard { at_us: at * 1e6, from: from.to_owned(), words })
}

/// Returns the number of equally busy connections to which these connections correspond.
fn equally_busy(by_client: &HashMap<&str, Vec<&Heard>>) -> f64 {
    let counts: Vec<f64> = by_client.values().map(|heard| heard.len() as f64).collect();
    let (sum, squares) = counts.iter().fold((0.0, 0.0), |(sum, squares), count| (sum + count, squares + count * count));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

/// Returns the number of keys that the commands named, and the key that they named the most.
fn hottest(heard: &[&Heard]) -> (usize, Option<(String, f64)>) {
    let (mut counts, mut total): (HashMap<&[u8], usize>, usize) = (HashMap::new(), 0);
    for heard in heard {
        let args = heard.words.args();
        let Some(row) = args.get(0).and_then(find) else { continue };
        for key in row.key_positions(args).filter_map(|at| args.get(at)) {
            *counts.entry(key).or_default() += 1;
            total += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(key, count)| (*count, std::cmp::Reverse(*key)));
    (total, most.map(|(key, count)| (quoted(key), count as f64 / total as f64)))
}

fn quoted(key: &[u8]) -> String {
    let mut out = Vec::new();
    quote(key, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the bursts between pauses, over all connections; `None` where no client paused.
fn bursts(by_client: &HashMap<&str, Vec<&Heard>>, round_trip_us: Times) -> Option<Bursts> {
    let pause_us = (round_trip_us.p10 * PAUSE_ROUND_TRIPS).max(PAUSE_US_MIN);
    let together_us = round_trip_us.p10 * TOGETHER_SHARE;
    let (mut whole, mut paused_us, mut total_us) = (Vec::new(), 0.0, 0.0);
    let mut names: HashMap<String, usize> = HashMap::new();
    for heard in by_client.values() {
        // The first burst may have begun before the sample, and the last may go on.
        let mut round_trips = None;
        for pair in heard.windows(2) {
            let [before, after] = pair else { continue };
            let gap_us = (after.at_us - before.at_us).max(0.0);
            total_us += gap_us;
            if gap_us > pause_us {
                paused_us += gap_us;
                whole.extend(round_trips.replace(1.0_f64));
            } else if let Some(count) = round_trips.as_mut().filter(|_| gap_us > together_us) {
                *count += 1.0;
            }
            if gap_us <= pause_us {
                let name = after.words.args().get(0).unwrap_or_default().to_ascii_uppercase();
                *names.entry(String::from_utf8_lossy(&name).into_owned()).or_default() += 1;
            }
        }
    }
    let command = names.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name).unwrap_or_default();
    let (count, round_trips) = (whole.len(), Times::of(whole.clone()).p50);
    let alike = whole.iter().filter(|length| (*length - round_trips).abs() <= round_trips * ALIKE_SHARE).count();
    let alike_share = alike as f64 / count as f64;
    (count > 0).then(|| Bursts { count, round_trips, alike_share, pause_share: paused_us / total_us, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lines: impl IntoIterator<Item = (u64, &'static str, String)>) -> Take {
        let line = |(at_us, from, words): (u64, &str, String)| {
            parse(format!("{}.{:06} [0 {from}] {words}", at_us / 1_000_000, at_us % 1_000_000).as_bytes()).unwrap()
        };
        Take { heard: lines.into_iter().map(line).collect(), ..Take::default() }
    }

    fn way(round_trip_us: f64) -> Times {
        Times::of(vec![round_trip_us; 9])
    }

    #[test]
    fn a_line_of_monitor_is_read() {
        let heard = parse(br#"1339518083.107412 [3 [::1]:60866] "set" "a\x00 \"b" "[1] \"""#).unwrap();
        assert_eq!((heard.from.as_str(), heard.at_us), ("[::1]:60866", 1_339_518_083_107_412.0));
        let words: Vec<&[u8]> = heard.words.args().iter().collect();
        assert_eq!(words, [&b"set"[..], b"a\0 \"b", b"[1] \""]);
        for bad in [&b"OK"[..], b"1.0 [0 a] \"x", b"x [0 a] \"x\"", b"1.0 [0] \"x\"", b"1.0 ] \"[0 a"] {
            assert!(parse(bad).is_none(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn the_key_that_is_named_the_most_is_found_among_others() {
        let lines = (0..100).map(|at| {
            let key = if at % 4 == 0 { format!("k{at}") } else { "hot one".to_owned() };
            (at * 10_000, "a:1", format!(r#""MGET" "{key}" "other:{at}""#))
        });
        let sample = take(lines).sample(&HashSet::new(), way(40.0));
        assert_eq!((sample.key_count, sample.clients), (200, Some(1.0)));
        assert_eq!(sample.hottest, Some(("\"hot one\"".to_owned(), 0.375)));
    }

    #[test]
    fn the_doctor_and_scripts_do_not_count() {
        let lines = [(1, "a:1", "\"GET\" \"a\""), (2, "b:1", "\"EXISTS\" \"b\""), (3, "lua", "\"GET\" \"c\"")];
        let take = take(lines.map(|(at, from, words)| (at, from, words.to_owned())));
        let sample = take.sample(&HashSet::from(["b:1".to_owned()]), way(40.0));
        assert_eq!((sample.key_count, sample.clients), (1, None), "that was too short to know the connections");
    }

    #[test]
    fn pauses_part_one_request_from_the_next() {
        // Ten round trips of 400 us, the second of each two commands sent together, then 20 ms of other work.
        let lines = (0..12_u64).flat_map(|request| {
            (0..10_u64).flat_map(move |trip| {
                let at = request * 24_000 + trip * 400;
                [(at, "a:1", "\"get\" \"k\"".to_owned()), (at + 10, "a:1", "\"get\" \"l\"".to_owned())]
            })
        });
        let sample = take(lines).sample(&HashSet::new(), way(400.0));
        let bursts = sample.bursts.unwrap();
        assert_eq!((bursts.count, bursts.round_trips, bursts.command.as_str()), (10, 10.0, "GET"));
        assert_eq!(bursts.alike_share, 1.0);
        assert!((0.8..0.9).contains(&bursts.pause_share), "{bursts:?}");
        let flowing = (0..600_u64).map(|at| (at * 400, "a:1", "\"get\" \"k\"".to_owned()));
        assert_eq!(take(flowing).sample(&HashSet::new(), way(400.0)).bursts, None);
    }
}
