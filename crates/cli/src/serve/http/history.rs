//! The data of the page's charts: a sample a second for five minutes, and one each ten seconds for an hour.
//!
//! The thread of HTTP takes them, watched or not, so that the page shows the past when it is opened. A sample is figures of
//! INFO, as they are or by the second, and percentiles of the execution times of all commands since the sample before. A
//! figure that cannot be known is null. The history takes no more than half a megabyte, and a few hundred microseconds a
//! second.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use sleeve_server::Engine;

use super::asking::Asking;
use super::info::{Info, number_in};

/// The way in which a figure is read.
#[derive(Clone, Copy, Debug)]
enum Read {
    /// The value as it is.
    Present,
    /// The growth of the value for each second.
    Rate,
}
use Read::{Present, Rate};

/// A figure: its name in JSON, the way in which it is read, and the fields of INFO from which it is read.
type Column = (&'static str, Read, fn(&Info<'_>) -> Option<f64>);

const COLUMNS: [Column; 24] = [
    ("commands", Rate, |info| info.number("total_commands_processed")),
    ("errors", Rate, |info| info.number("total_error_replies")),
    ("received", Rate, |info| info.number("total_net_input_bytes")),
    ("sent", Rate, |info| info.number("total_net_output_bytes")),
    ("cpu_system", Rate, |info| info.number("used_cpu_sys")),
    ("cpu_user", Rate, |info| info.number("used_cpu_user")),
    ("clients", Present, |info| info.number("connected_clients")),
    ("blocked", Present, |info| info.number("blocked_clients")),
    ("connections", Rate, |info| info.number("total_connections_received")),
    ("used", Present, |info| info.number("used_memory")),
    ("resident", Present, |info| info.number("used_memory_rss")),
    ("keys", Present, |info| Some(info.sum("db", "keys").unwrap_or(0.0))),
    ("expiring", Present, |info| Some(info.sum("db", "expires").unwrap_or(0.0))),
    ("hits", Rate, |info| info.number("keyspace_hits")),
    ("misses", Rate, |info| info.number("keyspace_misses")),
    ("expired", Rate, |info| info.number("expired_keys")),
    ("evicted", Rate, |info| info.number("evicted_keys")),
    ("unsaved", Present, |info| info.number("rdb_changes_since_last_save")),
    ("aof_bytes", Present, |info| info.number("aof_current_size")),
    ("aof_delayed", Rate, |info| info.number("aof_delayed_fsync")),
    ("journal", Present, |info| info.number("mem_journal")),
    ("stream", Rate, |info| info.number("master_repl_offset")),
    ("replica_behind", Present, replica_behind),
    ("primary_silent", Present, |info| info.number("master_last_io_seconds_ago")),
];

/// The percentiles of execution times, in microseconds, by their names in JSON.
const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p99", 99.0), ("p999", 99.9), ("longest", 100.0)];

const FIGURES: usize = COLUMNS.len() + PERCENTILES.len();

/// The levels of samples: the seconds from sample to sample, and the number that is kept.
const LEVELS: [(&str, u64, usize); 2] = [("fine", 1, 300), ("coarse", 10, 360)];

/// Returns the lag of the slowest replica, in bytes.
fn replica_behind(info: &Info<'_>) -> Option<f64> {
    let own = info.number("master_repl_offset")?;
    let offsets = info.numbered("slave").filter_map(|(_, value)| number_in(value, "offset"));
    offsets.map(|offset| (own - offset).max(0.0)).reduce(f64::max)
}

/// The samples; any thread.
#[derive(Debug, Default)]
pub struct History {
    levels: Mutex<[Level; 2]>,
}

#[derive(Debug, Default)]
struct Level {
    before: Option<Snapshot>,
    samples: VecDeque<HistoryPoint>,
}

/// The figures of a moment.
#[derive(Clone, Debug)]
struct Snapshot {
    at_ms: u64,
    values: [f64; COLUMNS.len()],
    times: Histogram<u64>,
}

