//! INFO as metrics.

use sleeve_server::Local;
use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

use super::besides::{Besides, Slow};
use super::table::NUMBERS;
use super::text;
use crate::serve::http::asking::Asking;

const INFO: &str = "# Server\r\nredis_version:7.2.0\r\nos:Li\"nux\r\nused_memory:12\r\ndbfilename:x\r\nuptime_in_seconds:5\r\n\
    rdb_last_bgsave_status:err\r\nkeyspace_hits:5\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=9,lag=0\r\n\
    master_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:1\r\n\
    slave_repl_offset:8\r\ncmdstat_get:calls=2,usec=1500000,usec_per_call=1.0,rejected_calls=0,failed_calls=1\r\n\
    cmdstat_config|get:calls=1,usec=3\r\nerrorstat_ERR:count=4\r\ndb0:keys=3,expires=1,avg_ttl=2500\r\n\
    latency_percentiles_usec_get:p50=1.003,p99.9=2.1\r\nlatency_percentiles_usec_gone:p50=1\r\n\
    rdb_last_bgsave_time_sec:3\r\nphase_read_usec:1500.000\r\nphase_sync_usec:2000000\r\n";

#[test]
fn fields_become_metrics_with_labels() {
    let slow = Slow { length: 7.0, last_id: 9.0, last_s: 0.5 };
    let text =
        text(INFO, &Besides { slow: Some(slow), hottest_share: Some(0.25), now_s: 105.0, ..Besides::default() }, false);
    for line in [
        "redis_up 1",
        "redis_start_time_seconds 100",
        "redis_memory_used_bytes 12",
        "# TYPE redis_keyspace_hits_total counter",
        "redis_rdb_last_bgsave_status 0",
        "sleeve_rdb_last_bgsave_duration_seconds 3",
        "redis_slave_repl_offset{master_host=\"10.0.0.1\",master_port=\"6379\"} 8",
        "redis_master_link_up{master_host=\"10.0.0.1\",master_port=\"6379\"} 1",
        "redis_connected_slave_offset_bytes{slave_ip=\"127.0.0.1\",slave_port=\"1\",slave_state=\"online\"} 9",
        "redis_commands_total{cmd=\"get\"} 2",
        "redis_commands_total{cmd=\"config get\"} 1",
        "redis_commands_duration_seconds_total{cmd=\"get\"} 1.5",
        "redis_errors_total{err=\"ERR\"} 4",
        "redis_db_keys{db=\"db0\"} 3",
        "redis_db_avg_ttl_seconds{db=\"db0\"} 2.5",
        "# TYPE redis_latency_percentiles_usec summary",
        "redis_latency_percentiles_usec{cmd=\"get\",quantile=\"0.999\"} 2.1",
        "redis_latency_percentiles_usec_sum{cmd=\"get\"} 1500000",
        "redis_latency_percentiles_usec_count{cmd=\"get\"} 2",
        "redis_slowlog_length 7",
        "redis_last_slow_execution_duration_seconds 0.5",
        "sleeve_phase_seconds_total{phase=\"read\"} 0.0015",
        "sleeve_phase_seconds_total{phase=\"sync\"} 2",
        "sleeve_hottest_key_ratio 0.25",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(text.contains("os=\"Li\\\"nux\""));
    assert!(!text.contains("cmd=\"gone\""), "a summary has a sum and a count");
}

/// Returns the text for a server that has done something of most kinds.
fn of_server(with_old_units: bool) -> (String, String) {
    let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
    let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
    let mut local = Local::open(&engine, || {});
    let mut say = |text: &str| local.exchange(text.as_bytes(), &mut Vec::new()).unwrap();
    say("CONFIG SET slowlog-log-slower-than 0 latency-monitor-threshold 1\r\n");
    say("SET a b EX 1000\r\nGET a\r\nGET b\r\nINCR a\r\nEVAL \"for i=1,2000000 do end\" 0\r\n");
    let info = asking.text(&["INFO", "everything"]).unwrap();
    let metrics = text(&info, &Besides::ask(&mut asking), with_old_units);
    (info, metrics)
}

#[test]
fn every_metric_is_described_once_and_before_its_values() {
    for text in [text(INFO, &Besides::default(), true), of_server(true).1] {
        let mut described = HashSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(described.insert(rest.split(' ').next().unwrap().to_owned()), "{line}");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let parts = ["_sum", "_count", "_bucket"];
                let of = parts.iter().filter_map(|end| name.strip_suffix(end));
                assert!(described.contains(name) || of.into_iter().any(|of| described.contains(of)), "{line}");
            }
        }
    }
}

#[test]
fn a_server_has_every_field_of_the_table_that_its_state_has() {
    let (info, metrics) = of_server(false);
    // Fields of a replica, of an AOF, of a node of a cluster, and of an allocator that tells them.
    let depends = ["slave_priority", "aof_current_size", "aof_base_size", "aof_pending_rewrite", "aof_buffer_length"];
    let depends_too = ["aof_pending_bio_fsync", "aof_delayed_fsync"];
    let depends_on_aof = |field: &str| depends_too.contains(&field) || field.starts_with("aof_total_");
    let is_there = |field: &str| info.lines().any(|line| line.starts_with(&format!("{field}:")));
    for (field, metric, ..) in NUMBERS {
        let depends = depends.contains(field) || depends_on_aof(field) || field.starts_with("allocator_");
        let depends = depends || (field.starts_with("cluster_") && *field != "cluster_enabled");
        assert!(depends || is_there(field), "{field}");
        assert_eq!(is_there(field), metrics.contains(&format!("\n{metric} ")), "{metric}");
    }
}

