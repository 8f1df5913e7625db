//! `/metrics`: INFO in Prometheus's text format (its documentation, "Exposition formats", version 0.0.4).
//!
//! `table` says which field is which metric. Here are the metrics that take more than one field, or another command. A key
//! has no metric of its own: Prometheus bears labels that come and go with data least.

pub mod besides;
mod table;

use std::fmt::Write;

use super::info::{Info, number_in, text_in};
use besides::Besides;
use table::Kind::{self, Counter, Gauge, Histogram, Summary};
use table::{NUMBERS, OF_PRIMARY, OLD_UNITS, PARTS, Part, Row, SCALED, WORDS};

/// The phases of a request.
const PHASES: [&str; 5] = ["read", "wait", "execute", "sync", "write"];

/// The labels of the metric that describes the server, with the fields that they show.
const INSTANCE: [&str; 13] = [
    "role",
    "redis_version",
    "redis_build_id",
    "redis_mode",
    "os",
    "maxmemory_policy",
    "tcp_port",
    "run_id",
    "process_id",
    "master_replid",
    "server_name",
    "sleeve_version",
    "io",
];

/// Returns INFO EVERYTHING and the other known facts as metrics. Names that Prometheus's conventions refuse are included if
/// they are asked for.
pub fn text(info: &str, besides: &Besides, with_old_units: bool) -> String {
    let info = Info::new(info);
    let mut out = Out::default();
    out.alone("redis_up", Gauge, "Whether the server answers.", 1.0);
    instance(&mut out, &info, besides);
    let numbers = NUMBERS.iter().chain(OLD_UNITS.iter().filter(|_| with_old_units));
    for (field, metric, kind, help) in numbers {
        out.optional(metric, *kind, help, info.number(field));
    }
    for (field, metric, kind, factor, help) in SCALED {
        out.optional(metric, *kind, help, info.number(field).map(|number| number * factor));
    }
    for (field, word, metric, help) in WORDS {
        out.optional(metric, Gauge, help, info.text(field).map(|text| f64::from(u8::from(text == *word))));
    }
    PARTS.iter().for_each(|part| labelled(&mut out, &info, part));
    phases(&mut out, &info);
    replicas(&mut out, &info);
    primary(&mut out, &info);
    cluster(&mut out, &info);
    percentiles(&mut out, &info);
    asked(&mut out, &info, besides);
    out.text
}

/// The text of the metrics, as it grows.
#[derive(Debug, Default)]
struct Out {
    text: String,
    described: &'static str,
}

impl Out {
    /// Describes a metric, unless the last lines were of the same metric.
    fn describe(&mut self, metric: &'static str, kind: Kind, help: &str) {
        if self.described == metric {
            return;
        }
        self.described = metric;
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
            Kind::Untyped => "untyped",
            Summary => "summary",
            Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
    }

