//! The traffic of a link, the latencies of its replies, and the causes of slow ones.
//!
//! Times are taken a batch at a time: when requests are handed to the system, and when replies are taken from it. The time
//! that a request waited before it left is known to within a tick of the system's coarse clock, on which it was issued. Pure
//! data under the link's lock; times are arguments, in microseconds of a clock that does not wrap.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::queue::Entry;
use super::slot::stamps::are_wanted;
use crate::config::event::{Event, SlowCause};
use crate::resp::request::name::Name;

/// The number of significant digits of a latency in the histogram, as Redis and its tools have it.
const DIGITS: u8 = 2;

/// A record of requests that were handed to the system together.
struct Departure {
    /// The number of these requests that are not answered.
    left: usize,
    at_us: u64,
    /// The traffic of the link before they left.
    before: Traffic,
}

/// The traffic of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) replies: u64,
    pub(crate) bytes_received: u64,
    /// The time for which the socket took no more bytes.
    pub(crate) full_us: u64,
}

/// The traffic of a link, and the latencies of its replies.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The departures with unanswered requests, the oldest first.
    departures: VecDeque<Departure>,
    traffic: Traffic,
    /// The time since which the socket takes no more bytes; none if it takes them.
    full_since_us: Option<u64>,
    pub(crate) requests: u64,
    /// The number of bytes that the system has taken.
    pub(crate) bytes_sent: u64,
    /// The number of connections that were made, and below it of those that were lost, and of attempts that failed.
    pub(crate) connections: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    /// The number of requests that left and were lost with their connection.
    pub(crate) unanswered: u64,
    /// The times from a request's departure to its reply's arrival, in microseconds.
    latencies: Option<Box<Histogram<u32>>>,
}

/// A reply that took long.
pub(crate) struct Slow {
    pub(crate) name: Name,
    pub(crate) queued: Duration,
    pub(crate) travelled: Duration,
    pub(crate) cause: SlowCause,
}

impl Slow {
    /// Converts the report to an event.
    pub(crate) fn told(self, endpoint: String) -> Event {
        let Self { name, queued, travelled, cause } = self;
        Event::Slow { endpoint, command: name.to_string(), queued, travelled, cause }
    }

    fn took(&self) -> u64 {
        (self.queued + self.travelled).as_micros() as u64
    }
}

/// The number of bytes that counts as many, if they arrive while a reply is awaited.
const MANY_BYTES: u64 = 1024 * 1024;

impl Ledger {
    /// Notes that `requests` requests are handed to the system now.
    pub(crate) fn departed(&mut self, requests: usize, now_us: u64) {
        if requests > 0 {
            self.requests += requests as u64;
            let before = self.traffic_by(now_us);
            self.departures.push_back(Departure { left: requests, at_us: now_us, before });
        }
    }

    /// Notes that `bytes` bytes arrived now, and with them the replies to the first `count` of these requests. Returns a
    /// report of the first reply that took longer than `slow_us`.
    pub(crate) fn arrived(
        &mut self,
        bytes: usize,
        (answered, count): (&VecDeque<Entry>, usize),
        now_us: u64,
        slow_us: Option<u64>,
    ) -> Option<Slow> {
        let (mut slow, mut position) = (None, 0);
        while position < count
            && let Some(departure) = self.departures.front_mut()
        {
            let together = departure.left.min(count - position);
            departure.left -= together;
            let (at_us, is_over) = (departure.at_us, departure.left == 0);
            if are_wanted() {
                let those = answered.iter().skip(position).take(together);
                those.for_each(|entry| entry.asker.stamp(at_us, now_us));
            }
            if let Some(slow_us) = slow_us
                && slow.is_none()
                && let Some(first) = answered.get(position)
            {
                let before = departure.before;
                let meanwhile = self.since(before, bytes, now_us);
                slow = judge(first, at_us, now_us, meanwhile).filter(|slow| slow.took() >= slow_us);
            }
            if is_over {
                self.departures.pop_front();
            }
            self.record(now_us.saturating_sub(at_us), together);
            position += together;
        }
        self.traffic.replies += count as u64;
        self.traffic.bytes_received += bytes as u64;
        slow
    }

