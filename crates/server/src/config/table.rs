//! The one table of options: name, aliases, kind with limits, default, when it may change, and its purpose.
//!
//! Names, kinds, limits and defaults are those of Redis 7.0 if Redis has the option. Each fact about an option is written
//! only here: CONFIG GET, SET and REWRITE, the configuration file and the command line all read this table.
//!
//! An option of a feature that does not exist yet is either absent, and so unknown like a misspelt one, or of kind
//! [`Kind::Fixed`]. A fixed option takes only the values that are true of this server. Test harnesses and client libraries
//! start servers with `syslog-enabled no` or `activedefrag no`, and such true statements must not be refused. If `unsupported`
//! has a reason for the option, another value in a configuration is passed over with a warning; otherwise it is refused.
//!
//! The table holds no values (`state` does) and checks none (`value` does). It is constant data, for any thread.

/// The values that an option accepts, and the way they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `yes` or `no`.
    Flag,
    /// A decimal integer within the two ends. A number outside of `clamp` is silently moved to its nearer end.
    Number {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// The range that is really used, if Redis narrows it silently.
        clamp: Option<(i64, i64)>,
    },
    /// A decimal integer that must also be a power of two, or 0.
    PowerOfTwo {
        /// Greatest value.
        max: i64,
    },
    /// Bytes, with the units `b k kb m mb g gb`.
    Memory {
        /// Least value in bytes.
        min: u64,
        /// Greatest value in bytes.
        max: u64,
    },
    /// Bytes, or a percentage of another amount, which is kept as a negative number.
    MemoryOrPercent,
    /// File permissions, written in octal.
    Octal {
        /// Greatest value.
        max: i64,
    },
    /// A choice of one of these words; kept as its position.
    Choice(&'static [&'static str]),
    /// A choice of one of these words with their numbers. Several words may have the same number; the first of them is shown.
    Named(&'static [(&'static str, i64)]),
    /// A text of any bytes, and whether it is a path.
    Text(Path),
    /// A list of words.
    Words {
        /// The most words.
        max: usize,
        /// The error for more words.
        too_many: &'static str,
    },
    /// Numbers from 0 to 100.
    Percentiles,
    /// The name of a file or folder, without the path to it.
    FileName {
        /// The error for a path.
        path: &'static str,
        /// The error for an empty name, if the name may not be empty.
        empty: Option<&'static str>,
    },
    /// A folder that exists.
    Folder,
    /// Classes of keyspace events, a letter each; kept as bits.
    Events,
    /// Output buffer limits by client class: `CLASS HARD SOFT SECONDS ...`.
    OutputLimits,
    /// The process's title, with variables in braces.
    Template,
    /// Scores by which the kernel chooses the process to kill.
    OomValues,
    /// The rules for automatic snapshots: `SECONDS CHANGES ...`.
    SavePoints,
    /// The words of SHUTDOWN, in any combination; kept as bits.
    Shutdown,
    /// The primary of this server: `HOST PORT`, or none.
    Master,
    /// A name under which this server announces itself to the other nodes of a cluster.
    Announced(Announced),
    /// A fixed choice of these values, because only they describe this server; the first one is shown.
    Fixed(&'static [&'static str]),
}

/// The names under which a node of a cluster announces itself. They stand in packets and in nodes.conf, which bounds their
/// characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// An IP address.
    Ip,
    /// A host name.
    Hostname,
    /// A name for people.
    HumanName,
}

/// The use of an option's value as a path. [`Kind::Text`] states it for each option, so that a new option has to decide about
/// it; for the other kinds [`Kind::path`] knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// The value is no path, but a password, an address or a word.
    None,
    /// The path of a file or a folder that is only read.
    Read,
    /// The path or the name of a file, folder or socket that the server may make, write, replace or remove. A client that may
    /// set it can make the server write anywhere, so it is never [`Change::Live`].
    Written,
}

impl Kind {
    /// Returns the use of a value of this kind as a path.
    pub fn path(self) -> Path {
        match self {
            Self::Text(path) => path,
            Self::FileName { .. } | Self::Folder => Path::Written,
            Self::Flag
            | Self::Number { .. }
            | Self::PowerOfTwo { .. }
            | Self::Memory { .. }
            | Self::MemoryOrPercent
            | Self::Octal { .. }
            | Self::Choice(_)
            | Self::Named(_)
            | Self::Words { .. }
            | Self::Percentiles
            | Self::Events
            | Self::OutputLimits
            | Self::Template
            | Self::OomValues
            | Self::SavePoints
            | Self::Shutdown
            | Self::Master
            | Self::Announced(_)
            | Self::Fixed(_) => Path::None,
        }
    }
}

/// The times at which an option may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The option is set only in the configuration file and on the command line.
    Startup,
    /// The option is set only at the start, and Redis does not have it. CONFIG SET accepts its present value, because tools
    /// that write all options back skip only the options that Redis refuses.
    Own,
    /// CONFIG SET may change the option.
    Live,
    /// CONFIG SET may change the option, which is for tests: CONFIG GET shows it only for its complete name.
    Hidden,
    /// CONFIG SET may change the option if `enable-protected-configs` allows it.
    Protected,
    /// The option is protected, and Redis does not have it: CONFIG SET accepts its present value from all clients, as with
    /// `Own`.
    OwnProtected,
}

/// An option's row of the table.
#[derive(Debug)]
pub struct Row {
    /// The option of the row.
    pub option: Opt,
    /// The name, in lower case.
    pub name: &'static str,
    /// Older names of the same option.
    pub aliases: &'static [&'static str],
    /// The values that the option accepts.
    pub kind: Kind,
    /// The default value, in the form in which a configuration line would give it.
    pub default: &'static str,
    /// The times at which the option may change.
    pub change: Change,
    /// The purpose, as a sentence for people.
    pub doc: &'static str,
}

