//! Options of Redis and Valkey that have no effect here, and the texts about values that this server does not have.
//!
//! A configuration file that was written for Redis or Valkey starts this server. Three kinds of lines in it have no row with
//! an effect of its own:
//!
//! - A line that only tunes a missing feature is passed over, and the server log says so with the reason ([`reason`]). CONFIG
//!   SET answers an error with the same reason.
//! - Such a line with a value that is true here anyway, or is the default of Redis or Valkey, is passed over without a warning
//!   ([`needs_no_warning`]): files that come with those servers have such lines, and nobody has chosen them.
//! - A line that makes a promise that is not kept (`syslog-enabled yes`) is refused: its option is a row of kind `Fixed` in
//!   `table`, and [`instead`] says which value to write.
//!
//! Constant data and pure functions; any thread.

use super::table::Opt;

const FREEING: &str = "what a replica had before is freed without holding up anybody";
const DISK: &str = "a replica goes on with what its primary sends while its disk fails, and replies that show it wait";
const OUTGOING: &str = "the system chooses the address of connections to other servers";
const SNAPSHOT_FILES: &str = "snapshots for replicas are files of their own, which are always removed";
const AT_ONCE: &str = "what a replica is sent leaves at once";
const ONE_CHANNEL: &str = "a full synchronization goes over the one connection of the replica";
const SYNC_BUFFER: &str =
    "the stream behind a full synchronization waits at the primary, in memory and in 'repl-spill-dir'";
const CLIENT_ADDRESS: &str = "clients are told the address that 'cluster-announce-ip' and 'cluster-announce-port' give";
const BUS_PACE: &str = "a node pings, gossips, fails over and forgets at the pace of Redis 7.0";
const NODES_FILE: &str = "the file of a node is written whenever it has to survive the process";
const WHOLE_SLOTS: &str = "slots move key by key, by MIGRATE";
const SLOT_FIGURES: &str = "slots have no figures of their own";
const DEFRAGMENTATION: &str = "memory is not defragmented; MEMORY PURGE gives free memory back to the system";
const CRASH: &str = "memory is not tested after a crash; memtest86+ or the machine's own diagnosis does that";
const SYSTEM_LOG: &str = "log lines go to 'logfile' only";
const PROCESS: &str = "this server steers its process in other ways";
const PROCESSORS: &str = "threads run where the system puts them; taskset or systemd's CPUAffinity says otherwise";
const CHILDREN: &str = "there are no threads or processes for that";
const TABLES: &str = "tables grow with the commands that fill them";
const ACCEPTING: &str = "a worker accepts the connections that wait, and serves others between two of them";
const PREFETCHING: &str = "the keys of the requests that came together are always looked for together";
const IO_THREADS: &str = "there are no threads that only move bytes; 'workers' says how many threads serve clients";
const COPIES: &str = "values of 16 KiB or more are never copied into a reply";
const PATHS: &str = "connections are plain TCP, TLS or Unix sockets";
const RDMA: &str = "clients are not served over RDMA";
const VECTORS: &str = "there are no vector sets";
const NAMES: &str = "this server always gives Redis's names for itself";
const ASSERTIONS: &str = "which of its own assumptions this server tests is decided when it is built";
const TESTS: &str = "it is for tests of Redis's own program";

