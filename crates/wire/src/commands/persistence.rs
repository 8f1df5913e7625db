//! Commands about the files on disk: snapshots and the AOF.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! persistence_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

BgRewriteAof "bgrewriteaof", Server, arity 1, since "1.0.0"
    [ADMIN NOSCRIPT NO_ASYNC_LOADING] []
    summary "Writes the append-only file anew, in the background."
    complexity "O(1)"
    grammar "";

BgSave "bgsave", Server, arity -1, since "1.0.0"
    [ADMIN NOSCRIPT NO_ASYNC_LOADING] []
    summary "Writes a snapshot, in the background."
    complexity "O(1)"
    grammar "[SCHEDULE@3.2.2]";

LastSave "lastsave", Server, arity 1, since "1.0.0"
    [LOADING STALE FAST] [ADMIN DANGEROUS]
    tips "nondeterministic_output"
    summary "Tells when the data was last written to disk, in seconds since 1970."
    complexity "O(1)"
    grammar "";

Save "save", Server, arity 1, since "1.0.0"
    [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] []
    summary "Writes a snapshot while everybody waits."
    complexity "O(N) where N is the total number of keys in all databases"
    grammar "";

    } };
}