/// Names of redis_exporter that dashboards and alerts use.
const USUAL: &[&str] = &[
    "up",
    "instance_info",
    "start_time_seconds",
    "uptime_in_seconds",
    "connected_clients",
    "blocked_clients",
    "config_maxclients",
    "config_maxmemory",
    "config_io_threads",
    "rejected_connections_total",
    "connections_received_total",
    "memory_used_bytes",
    "memory_max_bytes",
    "memory_used_rss_bytes",
    "memory_used_peak_bytes",
    "memory_used_lua_bytes",
    "memory_used_startup_bytes",
    "memory_used_scripts_bytes",
    "memory_fragmentation_ratio",
    "mem_fragmentation_ratio",
    "mem_fragmentation_bytes",
    "mem_not_counted_for_eviction_bytes",
    "total_system_memory_bytes",
    "commands_processed_total",
    "commands_total",
    "commands_duration_seconds_total",
    "commands_failed_calls_total",
    "commands_rejected_calls_total",
    "commands_latencies_usec_bucket",
    "latency_percentiles_usec",
    "latency_spike_last",
    "latency_spike_duration_seconds",
    "errors_total",
    "keyspace_hits_total",
    "keyspace_misses_total",
    "net_input_bytes_total",
    "net_output_bytes_total",
    "db_keys",
    "db_keys_expiring",
    "db_avg_ttl_seconds",
    "expired_keys_total",
    "evicted_keys_total",
    "connected_slaves",
    "master_repl_offset",
    "replication_backlog_bytes",
    "repl_backlog_is_active",
    "repl_backlog_history_bytes",
    "replica_resyncs_full",
    "replica_partial_resync_accepted",
    "replica_partial_resync_denied",
    "rdb_last_save_timestamp_seconds",
    "rdb_last_bgsave_status",
    "rdb_changes_since_last_save",
    "rdb_bgsave_in_progress",
    "aof_enabled",
    "aof_last_write_status",
    "aof_last_bgrewrite_status",
    "loading_dump_file",
    "slowlog_length",
    "slowlog_last_id",
    "last_slow_execution_duration_seconds",
    "cpu_sys_seconds_total",
    "cpu_user_seconds_total",
    "cpu_sys_children_seconds_total",
    "latest_fork_seconds",
    "pubsub_channels",
    "pubsub_patterns",
    "config_client_output_buffer_limit_bytes",
    "config_client_output_buffer_limit_overcome_seconds",
    "acl_access_denied_auth_total",
    "process_id",
];

/// Names of it that Prometheus's conventions refuse.
const OLD: &[&str] =
    &["rdb_last_bgsave_duration_sec", "aof_current_rewrite_duration_sec", "eviction_exceeded_time_ms_total"];

fn has(metrics: &str, name: &str) -> bool {
    metrics
        .lines()
        .any(|line| line.strip_prefix("redis_").is_some_and(|rest| rest.split(['{', ' ']).next() == Some(name)))
}

#[test]
fn the_names_that_usual_dashboards_and_alerts_use_are_there() {
    let (_, metrics) = of_server(false);
    let missing: Vec<&&str> = USUAL.iter().filter(|name| !has(&metrics, name)).collect();
    assert!(missing.is_empty(), "{missing:?}\n{metrics}");
    let (_, with_old) = of_server(true);
    for name in OLD {
        assert!(!has(&metrics, name) && has(&with_old, name), "{name}");
    }
}

#[test]
fn promtool_finds_nothing_to_say_where_it_is_installed() {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else { return };
    let (_, metrics) = of_server(false);
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Returns the names of the metrics in an expression of PromQL.
fn names_in(expression: &str) -> Vec<&str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("redis_") || word.starts_with("sleeve_")).collect()
}

#[test]
fn the_dashboard_for_grafana_asks_for_nothing_that_is_not_there() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/sleeve.json");
    let dashboard: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (_, metrics) = of_server(false);
    let replica = text(INFO, &Besides { hottest_share: Some(0.5), ..Besides::default() }, false);
    let aof = text("aof_current_size:1\r\naof_base_size:1\r\naof_delayed_fsync:0\r\n", &Besides::default(), false);
    let of = [metrics, replica, aof];
    let is_there = |name: &str| {
        let lines = of.iter().flat_map(|text| text.lines());
        lines.into_iter().any(|line| line.split(['{', ' ']).next() == Some(name))
    };
    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    assert!(expressions.len() > 15, "{expressions:?}");
    for expression in expressions {
        let names = names_in(&expression);
        assert!(!names.is_empty(), "{expression}");
        names.iter().for_each(|name| assert!(is_there(name), "{name} in {expression}"));
    }
}

/// Collects the expressions of a dashboard, with the queries of its variables.
fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| matches!(name.as_str(), "expr" | "query" | "definition")) {
                    Some("prometheus") => {}
                    Some(text) => found.push(text.to_owned()),
                    None => collect(value, found),
                }
            }
        }
        _ => {}
    }
}