/// The names of options that have no effect, with the reason.
const ABSENT: &[(&str, &str)] = &[
    ("activedefrag", DEFRAGMENTATION),
    ("rdb-del-sync-files", SNAPSHOT_FILES),
    ("replica-lazy-flush", FREEING),
    ("slave-lazy-flush", FREEING),
    ("repl-disable-tcp-nodelay", AT_ONCE),
    ("replica-ignore-disk-write-errors", DISK),
    ("dual-channel-replication-enabled", ONE_CHANNEL),
    ("repl-rdb-channel", ONE_CHANNEL),
    ("replica-full-sync-buffer-limit", SYNC_BUFFER),
    ("bind-source-addr", OUTGOING),
    ("cluster-announce-client-ipv4", CLIENT_ADDRESS),
    ("cluster-announce-client-ipv6", CLIENT_ADDRESS),
    ("cluster-announce-client-port", CLIENT_ADDRESS),
    ("cluster-announce-client-tls-port", CLIENT_ADDRESS),
    ("cluster-blacklist-ttl", BUS_PACE),
    ("cluster-compatibility-sample-ratio", SLOT_FIGURES),
    ("cluster-config-save-behavior", NODES_FILE),
    ("cluster-manual-failover-timeout", BUS_PACE),
    ("cluster-message-gossip-perc", BUS_PACE),
    ("cluster-ping-interval", BUS_PACE),
    ("cluster-slot-migration-handoff-max-lag-bytes", WHOLE_SLOTS),
    ("cluster-slot-migration-log-max-len", WHOLE_SLOTS),
    ("cluster-slot-migration-max-archived-tasks", WHOLE_SLOTS),
    ("cluster-slot-migration-sync-buffer-drain-timeout", WHOLE_SLOTS),
    ("cluster-slot-migration-write-pause-timeout", WHOLE_SLOTS),
    ("cluster-slot-stats-enabled", SLOT_FIGURES),
    ("slot-migration-max-failover-repl-bytes", WHOLE_SLOTS),
    ("active-defrag-cycle-max", DEFRAGMENTATION),
    ("active-defrag-cycle-min", DEFRAGMENTATION),
    ("active-defrag-cycle-us", DEFRAGMENTATION),
    ("active-defrag-ignore-bytes", DEFRAGMENTATION),
    ("active-defrag-max-scan-fields", DEFRAGMENTATION),
    ("active-defrag-threshold-lower", DEFRAGMENTATION),
    ("active-defrag-threshold-upper", DEFRAGMENTATION),
    ("crash-memcheck-enabled", CRASH),
    ("syslog-facility", SYSTEM_LOG),
    ("syslog-ident", SYSTEM_LOG),
    ("server_cpulist", PROCESSORS),
    ("server-cpulist", PROCESSORS),
    ("bio_cpulist", CHILDREN),
    ("bio-cpulist", CHILDREN),
    ("aof_rewrite_cpulist", CHILDREN),
    ("aof-rewrite-cpulist", CHILDREN),
    ("bgsave_cpulist", CHILDREN),
    ("bgsave-cpulist", CHILDREN),
    ("disable-thp", PROCESS),
    ("jemalloc-bg-thread", PROCESS),
    ("always-show-logo", "there is no logo"),
    ("ignore-warnings", "the warnings that it silences are not given"),
    ("tls-dh-params-file", "the key exchanges that are spoken need none"),
    ("activerehashing", TABLES),
    ("max-new-connections-per-cycle", ACCEPTING),
    ("max-new-tls-connections-per-cycle", ACCEPTING),
    ("io-threads-do-reads", IO_THREADS),
    ("io-threads-always-active", IO_THREADS),
    ("events-per-io-thread", IO_THREADS),
    ("prefetch-batch-max-size", PREFETCHING),
    ("lookahead", PREFETCHING),
    ("min-io-threads-avoid-copy-reply", COPIES),
    ("min-string-size-avoid-copy-reply", COPIES),
    ("min-string-size-avoid-copy-reply-threaded", COPIES),
    ("mptcp", PATHS),
    ("repl-mptcp", PATHS),
    ("rdma-bind", RDMA),
    ("rdma-completion-vector", RDMA),
    ("rdma-rx-size", RDMA),
    ("vset-force-single-threaded-execution", VECTORS),
    ("extended-redis-compatibility", NAMES),
    ("enable-debug-assert", ASSERTIONS),
    ("lazyexpire-nested-arbitrary-keys", "effects are always written down in the order in which they came about"),
    ("debug-context", TESTS),
    ("req-res-logfile", TESTS),
    ("client-default-resp", TESTS),
];

/// Values of such options that are true of this server anyway. An empty value is always true.
const TRUE_ANYWAY: &[(&str, &str)] = &[
    ("activedefrag", "no"),
    ("repl-disable-tcp-nodelay", "no"),
    ("dual-channel-replication-enabled", "no"),
    ("repl-rdb-channel", "no"),
    ("cluster-slot-stats-enabled", "no"),
    ("always-show-logo", "no"),
    ("disable-thp", "no"),
    ("io-threads-do-reads", "no"),
    ("io-threads-always-active", "no"),
    ("mptcp", "no"),
    ("repl-mptcp", "no"),
    ("extended-redis-compatibility", "yes"),
    ("vset-force-single-threaded-execution", "no"),
    ("enable-debug-assert", "no"),
    ("client-default-resp", "2"),
];

/// Defaults of Redis 7.0, Redis 8 or Valkey 9 for such options, besides the values that are true anyway.
const DEFAULTS: &[(&str, &str)] = &[
    ("rdb-del-sync-files", "no"),
    ("replica-lazy-flush", "no"),
    ("replica-lazy-flush", "yes"),
    ("slave-lazy-flush", "no"),
    ("slave-lazy-flush", "yes"),
    ("replica-ignore-disk-write-errors", "no"),
    ("replica-full-sync-buffer-limit", "0"),
    ("cluster-announce-client-port", "0"),
    ("cluster-announce-client-tls-port", "0"),
    ("cluster-blacklist-ttl", "60"),
    ("cluster-compatibility-sample-ratio", "0"),
    ("cluster-config-save-behavior", "sync"),
    ("cluster-manual-failover-timeout", "5000"),
    ("cluster-slot-migration-handoff-max-lag-bytes", "1048576"),
    ("cluster-slot-migration-log-max-len", "1000"),
    ("cluster-slot-migration-write-pause-timeout", "10000"),
    ("slot-migration-max-failover-repl-bytes", "0"),
    ("active-defrag-cycle-max", "25"),
    ("active-defrag-cycle-min", "1"),
    ("active-defrag-cycle-us", "500"),
    ("active-defrag-ignore-bytes", "100mb"),
    ("active-defrag-ignore-bytes", "104857600"),
    ("active-defrag-max-scan-fields", "1000"),
    ("active-defrag-threshold-lower", "10"),
    ("active-defrag-threshold-upper", "100"),
    ("crash-memcheck-enabled", "yes"),
    ("syslog-facility", "local0"),
    ("syslog-ident", "redis"),
    ("syslog-ident", "valkey"),
    ("disable-thp", "yes"),
    ("jemalloc-bg-thread", "yes"),
    ("activerehashing", "yes"),
    ("max-new-connections-per-cycle", "10"),
    ("max-new-tls-connections-per-cycle", "1"),
    ("prefetch-batch-max-size", "16"),
    ("lookahead", "16"),
    ("rdma-completion-vector", "-1"),
    ("rdma-rx-size", "1048576"),
    ("extended-redis-compatibility", "no"),
];

