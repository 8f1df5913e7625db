//! The lines of INFO's sections.
//!
//! A line that Redis has is here if this server can report a true value for it: a measured figure, or a zero for an event
//! that does not happen. Lines that would have to be made up are absent (`docs/differences.md` lists them). Shards are read
//! through the command's locks, one at a time unless a transaction holds them all.

use std::sync::atomic::{AtomicU64, Ordering};

use sleeve_wire::commands;

use super::info_aof;
use super::info_writer::Lines;
use crate::acl::Reason;
use crate::config::Opt;
use crate::context::Cx;
use crate::context::eviction;
use crate::engine::Engine;
use crate::engine::cluster::Cluster;
use crate::engine::persistence::purpose::Purpose;
use crate::engine::replication::primary;
use crate::engine::replication::role::{LinkState, LinkStatus};
use crate::engine::replication::{Id, ReplicaState, Replication};
use crate::host::allocator;
use crate::host::clock::Instant;
use crate::host::facts;
use crate::messaging::message::Kind;

/// Writes no lines, for a section that has none yet.
pub fn nothing(_cx: &mut Cx<'_>, _lines: &mut Lines) {}

/// Writes the lines about the program and how it was started.
pub fn server(cx: &mut Cx<'_>, lines: &mut Lines) {
    let (engine, now) = (cx.engine, cx.now);
    let config = &engine.config;
    let uptime_s = (now.monotonic_ms().saturating_sub(engine.identity.started.monotonic_ms())) / 1_000;
    lines.add("redis_version", crate::REDIS_VERSION);
    lines.add("server_name", "sleeve");
    lines.add("sleeve_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_git_sha1", "00000000");
    lines.zeros(&["redis_git_dirty"]);
    lines.add("redis_build_id", concat!("sleeve-", env!("CARGO_PKG_VERSION")));
    lines.add("redis_mode", engine.mode());
    lines.add("os", facts::system_name());
    lines.add("arch_bits", usize::BITS);
    lines.add("monotonic_clock", "POSIX clock_gettime");
    let io = *engine.network.io.lock();
    lines.add("multiplexing_api", io.interface());
    lines.add("io", io.name());
    lines.add("process_id", std::process::id());
    lines.add("process_supervised", "no");
    lines.add("run_id", &engine.identity.run_id);
    lines.add("tcp_port", engine.network.port());
    lines.add("server_time_usec", now.wall_us);
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / 86_400);
    lines.add("hz", engine.rounds_a_second());
    lines.add("configured_hz", config.number(Opt::Hz));
    lines.add("lru_clock", (now.wall_ms() / 1_000) & 0xff_ffff);
    lines.add("executable", facts::executable());
    lines.add("config_file", config.file().map(|file| file.display().to_string()).unwrap_or_default());
    lines.add("io_threads_active", 0);
    lines.add("workers", config.number(Opt::Workers));
    lines.add("workers_retiring", engine.network.crews.retiring());
    if let Some(until_ms) = engine.persistence.waiting.until_ms() {
        lines.add("shutdown_in_milliseconds", until_ms.saturating_sub(now.monotonic_ms()));
    }
}

/// Writes the lines about connected clients.
pub fn clients(cx: &mut Cx<'_>, lines: &mut Lines) {
    let clients = cx.engine.clients.list.all();
    let most = |of: fn(&crate::engine::clients::client_info::ClientInfo) -> usize| {
        clients.iter().map(|client| of(client)).max().unwrap_or(0)
    };
    let watching =
        clients.iter().map(|client| client.multi.watched.load(Ordering::Relaxed)).filter(|watched| *watched != 0);
    lines.add("connected_clients", clients.len().saturating_sub(cx.engine.replication.replicas.len()));
    lines.add("cluster_connections", cx.engine.cluster.get().map_or(0, Cluster::link_count));
    lines.add("maxclients", cx.engine.config.number(Opt::Maxclients));
    lines.add("client_recent_max_input_buffer", most(|client| client.memory.input.load(Ordering::Relaxed)));
    lines.add("client_recent_max_output_buffer", most(|client| client.memory.output.load(Ordering::Relaxed)));
    let waiting = cx.engine.clients.blocking.counts();
    let held = clients.iter().filter(|client| client.status.paused.load(Ordering::Relaxed)).count();
    lines.add("blocked_clients", waiting.clients + held);
    lines.add("tracking_clients", cx.engine.clients.tracking.clients());
    lines.add("pubsub_clients", clients.iter().filter(|client| client.is_listening()).count());
    lines.add("watching_clients", watching.clone().count());
    lines.add("clients_in_timeout_table", waiting.timed);
    lines.add("total_watched_keys", watching.sum::<usize>());
    lines.add("total_blocking_keys", waiting.keys);
    lines.add("total_blocking_keys_on_nokey", waiting.keys_even_gone);
}

