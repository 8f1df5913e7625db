//! Commands that clients of a cluster send about their connection.
//!
//! Rows only; what a row says is explained in `mod.rs`.

macro_rules! cluster_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Asking "asking", Cluster, arity 1, since "3.0.0"
    [FAST] [CONNECTION]
    summary "Says that the next command follows a redirection to a slot on the move."
    complexity "O(1)"
    grammar "";

ReadOnly "readonly", Cluster, arity 1, since "3.0.0"
    [LOADING STALE FAST] [CONNECTION]
    summary "Lets this connection read from a replica of a cluster."
    complexity "O(1)"
    grammar "";

ReadWrite "readwrite", Cluster, arity 1, since "3.0.0"
    [LOADING STALE FAST] [CONNECTION]
    summary "Takes back what READONLY said."
    complexity "O(1)"
    grammar "";

    } };
}