/// The advice for a value that an option of kind `Fixed` does not take; `{}` in it stands for that value.
const INSTEAD: &[(Opt, &str)] = &[
    (Opt::Activedefrag, "memory is not defragmented; MEMORY PURGE gives free memory back to the system"),
    (Opt::SocketMarkId, "write 'socket-mark-id 0', and have the firewall mark by the server's user or control group"),
    (Opt::SyslogEnabled, "write 'syslog-enabled no', and start the server by systemd or with '| logger -t sleeve'"),
    (
        Opt::ReplicaIgnoreMaxmemory,
        "write 'replica-ignore-maxmemory yes', and give the primary the 'maxmemory' that the replica can hold",
    ),
    (Opt::LocaleCollate, "write 'locale-collate C': SORT ALPHA and scripts compare strings by their bytes"),
    (
        Opt::ImportMode,
        "write 'import-mode no', and bring data over by REPLICAOF or 'sleeve migrate', which keep deadlines",
    ),
    (
        Opt::RdbVersionCheck,
        "write 'rdb-version-check strict': a snapshot of an unknown version is refused before it is read in part",
    ),
    (Opt::LogFormat, "write 'log-format legacy', which is the form of all lines"),
    (Opt::LogTimestampFormat, "write 'log-timestamp-format legacy', which is the form of all lines"),
    (Opt::TlsAuthClientsUser, "write 'tls-auth-clients-user off', and have clients name their user by AUTH or HELLO"),
    (
        Opt::TlsAutoReloadInterval,
        "write 'tls-auto-reload-interval 0', and send CONFIG SET tls-cert-file when the files are new",
    ),
    (
        Opt::UnixSocketGroup,
        "write 'unixsocketgroup \"\"', and give the socket's folder that group and the bit setgid (chgrp, chmod g+s)",
    ),
    (Opt::HashSeed, "write 'hash-seed \"\"': a cursor of SCAN counts at the server that gave it only"),
    (Opt::RdmaPort, "write 'rdma-port 0', and have clients use 'port'"),
    (Opt::KeyMemoryHistograms, "write 'key-memory-histograms no', and ask MEMORY USAGE or 'sleeve cli --memkeys'"),
    (
        Opt::AofLoadCorruptTail,
        "write 'aof-load-corrupt-tail-max-size 0', and have 'sleeve check --fix' cut off what is damaged",
    ),
    (Opt::AvailabilityZone, "write 'availability-zone \"\"', and give the clients the addresses of their own zone"),
    (
        Opt::LuaDeprecatedApi,
        "write 'lua-enable-deprecated-api no', and leave getfenv, setfenv and print out of scripts",
    ),
];

/// Returns the reason why a line about this option has no effect, if the option is one of these.
pub fn reason(name: &[u8]) -> Option<&'static str> {
    ABSENT.iter().find(|(absent, _)| absent.as_bytes().eq_ignore_ascii_case(name)).map(|(_, why)| *why)
}

/// Returns whether a line with these words needs no warning: its value is true without it, or is the default of Redis or Valkey.
pub fn needs_no_warning(words: &[Vec<u8>]) -> bool {
    match words {
        [_, value] if value.is_empty() => true,
        [name, value] => TRUE_ANYWAY
            .iter()
            .chain(DEFAULTS)
            .any(|(own, so)| own.as_bytes().eq_ignore_ascii_case(name) && so.as_bytes().eq_ignore_ascii_case(value)),
        _ => false,
    }
}

/// Returns the advice for a value that the option does not take, if there is more to say than the list of its values.
pub fn instead(option: Opt, value: &str) -> Option<String> {
    INSTEAD.iter().find(|(own, _)| *own == option).map(|(_, words)| words.replace("{}", value))
}

/// Returns the names of the options that are ignored.
pub fn names() -> impl Iterator<Item = &'static str> {
    ABSENT.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{Kind, ROWS};

    #[test]
    fn every_option_of_fixed_values_says_what_to_write_instead() {
        for row in ROWS.iter().filter(|row| matches!(row.kind, Kind::Fixed(_))) {
            let is_told = instead(row.option, "4").is_some_and(|words| words.contains("write "));
            assert!(is_told || reason(row.name.as_bytes()).is_some(), "{}", row.name);
        }
    }

    #[test]
    fn values_that_need_no_warning_are_of_options_without_effect() {
        for (name, _) in TRUE_ANYWAY.iter().chain(DEFAULTS) {
            assert!(reason(name.as_bytes()).is_some(), "{name}");
        }
    }
}