/// Writes the lines about the use of memory. `used_memory` is the figure that `maxmemory` is compared with.
pub fn memory(cx: &mut Cx<'_>, lines: &mut Lines) {
    let engine = cx.engine;
    let memory_use = eviction::memory_use(cx);
    let (used_bytes, fixed_bytes) = (memory_use.total(), memory_use.fixed);
    let (resident_bytes, own_bytes) = facts::resident();
    let peak_bytes = engine.observe.rates.peak_bytes(used_bytes);
    let maxmemory = engine.config.memory(Opt::Maxmemory);
    let percent = |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    lines.size("used_memory", used_bytes);
    lines.size("used_memory_rss", resident_bytes);
    lines.size("used_memory_peak", peak_bytes);
    lines.add("used_memory_peak_perc", percent(used_bytes, peak_bytes));
    lines.add("used_memory_overhead", memory_use.overhead());
    lines.add("used_memory_startup", fixed_bytes);
    lines.add("used_memory_dataset", memory_use.data);
    lines.add("used_memory_dataset_perc", percent(memory_use.data, used_bytes - fixed_bytes));
    lines.add("allocator_allocated", used_bytes);
    lines.add("allocator_active", own_bytes);
    lines.add("allocator_resident", own_bytes);
    lines.size("total_system_memory", facts::machine_bytes());
    scripts(engine, lines);
    lines.size("maxmemory", maxmemory);
    lines.add("maxmemory_policy", engine.config.choice(Opt::MaxmemoryPolicy));
    ratio(lines, ["allocator_frag_ratio", "allocator_frag_bytes"], own_bytes, used_bytes);
    ratio(lines, ["allocator_rss_ratio", "allocator_rss_bytes"], own_bytes, own_bytes);
    ratio(lines, ["rss_overhead_ratio", "rss_overhead_bytes"], resident_bytes, own_bytes);
    ratio(lines, ["mem_fragmentation_ratio", "mem_fragmentation_bytes"], resident_bytes, used_bytes);
    let journal = memory_use.journal;
    lines.add("mem_not_counted_for_evict", memory_use.uncounted());
    lines.add("mem_replication_backlog", journal.backlog);
    lines.add("mem_total_replication_buffers", journal.backlog + journal.for_replicas);
    lines.add("mem_clients_slaves", memory_use.for_replicas());
    lines.add("mem_clients_normal", memory_use.clients);
    lines.add("mem_cluster_links", engine.cluster.get().map_or(0, |cluster| cluster.gauges.allocated_bytes()));
    lines.add("mem_aof_buffer", journal.for_log);
    lines.add("mem_journal", journal.held);
    lines.add("mem_tracking", memory_use.tracking);
    lines.add("mem_allocator", allocator::chosen().map_or("unknown", |allocator| allocator.name));
    lines.zeros(&["mem_overhead_db_hashtable_rehashing", "active_defrag_running"]);
    lines.add("lazyfree_pending_objects", engine.keyspace.lazy_free.pending());
    lines.add("lazyfreed_objects", engine.keyspace.lazy_free.done());
}