    /// A value with these labels.
    fn value(&mut self, metric: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(metric);
        for (at, (name, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"{}\"", if at == 0 { '{' } else { ',' }, quoted(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn alone(&mut self, metric: &'static str, kind: Kind, help: &str, value: f64) {
        self.describe(metric, kind, help);
        self.value(metric, &[], value);
    }

    fn optional(&mut self, metric: &'static str, kind: Kind, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.alone(metric, kind, help, value);
        }
    }
}

fn instance(out: &mut Out, info: &Info<'_>, besides: &Besides) {
    let labels: Vec<(&str, &str)> = INSTANCE.iter().map(|name| (*name, info.text(name).unwrap_or_default())).collect();
    out.describe("redis_instance_info", Gauge, "What the server is.");
    out.value("redis_instance_info", &labels, 1.0);
    let started = info.number("uptime_in_seconds").map(|uptime_s| besides.now_s - uptime_s);
    out.optional("redis_start_time_seconds", Gauge, "Time of the start.", started);
}

/// Writes `phase_read_usec:1.5` as seconds by phase.
fn phases(out: &mut Out, info: &Info<'_>) {
    let metric = "sleeve_phase_seconds_total";
    for phase in PHASES {
        let Some(time_us) = info.number(&format!("phase_{phase}_usec")) else { continue };
        out.describe(metric, Counter, "Time of requests by phase; divide by receives, sync by replies held.");
        out.value(metric, &[("phase", phase)], time_us * 1e-6);
    }
}

fn labelled(out: &mut Out, info: &Info<'_>, part: &Part) {
    let (beginning, label, number, metric, kind, factor, help) = *part;
    // Databases have a number behind the word, which belongs to the label.
    let is_numbered = beginning == "db";
    let fields: Vec<(&str, &str)> =
        if is_numbered { info.numbered(beginning).collect() } else { info.beginning(beginning).collect() };
    for (name, values) in fields {
        let Some(found) = number_in(values, number) else { continue };
        out.describe(metric, kind, help);
        let name = if is_numbered { format!("{beginning}{name}") } else { name.replace('|', " ") };
        out.value(metric, &[(label, &name)], found * factor);
    }
}

/// Writes `slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0` as metrics of the replica.
fn replicas(out: &mut Out, info: &Info<'_>) {
    let rows = [
        ("offset", "redis_connected_slave_offset_bytes", "Offset that a replica has confirmed."),
        ("lag", "redis_connected_slave_lag_seconds", "Seconds since a replica was heard."),
    ];
    for (number, metric, help) in rows {
        for (_, values) in info.numbered("slave") {
            let Some(found) = number_in(values, number) else { continue };
            let label = |name: &str| text_in(values, name).unwrap_or_default();
            let labels = [("slave_ip", label("ip")), ("slave_port", label("port")), ("slave_state", label("state"))];
            out.describe(metric, Gauge, help);
            out.value(metric, &labels, found);
        }
    }
}

/// Writes whether the cluster serves requests, as this node sees it.
fn cluster(out: &mut Out, info: &Info<'_>) {
    let Some(state) = info.text("cluster_state") else { return };
    out.describe("redis_cluster_state", Gauge, "Whether the cluster serves requests.");
    out.value("redis_cluster_state", &[], f64::from(u8::from(state == "ok")));
}

/// Writes a replica's view of its primary.
fn primary(out: &mut Out, info: &Info<'_>) {
    let (Some(host), Some(port)) = (info.text("master_host"), info.text("master_port")) else { return };
    let labels = [("master_host", host), ("master_port", port)];
    let read_only = [labels[0], labels[1], ("read_only", info.text("slave_read_only").unwrap_or("1"))];
    out.describe("redis_slave_info", Gauge, "What this replica follows.");
    out.value("redis_slave_info", &read_only, 1.0);
    let is_up = f64::from(u8::from(info.text("master_link_status") == Some("up")));
    out.describe("redis_master_link_up", Gauge, "Whether the link to the primary is up.");
    out.value("redis_master_link_up", &labels, is_up);
    for (field, metric, kind, help) in OF_PRIMARY as &[Row] {
        if let Some(number) = info.number(field) {
            out.describe(metric, *kind, help);
            out.value(metric, &labels, number);
        }
    }
}

/// Writes `latency_percentiles_usec_get:p50=1.003,p99=2.1` as a summary. Its sum and count are the command's.
fn percentiles(out: &mut Out, info: &Info<'_>) {
    let metric = "redis_latency_percentiles_usec";
    for (name, values) in info.beginning("latency_percentiles_usec_") {
        let statistics = info.text(&format!("cmdstat_{name}")).unwrap_or_default();
        let (Some(calls), Some(sum)) = (number_in(statistics, "calls"), number_in(statistics, "usec")) else {
            continue;
        };
        out.describe(metric, Summary, "Execution time by command, in microseconds.");
        let command = name.replace('|', " ");
        for (percent, value) in values.split(',').filter_map(|value| value.strip_prefix('p')?.split_once('=')) {
            let (Ok(percent), Ok(value)) = (percent.parse::<f64>(), value.parse::<f64>()) else { continue };
            // The quantile has six digits, because 99.9 percent has no exact representation.
            let quantile = ((percent * 1e4).round() / 1e6).to_string();
            out.value(metric, &[("cmd", &command), ("quantile", &quantile)], value);
        }
        out.value("redis_latency_percentiles_usec_sum", &[("cmd", &command)], sum);
        out.value("redis_latency_percentiles_usec_count", &[("cmd", &command)], calls);
    }
}

/// Writes the metrics that other commands than INFO provide.
fn asked(out: &mut Out, info: &Info<'_>, besides: &Besides) {
    let hottest = besides.hottest_share;
    out.optional("sleeve_hottest_key_ratio", Gauge, "The most used key's share of all uses, lately.", hottest);
    out.optional("redis_config_io_threads", Gauge, "The option io-threads.", besides.io_threads);
    if let Some(slow) = &besides.slow {
        out.alone("redis_slowlog_length", Gauge, "Entries of the slow log.", slow.length);
        out.alone("redis_slowlog_last_id", Gauge, "Number of the last entry of the slow log.", slow.last_id);
        let last = "Execution time of the last entry of the slow log.";
        out.alone("redis_last_slow_execution_duration_seconds", Gauge, last, slow.last_s);
    }
    for (event, at_s, _) in &besides.spikes {
        out.describe("redis_latency_spike_last", Gauge, "Time of the last latency spike by event.");
        out.value("redis_latency_spike_last", &[("event_name", event)], *at_s);
    }
    for (event, _, spike_s) in &besides.spikes {
        out.describe("redis_latency_spike_duration_seconds", Gauge, "Duration of the last latency spike by event.");
        out.value("redis_latency_spike_duration_seconds", &[("event_name", event)], *spike_s);
    }
    for (class, hard, soft, _) in &besides.output_limits {
        let metric = "redis_config_client_output_buffer_limit_bytes";
        out.describe(metric, Gauge, "Limits of clients' output buffers; 0 is no limit.");
        out.value(metric, &[("class", class), ("limit", "hard")], *hard);
        out.value(metric, &[("class", class), ("limit", "soft")], *soft);
    }
    for (class, _, _, time_s) in &besides.output_limits {
        let metric = "redis_config_client_output_buffer_limit_overcome_seconds";
        out.describe(metric, Gauge, "How long a client may be above the soft limit.");
        out.value(metric, &[("class", class), ("limit", "soft")], *time_s);
    }
    for times in &besides.histograms {
        histogram(out, info, times);
    }
}

/// Writes the LATENCY HISTOGRAM of one command.
fn histogram(out: &mut Out, info: &Info<'_>, times: &besides::Times) {
    let metric = "redis_commands_latencies_usec";
    out.describe(metric, Histogram, "Execution time by command, in microseconds.");
    let command = times.command.replace('|', " ");
    for (bound_us, count) in &times.buckets {
        let bound = bound_us.to_string();
        out.value("redis_commands_latencies_usec_bucket", &[("cmd", &command), ("le", &bound)], *count);
    }
    out.value("redis_commands_latencies_usec_bucket", &[("cmd", &command), ("le", "+Inf")], times.calls);
    let statistics = info.text(&format!("cmdstat_{}", times.command)).unwrap_or_default();
    let sum = number_in(statistics, "usec").unwrap_or_default();
    out.value("redis_commands_latencies_usec_sum", &[("cmd", &command)], sum);
    out.value("redis_commands_latencies_usec_count", &[("cmd", &command)], times.calls);
}

/// Returns a label's value.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
