//! Options of Redis that steer what is not here. A configuration file that was written for Redis starts this server all the
//! same: what such a line asks for, nobody who talks to the server can miss, so it is passed over, and the log says so. An
//! option that promises what is not kept (`appendonly yes`, `replicaof`, `cluster-enabled yes`) is not among them. CONFIG SET
//! asks nobody here: it answers an error.

const SNAPSHOTS: &str = "there are no snapshots yet";
const LOG: &str = "there is no append-only file yet";
const REPLICAS: &str = "there are no replicas yet";
const PROCESS: &str = "this server steers its process in other ways";
const TABLES: &str = "tables grow with the commands that fill them";

/// Names, and why they have no effect.
const ABSENT: &[(&str, &str)] = &[
    ("save", SNAPSHOTS),
    ("stop-writes-on-bgsave-error", SNAPSHOTS),
    ("rdb-del-sync-files", SNAPSHOTS),
    ("rdb-save-incremental-fsync", SNAPSHOTS),
    ("sanitize-dump-payload", "every payload is checked"),
    ("appendfilename", LOG),
    ("appenddirname", LOG),
    ("appendfsync", LOG),
    ("no-appendfsync-on-rewrite", LOG),
    ("auto-aof-rewrite-percentage", LOG),
    ("auto-aof-rewrite-min-size", LOG),
    ("aof-load-truncated", LOG),
    ("aof-use-rdb-preamble", LOG),
    ("aof-timestamp-enabled", LOG),
    ("aof-rewrite-incremental-fsync", LOG),
    ("masterauth", REPLICAS),
    ("masteruser", REPLICAS),
    ("replica-serve-stale-data", REPLICAS),
    ("slave-serve-stale-data", REPLICAS),
    ("replica-read-only", REPLICAS),
    ("slave-read-only", REPLICAS),
    ("replica-priority", REPLICAS),
    ("slave-priority", REPLICAS),
    ("replica-lazy-flush", REPLICAS),
    ("slave-lazy-flush", REPLICAS),
    ("repl-diskless-sync-max-replicas", REPLICAS),
    ("repl-diskless-load", REPLICAS),
    ("repl-disable-tcp-nodelay", REPLICAS),
    ("propagation-error-behavior", REPLICAS),
    ("disable-thp", PROCESS),
    ("jemalloc-bg-thread", PROCESS),
    ("always-show-logo", "there is no logo"),
    ("activerehashing", TABLES),
];

/// The only one of them with a value that no log may show.
pub const SECRET: &str = "masterauth";

/// Why a line about this option has no effect, if that is known of it.
pub fn reason(name: &[u8]) -> Option<&'static str> {
    ABSENT.iter().find(|(absent, _)| absent.as_bytes().eq_ignore_ascii_case(name)).map(|(_, why)| *why)
}