impl Row {
    /// Returns the default value for people; empty if that is the empty text.
    pub fn default_shown(&self) -> &'static str {
        // It depends on the machine.
        if self.option == Opt::Workers { "one per core" } else { self.default }
    }
}

impl Opt {
    /// Returns the row of this option.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the option with this name or alias, in upper or lower case.
    pub fn find(name: &[u8]) -> Option<Self> {
        find(name).map(|(row, _)| row.option)
    }

    /// Returns the option's name in the table.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

/// Returns the row of the option with this name or alias, in upper or lower case, and that name as the table writes it.
pub fn find(name: &[u8]) -> Option<(&'static Row, &'static str)> {
    names().find(|(_, own)| own.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns the names of all options, aliases included, with their rows.
pub fn names() -> impl Iterator<Item = (&'static Row, &'static str)> {
    ROWS.iter()
        .flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()).map(move |name| (row, name)))
}

const INT_MAX: i64 = i32::MAX as i64;
const INT_MIN: i64 = i32::MIN as i64;
const MEBIBYTE: u64 = 1 << 20;
const LONG_MAX: u64 = i64::MAX as u64;

const fn number(min: i64, max: i64) -> Kind {
    Kind::Number { min, max, clamp: None }
}

const TEXT: Kind = Kind::Text(Path::None);
const PATH_READ: Kind = Kind::Text(Path::Read);
const PATH_WRITTEN: Kind = Kind::Text(Path::Written);
const NO: Kind = Kind::Fixed(&["no"]);
const ACCESS: Kind = Kind::Choice(&["no", "yes", "local"]);
const OOM_SCORES: Kind = Kind::Named(&[("no", 0), ("yes", 1), ("relative", 1), ("absolute", 2)]);
/// The numbers are those of `net::DriverKind`. The older words of the same drivers stay accepted.
const DRIVERS: Kind =
    Kind::Named(&[("epoll", 0), ("uring", 1), ("tokio", 2), ("hybrid", 0), ("completion", 1), ("async", 2)]);
const LOG_LEVELS: Kind = Kind::Choice(&["debug", "verbose", "notice", "warning"]);
const POLICIES: Kind = Kind::Choice(&[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
]);

/// Writes the enum and the table from one list, so that both always have the same entries.
macro_rules! options {
    ($($option:ident $name:literal $(= $alias:literal)* $kind:expr, $default:literal, $change:ident, $doc:literal;)+) => {
        /// The options, in the table's order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opt {
            $(#[doc = $doc] $option,)+
        }

        /// The number of options.
        pub const COUNT: usize = [$(Opt::$option),+].len();

        /// The table, indexed by [`Opt`].
        pub static ROWS: [Row; COUNT] = [$(Row {
            option: Opt::$option,
            name: $name,
            aliases: &[$($alias),*],
            kind: $kind,
            default: $default,
            change: Change::$change,
            doc: $doc,
        }),+];
    };
}

options! {
    // The network.
    Bind "bind" Kind::Words { max: 16, too_many: "Too many bind addresses specified." }, "* -::*", Live,
        "Addresses to listen on; a leading '-' allows one to be missing, none at all listens on no TCP address.";
    Port "port" number(0, 65_535), "6379", Live,
        "TCP port to listen on; 0 listens on none.";
    TcpBacklog "tcp-backlog" number(0, INT_MAX), "511", Startup,
        "Connections that the kernel may hold before they are accepted.";
    UnixSocket "unixsocket" PATH_WRITTEN, "", Startup,
        "Path of a Unix socket to listen on as well.";
    UnixSocketPerm "unixsocketperm" Kind::Octal { max: 0o777 }, "0", Startup,
        "Permissions of the Unix socket, in octal; 0 leaves them to the process's mask.";
    UnixSocketOffer "unixsocket-offer" Kind::Flag, "yes", Live,
        "Whether clients on this machine are told of the Unix socket if they ask in HELLO, so that they may move to it.";
    UnixSocketRings "unixsocket-rings" Kind::Flag, "yes", Live,
        "Whether clients of the Unix socket are given memory to share if they ask by CLIENT RINGS: two rings of 64 KiB for each.";
    TlsPort "tls-port" number(0, 65_535), "0", Live,
        "TCP port to listen on with TLS; 0 listens on none.";
    TlsCertFile "tls-cert-file" PATH_READ, "", Live,
        "PEM file with the server's certificate and those that lead from it to one that clients trust.";
    TlsKeyFile "tls-key-file" PATH_READ, "", Live,
        "PEM file with the key of the certificate.";
    TlsKeyFilePass "tls-key-file-pass" TEXT, "", Live,
        "Pass phrase of the key, which is of the form PKCS#8 then (openssl pkcs8 -topk8).";
    TlsClientCertFile "tls-client-cert-file" PATH_READ, "", Live,
        "PEM file with the certificate that primaries are shown; empty: that of the server.";
    TlsClientKeyFile "tls-client-key-file" PATH_READ, "", Live,
        "PEM file with the key of that certificate.";
    TlsClientKeyFilePass "tls-client-key-file-pass" TEXT, "", Live,
        "Pass phrase of that key.";
    TlsCaCertFile "tls-ca-cert-file" PATH_READ, "", Live,
        "PEM file with the certificates that clients' certificates must lead to.";
    TlsCaCertDir "tls-ca-cert-dir" PATH_READ, "", Live,
        "Folder of such files.";
    TlsAuthClients "tls-auth-clients" Kind::Choice(&["no", "yes", "optional"]), "yes", Live,
        "Whether clients must show a certificate, may, or are not asked for one.";
    TlsProtocols "tls-protocols" TEXT, "", Live,
        "Versions of TLS that are spoken: TLSv1.2, TLSv1.3, or both; empty is both.";
    TlsCiphers "tls-ciphers" TEXT, "", Live,
        "Cipher suites of TLS 1.2 as a list of OpenSSL's, such as DEFAULT:!AES128; empty is all that are safe.";
    TlsCiphersuites "tls-ciphersuites" TEXT, "", Live,
        "Cipher suites of TLS 1.3, separated by colons; empty is all.";
    TlsPreferServerCiphers "tls-prefer-server-ciphers" Kind::Flag, "no", Live,
        "Whether the server's order of cipher suites counts instead of the client's.";
    TlsSessionCaching "tls-session-caching" Kind::Flag, "yes", Live,
        "Whether clients that come again may shorten the handshake.";
    TlsSessionCacheSize "tls-session-cache-size" number(1, INT_MAX), "20480", Live,
        "How many clients are remembered for that.";
    TlsSessionCacheTimeout "tls-session-cache-timeout" number(0, INT_MAX), "300", Live,
        "Seconds for which a client is remembered for that.";
    Timeout "timeout" number(0, INT_MAX), "0", Live,
        "Seconds after which an idle client is disconnected; 0 never.";
    TcpKeepalive "tcp-keepalive" number(0, INT_MAX), "300", Live,
        "Seconds of silence after which the kernel probes a client's connection; 0 never.";
    Maxclients "maxclients" number(1, u32::MAX as i64), "10000", Live,
        "Most clients connected at a time.";
    ProtectedMode "protected-mode" Kind::Flag, "yes", Live,
        "Whether only clients of this machine are served while there is no password.";
    Aclfile "aclfile" PATH_WRITTEN, "", Startup,
        "File of users, which ACL LOAD reads and ACL SAVE writes; empty keeps them in the configuration file.";
    AcllogMaxLen "acllog-max-len" number(0, i64::MAX), "128", Live,
        "Most refusals that ACL LOG remembers.";
    AclPubsubDefault "acl-pubsub-default" Kind::Choice(&["allchannels", "resetchannels"]), "resetchannels", Live,
        "Whether new users may use all channels or none.";
    Requirepass "requirepass" TEXT, "", Live,
        "Password that clients must give; empty asks for none.";

    // Finding slow commands.
    SlowlogLogSlowerThan "slowlog-log-slower-than" = "commandlog-execution-slower-than" number(-1, i64::MAX), "10000", Live,
        "Microseconds from which on a command is entered in the slow log; 0 enters all, -1 none.";
    SlowlogMaxLen "slowlog-max-len" = "commandlog-slow-execution-max-len" number(0, i64::MAX), "128", Live,
        "Most entries of the slow log.";
    LargeRequestBytes "commandlog-request-larger-than" number(-1, i64::MAX), "1048576", Live,
        "Bytes from which on a request is entered in the log of large ones; 0 enters all, -1 none.";
    LargeRequestMaxLen "commandlog-large-request-max-len" number(0, i64::MAX), "128", Live,
        "Most entries of the log of large requests.";
    LargeReplyBytes "commandlog-reply-larger-than" number(-1, i64::MAX), "1048576", Live,
        "Bytes from which on a reply is entered in the log of large ones; 0 enters all, -1 none.";
    LargeReplyMaxLen "commandlog-large-reply-max-len" number(0, i64::MAX), "128", Live,
        "Most entries of the log of large replies.";
    LatencyMonitorThreshold "latency-monitor-threshold" number(0, i64::MAX), "0", Live,
        "Milliseconds from which on LATENCY remembers that something was slow; 0 turns it off.";
    WatchdogPeriod "watchdog-period" number(0, INT_MAX), "0", Hidden,
        "Milliseconds for which clients may not be served before the log is told; 0 tells it nothing.";
    LatencyTracking "latency-tracking" Kind::Flag, "yes", Live,
        "Whether the distribution of each command's execution times is kept.";
    LatencyTrackingInfoPercentiles "latency-tracking-info-percentiles" Kind::Percentiles, "50 99 99.9", Live,
        "The percentiles of execution times that INFO latencystats shows.";

    // Scripts.
    BusyReplyThreshold "busy-reply-threshold" = "lua-time-limit" number(0, i64::MAX), "5000", Live,
        "Milliseconds after which clients that wait for a script are told that it is busy, and it may be killed; 0 never.";
    LuaMemoryMax "lua-memory-max" Kind::Memory { min: MEBIBYTE, max: LONG_MAX }, "1gb", Own,
        "Most bytes that one Lua state may take; a worker has one for scripts and one for functions.";

    // Limits of one client.
    ProtoMaxBulkLen "proto-max-bulk-len" Kind::Memory { min: MEBIBYTE, max: LONG_MAX }, "512mb", Live,
        "Longest argument of a request and longest string, in bytes.";
    ClientQueryBufferLimit "client-query-buffer-limit" Kind::Memory { min: MEBIBYTE, max: LONG_MAX }, "1gb", Live,
        "Most bytes of unexecuted requests that one client may pile up.";
    MaxmemoryClients "maxmemory-clients" Kind::MemoryOrPercent, "0", Live,
        "Bytes that all clients may take together, or a percentage of 'maxmemory', before the largest are closed; 0 sets no limit.";
    ClientOutputBufferLimit "client-output-buffer-limit" Kind::OutputLimits,
        "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60", Live,
        "Bytes of unread replies at which a client is disconnected, by class: at once, or after seconds over the soft one.";

    // The data.
    Databases "databases" number(1, INT_MAX), "16", Startup,
        "How many numbered databases there are.";
    Shards "shards" Kind::PowerOfTwo { max: 256 }, "0", Own,
        "Into how many separately locked parts the keyspace is split, a power of two; 0 is 1 for one worker, else 8 for each.";
    Maxmemory "maxmemory" Kind::Memory { min: 0, max: u64::MAX }, "0", Live,
        "Bytes of data above which keys are evicted, or else writes that may grow it are refused; 0 sets no limit.";
    MaxmemoryPolicy "maxmemory-policy" POLICIES, "noeviction", Live,
        "Keys that are evicted when 'maxmemory' is reached; it also decides which access clock keys carry (LRU or LFU).";
    MaxmemorySamples "maxmemory-samples" number(1, INT_MAX), "5", Live,
        "Keys of each database that are sampled for every eviction; more samples find better keys.";
    MaxmemoryEvictionTenacity "maxmemory-eviction-tenacity" number(0, 100), "10", Live,
        "How long one command may evict: 10 is half a millisecond, 100 no limit.";
    LfuLogFactor "lfu-log-factor" number(0, INT_MAX), "10", Live,
        "How slowly the LFU counter of a key grows with its hits.";
    LfuDecayTime "lfu-decay-time" number(0, INT_MAX), "1", Live,
        "Minutes after which the LFU counter of an unused key falls by one; 0 never.";
    NotifyKeyspaceEvents "notify-keyspace-events" Kind::Events, "", Live,
        "Events about keys that are published, a letter for each class, and their channels (K, E); empty: none.";
    TrackingTableMaxKeys "tracking-table-max-keys" number(0, i64::MAX), "1000000", Live,
        "Most keys that are remembered for clients that cache them; 0: no limit.";
    ActiveExpireEffort "active-expire-effort" number(1, 10), "1", Live,
        "Share of the time for the removal of expired keys that no client reads; 10 is the largest.";
    LazyfreeLazyEviction "lazyfree-lazy-eviction" Kind::Flag, "no", Live,
        "Whether large values that are evicted are freed by another thread.";
    LazyfreeLazyExpire "lazyfree-lazy-expire" Kind::Flag, "no", Live,
        "Whether large values that expire are freed by another thread.";
    LazyfreeLazyServerDel "lazyfree-lazy-server-del" Kind::Flag, "no", Live,
        "Whether large values that are overwritten are freed by another thread.";
    LazyfreeLazyUserDel "lazyfree-lazy-user-del" Kind::Flag, "no", Live,
        "Whether DEL is UNLINK, which frees large values on another thread.";
    LazyfreeLazyUserFlush "lazyfree-lazy-user-flush" Kind::Flag, "no", Live,
        "Whether FLUSHALL and FLUSHDB are ASYNC unless they say otherwise.";
    HashMaxListpackEntries "hash-max-listpack-entries" = "hash-max-ziplist-entries" number(0, i64::MAX), "512", Live,
        "Most fields of a small hash, which is packed.";
    HashMaxListpackValue "hash-max-listpack-value" = "hash-max-ziplist-value" Kind::Memory { min: 0, max: LONG_MAX }, "64", Live,
        "Longest field or value of a small hash, in bytes.";
    ListMaxListpackSize "list-max-listpack-size" = "list-max-ziplist-size" number(INT_MIN, INT_MAX), "-2", Live,
        "Largest packed part of a list: a number of elements, or 4, 8, 16, 32 or 64 KiB for -1 to -5.";
    StreamNodeMaxBytes "stream-node-max-bytes" Kind::Memory { min: 0, max: LONG_MAX }, "4096", Live,
        "Most bytes of one block of a stream; 0: no limit.";
    StreamNodeMaxEntries "stream-node-max-entries" number(0, i64::MAX), "100", Live,
        "Most entries of one block of a stream; 0: no limit.";
    StreamIdmpDuration "stream-idmp-duration" number(1, 86_400), "100", Live,
        "Seconds for which a stream knows the ids that producers give their messages (XADD IDMP), unless XCFGSET sets another time.";
    StreamIdmpMaxsize "stream-idmp-maxsize" number(1, 10_000), "100", Live,
        "Most such ids that a stream knows of each producer, unless XCFGSET sets another number.";
    ListCompressDepth "list-compress-depth" number(0, INT_MAX), "0", Live,
        "Packed parts at each end of a list that are not compressed, while the parts between them are; 0: none is compressed.";
    Encodings "encodings" Kind::Choice(&["7.0", "7.2"]), "7.0", Live,
        "Names of OBJECT ENCODING for small lists and sets of strings, which are packed: quicklist and hashtable with 7.0, listpack with 7.2.";
    SetMaxIntsetEntries "set-max-intset-entries" number(0, i64::MAX), "512", Live,
        "Most members of a set of integers that is kept as a sorted run of them.";
    SetMaxListpackEntries "set-max-listpack-entries" number(0, i64::MAX), "128", Live,
        "Most members of a set that is kept packed.";
    SetMaxListpackValue "set-max-listpack-value" number(0, i64::MAX), "64", Live,
        "Longest member of a set that is kept packed, in bytes.";
    ZsetMaxListpackEntries "zset-max-listpack-entries" = "zset-max-ziplist-entries" number(0, i64::MAX), "128", Live,
        "Most members of a sorted set that is kept packed.";
    ZsetMaxListpackValue "zset-max-listpack-value" = "zset-max-ziplist-value" Kind::Memory { min: 0, max: LONG_MAX }, "64", Live,
        "Longest member of a sorted set that is kept packed, in bytes.";
    HllSparseMaxBytes "hll-sparse-max-bytes" Kind::Memory { min: 0, max: LONG_MAX }, "3000", Live,
        "Longest sparse form of a HyperLogLog, in bytes; a longer one becomes dense.";
    JournalMaxBytes "journal-max-bytes" Kind::Memory { min: 16_384, max: LONG_MAX }, "64mb", Live,
        "Bytes of effects that may wait for the journal's slowest reader before clients that write are held.";

    // The process.
    Workers "workers" number(1, 1_024), "1", Live,
        "Threads that serve clients. If the number is lowered, a surplus thread takes no new connections and ends with its last one.";
    IoThreads "io-threads" number(1, 128), "1", Startup,
        "Threads that serve clients, as in a configuration of Redis: if it is more than 1 and no line sets 'workers', so many workers are started.";
    Io "io" DRIVERS, "epoll", Own,
        "Driver of the sockets: epoll waits for ready sockets, and the worker receives and sends; uring receives and sends with io_uring; tokio uses tasks of tokio. The last three words are older names of the first three.";
    IoBusyPoll "io-busy-poll" = "io-look" Kind::Flag, "yes", Live,
        "Whether a worker polls its sockets for some microseconds before it sleeps, if that has been of use: no saves processor time, and replies take longer.";
    Http "http" TEXT, "", Own,
        "Port of this machine, or address and port, at which metrics and a page are served over HTTP; empty: none.";
    HttpHosts "http-hosts" Kind::Words { max: 64, too_many: "Too many names for 'http-hosts'; at most 64 are taken." }, "", Own,
        "Host names that HTTP requests may use, besides IP addresses, localhost and the name in 'http'; * allows any name, and so DNS rebinding.";
    Hz "hz" Kind::Number { min: 0, max: INT_MAX, clamp: Some((1, 500)) }, "10", Live,
        "Background rounds a second: expiry, timeouts, statistics.";
    DynamicHz "dynamic-hz" Kind::Flag, "yes", Live,
        "Whether 'hz' is doubled until a round has at most 200 clients.";
    HideUserDataFromLog "hide-user-data-from-log" Kind::Flag, "no", Live,
        "Whether log lines leave out names of keys, values and requests of clients.";
    UseExitOnPanic "use-exit-on-panic" Kind::Flag, "no", Hidden,
        "Whether the server ends with status 1 instead of an abort after a panic; for tests.";
    Loglevel "loglevel" LOG_LEVELS, "notice", Live,
        "The least important lines that are still logged.";
    Logfile "logfile" PATH_WRITTEN, "", Startup,
        "File to append log lines to; empty is the standard output.";
    CrashLogEnabled "crash-log-enabled" Kind::Flag, "yes", Live,
        "Whether a fatal signal leaves a report with a stack trace in the log.";
    Daemonize "daemonize" Kind::Flag, "no", Startup,
        "Whether the server goes to the background by itself.";
    Pidfile "pidfile" PATH_WRITTEN, "", Startup,
        "File to write the process id to; it is removed at a clean stop.";
    ShutdownOnSigint "shutdown-on-sigint" Kind::Shutdown, "default", Live,
        "Kind of shutdown at SIGINT: default, or save or nosave, now and force in any combination.";
    ShutdownOnSigterm "shutdown-on-sigterm" Kind::Shutdown, "default", Live,
        "Kind of shutdown at SIGTERM, in the same words.";
    SetProcTitle "set-proc-title" Kind::Flag, "yes", Startup,
        "Whether the process list shows 'proc-title-template' filled in instead of the arguments.";
    ProcTitleTemplate "proc-title-template" Kind::Template, "{title} {listen-addr} {server-mode}", Live,
        "The process's title, with {title} {listen-addr} {server-mode} {port} {tls-port} {unixsocket} {config-file}.";
    OomScoreAdj "oom-score-adj" OOM_SCORES, "no", Live,
        "Whether the OOM score of this process is set, and whether 'oom-score-adj-values' are absolute or relative to the score at the start.";
    OomScoreAdjValues "oom-score-adj-values" Kind::OomValues, "0 200 800", Live,
        "OOM scores of a primary, a replica and a child that writes a snapshot; only the first is used.";
    Supervised "supervised" Kind::Choice(&["no", "systemd", "auto"]), "no", Startup,
        "Whether systemd is notified when the server is ready and when it ends; auto: if systemd has set NOTIFY_SOCKET.";
    Dir "dir" Kind::Folder, "./", Protected,
        "Folder that relative paths of other options start from.";
    EnableDebugCommand "enable-debug-command" ACCESS, "no", Startup,
        "Connections that may use DEBUG: none, all, or local ones only.";
    EnableProtectedConfigs "enable-protected-configs" ACCESS, "no", Startup,
        "Connections that may set protected options: none, all, or local ones only.";

    // Snapshots.
    Dbfilename "dbfilename" Kind::FileName { path: "dbfilename can't be a path, just a filename", empty: None }, "dump.rdb", Protected,
        "Name of the snapshot in 'dir'.";
    Save "save" Kind::SavePoints, "3600 1 300 100 60 10000", Live,
        "Rules for automatic snapshots: pairs of seconds and changes since the last snapshot; empty: none.";
    StopWritesOnBgsaveError "stop-writes-on-bgsave-error" Kind::Flag, "yes", Live,
        "Whether writes are refused after a failed snapshot, as long as 'save' has rules.";
    Rdbcompression "rdbcompression" Kind::Flag, "yes", Live,
        "Whether strings in snapshots are compressed.";
    Rdbchecksum "rdbchecksum" Kind::Flag, "yes", Startup,
        "Whether snapshots end in a checksum, and whether it is verified at the start.";
    RdbFormat "rdb-format" Kind::Choice(&["redis", "valkey"]), "redis", Live,
        "Format of data that RDB version 10 cannot hold: 12 or 13 of Redis, or 80 of Valkey 9, which has no ids of producers.";
    SanitizeDumpPayload "sanitize-dump-payload" Kind::Choice(&["no", "yes", "clients"]), "no", Live,
        "Whether values in RESTORE and in snapshots are checked completely: always, with every setting.";
    RdbSaveIncrementalFsync "rdb-save-incremental-fsync" Kind::Flag, "yes", Live,
        "Whether a snapshot is synced to disk every 4 MiB while it is written, instead of once at its end.";
    SnapshotMaxMemory "snapshot-max-memory" Kind::Memory { min: MEBIBYTE, max: LONG_MAX }, "64mb", Live,
        "Bytes that may wait for a snapshot's disk before clients that write are held.";
    RdbKeySaveDelay "rdb-key-save-delay" number(INT_MIN, INT_MAX), "0", Hidden,
        "Microseconds to wait behind each key of a snapshot; for tests.";
    LoadingEventsInterval "loading-process-events-interval-bytes" number(1_024, INT_MAX), "2097152", Hidden,
        "Bytes of a snapshot after which clients are served for a moment; here they are served all the time.";
    KeyLoadDelay "key-load-delay" number(INT_MIN, INT_MAX), "0", Hidden,
        "Microseconds to wait behind each key that is loaded; for tests.";

    // The AOF.
    Appendonly "appendonly" Kind::Flag, "no", Live,
        "Whether every change is written to an AOF from which the data is loaded at the start.";
    Appendfilename "appendfilename" Kind::FileName {
        path: "appendfilename can't be a path, just a filename",
        empty: Some("appendfilename can't be empty"),
    }, "appendonly.aof", Startup,
        "Beginning of the names of the AOF's files.";
    Appenddirname "appenddirname" Kind::FileName {
        path: "appenddirname can't be a path, just a dirname",
        empty: Some("appenddirname can't be empty"),
    }, "appendonlydir", Startup,
        "Folder of the AOF's files, in 'dir'.";
    Appendfsync "appendfsync" Kind::Choice(&["everysec", "always", "no"]), "everysec", Live,
        "Time of the AOF's fsync: once a second, before each reply, or left to the system.";
    NoAppendfsyncOnRewrite "no-appendfsync-on-rewrite" Kind::Flag, "no", Live,
        "Whether the AOF is not synced while a snapshot or a new base of the AOF is written.";
    AutoAofRewritePercentage "auto-aof-rewrite-percentage" number(0, INT_MAX), "100", Live,
        "Growth of the AOF, in percent of its size after the last rewrite, at which it is rewritten; 0: never.";
    AutoAofRewriteMinSize "auto-aof-rewrite-min-size" Kind::Memory { min: 0, max: LONG_MAX }, "64mb", Live,
        "Size below which the AOF is not rewritten automatically.";
    AofRewriteIncrementalFsync "aof-rewrite-incremental-fsync" Kind::Flag, "yes", Live,
        "Whether a new base of the AOF is synced to disk every 4 MiB while it is written, instead of once at its end.";
    AofLoadTruncated "aof-load-truncated" Kind::Flag, "yes", Live,
        "Whether an AOF that ends in the middle of a change is loaded without that change, or refused.";
    AofUseRdbPreamble "aof-use-rdb-preamble" Kind::Flag, "yes", Live,
        "Whether the base of the AOF is a snapshot, or requests, which are larger and load more slowly.";
    AofTimestampEnabled "aof-timestamp-enabled" Kind::Flag, "no", Live,
        "Whether the AOF has a timestamp for every second, so that it can be cut at a point in time.";
    AofDisableAutoGc "aof-disable-auto-gc" Kind::Flag, "no", Live,
        "Whether files that the AOF does not need any more stay; for tests.";
    AofChecksums "aof-checksums" Kind::Flag, "yes", Live,
        "Whether each block of the AOF is preceded by a comment with its offset, length and checksum, so that damage is found.";

    ReplDisklessSync "repl-diskless-sync" Kind::Flag, "yes", Live,
        "Whether a full sync sends the snapshot while it is made; otherwise the snapshot goes into a file first.";
    ReplDisklessSyncDelay "repl-diskless-sync-delay" number(0, INT_MAX), "5", Live,
        "Seconds to wait for more replicas before such a snapshot begins.";
    ReplDisklessSyncMaxReplicas "repl-diskless-sync-max-replicas" number(0, INT_MAX), "0", Live,
        "Number of replicas at which such a snapshot begins without further delay; 0: no such number.";
    ReplBacklogSize "repl-backlog-size" Kind::Memory { min: 1, max: LONG_MAX }, "1mb", Live,
        "Bytes of the replication stream that are kept in memory for replicas that lose their connection.";
    ReplSpillDir "repl-spill-dir" PATH_WRITTEN, "", OwnProtected,
        "Folder, relative to 'dir', of the files with parts of the stream beyond the backlog that slow replicas still need.";
    ReplSpillMax "repl-spill-max" Kind::Memory { min: 0, max: LONG_MAX }, "4gb", Live,
        "Most bytes of such files, of all replicas together; beyond that, and with 0, the stream stays in memory.";
    ReplSyncRate "repl-sync-rate" Kind::Memory { min: 0, max: LONG_MAX }, "0", Live,
        "Bytes of a snapshot that each replica is sent in a second; the stream behind it has no such bound; 0: no bound.";
    ReplBacklogTtl "repl-backlog-ttl" number(0, INT_MAX), "3600", Live,
        "Seconds without replicas after which the backlog is freed; 0: never.";
    ReplPingReplicaPeriod "repl-ping-replica-period" = "repl-ping-slave-period" number(1, INT_MAX), "10", Live,
        "Seconds between two PINGs in the stream.";
    ReplTimeout "repl-timeout" number(1, INT_MAX), "60", Live,
        "Seconds of silence after which a replication link is closed.";
    ShutdownTimeout "shutdown-timeout" number(0, INT_MAX), "10", Live,
        "Seconds for which a shutdown waits for replicas that lack data; 0: not at all.";
    MinReplicasToWrite "min-replicas-to-write" = "min-slaves-to-write" number(0, INT_MAX), "0", Live,
        "Replicas that must be connected, or else writes are refused; 0: none.";
    MinReplicasMaxLag "min-replicas-max-lag" = "min-slaves-max-lag" number(0, INT_MAX), "10", Live,
        "Largest lag, in seconds, of a replica that counts for that; 0: the lag does not matter.";

    // Replication.
    Replicaof "replicaof" = "slaveof" Kind::Master, "", Startup,
        "Primary of this server, which then is its replica: host and port.";
    Masterauth "masterauth" = "primaryauth" TEXT, "", Live,
        "Password for the primary.";
    Masteruser "masteruser" = "primaryuser" TEXT, "", Live,
        "User for the primary; empty: the default one.";
    TlsReplication "tls-replication" Kind::Flag, "no", Live,
        "Whether the link to the primary uses TLS.";
    ReplicaServeStaleData "replica-serve-stale-data" = "slave-serve-stale-data" Kind::Flag, "yes", Live,
        "Whether a replica without a link serves its old data.";
    ReplicaReadOnly "replica-read-only" = "slave-read-only" Kind::Flag, "yes", Live,
        "Whether a replica refuses writes of clients. Writes that it accepts go into no AOF and are lost with the next full sync.";
    PropagationErrorBehavior "propagation-error-behavior" Kind::Choice(&["resync", "ignore", "panic", "panic-on-replicas"]),
        "resync", Live,
        "Reaction to a command of the primary that cannot be applied: a full sync, or the command is skipped, or the server \
         ends, unless 'replica-read-only' is off.";
    ReplicaPriority "replica-priority" = "slave-priority" number(0, INT_MAX), "100", Live,
        "Rank of this replica when Sentinel chooses the next primary: the lowest wins; 0: never this one.";
    ReplicaAnnounced "replica-announced" Kind::Flag, "yes", Live,
        "Whether Sentinel tells clients of this replica.";
    ReplicaAnnounceIp "replica-announce-ip" = "slave-announce-ip" TEXT, "", Live,
        "Address of this replica that the primary shows, if it would see another one.";
    ReplicaAnnouncePort "replica-announce-port" = "slave-announce-port" number(0, 65_535), "0", Live,
        "Port of this replica that the primary shows; 0: the port that it listens on.";
    ReplicaIgnoreMaxmemory "replica-ignore-maxmemory" = "slave-ignore-maxmemory" Kind::Fixed(&["yes"]), "yes", Live,
        "Whether a replica leaves eviction to its primary: always.";
    ReplDisklessLoad "repl-diskless-load" Kind::Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled", Live,
        "Whether a replica loads a full sync directly from the socket: never (through a file), if it has no data, or always.";

    // The cluster.
    ClusterEnabled "cluster-enabled" Kind::Flag, "no", Startup,
        "Whether this server is a node of a cluster.";
    ClusterConfigFile "cluster-config-file" PATH_WRITTEN, "nodes.conf", Startup,
        "File in 'dir' in which the node keeps what it knows of the cluster; the node writes it, nobody else.";
    ClusterPort "cluster-port" number(0, 65_535), "0", Startup,
        "Port for the other nodes; 0: 'port' plus 10000, or 'tls-port' plus 10000 with 'tls-cluster'.";
    TlsCluster "tls-cluster" Kind::Flag, "no", Live,
        "Whether the nodes speak TLS with each other.";
    ClusterNodeTimeout "cluster-node-timeout" number(0, i64::MAX), "15000", Live,
        "Milliseconds of silence after which a node is taken for failed.";
    ClusterRequireFullCoverage "cluster-require-full-coverage" Kind::Flag, "yes", Live,
        "Whether no key is served while any slot has no node.";
    ClusterAllowReadsWhenDown "cluster-allow-reads-when-down" Kind::Flag, "no", Live,
        "Whether keys can be read while the cluster is down.";
    ClusterAllowPubsubshardWhenDown "cluster-allow-pubsubshard-when-down" Kind::Flag, "yes", Live,
        "Whether messages to shard channels are delivered while the cluster is down.";
    ClusterReplicaNoFailover "cluster-replica-no-failover" = "cluster-slave-no-failover" Kind::Flag, "no", Live,
        "Whether this replica never takes over from its primary by itself.";
    ClusterReplicaValidityFactor "cluster-replica-validity-factor" = "cluster-slave-validity-factor" number(0, INT_MAX), "10", Live,
        "Node timeouts without the primary after which a replica's data is too old to take over; 0: never.";
    ClusterMigrationBarrier "cluster-migration-barrier" number(0, INT_MAX), "1", Live,
        "Replicas that a primary keeps when one of its replicas moves to a primary without any.";
    ClusterAllowReplicaMigration "cluster-allow-replica-migration" Kind::Flag, "yes", Live,
        "Whether replicas move to primaries without any, and follow their primary's slots when it loses the last one.";
    ClusterLinkSendbufLimit "cluster-link-sendbuf-limit" Kind::Memory { min: 0, max: u64::MAX }, "0", Live,
        "Bytes that may wait for another node before the link to it is closed; 0 sets no limit.";
    ClusterPreferredEndpointType "cluster-preferred-endpoint-type" Kind::Choice(&["ip", "hostname", "unknown-endpoint"]), "ip", Live,
        "How redirects and CLUSTER SLOTS name a node: by IP address, by host name, or not at all.";
    ClusterAnnounceIp "cluster-announce-ip" Kind::Announced(Announced::Ip), "", Live,
        "IP address that other nodes and clients are told; empty: the one at which other nodes see this one.";
    ClusterAnnounceHostname "cluster-announce-hostname" Kind::Announced(Announced::Hostname), "", Live,
        "Host name that other nodes and clients are told; empty: none.";
    ClusterAnnounceHumanNodename "cluster-announce-human-nodename" Kind::Announced(Announced::HumanName), "", Live,
        "Name of this node for people, in log lines; empty: none.";
    ClusterAnnouncePort "cluster-announce-port" number(0, 65_535), "0", Live,
        "Port that other nodes and clients are told; 0: 'port'.";
    ClusterAnnounceTlsPort "cluster-announce-tls-port" number(0, 65_535), "0", Live,
        "TLS port that other nodes and clients are told; 0: 'tls-port'.";
    ClusterAnnounceBusPort "cluster-announce-bus-port" number(0, 65_535), "0", Live,
        "Port for the other nodes that they are told; 0: the one that this node listens on.";
    ClusterDatabases "cluster-databases" number(1, INT_MAX), "1", Own,
        "How many numbered databases a node of a cluster has, instead of 'databases'.";
    ClusterSlotStatsEnabled "cluster-slot-stats-enabled" Kind::Flag, "no", Live,
        "Whether the time and the bytes of the requests for each slot are counted, for CLUSTER SLOT-STATS.";

    // Features that are not built yet: options with the values that are true until then.
    EnableModuleCommand "enable-module-command" ACCESS, "no", Startup,
        "Connections that may use MODULE LOAD, which answers with an error, because there are no modules.";
    IoThreadsDoReads "io-threads-do-reads" NO, "no", Startup,
        "Whether these threads also read; see 'workers'.";
    Activedefrag "activedefrag" NO, "no", Live,
        "Whether memory is defragmented while serving; it is not yet, and a configuration with yes is warned of.";
    SocketMarkId "socket-mark-id" Kind::Fixed(&["0"]), "0", Startup,
        "Mark of the sockets for the system's routing; none is set yet.";
    SyslogEnabled "syslog-enabled" NO, "no", Startup,
        "Whether log lines go to the system's log; only to 'logfile' so far.";
    AlwaysShowLogo "always-show-logo" NO, "no", Startup,
        "Whether a logo is logged at the start; there is none.";
    DisableThp "disable-thp" NO, "no", Startup,
        "Whether transparent huge pages are switched off for this process; the system's choice stands.";
    LocaleCollate "locale-collate" Kind::Fixed(&["", "C", "POSIX", "C.UTF-8"]), "", Live,
        "Language of the rules by which SORT ALPHA and scripts compare strings; always by their bytes.";
    ImportMode "import-mode" NO, "no", Live,
        "Whether expired keys stay while another server's data is imported; they do not.";
    RdbVersionCheck "rdb-version-check" Kind::Fixed(&["strict"]), "strict", Live,
        "Whether a snapshot of an unknown version is refused: always.";
    LogFormat "log-format" Kind::Fixed(&["legacy"]), "legacy", Live,
        "The form of log lines: Redis's.";
    LogTimestampFormat "log-timestamp-format" Kind::Fixed(&["legacy"]), "legacy", Live,
        "The form of the time in log lines: Redis's.";
    TlsAuthClientsUser "tls-auth-clients-user" Kind::Fixed(&["off"]), "off", Live,
        "Whether a client's certificate names its user; it does not yet.";
    TlsAutoReloadInterval "tls-auto-reload-interval" Kind::Fixed(&["0"]), "0", Live,
        "Seconds after which the files of TLS are read again; CONFIG SET of one of them reads them.";
    UnixSocketGroup "unixsocketgroup" Kind::Fixed(&[""]), "", Own,
        "Group of the Unix socket; that of the process, or of a folder with the bit setgid.";
    HashSeed "hash-seed" Kind::Fixed(&[""]), "", Own,
        "Seed of the hash table, for cursors of SCAN that count at several servers; it is random here.";
    RdmaPort "rdma-port" Kind::Fixed(&["0"]), "0", Own,
        "Port for clients over RDMA; there is none.";
    KeyMemoryHistograms "key-memory-histograms" NO, "no", Live,
        "Whether INFO has histograms of the sizes of keys; it has none yet.";
    AofLoadCorruptTail "aof-load-corrupt-tail-max-size" Kind::Fixed(&["0"]), "0", Live,
        "Most damaged bytes at the end of the AOF that are cut off at the start; none.";
    AvailabilityZone "availability-zone" Kind::Fixed(&[""]), "", Live,
        "Availability zone of this server, for clients; none yet.";
    LuaDeprecatedApi "lua-enable-deprecated-api" = "lua-enable-insecure-api" NO, "no", Own,
        "Whether scripts have functions that Redis has removed; they do not.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_options_place_under_a_name_of_its_own() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.option as usize, index);
            assert_eq!(find(row.name.to_uppercase().as_bytes()).map(|(found, _)| found.option), Some(row.option));
            assert!(row.doc.ends_with('.'), "{}", row.name);
        }
        let mut all: Vec<_> = names().map(|(_, name)| name).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn no_option_that_names_what_is_written_is_for_everybody_to_set() {
        let written = ROWS.iter().filter(|row| row.kind.path() == Path::Written);
        let open = written.clone().filter(|row| matches!(row.change, Change::Live | Change::Hidden));
        assert_eq!(open.map(|row| row.name).collect::<Vec<_>>(), Vec::<&str>::new());
        // The reverse check: each protected option names a file, a folder or the like.
        let protected = ROWS.iter().filter(|row| matches!(row.change, Change::Protected | Change::OwnProtected));
        assert!(protected.clone().all(|row| row.kind.path() == Path::Written), "{protected:?}");
        assert!(written.count() >= 9);
    }

    #[test]
    fn an_alias_leads_to_its_row_and_keeps_its_own_name() {
        let (row, name) = find(b"SlaveOf").expect("an alias");
        assert_eq!((row.option, name), (Opt::Replicaof, "slaveof"));
    }
}
