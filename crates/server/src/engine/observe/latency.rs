//! The latency monitor: the latest times at which an event took longer than `latency-monitor-threshold` milliseconds, and how
//! long it took.
//!
//! An event is a name, such as `command` or `expire-cycle`, with the slowest occurrence of each of the latest seconds in
//! which there was one. The code that does the work reports it; nothing is measured here. Any thread may add or read.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// The number of seconds that are remembered for each event.
const SAMPLES_MAX: usize = 160;

/// The slowest occurrence of an event within one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The second, counted from the Unix epoch.
    pub time_s: i64,
    /// The duration in milliseconds.
    pub latency_ms: u64,
}

/// The recorded occurrences of one event.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The samples, oldest first; there is always one.
    pub samples: VecDeque<Sample>,
    /// The greatest duration since the last reset, in milliseconds.
    pub latency_ms_max: u64,
}

/// The events of one engine.
#[derive(Debug, Default)]
pub struct Latency {
    events: Mutex<BTreeMap<&'static str, Series>>,
}

impl Latency {
    /// Remembers that `event` has just taken `latency_ms`.
    pub fn add(&self, event: &'static str, time_s: i64, latency_ms: u64) {
        let mut events = self.events.lock();
        let series = events.entry(event).or_default();
        series.latency_ms_max = series.latency_ms_max.max(latency_ms);
        match series.samples.back_mut() {
            Some(last) if last.time_s == time_s => last.latency_ms = last.latency_ms.max(latency_ms),
            _ => series.samples.push_back(Sample { time_s, latency_ms }),
        }
        if series.samples.len() > SAMPLES_MAX {
            series.samples.pop_front();
        }
    }

    /// Returns all events by name.
    pub fn events(&self) -> BTreeMap<&'static str, Series> {
        self.events.lock().clone()
    }

    /// Returns the recorded occurrences of one event.
    pub fn series(&self, event: &[u8]) -> Option<Series> {
        let events = self.events.lock();
        events.iter().find(|(name, _)| name.as_bytes() == event).map(|(_, series)| series.clone())
    }

    /// Forgets the events for which `is_meant` returns true; returns their number.
    pub fn reset(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|name, _| !is_meant(name));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_each_of_the_latest_seconds_is_kept() {
        let latency = Latency::default();
        for time_s in 0..SAMPLES_MAX as i64 + 10 {
            latency.add("command", time_s, 5);
            latency.add("command", time_s, if time_s == 3 { 99 } else { 7 });
            latency.add("command", time_s, 6);
        }
        let series = latency.series(b"command").expect("it was slow");
        assert_eq!((series.samples.len(), series.latency_ms_max), (SAMPLES_MAX, 99));
        assert_eq!(series.samples[0], Sample { time_s: 10, latency_ms: 7 });
        assert_eq!((latency.reset(|name| name == "fork"), latency.reset(|_| true)), (0, 1));
    }
}
