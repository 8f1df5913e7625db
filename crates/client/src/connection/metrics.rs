//! The metrics of a connection.
//!
//! The numbers are the ledger's and the pipe's; here they are converted to a form that can be kept and shown. Any thread.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::link::Link;
use crate::config::Endpoint;

/// The purpose of a client's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The connection for the calls of the client itself. In a cluster, and if reads go to replicas, there is one to each
    /// server.
    #[default]
    Shared,
    /// The connection for calls of [`Client::priority`](crate::Client::priority).
    Priority,
    /// The connection for large requests of [`Client::lanes`](crate::Client::lanes).
    Large,
}

impl Role {
    /// Returns its name on the page for Prometheus; the shared connection has no name there.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Priority => Some("priority"),
            Self::Large => Some("large"),
        }
    }
}

/// The metrics of a client's connection since the client was created, and the connection's present state: see
/// [`Client::metrics`](crate::Client::metrics).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// The server at the other end.
    pub endpoint: Endpoint,
    /// The purpose of the connection.
    pub role: Role,
    /// True if there is a connection at the moment.
    pub is_connected: bool,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that were lost.
    pub lost: u64,
    /// Attempts to connect that have failed.
    pub refused: u64,
    /// Requests that have left; a transaction counts as one.
    pub requests: u64,
    /// Requests that were answered.
    pub replies: u64,
    /// Requests that had left and were lost with their connection.
    pub unanswered: u64,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Requests that have left and are not answered yet.
    pub in_flight: u64,
    /// The memory of requests that are not answered, including those that wait to be sent: their bytes, and 128 bytes each
    /// for their entries.
    pub queued_bytes: u64,
    /// Bytes of requests that the system has taken.
    pub bytes_sent: u64,
    /// Bytes of replies that have arrived.
    pub bytes_received: u64,
    /// The times that replies took from the departure of their requests.
    pub latency: Latency,
}

/// The times that replies took: from the moment at which their requests were handed to the system to the moment at which they
/// were taken from it, to two significant digits. Requests that left together count from the same moment, and so do replies
/// that arrived together.
#[derive(Clone, Debug)]
pub struct Latency(Option<Box<Histogram<u32>>>);

impl Latency {
    /// Returns how many replies there were.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.len())
    }

    /// Returns the time that this share of the replies, from 0 to 1, did not exceed: `quantile(0.99)` is p99. Zero without
    /// replies.
    pub fn quantile(&self, share: f64) -> Duration {
        self.time(|histogram| histogram.value_at_quantile(share))
    }

    /// Returns the longest time.
    pub fn max(&self) -> Duration {
        self.time(Histogram::max)
    }

    /// Returns the mean time.
    pub fn mean(&self) -> Duration {
        self.time(|histogram| histogram.mean() as u64)
    }

    fn time(&self, of: impl FnOnce(&Histogram<u32>) -> u64) -> Duration {
        Duration::from_micros(self.0.as_deref().map_or(0, of))
    }
}

impl Metrics {
    /// Returns the metrics as text for Prometheus (exposition format 0.0.4). Every line has these labels and the endpoint;
    /// for any other than the shared connection, also its role.
    pub fn prometheus(&self, labels: &[(&str, &str)]) -> String {
        let endpoint = self.endpoint.to_string();
        let mut named = String::new();
        let role = self.role.label().map(|role| ("role", role));
        for (name, value) in labels.iter().copied().chain([("endpoint", endpoint.as_str())]).chain(role) {
            let comma = if named.is_empty() { "" } else { "," };
            let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            // Writing to a text cannot fail.
            _ = write!(named, "{comma}{name}=\"{value}\"");
        }
        let mut page = String::new();
        for (name, kind, about, value) in [
            ("connected", "gauge", "Whether there is a connection.", u64::from(self.is_connected)),
            ("connections_total", "counter", "Connections that were made.", self.connections),
            ("connections_lost_total", "counter", "Connections that were lost.", self.lost),
            ("connections_refused_total", "counter", "Attempts to connect that have failed.", self.refused),
            ("requests_total", "counter", "Requests that have left.", self.requests),
            ("replies_total", "counter", "Requests that were answered.", self.replies),
            ("unanswered_total", "counter", "Requests that were lost with their connection.", self.unanswered),
            ("timeouts_total", "counter", "Requests whose time was up.", self.timeouts),
            ("in_flight", "gauge", "Requests that have left and are not answered.", self.in_flight),
            ("queued_bytes", "gauge", "Bytes that requests take which are not answered.", self.queued_bytes),
            ("sent_bytes_total", "counter", "Bytes of requests that have left.", self.bytes_sent),
            ("received_bytes_total", "counter", "Bytes of replies that have come.", self.bytes_received),
        ] {
            _ = writeln!(page, "# HELP sleeve_{name} {about}\n# TYPE sleeve_{name} {kind}");
            _ = writeln!(page, "sleeve_{name}{{{named}}} {value}");
        }
        let name = "sleeve_reply_seconds";
        _ = writeln!(page, "# HELP {name} From the departure of a request to its reply.\n# TYPE {name} summary");
        for share in [0.5, 0.9, 0.99, 0.999, 1.0] {
            let seconds = self.latency.quantile(share).as_secs_f64();
            _ = writeln!(page, "{name}{{{named},quantile=\"{share}\"}} {seconds}");
        }
        let count = self.latency.count();
        let sum = self.latency.mean().as_secs_f64() * count as f64;
        _ = writeln!(page, "{name}_sum{{{named}}} {sum}\n{name}_count{{{named}}} {count}");
        page
    }
}

impl Metrics {
    /// Returns the metrics of a connection.
    pub(crate) fn of(link: &Link) -> Self {
        let shared = link.shared.lock();
        let (pipe, ledger) = (&shared.pipe, &shared.ledger);
        let traffic = ledger.traffic();
        Self {
            endpoint: link.config.endpoint.clone(),
            role: Role::Shared,
            is_connected: pipe.is_connected(),
            connections: ledger.connections,
            lost: ledger.lost,
            refused: ledger.refused,
            requests: ledger.requests,
            replies: traffic.replies,
            unanswered: ledger.unanswered,
            timeouts: pipe.timeouts,
            in_flight: pipe.in_flight() as u64,
            queued_bytes: pipe.queue.held as u64,
            bytes_sent: ledger.bytes_sent,
            bytes_received: traffic.bytes_received,
            latency: Latency(ledger.latencies().cloned().map(Box::new)),
        }
    }
}