#[derive(Debug)]
struct HistoryPoint {
    at_s: u64,
    figures: [f64; FIGURES],
}

impl History {
    /// Takes a sample at this time (milliseconds of the Unix epoch), to be called each second.
    pub fn take(&self, engine: &Arc<Engine>, now_ms: u64) {
        let Ok(text) = Asking::ourselves(engine).text(&["INFO"]) else { return };
        let info = Info::new(&text);
        let values = COLUMNS.map(|(_, _, read)| read(&info).unwrap_or(f64::NAN));
        self.add(&Snapshot { at_ms: now_ms, values, times: engine.observe.stats.latencies() });
    }

    fn add(&self, now: &Snapshot) {
        for (level, (_, period_s, kept)) in self.levels.lock().iter_mut().zip(LEVELS) {
            // The timer may fire a little early.
            let is_due = |before: &Snapshot| now.at_ms + 500 >= before.at_ms + period_s * 1_000;
            match &level.before {
                Some(before) if !is_due(before) => continue,
                Some(before) => {
                    level.samples.push_back(HistoryPoint { at_s: now.at_ms / 1_000, figures: figures(before, now) });
                    let surplus = level.samples.len().saturating_sub(kept);
                    level.samples.drain(..surplus);
                }
                None => {}
            }
            level.before = Some(now.clone());
        }
    }

    /// Returns the names of the figures, and the samples of each level since the time in the query, as the fields of a JSON
    /// object.
    pub fn json(&self, query: &str) -> String {
        let columns = COLUMNS.iter().map(|(name, ..)| *name);
        let names: Vec<&str> = columns.chain(PERCENTILES.iter().map(|(name, _)| *name)).collect();
        let mut text = format!("\"figures\":[\"{}\"]", names.join("\",\""));
        for (level, (name, ..)) in self.levels.lock().iter().zip(LEVELS) {
            let after = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            let after = after.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            let _ = write!(text, ",\"{name}\":[");
            let mut comma = "";
            for sample in level.samples.iter().filter(|sample| sample.at_s > after) {
                let _ = write!(text, "{comma}[{}", sample.at_s);
                comma = ",";
                for figure in sample.figures {
                    let _ =
                        if figure.is_finite() { write!(text, ",{}", rounded(figure)) } else { write!(text, ",null") };
                }
                text.push(']');
            }
            text.push(']');
        }
        text
    }
}

/// Rounds a figure to three digits behind the point, which are enough.
fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

