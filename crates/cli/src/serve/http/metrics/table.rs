//! The table of metrics: which field of INFO is which metric.
//!
//! The names that begin with `redis_` are those of redis_exporter, so that the dashboards and alerts that people have go on.
//! Some of its counters do not end with `_total`, which Prometheus's conventions ask for; these are declared to be of no
//! type, for which the conventions ask nothing.

use Kind::{Counter, Gauge, Untyped};

/// The type of a metric, which says how Prometheus may use its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A value that may do either; its name says too little or too much.
    Untyped,
    /// Quantiles, a sum and a count.
    Summary,
    /// Counts up to bounds, a sum and a count.
    Histogram,
}

/// A field of INFO: its name there, the metric's name, type and description.
pub type Row = (&'static str, &'static str, Kind, &'static str);

/// Fields that hold a number.
pub const NUMBERS: &[Row] = &[
    // The server.
    ("uptime_in_seconds", "redis_uptime_in_seconds", Gauge, "Seconds since the start."),
    ("process_id", "redis_process_id", Gauge, "Number of the process."),
    ("io_threads_active", "redis_io_threads_active", Gauge, "Whether threads only for I/O run; never here."),
    ("hz", "redis_hz", Gauge, "Background rounds a second."),
    ("configured_hz", "redis_configured_hz", Gauge, "Background rounds a second that are configured."),
    ("workers", "sleeve_workers", Gauge, "Threads that serve clients."),
    // Clients.
    ("connected_clients", "redis_connected_clients", Gauge, "Connected clients without replicas."),
    ("blocked_clients", "redis_blocked_clients", Gauge, "Clients that wait in a blocking command."),
    ("tracking_clients", "redis_tracking_clients", Gauge, "Clients whose reads are tracked."),
    ("pubsub_clients", "redis_pubsub_clients", Gauge, "Clients in subscriber mode."),
    ("watching_clients", "redis_watching_clients", Gauge, "Clients that watch keys."),
    ("clients_in_timeout_table", "redis_clients_in_timeout_table", Gauge, "Clients that wait with a timeout."),
    ("total_watched_keys", "redis_total_watched_keys", Gauge, "Watched keys."),
    ("total_blocking_keys", "redis_total_blocking_keys", Gauge, "Keys that blocked clients wait for."),
    (
        "total_blocking_keys_on_nokey",
        "redis_total_blocking_keys_on_nokey",
        Gauge,
        "Keys whose removal blocked clients wait for.",
    ),
    ("maxclients", "redis_config_maxclients", Gauge, "Maximum number of clients."),
    ("maxclients", "redis_max_clients", Gauge, "Maximum number of clients."),
    (
        "client_recent_max_input_buffer",
        "redis_client_recent_max_input_buffer_bytes",
        Gauge,
        "Largest input buffer of a client now.",
    ),
    (
        "client_recent_max_output_buffer",
        "redis_client_recent_max_output_buffer_bytes",
        Gauge,
        "Largest output buffer of a client now.",
    ),
    // Memory.
    ("used_memory", "redis_memory_used_bytes", Gauge, "Memory used by data, clients and buffers."),
    ("used_memory_rss", "redis_memory_used_rss_bytes", Gauge, "Resident memory of the process."),
    ("used_memory_peak", "redis_memory_used_peak_bytes", Gauge, "Maximum of the used memory."),
    ("used_memory_overhead", "redis_memory_used_overhead_bytes", Gauge, "Used memory that is not data."),
    ("used_memory_startup", "redis_memory_used_startup_bytes", Gauge, "Memory used by an empty server."),
    ("used_memory_dataset", "redis_memory_used_dataset_bytes", Gauge, "Memory used by data."),
    ("used_memory_lua", "redis_memory_used_lua_bytes", Gauge, "Memory used by Lua."),
    ("used_memory_vm_eval", "redis_memory_used_vm_eval_bytes", Gauge, "Memory used by Lua for EVAL."),
    ("used_memory_vm_functions", "redis_memory_used_vm_functions_bytes", Gauge, "Memory used by Lua for functions."),
    ("used_memory_vm_total", "redis_memory_used_vm_total", Untyped, "Memory used by Lua for both, in bytes."),
    ("used_memory_scripts", "redis_memory_used_scripts_bytes", Gauge, "Memory used by scripts and functions."),
    ("used_memory_scripts_eval", "redis_memory_used_scripts_eval_bytes", Gauge, "Memory used by cached scripts."),
    ("used_memory_functions", "redis_memory_used_functions_bytes", Gauge, "Memory used by functions."),
    ("number_of_cached_scripts", "redis_number_of_cached_scripts", Gauge, "Cached scripts."),
    ("number_of_functions", "redis_number_of_functions", Gauge, "Functions."),
    ("number_of_libraries", "redis_number_of_libraries", Gauge, "Libraries of functions."),
    ("maxmemory", "redis_memory_max_bytes", Gauge, "Used memory above which keys are evicted; 0 is no limit."),
    ("maxmemory", "redis_config_maxmemory", Gauge, "Used memory above which keys are evicted; 0 is no limit."),
    ("total_system_memory", "redis_total_system_memory_bytes", Gauge, "Memory of the machine."),
    ("mem_fragmentation_ratio", "redis_mem_fragmentation_ratio", Gauge, "Resident memory by used memory."),
    ("mem_fragmentation_ratio", "redis_memory_fragmentation_ratio", Gauge, "Resident memory by used memory."),
    ("mem_fragmentation_bytes", "redis_mem_fragmentation_bytes", Gauge, "Resident memory less used memory."),
    ("allocator_allocated", "redis_allocator_allocated_bytes", Gauge, "Memory given out by the allocator."),
    ("allocator_active", "redis_allocator_active_bytes", Gauge, "Memory in pages of the allocator that are in use."),
    ("allocator_resident", "redis_allocator_resident_bytes", Gauge, "Resident memory of the allocator."),
    ("allocator_frag_ratio", "redis_allocator_frag_ratio", Gauge, "Active memory by allocated memory."),
    ("allocator_frag_bytes", "redis_allocator_frag_bytes", Gauge, "Active memory less allocated memory."),
    ("allocator_rss_ratio", "redis_allocator_rss_ratio", Gauge, "The allocator's resident memory by its active one."),
    ("allocator_rss_bytes", "redis_allocator_rss_bytes", Gauge, "The allocator's resident memory less its active one."),
    ("mem_clients_normal", "redis_mem_clients_normal", Gauge, "Memory used by clients, in bytes."),
    ("mem_clients_slaves", "redis_mem_clients_slaves", Gauge, "Memory used by replicas, in bytes."),
    (
        "mem_not_counted_for_evict",
        "redis_mem_not_counted_for_eviction_bytes",
        Gauge,
        "Used memory that evicts nothing: what replicas and the AOF have still to take.",
    ),
    (
        "mem_total_replication_buffers",
        "redis_mem_total_replication_buffers_bytes",
        Gauge,
        "Memory used by the replication backlog and by what replicas have still to take.",
    ),
    (
        "mem_overhead_db_hashtable_rehashing",
        "redis_mem_overhead_db_hashtable_rehashing_bytes",
        Gauge,
        "Memory used by tables that are being enlarged.",
    ),
    (
        "mem_journal",
        "sleeve_memory_journal_bytes",
        Gauge,
        "Effects of writes that replicas or the AOF have still to take.",
    ),
    ("lazyfree_pending_objects", "redis_lazyfree_pending_objects", Gauge, "Values that wait to be freed."),
    ("active_defrag_running", "redis_active_defrag_running", Gauge, "Whether memory is being defragmented."),
    ("active_defrag_hits", "redis_defrag_hits", Untyped, "Values that defragmentation has moved."),
    ("active_defrag_misses", "redis_defrag_misses", Untyped, "Values that defragmentation has left."),
    ("active_defrag_key_hits", "redis_defrag_key_hits", Untyped, "Keys that defragmentation has moved."),
    ("active_defrag_key_misses", "redis_defrag_key_misses", Untyped, "Keys that defragmentation has left."),
    // Persistence.
    ("loading", "redis_loading_dump_file", Gauge, "Whether data are being loaded."),
    ("async_loading", "redis_async_loading", Gauge, "Whether data are being loaded while old data are served."),
    ("rdb_changes_since_last_save", "redis_rdb_changes_since_last_save", Gauge, "Changes since the last snapshot."),
    ("rdb_bgsave_in_progress", "redis_rdb_bgsave_in_progress", Gauge, "Whether a snapshot is being written."),
    ("rdb_last_save_time", "redis_rdb_last_save_timestamp_seconds", Gauge, "Time of the last complete snapshot."),
    (
        "rdb_last_bgsave_time_sec",
        "sleeve_rdb_last_bgsave_duration_seconds",
        Gauge,
        "Duration of the last snapshot; -1 before the first.",
    ),
    (
        "rdb_current_bgsave_time_sec",
        "sleeve_rdb_current_bgsave_duration_seconds",
        Gauge,
        "Duration of the running snapshot so far; -1 for none.",
    ),
    ("rdb_saves", "redis_rdb_saves_total", Counter, "Snapshots that were written."),
    ("rdb_last_cow_size", "redis_rdb_last_cow_size_bytes", Gauge, "Memory that the last snapshot had copied."),
    (
        "rdb_last_load_keys_expired",
        "redis_rdb_last_load_expired_keys",
        Gauge,
        "Keys that had expired when data were loaded.",
    ),
    ("rdb_last_load_keys_loaded", "redis_rdb_last_load_loaded_keys", Gauge, "Keys that were loaded."),
    ("aof_enabled", "redis_aof_enabled", Gauge, "Whether there is an AOF."),
    ("aof_rewrite_in_progress", "redis_aof_rewrite_in_progress", Gauge, "Whether the AOF is being rewritten."),
    ("aof_rewrite_scheduled", "redis_aof_rewrite_scheduled", Gauge, "Whether a rewrite of the AOF waits."),
    (
        "aof_last_rewrite_time_sec",
        "sleeve_aof_last_rewrite_duration_seconds",
        Gauge,
        "Duration of the last rewrite; -1 before the first.",
    ),
    (
        "aof_current_rewrite_time_sec",
        "sleeve_aof_current_rewrite_duration_seconds",
        Gauge,
        "Duration of the running rewrite so far; -1 for none.",
    ),
    ("aof_last_cow_size", "redis_aof_last_cow_size_bytes", Gauge, "Memory that the last rewrite had copied."),
    ("aof_current_size", "redis_aof_current_size_bytes", Gauge, "Size of the AOF."),
    ("aof_base_size", "redis_aof_base_size_bytes", Gauge, "Size of the AOF after its last rewrite."),
    ("aof_pending_rewrite", "redis_aof_pending_rewrite", Gauge, "Whether a rewrite waits for a snapshot to end."),
    ("aof_buffer_length", "redis_aof_buffer_length", Gauge, "Bytes that are not written to the AOF yet."),
    ("aof_pending_bio_fsync", "redis_aof_pending_bio_fsync", Gauge, "Syncs of the AOF that wait or run."),
    ("aof_delayed_fsync", "redis_aof_delayed_fsync", Untyped, "Writes that had to wait for a sync of the AOF."),
    (
        "aof_total_written_bytes",
        "sleeve_aof_written_bytes_total",
        Counter,
        "Bytes written to the AOF, without rewrites.",
    ),
    (
        "aof_total_writes",
        "sleeve_aof_writes_total",
        Counter,
        "Units that were written to the AOF: commands, transactions, scripts.",
    ),
    ("aof_total_syncs", "sleeve_aof_syncs_total", Counter, "Syncs of the AOF."),
    ("module_fork_in_progress", "redis_module_fork_in_progress", Gauge, "Whether a module's child runs; never here."),
    ("module_fork_last_cow_size", "redis_module_fork_last_cow_size", Gauge, "Memory that a module's child had copied."),
    // Statistics.
    ("total_connections_received", "redis_connections_received_total", Counter, "Accepted connections."),
    ("rejected_connections", "redis_rejected_connections_total", Counter, "Connections refused at maxclients."),
    ("total_commands_processed", "redis_commands_processed_total", Counter, "Executed commands."),
    ("total_reads_processed", "redis_total_reads_processed", Untyped, "Receives from clients."),
    ("total_writes_processed", "redis_total_writes_processed", Untyped, "Sends to clients."),
    ("io_threaded_reads_processed", "redis_io_threaded_reads_processed", Untyped, "Receives by threads only for I/O."),
    ("io_threaded_writes_processed", "redis_io_threaded_writes_processed", Untyped, "Sends by threads only for I/O."),
    ("phase_replies_held", "sleeve_replies_held_total", Counter, "Replies that waited for the AOF."),
    ("total_net_input_bytes", "redis_net_input_bytes_total", Counter, "Received bytes."),
    ("total_net_output_bytes", "redis_net_output_bytes_total", Counter, "Sent bytes."),
    ("total_net_repl_input_bytes", "redis_net_repl_input_bytes_total", Counter, "Bytes received from the primary."),
    ("total_net_repl_output_bytes", "redis_net_repl_output_bytes_total", Counter, "Bytes sent to replicas."),
    ("total_error_replies", "redis_total_error_replies", Untyped, "Error replies."),
    ("total_error_replies", "sleeve_error_replies_total", Counter, "Error replies."),
    (
        "unexpected_error_replies",
        "redis_unexpected_error_replies",
        Untyped,
        "Errors of a primary's commands on a replica.",
    ),
    ("dump_payload_sanitizations", "redis_dump_payload_sanitizations", Untyped, "Payloads that were checked in depth."),
    ("expired_keys", "redis_expired_keys_total", Counter, "Expired keys."),
    (
        "expired_stale_perc",
        "redis_expired_stale_percentage",
        Gauge,
        "Share of keys that have expired and are still there.",
    ),
    (
        "expired_time_cap_reached_count",
        "redis_expired_time_cap_reached_total",
        Counter,
        "Rounds of active expiry that ended because their time was over.",
    ),
    ("evicted_keys", "redis_evicted_keys_total", Counter, "Evicted keys."),
    ("evicted_clients", "redis_evicted_clients_total", Counter, "Clients closed at maxmemory-clients."),
    ("keyspace_hits", "redis_keyspace_hits_total", Counter, "Look-ups that found their key."),
    ("keyspace_misses", "redis_keyspace_misses_total", Counter, "Look-ups that found no key."),
    ("pubsub_channels", "redis_pubsub_channels", Gauge, "Channels with subscribers."),
    ("pubsub_patterns", "redis_pubsub_patterns", Gauge, "Patterns with subscribers."),
    ("pubsubshard_channels", "redis_pubsubshard_channels", Gauge, "Shard channels with subscribers."),
    ("migrate_cached_sockets", "redis_migrate_cached_sockets_total", Untyped, "Connections that MIGRATE keeps."),
    (
        "slave_expires_tracked_keys",
        "redis_slave_expires_tracked_keys",
        Gauge,
        "Keys with a deadline set by a replica itself.",
    ),
    ("tracking_total_keys", "redis_tracking_total_keys", Gauge, "Keys that are tracked for clients."),
    ("tracking_total_items", "redis_tracking_total_items", Gauge, "Pairs of a tracked key and its client."),
    ("tracking_total_prefixes", "redis_tracking_total_prefixes", Gauge, "Prefixes that clients track."),
    (
        "client_query_buffer_limit_disconnections",
        "redis_client_query_buffer_limit_disconnections_total",
        Counter,
        "Clients closed at client-query-buffer-limit.",
    ),
    (
        "client_output_buffer_limit_disconnections",
        "redis_client_output_buffer_limit_disconnections_total",
        Counter,
        "Clients closed at client-output-buffer-limit.",
    ),
    ("acl_access_denied_auth", "redis_acl_access_denied_auth_total", Counter, "Failed logins."),
    ("acl_access_denied_cmd", "redis_acl_access_denied_cmd_total", Counter, "Commands that an ACL refused."),
    ("acl_access_denied_key", "redis_acl_access_denied_key_total", Counter, "Keys that an ACL refused."),
    ("acl_access_denied_channel", "redis_acl_access_denied_channel_total", Counter, "Channels that an ACL refused."),
    // Replication.
    ("connected_slaves", "redis_connected_slaves", Gauge, "Connected replicas."),
    ("master_repl_offset", "redis_master_repl_offset", Gauge, "Offset in the replication stream."),
    ("second_repl_offset", "redis_second_repl_offset", Gauge, "Offset up to which the former replication ID holds."),
    ("repl_backlog_active", "redis_repl_backlog_is_active", Gauge, "Whether there is a replication backlog."),
    ("repl_backlog_size", "redis_replication_backlog_bytes", Gauge, "Maximum size of the replication backlog."),
    (
        "repl_backlog_first_byte_offset",
        "redis_repl_backlog_first_byte_offset",
        Gauge,
        "Offset at which the backlog begins.",
    ),
    ("repl_backlog_histlen", "redis_repl_backlog_history_bytes", Gauge, "Size of the replication backlog."),
    ("sync_full", "redis_replica_resyncs_full", Untyped, "Full synchronizations of replicas."),
    ("sync_partial_ok", "redis_replica_partial_resync_accepted", Untyped, "Partial synchronizations of replicas."),
    ("sync_partial_err", "redis_replica_partial_resync_denied", Untyped, "Partial synchronizations that were refused."),
    ("repl_spilled_bytes", "sleeve_replication_spilled_bytes", Gauge, "Bytes for slow replicas that wait in files."),
    ("slave_priority", "redis_slave_priority", Gauge, "Priority of this replica in a failover."),
    // The processors.
    ("used_cpu_sys", "redis_cpu_sys_seconds_total", Counter, "CPU time in the kernel."),
    ("used_cpu_user", "redis_cpu_user_seconds_total", Counter, "CPU time in the program."),
    ("used_cpu_sys_children", "redis_cpu_sys_children_seconds_total", Counter, "CPU time of children in the kernel."),
    ("used_cpu_user_children", "redis_cpu_user_children_seconds_total", Counter, "CPU time of children in programs."),
    (
        "used_cpu_sys_main_thread",
        "redis_cpu_sys_main_thread_seconds_total",
        Counter,
        "CPU time of the first thread in the kernel.",
    ),
    (
        "used_cpu_user_main_thread",
        "redis_cpu_user_main_thread_seconds_total",
        Counter,
        "CPU time of the first thread in the program.",
    ),
    // The cluster, as this node sees it.
    ("cluster_enabled", "redis_cluster_enabled", Gauge, "Whether this is a node of a cluster."),
    ("cluster_slots_assigned", "redis_cluster_slots_assigned", Gauge, "Slots with an owner."),
    ("cluster_slots_ok", "redis_cluster_slots_ok", Gauge, "Slots of nodes that work."),
    ("cluster_slots_pfail", "redis_cluster_slots_pfail", Gauge, "Slots of nodes that this node cannot reach."),
    ("cluster_slots_fail", "redis_cluster_slots_fail", Gauge, "Slots of failed nodes."),
    ("cluster_known_nodes", "redis_cluster_known_nodes", Gauge, "Nodes that this node knows, itself included."),
    ("cluster_size", "redis_cluster_size", Gauge, "Primaries with slots."),
    ("cluster_current_epoch", "redis_cluster_current_epoch", Gauge, "Greatest epoch that this node knows."),
    ("cluster_my_epoch", "redis_cluster_my_epoch", Gauge, "Epoch of this node's slots."),
    ("cluster_stats_messages_sent", "redis_cluster_messages_sent_total", Counter, "Packets sent over the bus."),
    (
        "cluster_stats_messages_received",
        "redis_cluster_messages_received_total",
        Counter,
        "Packets received over the bus.",
    ),
];

/// Names of redis_exporter with a unit that Prometheus's conventions refuse: included if they are asked for.
pub const OLD_UNITS: &[Row] = &[
    (
        "rdb_last_bgsave_time_sec",
        "redis_rdb_last_bgsave_duration_sec",
        Gauge,
        "Duration of the last snapshot; -1 before it.",
    ),
    (
        "rdb_current_bgsave_time_sec",
        "redis_rdb_current_bgsave_duration_sec",
        Gauge,
        "Duration of the running snapshot, or -1.",
    ),
    (
        "aof_last_rewrite_time_sec",
        "redis_aof_last_rewrite_duration_sec",
        Gauge,
        "Duration of the last rewrite; -1 before it.",
    ),
    (
        "aof_current_rewrite_time_sec",
        "redis_aof_current_rewrite_duration_sec",
        Gauge,
        "Duration of the running rewrite, or -1.",
    ),
    ("expire_cycle_cpu_milliseconds", "redis_expire_cycle_cpu_time_ms_total", Counter, "Time spent in active expiry."),
    ("total_eviction_exceeded_time", "redis_eviction_exceeded_time_ms_total", Counter, "Time above maxmemory."),
    (
        "current_eviction_exceeded_time",
        "redis_current_eviction_exceeded_time_ms",
        Gauge,
        "Time above maxmemory by now.",
    ),
];

/// Fields that are metrics in another unit, and their factors.
pub const SCALED: &[(&str, &str, Kind, f64, &str)] = &[
    (
        "latest_fork_usec",
        "redis_latest_fork_seconds",
        Gauge,
        1e-6,
        "Time that the last fork took; this server never forks.",
    ),
    (
        "expire_cycle_cpu_milliseconds",
        "sleeve_expire_cycle_seconds_total",
        Counter,
        1e-3,
        "Time spent in active expiry.",
    ),
];

/// Fields that hold a word: the metric is 1 if the field holds this word.
pub const WORDS: &[(&str, &str, &str, &str)] = &[
    ("rdb_last_bgsave_status", "ok", "redis_rdb_last_bgsave_status", "Whether the last snapshot was written."),
    ("aof_last_write_status", "ok", "redis_aof_last_write_status", "Whether the last write to the AOF succeeded."),
    ("aof_last_bgrewrite_status", "ok", "redis_aof_last_bgrewrite_status", "Whether the last rewrite succeeded."),
];

/// Numbers within a field with a name that ends with a label, as `cmdstat_get:calls=1,usec=2`: the field's beginning, the
/// label, the number's name, the metric, its type, its factor, and its description.
pub type Part = (&'static str, &'static str, &'static str, &'static str, Kind, f64, &'static str);

/// The metrics with a label, made of fields with a common beginning.
pub const PARTS: &[Part] = &[
    ("cmdstat_", "cmd", "calls", "redis_commands_total", Counter, 1.0, "Calls by command."),
    ("cmdstat_", "cmd", "usec", "redis_commands_duration_seconds_total", Counter, 1e-6, "Execution time by command."),
    (
        "cmdstat_",
        "cmd",
        "rejected_calls",
        "redis_commands_rejected_calls_total",
        Counter,
        1.0,
        "Calls refused before execution.",
    ),
    ("cmdstat_", "cmd", "failed_calls", "redis_commands_failed_calls_total", Counter, 1.0, "Calls that failed."),
    ("errorstat_", "err", "count", "redis_errors_total", Counter, 1.0, "Error replies by code."),
    ("db", "db", "keys", "redis_db_keys", Gauge, 1.0, "Keys by database."),
    ("db", "db", "expires", "redis_db_keys_expiring", Gauge, 1.0, "Keys with a deadline by database."),
    ("db", "db", "avg_ttl", "redis_db_avg_ttl_seconds", Gauge, 1e-3, "Their average time to live."),
];

/// Fields of a replica about its primary, which is a label.
pub const OF_PRIMARY: &[Row] = &[
    ("slave_repl_offset", "redis_slave_repl_offset", Gauge, "Offset of the primary's stream that was applied."),
    ("master_last_io_seconds_ago", "redis_master_last_io_seconds_ago", Gauge, "Seconds since the primary was heard."),
    ("master_sync_in_progress", "redis_master_sync_in_progress", Gauge, "Whether a full synchronization runs."),
];
