//! `/metrics`: INFO in Prometheus's text format (its documentation, "Exposition formats", version 0.0.4).
//!
//! The names are those of redis_exporter, so that the dashboards and alerts that people have go on; what only Sleeve has begins
//! with `sleeve_`.

use std::fmt::Write;

use Kind::{Counter, Gauge};

/// What Prometheus may do with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// A field of INFO: its name there, the metric's, what it is.
type Row = (&'static str, &'static str, Kind, &'static str);

/// Fields that hold a number.
const NUMBERS: &[Row] = &[
    ("uptime_in_seconds", "redis_uptime_in_seconds", Gauge, "Seconds since the start."),
    ("connected_clients", "redis_connected_clients", Gauge, "Clients without replicas."),
    ("blocked_clients", "redis_blocked_clients", Gauge, "Clients that wait for a key."),
    ("tracking_clients", "redis_tracking_clients", Gauge, "Clients whose reads are tracked."),
    ("maxclients", "redis_config_maxclients", Gauge, "Most clients at a time."),
    ("used_memory", "redis_memory_used_bytes", Gauge, "Bytes of data and of what serves them."),
    ("used_memory_rss", "redis_memory_used_rss_bytes", Gauge, "Resident memory of the process."),
    ("used_memory_peak", "redis_memory_used_peak_bytes", Gauge, "The most that was used."),
    ("used_memory_overhead", "redis_memory_used_overhead_bytes", Gauge, "What is used beside the data."),
    ("used_memory_dataset", "redis_memory_used_dataset_bytes", Gauge, "What the data use."),
    ("maxmemory", "redis_memory_max_bytes", Gauge, "Bytes above which keys are evicted; 0 is no limit."),
    ("mem_fragmentation_ratio", "redis_mem_fragmentation_ratio", Gauge, "Resident memory by used memory."),
    ("mem_clients_normal", "redis_mem_clients_normal", Gauge, "Bytes that clients take."),
    ("mem_journal", "sleeve_memory_journal_bytes", Gauge, "Bytes of the journal that replicas and the log still need."),
    ("total_connections_received", "redis_connections_received_total", Counter, "Connections so far."),
    ("rejected_connections", "redis_rejected_connections_total", Counter, "Connections beyond maxclients."),
    ("total_commands_processed", "redis_commands_processed_total", Counter, "Commands so far."),
    ("total_reads_processed", "redis_total_reads_processed", Counter, "Receives from clients."),
    ("total_writes_processed", "redis_total_writes_processed", Counter, "Sends to clients."),
    ("phase_replies_held", "sleeve_replies_held_total", Counter, "Replies that waited for the log."),
    ("total_net_input_bytes", "redis_net_input_bytes_total", Counter, "Bytes received."),
    ("total_net_output_bytes", "redis_net_output_bytes_total", Counter, "Bytes sent."),
    ("total_error_replies", "sleeve_error_replies_total", Counter, "Replies that were errors."),
    ("expired_keys", "redis_expired_keys_total", Counter, "Keys whose time was over."),
    ("evicted_keys", "redis_evicted_keys_total", Counter, "Keys that made room for others."),
    ("evicted_clients", "redis_evicted_clients_total", Counter, "Clients that took too much memory."),
    ("keyspace_hits", "redis_keyspace_hits_total", Counter, "Look-ups that found their key."),
    ("keyspace_misses", "redis_keyspace_misses_total", Counter, "Look-ups that did not."),
    ("pubsub_channels", "redis_pubsub_channels", Gauge, "Channels that somebody listens to."),
    ("pubsub_patterns", "redis_pubsub_patterns", Gauge, "Patterns that somebody listens to."),
    ("used_cpu_sys", "redis_cpu_sys_seconds_total", Counter, "CPU time of the kernel for this process."),
    ("used_cpu_user", "redis_cpu_user_seconds_total", Counter, "CPU time of this process."),
    ("loading", "redis_loading_dump_file", Gauge, "Whether data are being loaded."),
    ("rdb_changes_since_last_save", "redis_rdb_changes_since_last_save", Gauge, "Changes that no snapshot has."),
    ("rdb_bgsave_in_progress", "redis_rdb_bgsave_in_progress", Gauge, "Whether a snapshot is being written."),
    ("rdb_last_save_time", "redis_rdb_last_save_timestamp_seconds", Gauge, "When the last snapshot was whole."),
    ("rdb_last_bgsave_time_sec", "redis_rdb_last_bgsave_duration_sec", Gauge, "How long it took."),
    ("aof_enabled", "redis_aof_enabled", Gauge, "Whether there is a log."),
    ("aof_rewrite_in_progress", "redis_aof_rewrite_in_progress", Gauge, "Whether the log is being rewritten."),
    ("aof_current_size", "redis_aof_current_size_bytes", Gauge, "Bytes of the log."),
    ("aof_delayed_fsync", "redis_aof_delayed_fsync_total", Counter, "Times that the disk was waited for."),
    ("connected_slaves", "redis_connected_slaves", Gauge, "Replicas."),
    ("master_repl_offset", "redis_master_repl_offset", Gauge, "Bytes of the replication stream so far."),
    ("slave_repl_offset", "redis_slave_repl_offset", Gauge, "Bytes of the primary's stream that were taken in."),
    ("master_last_io_seconds_ago", "redis_master_last_io_seconds_ago", Gauge, "Seconds since the primary was heard."),
    ("sync_full", "redis_replica_resyncs_full", Counter, "Replicas that were sent all data."),
    ("sync_partial_ok", "redis_replica_partial_resync_accepted", Counter, "Replicas that went on where they were."),
    ("sync_partial_err", "redis_replica_partial_resync_denied", Counter, "Replicas that could not."),
    ("repl_spilled_bytes", "sleeve_replication_spilled_bytes", Gauge, "Bytes for slow replicas that wait in files."),
    (
        "tracking_total_keys",
        "redis_tracking_total_keys",
        Gauge,
        "Keys that are remembered for clients that cache them.",
    ),
];

/// Fields that hold a word: 1 where it is this one.
const WORDS: &[(&str, &str, &str, &str)] = &[
    ("rdb_last_bgsave_status", "ok", "redis_rdb_last_bgsave_status", "Whether the last snapshot could be written."),
    ("aof_last_write_status", "ok", "redis_aof_last_write_status", "Whether the last write to the log could be made."),
    ("aof_last_bgrewrite_status", "ok", "redis_aof_last_bgrewrite_status", "Whether the last rewrite could be made."),
    ("master_link_status", "up", "redis_master_link_up", "Whether the primary is followed."),
];

/// Numbers within a field whose name ends with a label, as `cmdstat_get:calls=1,usec=2`: the field's beginning, the label, the
/// number's name, the metric, what multiplies it, and what it is.
type Part = (&'static str, &'static str, &'static str, &'static str, Kind, f64, &'static str);

const PARTS: &[Part] = &[
    ("cmdstat_", "cmd", "calls", "redis_commands_total", Counter, 1.0, "Calls by command."),
    (
        "cmdstat_",
        "cmd",
        "usec",
        "redis_commands_duration_seconds_total",
        Counter,
        1e-6,
        "Time of execution by command.",
    ),
    (
        "cmdstat_",
        "cmd",
        "rejected_calls",
        "redis_commands_rejected_calls_total",
        Counter,
        1.0,
        "Calls refused unexecuted.",
    ),
    ("cmdstat_", "cmd", "failed_calls", "redis_commands_failed_calls_total", Counter, 1.0, "Calls that failed."),
    ("errorstat_", "err", "count", "redis_errors_total", Counter, 1.0, "Error replies by code."),
    ("db", "db", "keys", "redis_db_keys", Gauge, 1.0, "Keys by database."),
    ("db", "db", "expires", "redis_db_keys_expiring", Gauge, 1.0, "Keys with a deadline by database."),
    ("db", "db", "avg_ttl", "redis_db_avg_ttl_seconds", Gauge, 1e-3, "Their time left on average."),
    ("slave", "slave", "offset", "redis_connected_slave_offset_bytes", Gauge, 1.0, "What a replica has confirmed."),
    ("slave", "slave", "lag", "redis_connected_slave_lag_seconds", Gauge, 1.0, "Seconds since it did."),
];

/// The phases of a request.
const PHASES: [&str; 5] = ["read", "wait", "execute", "sync", "write"];

/// What INFO does not say, as far as it is known.
#[derive(Debug, Default)]
pub struct Besides {
    /// The length of the slow log.
    pub slow: Option<u64>,
    /// The part of all uses of keys that the hottest key has.
    pub hottest_share: Option<f64>,
}

/// The text of INFO EVERYTHING, and what else is known, as metrics. A key has no metric of its own: labels that come and go with
/// data are what Prometheus bears least.
pub fn text(info: &str, besides: &Besides) -> String {
    let mut out = String::new();
    head(&mut out, "redis_up", Gauge, "Whether the server answers.");
    out.push_str("redis_up 1\n");
    let value = |name: &str| info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    head(&mut out, "redis_instance_info", Gauge, "What the server is.");
    let labels = ["role", "redis_version", "sleeve_version", "redis_mode", "os", "run_id", "maxmemory_policy", "io"];
    let labels: Vec<String> =
        labels.iter().map(|name| format!("{name}=\"{}\"", quoted(value(name).unwrap_or_default()))).collect();
    let _ = writeln!(out, "redis_instance_info{{{}}} 1", labels.join(","));
    for (field, metric, kind, help) in NUMBERS {
        if let Some(number) = value(field).and_then(|text| text.parse::<f64>().ok()) {
            head(&mut out, metric, *kind, help);
            let _ = writeln!(out, "{metric} {number}");
        }
    }
    for (field, word, metric, help) in WORDS {
        if let Some(text) = value(field) {
            head(&mut out, metric, Gauge, help);
            let _ = writeln!(out, "{metric} {}", u8::from(text == *word));
        }
    }
    phases(&mut out, value);
    if let Some(share) = besides.hottest_share {
        head(&mut out, "sleeve_hottest_key_ratio", Gauge, "The hottest key's part of all uses of keys, of late.");
        let _ = writeln!(out, "sleeve_hottest_key_ratio {share}");
    }
    if let Some(length) = besides.slow {
        head(&mut out, "redis_slowlog_length", Gauge, "Entries of the slow log.");
        let _ = writeln!(out, "redis_slowlog_length {length}");
    }
    for part in PARTS {
        labelled(&mut out, info, part);
    }
    percentiles(&mut out, info);
    out
}

/// `phase_read_usec:1.5` as seconds by phase.
fn phases<'a>(out: &mut String, value: impl Fn(&str) -> Option<&'a str>) {
    let metric = "sleeve_phase_seconds_total";
    let seconds = |phase| value(&format!("phase_{phase}_usec"))?.parse::<f64>().ok().map(|time_us| time_us * 1e-6);
    let known: Vec<(&str, f64)> = PHASES.iter().filter_map(|phase| Some((*phase, seconds(*phase)?))).collect();
    if !known.is_empty() {
        head(out, metric, Counter, "Time of requests by phase; divide by receives, sync by replies held.");
        known.iter().for_each(|(phase, seconds)| _ = writeln!(out, "{metric}{{phase=\"{phase}\"}} {seconds}"));
    }
}

fn head(out: &mut String, metric: &str, kind: Kind, help: &str) {
    let kind = if kind == Counter { "counter" } else { "gauge" };
    let _ = writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
}

fn labelled(out: &mut String, info: &str, part: &Part) {
    let (beginning, label, number, metric, kind, factor, help) = *part;
    let mut is_first = true;
    for (name, values) in fields(info, beginning) {
        // Databases and replicas have a number behind the word, which belongs to the label.
        let is_numbered = matches!(beginning, "db" | "slave");
        if is_numbered && !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let found = values.split(',').find_map(|value| value.strip_prefix(number)?.strip_prefix('='));
        let Some(found) = found.and_then(|text| text.parse::<f64>().ok()) else { continue };
        if std::mem::take(&mut is_first) {
            head(out, metric, kind, help);
        }
        let name = if is_numbered { format!("{beginning}{name}") } else { name.replace('|', " ") };
        let _ = writeln!(out, "{metric}{{{label}=\"{}\"}} {}", quoted(&name), found * factor);
    }
}

/// `latency_percentiles_usec_get:p50=1.003,p99=2.1` as quantiles.
fn percentiles(out: &mut String, info: &str) {
    let metric = "redis_latency_percentiles_usec";
    let mut is_first = true;
    for (name, values) in fields(info, "latency_percentiles_usec_") {
        for (percent, value) in values.split(',').filter_map(|value| value.strip_prefix('p')?.split_once('=')) {
            let (Ok(percent), Ok(value)) = (percent.parse::<f64>(), value.parse::<f64>()) else { continue };
            if std::mem::take(&mut is_first) {
                head(out, metric, Gauge, "Times of execution by command, in microseconds.");
            }
            let command = quoted(&name.replace('|', " "));
            // To six digits, because 99.9 has no exact hundredth.
            let quantile = (percent * 1e4).round() / 1e6;
            let _ = writeln!(out, "{metric}{{cmd=\"{command}\",quantile=\"{quantile}\"}} {value}");
        }
    }
}

/// The fields whose names begin so: what their names go on with, and their values.
fn fields<'a>(info: &'a str, beginning: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    info.lines().filter_map(move |line| line.trim_end().strip_prefix(beginning)?.split_once(':'))
}