/// Returns the figures of a sample, from the snapshot before and the present one.
fn figures(before: &Snapshot, now: &Snapshot) -> [f64; FIGURES] {
    let mut figures = [f64::NAN; FIGURES];
    let passed_s = now.at_ms.saturating_sub(before.at_ms) as f64 / 1_000.0;
    for (at, (_, read, _)) in COLUMNS.iter().enumerate() {
        let (value, old) = (now.values[at], before.values[at]);
        figures[at] = match read {
            Present => value,
            // A sum that has become less was reset.
            Rate if value >= old && passed_s > 0.0 => (value - old) / passed_s,
            Rate => f64::NAN,
        };
    }
    let mut times = now.times.clone();
    if times.subtract(&before.times).is_ok() && !times.is_empty() {
        for (figure, (_, percent)) in figures[COLUMNS.len()..].iter_mut().zip(PERCENTILES) {
            *figure = times.value_at_percentile(percent) as f64 / 1_000.0;
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sleeve_server::Local;

    use super::*;

    fn told(history: &History, query: &str) -> Value {
        serde_json::from_str(&format!("{{{}}}", history.json(query))).unwrap()
    }

    fn figure(told: &Value, level: &str, row: usize, name: &str) -> Option<f64> {
        let at = told["figures"].as_array().unwrap().iter().position(|own| own == name).unwrap();
        told[level][row][at + 1].as_f64()
    }

    #[test]
    fn rates_and_percentiles_are_of_the_time_between_two_samples() {
        let engine = Engine::new(sleeve_server::Config::default());
        let (history, mut client) = (History::default(), Local::open(&engine, || {}));
        let mut say = |text: &[u8]| client.exchange(text, &mut Vec::new()).unwrap();
        history.take(&engine, 1_000_000);
        say(&b"SET a b\r\nGET a\r\nGET none\r\n".repeat(100));
        history.take(&engine, 1_002_000);
        history.take(&engine, 1_003_000);
        let all = told(&history, "");
        assert_eq!(all["fine"].as_array().unwrap().len(), 2);
        assert_eq!(figure(&all, "fine", 0, "commands"), Some(150.0));
        assert_eq!((figure(&all, "fine", 0, "hits"), figure(&all, "fine", 0, "misses")), (Some(50.0), Some(50.0)));
        assert_eq!((figure(&all, "fine", 0, "keys"), figure(&all, "fine", 0, "clients")), (Some(1.0), Some(1.0)));
        assert!(
            figure(&all, "fine", 0, "p50").is_some()
                && figure(&all, "fine", 0, "p999") <= figure(&all, "fine", 0, "longest")
        );
        // No client has sent a command, this test has not either, and there is no replica.
        assert_eq!((figure(&all, "fine", 1, "commands"), figure(&all, "fine", 1, "p50")), (Some(0.0), None));
        assert_eq!(figure(&all, "fine", 1, "replica_behind"), None);
        assert_eq!(told(&history, "fine=1002")["fine"].as_array().unwrap().len(), 1);
        assert_eq!(told(&history, "fine=1003&coarse=9")["fine"], Value::Array(Vec::new()));
    }

    #[test]
    fn samples_are_kept_for_five_minutes_and_an_hour() {
        let history = History::default();
        let times = Histogram::new_with_bounds(1, 1_000_000_000, 2).unwrap();
        for second in 0..4_000 {
            history.add(&Snapshot {
                at_ms: second * 1_000,
                values: [second as f64; COLUMNS.len()],
                times: times.clone(),
            });
        }
        let all = told(&history, "");
        let (fine, coarse) = (all["fine"].as_array().unwrap(), all["coarse"].as_array().unwrap());
        assert_eq!((fine.len(), fine[0][0].as_u64(), fine[299][0].as_u64()), (300, Some(3_700), Some(3_999)));
        assert_eq!((coarse.len(), coarse[0][0].as_u64(), coarse[359][0].as_u64()), (360, Some(400), Some(3_990)));
        assert_eq!(figure(&all, "coarse", 5, "commands"), Some(1.0));
    }

    #[test]
    fn samples_are_taken_although_the_default_user_may_do_nothing() {
        let engine = Engine::new(sleeve_server::Config::default());
        let mut client = Local::open(&engine, || {});
        client.exchange(b"ACL SETUSER default >secret -@all\r\n", &mut Vec::new()).unwrap();
        let history = History::default();
        (0..3).for_each(|second| history.take(&engine, 1_000 * second));
        assert_eq!(told(&history, "")["fine"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_statistic_that_is_reset_leaves_a_gap() {
        let times = |values: &[u64]| {
            let mut times = Histogram::new_with_bounds(1, 1_000_000_000, 2).unwrap();
            values.iter().for_each(|value| times.record(*value).unwrap());
            times
        };
        let before = Snapshot { at_ms: 0, values: [5.0; COLUMNS.len()], times: times(&[1_000, 2_000]) };
        let now = Snapshot { at_ms: 1_000, values: [1.0; COLUMNS.len()], times: times(&[3_000]) };
        let figures = figures(&before, &now);
        assert!(figures[0].is_nan() && figures[COLUMNS.len()].is_nan());
        assert_eq!(figures[6], 1.0);
    }
}