/// Writes the ratio and the difference of two amounts. Resident memory is the kernel's figure for pages that belong to no
/// file: those of the allocator, whichever it is, and of the store.
fn ratio(lines: &mut Lines, [name, difference]: [&'static str; 2], all: u64, part: u64) {
    lines.add(name, format!("{:.2}", all as f64 / part.max(1) as f64));
    lines.add(difference, all as i64 - part as i64);
}

/// Writes the lines about the memory of scripts and functions, in the Lua states of all threads and beside them.
fn scripts(engine: &Engine, lines: &mut Lines) {
    let (scripts, libraries) = (&engine.scripts, engine.scripts.libraries());
    let eval_bytes = scripts.script_bytes.load(Ordering::Relaxed) as u64;
    let function_bytes = scripts.library_bytes.load(Ordering::Relaxed) as u64;
    let (count, source_bytes) = scripts.size();
    let library_bytes = libraries.bytes() as u64;
    lines.size("used_memory_lua", eval_bytes);
    lines.add("used_memory_vm_eval", eval_bytes);
    lines.add("used_memory_scripts_eval", source_bytes);
    lines.add("number_of_cached_scripts", count);
    lines.add("number_of_functions", libraries.functions_len());
    lines.add("number_of_libraries", libraries.len());
    lines.add("used_memory_vm_functions", function_bytes);
    lines.size("used_memory_vm_total", eval_bytes + function_bytes);
    lines.add("used_memory_functions", library_bytes);
    lines.size("used_memory_scripts", source_bytes as u64 + library_bytes);
}

/// Writes the lines about loading, snapshots and the AOF.
pub fn persistence(cx: &mut Cx<'_>, lines: &mut Lines) {
    let (engine, now) = (cx.engine, cx.now);
    let persistence = &engine.persistence;
    let (snapshots, log) = (persistence.snapshots.status(), persistence.aof.status());
    let progress = &persistence.snapshots.progress;
    let is_running = |purpose: Purpose| snapshots.running.is_some_and(|(running, _)| running == purpose);
    let runs_s = |purpose: Purpose| match snapshots.running {
        Some((running, began)) if running == purpose => {
            now.monotonic_ms().saturating_sub(began.monotonic_ms()) as i64 / 1_000
        }
        _ => -1,
    };
    let took_s = |seconds: Option<u64>| seconds.map_or(-1, |seconds| seconds as i64);
    let status = |is_good: bool| if is_good { "ok" } else { "err" };
    let loading = persistence.loading.status();
    let is_loading = |is_beside: bool| u8::from(loading.is_some_and(|loading| loading.is_beside == is_beside));
    lines.add("loading", is_loading(false));
    lines.add("async_loading", is_loading(true));
    // No pages are copied on write here: the extra memory of a snapshot is the data that waits for its disk.
    lines.add("current_cow_peak", progress.waiting_bytes_max.load(Ordering::Relaxed));
    lines.add("current_cow_size", progress.waits());
    lines.zeros(&["current_cow_size_age"]);
    let of_running = |counter: &AtomicU64| snapshots.running.map_or(0, |_| counter.load(Ordering::Relaxed));
    let (done, all) = (of_running(&progress.keys_done), of_running(&progress.keys_total));
    lines.add("current_fork_perc", format!("{:.2}", done as f64 / all.max(1) as f64 * 100.0));
    lines.add("current_save_keys_processed", done);
    lines.add("current_save_keys_total", all);
    lines.add("rdb_changes_since_last_save", engine.observe.stats.changes().saturating_sub(snapshots.saved_changes));
    lines.add("rdb_bgsave_in_progress", u8::from(is_running(Purpose::File) || is_running(Purpose::Replicas)));
    lines.add("rdb_last_save_time", snapshots.last_save_s);
    lines.add("rdb_last_bgsave_status", status(snapshots.file_ok));
    lines.add("rdb_last_bgsave_time_sec", took_s(snapshots.file_took_s));
    lines.add("rdb_current_bgsave_time_sec", runs_s(Purpose::File));
    lines.add("rdb_saves", snapshots.saves);
    lines.add("rdb_last_cow_size", progress.waiting_bytes_max.load(Ordering::Relaxed));
    lines.add("snapshot_longest_hold_us", progress.longest_hold_ns.load(Ordering::Relaxed) / 1_000);
    let (keys_loaded, keys_expired) = persistence.loading.keys();
    lines.add("rdb_last_load_keys_expired", keys_expired);
    lines.add("rdb_last_load_keys_loaded", keys_loaded);
    lines.add("aof_enabled", u8::from(log.is_open));
    lines.add("aof_rewrite_in_progress", u8::from(is_running(Purpose::Base)));
    lines.add("aof_rewrite_scheduled", u8::from(snapshots.base_scheduled));
    lines.add("aof_last_rewrite_time_sec", took_s(snapshots.base_took_s));
    lines.add("aof_current_rewrite_time_sec", runs_s(Purpose::Base));
    lines.add("aof_last_bgrewrite_status", status(snapshots.base_ok));
    lines.add("aof_rewrites", snapshots.rewrites);
    lines.add("aof_rewrites_consecutive_failures", snapshots.rewrites_failed);
    lines.add("aof_last_write_status", status(!persistence.fails()));
    lines.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
    if log.is_open {
        info_aof::lines(engine, (log, snapshots.base_scheduled), lines);
    }
    if let Some(loading) = loading {
        lines.add("loading_start_time", loading.started_s);
        lines.add("loading_total_bytes", loading.total_bytes);
        lines.add("loading_rdb_used_mem", loading.used_bytes);
        lines.add("loading_loaded_bytes", loading.loaded_bytes);
        lines.add("loading_loaded_perc", format!("{:.2}", loading.percent()));
        lines.add("loading_eta_seconds", loading.eta_s(now.wall_ms() / 1_000));
    }
}

/// Writes counts since the start or the last CONFIG RESETSTAT, and rates.
pub fn stats(cx: &mut Cx<'_>, lines: &mut Lines) {
    let totals = cx.engine.observe.stats.totals();
    let rates = cx.engine.observe.rates.rates();
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1_024.0);
    lines.add("total_connections_received", totals.connections);
    lines.add("total_commands_processed", totals.executed);
    lines.add("instantaneous_ops_per_sec", rates.commands);
    lines.add("total_net_input_bytes", totals.input_bytes);
    lines.add("total_net_output_bytes", totals.output_bytes);
    lines.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    lines.add("instantaneous_input_kbps", kilobytes(rates.input_bytes));
    lines.add("instantaneous_output_kbps", kilobytes(rates.output_bytes));
    lines.add("instantaneous_input_repl_kbps", "0.00");
    lines.add("instantaneous_output_repl_kbps", "0.00");
    lines.add("rejected_connections", totals.connections_rejected);
    let syncs = &cx.engine.replication.replicas.syncs;
    lines.add("sync_full", syncs.full.load(Ordering::Relaxed));
    lines.add("sync_partial_ok", syncs.partial.load(Ordering::Relaxed));
    lines.add("sync_partial_err", syncs.refused.load(Ordering::Relaxed));
    lines.add("expired_keys", totals.expired);
    lines.add("expired_stale_perc", format!("{:.2}", cx.engine.observe.rates.stale_percent()));
    lines.add("expired_time_cap_reached_count", totals.expiry_capped);
    lines.add("expire_cycle_cpu_milliseconds", totals.expiry_us / 1_000);
    lines.add("evicted_keys", totals.evicted);
    lines.add("evicted_clients", totals.clients_evicted);
    let (exceeded_ms, currently_ms) = cx.engine.keyspace.estimate.excess_ms(cx.clock.nanoseconds_after(cx.now));
    lines.add("total_eviction_exceeded_time", exceeded_ms);
    lines.add("current_eviction_exceeded_time", currently_ms);
    lines.add("keyspace_hits", totals.hits);
    lines.add("keyspace_misses", totals.misses);
    lines.add("pubsub_channels", cx.engine.pubsub.len(Kind::Channel));
    lines.add("pubsub_patterns", cx.engine.pubsub.len(Kind::Pattern));
    lines.add("pubsubshard_channels", cx.engine.pubsub.len(Kind::Shard));
    let beginnings = &cx.engine.persistence.snapshots.beginnings;
    lines.add("latest_fork_usec", beginnings.last_hold_us());
    lines.add("total_forks", beginnings.count());
    lines.add("migrate_cached_sockets", cx.engine.network.targets.len());
    lines.add("slave_expires_tracked_keys", cx.engine.replication.own_deadlines.len());
    lines.zeros(&["active_defrag_hits", "active_defrag_misses"]);
    lines.zeros(&["active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time"]);
    lines.zeros(&["current_active_defrag_time"]);
    let (keys, items, prefixes) = cx.engine.clients.tracking.counts();
    lines.add("tracking_total_keys", keys);
    lines.add("tracking_total_items", items);
    lines.add("tracking_total_prefixes", prefixes);
    lines.add("unexpected_error_replies", totals.passed_over);
    lines.add("dump_payload_sanitizations", totals.payloads_checked);
    lines.add("total_error_replies", totals.errors_replied);
    lines.add("total_reads_processed", totals.reads);
    lines.add("total_writes_processed", totals.writes);
    lines.zeros(&["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    lines.add("client_query_buffer_limit_disconnections", totals.query_buffer_closed);
    lines.add("client_output_buffer_limit_disconnections", totals.output_buffer_closed);
    let refused = &cx.engine.acl.log;
    lines.add("acl_access_denied_auth", refused.count(Reason::Auth));
    lines.add("acl_access_denied_cmd", refused.count(Reason::Command));
    lines.add("acl_access_denied_key", refused.count(Reason::Key));
    lines.add("acl_access_denied_channel", refused.count(Reason::Channel));
    lines.add("acl_access_denied_db", refused.count(Reason::Database));
    let microseconds = |ticks| cx.engine.identity.ticker.nanoseconds(ticks) / 1_000;
    lines.add("eventloop_cycles", totals.cycles);
    lines.add("eventloop_duration_sum", microseconds(totals.cycle_ticks));
    lines.add("eventloop_duration_cmd_sum", microseconds(totals.executing_ticks));
    lines.add("instantaneous_eventloop_cycles_per_sec", rates.cycles);
    lines.add("instantaneous_eventloop_duration_usec", microseconds(rates.cycle_ticks / rates.cycles.max(1)));
}

/// Writes the time of the wake-ups of all workers in which they wrote the AOF or did background work, and the greatest
/// figures of one wake-up.
pub fn debug(cx: &mut Cx<'_>, lines: &mut Lines) {
    let (stats, totals) = (&cx.engine.observe.stats, cx.engine.observe.stats.totals());
    let microseconds = |ticks| cx.engine.identity.ticker.nanoseconds(ticks) / 1_000;
    lines.add("eventloop_duration_aof_sum", microseconds(totals.log_ticks));
    lines.add("eventloop_duration_cron_sum", microseconds(totals.background_ticks));
    lines.add("eventloop_duration_max", microseconds(stats.longest_cycle_ticks.load(Ordering::Relaxed)));
    lines.add("eventloop_cmd_per_cycle_max", stats.fullest_cycle.load(Ordering::Relaxed));
}

/// Writes the role, master or replica, and the replicas that it feeds. Its replication offset is the journal's.
pub fn replication(cx: &mut Cx<'_>, lines: &mut Lines) {
    let (engine, now) = (cx.engine, cx.now);
    let Replication { ids, replicas, role, failover, .. } = &engine.replication;
    let shown: Vec<_> = replicas.all().into_iter().filter_map(|replica| Some((replica.state()?, replica))).collect();
    match role.link() {
        Some(link) => replica_fields(engine, &link, now, lines),
        None => lines.add("role", "master"),
    }
    lines.add("connected_slaves", shown.len());
    if let Some(good) = primary::good_replicas(engine, now) {
        lines.add("min_slaves_good_slaves", good);
    }
    for (number, (state, replica)) in shown.iter().enumerate() {
        let lag_s = match state {
            ReplicaState::Online => replica.silent_ms(now.monotonic_ms()) / 1_000,
            ReplicaState::WaitBgsave | ReplicaState::SendBulk => 0,
        };
        let (address, port, offset) = (replica.address(), replica.told.lock().port, replica.acked());
        let state = state.name();
        let line = format!("ip={address},port={port},state={state},offset={offset},lag={lag_s}");
        lines.add(&format!("slave{number}"), line);
    }
    lines.add("master_failover_state", failover.word());
    lines.add("master_replid", ids.id());
    lines.add("master_replid2", ids.second().map_or("0".repeat(Id::LEN), |(id, _)| id.to_string()));
    lines.add("master_repl_offset", engine.journal.end());
    lines.add("second_repl_offset", ids.second().map_or(-1, |(_, end)| end as i64 + 1));
    let backlog = engine.journal.backlog();
    lines.add("repl_backlog_active", u8::from(backlog.is_some()));
    lines.add("repl_backlog_size", engine.config.memory(Opt::ReplBacklogSize));
    // Redis counts bytes from 1.
    lines.add("repl_backlog_first_byte_offset", backlog.map_or(0, |backlog| backlog.start + 1));
    lines.add("repl_backlog_histlen", backlog.map_or(0, |backlog| backlog.len));
    lines.add("repl_spilled_bytes", engine.replication.replicas.spilled.load(Ordering::Relaxed));
}

/// Writes the fields of a replica, in Redis's order.
fn replica_fields(engine: &Engine, link: &LinkStatus, now: Instant, lines: &mut Lines) {
    let now_ms = now.monotonic_ms();
    let seconds_since =
        |then_ms: Option<u64>| then_ms.map_or(-1, |then_ms| (now_ms.saturating_sub(then_ms) / 1_000) as i64);
    let (is_up, is_syncing) = (link.state == LinkState::Connected, link.state == LinkState::Sync);
    let (applied, ahead) = (engine.journal.end(), engine.replication.role.ahead_bytes());
    lines.add("role", "slave");
    lines.add("master_host", &link.primary.host);
    lines.add("master_port", link.primary.port);
    lines.add("master_link_status", if is_up { "up" } else { "down" });
    lines.add("master_last_io_seconds_ago", if is_up { seconds_since(link.heard_ms) } else { -1 });
    lines.add("master_sync_in_progress", i64::from(is_syncing));
    lines.add("slave_read_repl_offset", applied + ahead);
    lines.add("slave_repl_offset", applied);
    if is_syncing {
        let transfer = link.transfer.unwrap_or_default();
        let total = transfer.total_bytes.unwrap_or(0);
        let percent = if total == 0 { 0.0 } else { transfer.read_bytes as f64 * 100.0 / total as f64 };
        lines.add("master_sync_total_bytes", total);
        lines.add("master_sync_read_bytes", transfer.read_bytes);
        lines.add("master_sync_left_bytes", total as i64 - transfer.read_bytes as i64);
        lines.add("master_sync_perc", format!("{percent:.2}"));
        lines.add("master_sync_last_io_seconds_ago", seconds_since(link.heard_ms));
    }
    if !is_up {
        lines.add("master_link_down_since_seconds", seconds_since(link.down_since_ms));
    }
    lines.add("slave_priority", engine.config.number(Opt::ReplicaPriority));
    lines.add("slave_read_only", i64::from(engine.config.flag(Opt::ReplicaReadOnly)));
    lines.add("replica_announced", i64::from(engine.config.flag(Opt::ReplicaAnnounced)));
}

/// Writes the time of requests by phase, in microseconds, all workers together: how long the workers received and parsed
/// requests, and how long requests waited for others that had arrived with them, were executed, had their replies held back
/// for the AOF, and were answered.
pub fn phases(cx: &mut Cx<'_>, lines: &mut Lines) {
    let totals = cx.engine.observe.stats.totals();
    let microseconds = |ticks| format!("{:.3}", cx.engine.identity.ticker.nanoseconds(ticks) as f64 / 1_000.0);
    lines.add("phase_read_usec", microseconds(totals.reading_ticks));
    lines.add("phase_wait_usec", totals.waiting_us);
    lines.add("phase_execute_usec", microseconds(totals.executing_ticks));
    lines.add("phase_sync_usec", totals.syncing_us);
    lines.add("phase_write_usec", microseconds(totals.writing_ticks));
    lines.add("phase_replies_held", totals.replies_held);
}

/// Writes the time on the processors, in seconds.
pub fn cpu(_cx: &mut Cx<'_>, lines: &mut Lines) {
    let (all, main) = (facts::cpu_times(), facts::main_thread_cpu_times());
    let times_us = [
        ("used_cpu_sys", all.system_us),
        ("used_cpu_user", all.user_us),
        ("used_cpu_sys_children", all.children_system_us),
        ("used_cpu_user_children", all.children_user_us),
        ("used_cpu_sys_main_thread", main.system_us),
        ("used_cpu_user_main_thread", main.user_us),
    ];
    for (name, time_us) in times_us {
        lines.add(name, format!("{}.{:06}", time_us / 1_000_000, time_us % 1_000_000));
    }
}

/// Writes the time and the number of calls of each command that was called or refused.
pub fn commands(cx: &mut Cx<'_>, lines: &mut Lines) {
    let totals = cx.engine.observe.stats.totals();
    for (row, totals) in commands::all().iter().zip(&totals.commands) {
        if totals.calls + totals.rejected + totals.failed == 0 {
            continue;
        }
        let elapsed_us = cx.engine.identity.ticker.nanoseconds(totals.elapsed_ticks) / 1_000;
        let each_us = elapsed_us as f64 / totals.calls.max(1) as f64;
        let (calls, rejected, failed) = (totals.calls, totals.rejected, totals.failed);
        let values = format!(
            "calls={calls},usec={elapsed_us},usec_per_call={each_us:.2},rejected_calls={rejected},failed_calls={failed}"
        );
        lines.add(&format!("cmdstat_{}", row.full_name), values);
    }
}

/// Writes percentiles of the execution times of each command that has run.
pub fn latencies(cx: &mut Cx<'_>, lines: &mut Lines) {
    let wanted = cx.engine.config.text(Opt::LatencyTrackingInfoPercentiles).to_vec();
    let wanted = String::from_utf8_lossy(&wanted).into_owned();
    for row in commands::all() {
        let Some(histogram) = cx.engine.observe.stats.latency(row) else { continue };
        let value = |percentile: &str| {
            let time_ns = histogram.value_at_percentile(percentile.parse().unwrap_or(0.0));
            format!("p{percentile}={:.3}", time_ns as f64 / 1_000.0)
        };
        let values: Vec<String> = wanted.split_whitespace().map(value).collect();
        lines.add(&format!("latency_percentiles_usec_{}", row.full_name), values.join(","));
    }
}

/// Writes how often each error was answered, by its first word.
pub fn errors(cx: &mut Cx<'_>, lines: &mut Lines) {
    for (code, count) in cx.engine.observe.stats.totals().errors {
        lines.add(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

/// Writes whether this server is a node of a cluster.
pub fn cluster(cx: &mut Cx<'_>, lines: &mut Lines) {
    lines.add("cluster_enabled", i32::from(cx.engine.cluster.get().is_some()));
}

/// The counts of a database's keys.
#[derive(Debug, Clone, Copy, Default)]
struct Keys {
    all: usize,
    volatile: usize,
    /// The sum of the remaining times, in milliseconds, of the sampled keys that have a deadline, and the number of these
    /// keys.
    left_ms: i64,
    sampled: i64,
}

/// The number of keys that are drawn at random from each shard of a database, to estimate the remaining time of keys with a
/// deadline.
const DRAWS_A_SHARD: usize = 8;

/// Writes the databases that have keys.
pub fn keyspace(cx: &mut Cx<'_>, lines: &mut Lines) {
    let (now_ms, dice) = (cx.now.wall_ms(), cx.dice);
    let mut databases: Vec<Keys> = Vec::new();
    cx.locks.for_each(|shard| {
        databases.resize(databases.len().max(shard.databases()), Keys::default());
        for (number, keys) in databases.iter_mut().enumerate().take(shard.databases()) {
            keys.all += shard.len(number);
            keys.volatile += shard.volatile_len(number);
            let draws = if shard.volatile_len(number) == 0 { 0 } else { DRAWS_A_SHARD };
            let drawn = (0..draws).filter_map(|_| shard.random(number, dice.number())?.deadline());
            for left_ms in drawn.map(|deadline_ms| deadline_ms - now_ms).filter(|left_ms| *left_ms > 0) {
                keys.left_ms = keys.left_ms.saturating_add(left_ms);
                keys.sampled += 1;
            }
        }
    });
    for (number, keys) in databases.iter().enumerate().filter(|(_, keys)| keys.all != 0) {
        let average_ms = keys.left_ms / keys.sampled.max(1);
        lines.add(&format!("db{number}"), format!("keys={},expires={},avg_ttl={average_ms}", keys.all, keys.volatile));
    }
}