/// A label's value.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.2.0\r\nos:Li\"nux\r\nused_memory:12\r\ndbfilename:x\r\n\
        rdb_last_bgsave_status:err\r\nkeyspace_hits:5\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=9,lag=0\r\n\
        slave_repl_offset:8\r\ncmdstat_get:calls=2,usec=1500000,usec_per_call=1.0,rejected_calls=0,failed_calls=1\r\n\
        cmdstat_config|get:calls=1,usec=3\r\nerrorstat_ERR:count=4\r\ndb0:keys=3,expires=1,avg_ttl=2500\r\n\
        latency_percentiles_usec_get:p50=1.003,p99.9=2.1\r\n\
        phase_read_usec:1500.000\r\nphase_sync_usec:2000000\r\n";

    #[test]
    fn fields_become_metrics_with_labels() {
        let text = text(INFO, &Besides { slow: Some(7), hottest_share: Some(0.25) });
        for line in [
            "redis_up 1",
            "redis_memory_used_bytes 12",
            "# TYPE redis_keyspace_hits_total counter",
            "redis_rdb_last_bgsave_status 0",
            "redis_slave_repl_offset 8",
            "redis_connected_slave_offset_bytes{slave=\"slave0\"} 9",
            "redis_commands_total{cmd=\"get\"} 2",
            "redis_commands_total{cmd=\"config get\"} 1",
            "redis_commands_duration_seconds_total{cmd=\"get\"} 1.5",
            "redis_errors_total{err=\"ERR\"} 4",
            "redis_db_keys{db=\"db0\"} 3",
            "redis_db_avg_ttl_seconds{db=\"db0\"} 2.5",
            "redis_latency_percentiles_usec{cmd=\"get\",quantile=\"0.999\"} 2.1",
            "redis_slowlog_length 7",
            "sleeve_phase_seconds_total{phase=\"read\"} 0.0015",
            "sleeve_phase_seconds_total{phase=\"sync\"} 2",
            "sleeve_hottest_key_ratio 0.25",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(text.contains("os=\"Li\\\"nux\""));
    }

    #[test]
    fn every_metric_is_described_once_and_before_its_values() {
        let text = text(INFO, &Besides::default());
        let mut described = HashSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(described.insert(rest.split(' ').next().unwrap().to_owned()), "{line}");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert!(described.contains(name), "{line}");
            }
        }
    }

    #[test]
    fn a_server_has_every_field_of_the_table_that_does_not_depend_on_its_role() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut asking = super::super::asking::Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        let info = asking.text(&["INFO", "everything"]).unwrap();
        let depends = ["slave_repl_offset", "master_last_io_seconds_ago", "aof_current_size", "aof_delayed_fsync"];
        for (field, ..) in NUMBERS.iter().filter(|(field, ..)| !depends.contains(field)) {
            assert!(info.lines().any(|line| line.starts_with(&format!("{field}:"))), "{field}");
        }
    }
}
