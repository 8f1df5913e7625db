//! The data that metrics need in addition to INFO, asked as the user of the request. Data that this user may not read are
//! missing.

use std::time::{SystemTime, UNIX_EPOCH};

use sleeve_wire::frame::{Frame, Items, decode};

use crate::serve::http::asking::Asking;
use crate::serve::http::status;

/// Facts that INFO does not tell, as far as they are known.
#[derive(Debug, Default)]
pub struct Besides {
    /// The wall clock, in seconds.
    pub now_s: f64,
    /// The slow log.
    pub slow: Option<Slow>,
    /// The share of all uses of keys that the hottest key has.
    pub hottest_share: Option<f64>,
    /// The option `io-threads`.
    pub io_threads: Option<f64>,
    /// The output buffer limits: class of client, hard and soft limit in bytes, and seconds above the soft one.
    pub output_limits: Vec<(String, f64, f64, f64)>,
    /// The latency spikes (LATENCY LATEST): event, time in seconds, and duration in seconds.
    pub spikes: Vec<(String, f64, f64)>,
    /// The histograms of execution times (LATENCY HISTOGRAM).
    pub histograms: Vec<Times>,
}

/// The slow log in numbers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Slow {
    /// The number of entries.
    pub length: f64,
    /// The number of the newest entry.
    pub last_id: f64,
    /// The duration of the newest entry's command, in seconds.
    pub last_s: f64,
}

/// The execution times of one command.
#[derive(Debug)]
pub struct Times {
    /// The name of the command, as INFO writes it.
    pub command: String,
    /// The number of calls.
    pub calls: f64,
    /// The buckets: microseconds, and the number of calls that took no longer.
    pub buckets: Vec<(i64, f64)>,
}

impl Besides {
    /// Asks for all of it.
    pub fn ask(asking: &mut Asking) -> Self {
        Self {
            now_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64().round()),
            slow: slow(asking),
            hottest_share: status::hottest_share(asking),
            io_threads: option(asking, "io-threads").and_then(|value| value.parse().ok()),
            output_limits: option(asking, "client-output-buffer-limit").map(|value| limits(&value)).unwrap_or_default(),
            spikes: asking.ask(&["LATENCY", "LATEST"]).map(|reply| spikes(&reply)).unwrap_or_default(),
            histograms: asking.ask(&["LATENCY", "HISTOGRAM"]).map(|reply| histograms(&reply)).unwrap_or_default(),
        }
    }
}

fn slow(asking: &mut Asking) -> Option<Slow> {
    let reply = asking.ask(&["SLOWLOG", "LEN"]).ok()?;
    let Ok((Frame::Integer(length), _)) = decode(&reply) else { return None };
    let reply = asking.ask(&["SLOWLOG", "GET", "1"]).ok()?;
    let mut slow = Slow { length: length as f64, ..Slow::default() };
    if let Ok((Frame::Array(mut entries), _)) = decode(&reply)
        && let Some(Ok(Frame::Array(fields))) = entries.next()
        && let [id, _, time_us, ..] = numbers(fields).as_slice()
    {
        (slow.last_id, slow.last_s) = (*id, time_us * 1e-6);
    }
    Some(slow)
}

/// Returns an option's value, if this user may ask for it.
fn option(asking: &mut Asking, name: &str) -> Option<String> {
    let reply = asking.ask(&["CONFIG", "GET", name]).ok()?;
    let Ok((Frame::Array(pair), _)) = decode(&reply) else { return None };
    pair.filter_map(Result::ok).nth(1).and_then(|value| bulk(&value))
}

/// Reads `normal 0 0 0 slave 268435456 67108864 60 …`.
fn limits(value: &str) -> Vec<(String, f64, f64, f64)> {
    let words: Vec<&str> = value.split(' ').collect();
    let number = |text: &str| text.parse::<f64>().ok();
    let one = |four: &[&str]| match four {
        [class, hard, soft, time] => Some(((*class).to_owned(), number(hard)?, number(soft)?, number(time)?)),
        _ => None,
    };
    words.chunks(4).filter_map(one).collect()
}

fn spikes(reply: &[u8]) -> Vec<(String, f64, f64)> {
    let Ok((Frame::Array(events), _)) = decode(reply) else { return Vec::new() };
    let one = |frame: Frame<'_>| {
        let Frame::Array(mut fields) = frame else { return None };
        let name = bulk(&fields.next()?.ok()?)?;
        let [at_s, spike_ms, ..] = numbers(fields)[..] else { return None };
        Some((name, at_s, spike_ms * 1e-3))
    };
    events.filter_map(Result::ok).filter_map(one).collect()
}

/// Reads `get: [calls, 2, histogram_usec, [1, 1, 2, 2]]` for each command.
fn histograms(reply: &[u8]) -> Vec<Times> {
    let Ok((Frame::Array(pairs), _)) = decode(reply) else { return Vec::new() };
    let pairs: Vec<Frame<'_>> = pairs.filter_map(Result::ok).collect();
    let one = |pair: &[Frame<'_>]| {
        let [name, Frame::Array(fields)] = pair else { return None };
        let fields: Vec<Frame<'_>> = (*fields).filter_map(Result::ok).collect();
        let [_, Frame::Integer(calls), _, Frame::Array(buckets)] = fields.as_slice() else { return None };
        let buckets = numbers(*buckets).chunks_exact(2).map(|pair| (pair[0] as i64, pair[1])).collect();
        Some(Times { command: bulk(name)?, calls: *calls as f64, buckets })
    };
    pairs.chunks(2).filter_map(one).collect()
}

fn numbers(items: Items<'_>) -> Vec<f64> {
    let number = |frame| if let Frame::Integer(number) = frame { Some(number as f64) } else { None };
    items.filter_map(Result::ok).filter_map(number).collect()
}

fn bulk(frame: &Frame<'_>) -> Option<String> {
    if let Frame::Bulk(text) | Frame::Simple(text) = frame {
        Some(String::from_utf8_lossy(text).into_owned())
    } else {
        None
    }
}