    /// Returns the traffic of the link since `before`, including `bytes` that arrived now.
    fn since(&self, before: Traffic, bytes: usize, now_us: u64) -> Traffic {
        let now = self.traffic_by(now_us);
        Traffic {
            replies: now.replies - before.replies,
            bytes_received: now.bytes_received + bytes as u64 - before.bytes_received,
            full_us: now.full_us - before.full_us,
        }
    }

    fn record(&mut self, travelled_us: u64, count: usize) {
        if self.latencies.is_none() {
            // The library takes this many digits.
            self.latencies = Histogram::new(DIGITS).ok().map(Box::new);
        }
        if let Some(latencies) = &mut self.latencies {
            // The histogram grows to any value that a time can have.
            _ = latencies.record_n(travelled_us.max(1), u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Notes whether the socket takes no more bytes.
    pub(crate) fn full(&mut self, is_full: bool, now_us: u64) {
        match (is_full, self.full_since_us) {
            (true, None) => self.full_since_us = Some(now_us),
            (false, Some(since_us)) => {
                self.traffic.full_us += now_us.saturating_sub(since_us);
                self.full_since_us = None;
            }
            _ => {}
        }
    }

    /// Notes that a connection was made.
    pub(crate) fn connected(&mut self) {
        self.connections += 1;
    }

    /// Notes that the connection was lost, and with it `unanswered` requests that had left.
    pub(crate) fn cut(&mut self, unanswered: usize, now_us: u64) {
        self.departures.clear();
        self.full(false, now_us);
        self.lost += 1;
        self.unanswered += unanswered as u64;
    }

    /// Returns the traffic of the link, as of the last call that noted some.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Returns the traffic of the link up to now.
    fn traffic_by(&self, now_us: u64) -> Traffic {
        let full_us = self.full_since_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
        Traffic { full_us: self.traffic.full_us + full_us, ..self.traffic }
    }

    /// Returns the latencies of replies, in microseconds; none before the first.
    pub(crate) fn latencies(&self) -> Option<&Histogram<u32>> {
        self.latencies.as_deref()
    }

    /// Describes the traffic since the oldest unanswered request left, in words; none if none has left.
    #[cold]
    pub(crate) fn since_oldest(&self, now_us: u64) -> Option<String> {
        let Departure { at_us, before, .. } = self.departures.front()?;
        let waited = Duration::from_micros(now_us.saturating_sub(*at_us));
        let Traffic { replies, bytes_received, .. } = self.since(*before, 0, now_us);
        let came = match (replies, bytes_received) {
            (0, 0) => "nothing has come".to_owned(),
            (0, bytes) => format!("{bytes} bytes of a reply have come"),
            (replies, bytes) => format!("{replies} replies in {bytes} bytes have come"),
        };
        Some(format!("the oldest unanswered request left {waited:.1?} ago, and since then {came}"))
    }

    /// Describes in words for how long the socket has taken no more bytes; none if it takes them.
    #[cold]
    pub(crate) fn fullness(&self, now_us: u64) -> Option<String> {
        let full = Duration::from_micros(now_us.saturating_sub(self.full_since_us?));
        Some(format!("the connection has taken no bytes for {full:.1?}"))
    }
}

/// Returns the report of a slow request that left and was answered at these times, with the link's traffic in between.
fn judge(entry: &Entry, left_us: u64, now_us: u64, meanwhile: Traffic) -> Option<Slow> {
    // An entry with a deadline of its own does not have the time of its issue.
    let waited_ms = ((left_us / 1000) as u32).wrapping_sub(entry.at_ms);
    let queued_ms = if entry.has_deadline || waited_ms > u32::MAX / 2 { 0 } else { waited_ms };
    let (queued, travelled_us) = (Duration::from_millis(queued_ms.into()), now_us.saturating_sub(left_us));
    let travelled = Duration::from_micros(travelled_us);
    let cause = match meanwhile {
        _ if queued > travelled => SlowCause::Queue,
        Traffic { full_us, .. } if full_us > travelled_us / 2 => SlowCause::Link,
        Traffic { bytes_received: received, .. } if received >= MANY_BYTES => SlowCause::Bytes { received },
        Traffic { replies: 0, .. } => SlowCause::Silence,
        Traffic { replies, .. } => SlowCause::Server { replies },
    };
    Some(Slow { name: entry.asker.name()?, queued, travelled, cause })
}

#[cfg(test)]
mod tests {
    use super::super::asker::Asker;
    use super::super::testing::source;
    use super::*;

    /// Notes that the replies to requests that were issued at these times have arrived, with `bytes` bytes.
    fn arrive(ledger: &mut Ledger, bytes: usize, issued_ms: &[u32], now_us: u64) -> Option<Slow> {
        ledger.arrived(bytes, (&answered(issued_ms), issued_ms.len()), now_us, Some(SECOND))
    }

    fn answered(issued_ms: &[u32]) -> VecDeque<Entry> {
        let mut source = source();
        let entry = |&at_ms| Entry {
            asker: Asker::Slot(source.pair(Name::UNKNOWN).0),
            replies: 1,
            selects: false,
            database: 0,
            at_ms,
            has_deadline: false,
            had_left: false,
            length: 10,
        };
        issued_ms.iter().map(entry).collect()
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn each_reply_is_counted_from_the_departure_of_its_request() {
        let mut ledger = Ledger::default();
        ledger.departed(2, SECOND);
        ledger.departed(3, 2 * SECOND);
        arrive(&mut ledger, 5, &[1000], 3 * SECOND);
        arrive(&mut ledger, 5, &[1000; 3], 4 * SECOND);
        let latencies = ledger.latencies().expect("there are some");
        let count = |seconds: u64| latencies.count_at(seconds * SECOND);
        // Two replies of the first departure took two and three seconds; two replies of the second took two.
        assert_eq!((latencies.len(), count(2), count(3)), (4, 3, 1));
        assert!(ledger.since_oldest(5 * SECOND).expect("one has left").contains("3.0s ago"), "one is unanswered");
        ledger.cut(1, 5 * SECOND);
        assert_eq!((ledger.since_oldest(6 * SECOND), ledger.lost, ledger.unanswered), (None, 1, 1));
    }

    #[test]
    fn a_slow_reply_names_the_cause_of_its_wait() {
        let slow = |ledger: &mut Ledger, bytes, issued_ms, now| {
            let slow = arrive(ledger, bytes, &[issued_ms], now * SECOND)?;
            Some((slow.queued.as_secs(), slow.travelled.as_secs(), slow.cause))
        };
        let mut ledger = Ledger::default();
        ledger.departed(1, 10 * SECOND);
        assert_eq!(slow(&mut ledger, 5, 10_000, 10), None, "it is quick");
        ledger.departed(1, 10 * SECOND);
        assert_eq!(slow(&mut ledger, 5, 4_000, 11), Some((6, 1, SlowCause::Queue)));
        ledger.departed(1, 20 * SECOND);
        assert_eq!(slow(&mut ledger, 5, 20_000, 22), Some((0, 2, SlowCause::Silence)));
        ledger.departed(1, 30 * SECOND);
        assert_eq!(slow(&mut ledger, 1 << 21, 30_000, 32), Some((0, 2, SlowCause::Bytes { received: 1 << 21 })));
        ledger.departed(3, 40 * SECOND);
        ledger.full(true, 40 * SECOND);
        ledger.full(false, 43 * SECOND);
        assert_eq!(slow(&mut ledger, 5, 40_000, 44), Some((0, 4, SlowCause::Link)));
        assert_eq!(slow(&mut ledger, 5, 40_000, 48), Some((0, 8, SlowCause::Server { replies: 1 })));
    }
}
