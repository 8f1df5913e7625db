//! Transactions: queueing, running and watching.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! transaction_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Discard "discard", Transactions, arity 1, since "2.0.0"
    [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [TRANSACTION]
    connection Transaction
    summary "Drops the commands queued since MULTI, and all watches."
    complexity "O(N), when N is the number of queued commands"
    grammar "";

Exec "exec", Transactions, arity 1, since "1.2.0"
    [NOSCRIPT LOADING STALE SKIP_SLOWLOG] [TRANSACTION]
    connection Transaction
    summary "Runs the commands queued since MULTI as one, unless a watched key has changed."
    complexity "Depends on commands in the transaction"
    grammar "";

Multi "multi", Transactions, arity 1, since "1.2.0"
    [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [TRANSACTION]
    connection Transaction
    summary "Begins a transaction: the commands that follow are queued until EXEC."
    complexity "O(1)"
    grammar "";

Unwatch "unwatch", Transactions, arity 1, since "2.2.0"
    [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [TRANSACTION]
    connection Watch
    summary "Forgets all keys that this connection watches."
    complexity "O(1)"
    grammar "";

Watch "watch", Transactions, arity -2, since "2.2.0"
    [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] [TRANSACTION]
    keys (1 to -1 step 1; RO)
    connection Watch
    summary "Watches keys: the next EXEC does nothing if one of them changes before."
    complexity "O(1) for every key."
    grammar "key...";

    } };
}
