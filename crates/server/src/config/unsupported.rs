//! Options of Redis that steer what is not here. A configuration file that was written for Redis starts this server all the
//! same: what such a line asks for, nobody who talks to the server can miss, so it is passed over, and the log says so. An
//! option that promises what is not kept (`cluster-enabled yes`) is not among them. CONFIG SET
//! answers an error with the same reason.

const FREEING: &str = "what a replica had before is freed without holding up anybody";
const DISK: &str = "a replica goes on with what its primary sends while its disk fails, and replies that show it wait";
const OUTGOING: &str = "the system chooses the address of connections to other servers";
const CERTIFICATE: &str = "primaries are shown the certificate that clients are shown";
const SNAPSHOT_FILES: &str = "snapshots for replicas are files of their own, which are always removed";
const AT_ONCE: &str = "what a replica is sent leaves at once";
const CLUSTER: &str = "this server is no node of a cluster";
const DEFRAGMENTATION: &str = "memory is not defragmented";
const CRASH: &str = "memory is not tested after a crash; memtest86+ or the machine's own diagnosis does that";
const SYSTEM_LOG: &str = "log lines go to 'logfile' only";
const PROCESS: &str = "this server steers its process in other ways";
const PROCESSORS: &str = "threads run where the system puts them; taskset or systemd's CPUAffinity says otherwise";
const CHILDREN: &str = "there are no threads or processes for that";
const LOADING: &str = "loading never keeps those waiting who ask meanwhile";
const TABLES: &str = "tables grow with the commands that fill them";

/// Names, and why they have no effect.
const ABSENT: &[(&str, &str)] = &[
    ("rdb-del-sync-files", SNAPSHOT_FILES),
    ("replica-lazy-flush", FREEING),
    ("slave-lazy-flush", FREEING),
    ("repl-disable-tcp-nodelay", AT_ONCE),
    ("replica-ignore-disk-write-errors", DISK),
    ("bind-source-addr", OUTGOING),
    ("tls-client-cert-file", CERTIFICATE),
    ("tls-client-key-file", CERTIFICATE),
    ("tls-client-key-file-pass", CERTIFICATE),
    ("loading-process-events-interval-bytes", LOADING),
    ("tls-cluster", CLUSTER),
    ("cluster-allow-pubsubshard-when-down", CLUSTER),
    ("cluster-allow-reads-when-down", CLUSTER),
    ("cluster-allow-replica-migration", CLUSTER),
    ("cluster-announce-bus-port", CLUSTER),
    ("cluster-announce-hostname", CLUSTER),
    ("cluster-announce-ip", CLUSTER),
    ("cluster-announce-port", CLUSTER),
    ("cluster-announce-tls-port", CLUSTER),
    ("cluster-config-file", CLUSTER),
    ("cluster-link-sendbuf-limit", CLUSTER),
    ("cluster-migration-barrier", CLUSTER),
    ("cluster-node-timeout", CLUSTER),
    ("cluster-port", CLUSTER),
    ("cluster-preferred-endpoint-type", CLUSTER),
    ("cluster-replica-no-failover", CLUSTER),
    ("cluster-slave-no-failover", CLUSTER),
    ("cluster-replica-validity-factor", CLUSTER),
    ("cluster-slave-validity-factor", CLUSTER),
    ("cluster-require-full-coverage", CLUSTER),
    ("active-defrag-cycle-max", DEFRAGMENTATION),
    ("active-defrag-cycle-min", DEFRAGMENTATION),
    ("active-defrag-ignore-bytes", DEFRAGMENTATION),
    ("active-defrag-max-scan-fields", DEFRAGMENTATION),
    ("active-defrag-threshold-lower", DEFRAGMENTATION),
    ("active-defrag-threshold-upper", DEFRAGMENTATION),
    ("crash-memcheck-enabled", CRASH),
    ("syslog-facility", SYSTEM_LOG),
    ("syslog-ident", SYSTEM_LOG),
    ("server_cpulist", PROCESSORS),
    ("bio_cpulist", CHILDREN),
    ("aof_rewrite_cpulist", CHILDREN),
    ("bgsave_cpulist", CHILDREN),
    ("disable-thp", PROCESS),
    ("jemalloc-bg-thread", PROCESS),
    ("always-show-logo", "there is no logo"),
    ("ignore-warnings", "the warnings that it silences are not given"),
    ("tls-dh-params-file", "the key exchanges that are spoken need none"),
    ("activerehashing", TABLES),
];

/// Whether the value of such an option is not for the log.
pub fn is_secret(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"tls-client-key-file-pass")
}

/// Why a line about this option has no effect, if that is known of it.
pub fn reason(name: &[u8]) -> Option<&'static str> {
    ABSENT.iter().find(|(absent, _)| absent.as_bytes().eq_ignore_ascii_case(name)).map(|(_, why)| *why)
}
