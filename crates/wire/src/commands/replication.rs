//! Commands about copies of the data on other servers.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! replication_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Failover "failover", Server, arity -1, since "6.2.0"
    [ADMIN NOSCRIPT STALE] []
    reach All
    summary "Hands the role of the primary over to one of the replicas."
    complexity "O(1)"
    grammar "[TO target=<host port:integer [FORCE]>] [ABORT] [TIMEOUT milliseconds:integer]";

PSync "psync", Server, arity -3, since "2.8.0"
    [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] []
    connection Messages
    summary "Begins to send all changes to a replica, from an offset on if possible."
    complexity ""
    grammar "replicationid offset:integer";

ReplConf "replconf", Server, arity -1, since "3.0.0"
    [ADMIN NOSCRIPT LOADING STALE ALLOW_BUSY] []
    connection Messages
    system true
    summary "Tells a primary about its replica."
    complexity "O(1)"
    grammar "";

ReplicaOf "replicaof", Server, arity 3, since "5.0.0"
    [ADMIN NOSCRIPT STALE NO_ASYNC_LOADING] []
    reach All
    summary "Makes this server the replica of another, or a primary."
    complexity "O(1)"
    grammar "args=<host-port=<host port:integer>|no-one=<NO ONE>>";

Role "role", Server, arity 1, since "2.8.12"
    [NOSCRIPT LOADING STALE FAST] [ADMIN DANGEROUS]
    summary "Tells whether this server is a primary or a replica, and of whom."
    complexity "O(1)"
    grammar "";

SlaveOf "slaveof", Server, arity 3, since "1.0.0"
    [ADMIN NOSCRIPT STALE NO_ASYNC_LOADING] []
    reach All
    deprecated "5.0.0" "`REPLICAOF`"
    summary "Makes this server the replica of another, or a primary."
    complexity "O(1)"
    grammar "args=<host-port=<host port:integer>|no-one=<NO ONE>>";

Sync "sync", Server, arity 1, since "1.0.0"
    [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] []
    connection Messages
    summary "Begins to send all data to a replica."
    complexity ""
    grammar "";

Wait "wait", Generic, arity 3, since "3.0.0"
    [BLOCKING] [CONNECTION]
    waits (Place::Last, Milliseconds)
    connection Written
    tips "request_policy:all_shards" "response_policy:agg_min"
    summary "Waits until so many replicas have what this connection has written."
    complexity "O(1)"
    grammar "numreplicas:integer timeout:integer";

WaitAof "waitaof", Generic, arity 4, since "7.2.0"
    [BLOCKING] [CONNECTION]
    waits (Place::Last, Milliseconds)
    connection Written
    tips "request_policy:all_shards" "response_policy:agg_min"
    summary "Waits until what this connection has written is on the disks of so many servers."
    complexity "O(1)"
    grammar "numlocal:integer numreplicas:integer timeout:integer";

    } };
}
