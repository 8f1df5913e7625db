//! HyperLogLog commands: strings that count distinct elements approximately.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! hyperloglog_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

PfAdd "pfadd", HyperLogLog, arity -2, since "2.8.9"
    [WRITE DENYOOM FAST] [HYPERLOGLOG]
    keys (1; RW INSERT)
    merges (PfAdd, Shape::Members, Nobody)
    summary "Counts elements into a HyperLogLog, creating it when it is missing."
    complexity "O(1) to add every element."
    grammar "key [element...]";

PfCount "pfcount", HyperLogLog, arity -2, since "2.8.9"
    [READONLY MAY_REPLICATE] [HYPERLOGLOG]
    keys (1 to -1 step 1; RW ACCESS; "RW because it may change the internal representation of the key, and propagate to \
        replicas")
    summary "Estimates how many different elements one or more HyperLogLogs have counted."
    complexity "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of \
        keys, and much bigger constant times, when called with multiple keys."
    grammar "key...";

PfDebug "pfdebug", HyperLogLog, arity 3, since "2.8.9"
    [WRITE DENYOOM ADMIN] [HYPERLOGLOG]
    keys (2; RW ACCESS)
    system true
    summary "Shows what is inside a HyperLogLog, for tests."
    complexity "N/A"
    grammar "subcommand key";

PfMerge "pfmerge", HyperLogLog, arity -2, since "2.8.9"
    [WRITE DENYOOM] [HYPERLOGLOG]
    keys (1; RW ACCESS INSERT) (2 to -1 step 1; RO ACCESS)
    repeats (Repeat::Always)
    summary "Makes a HyperLogLog that has counted what each of several ones has."
    complexity "O(N) to merge N HyperLogLogs, but with high constant times."
    grammar "destkey:key sourcekey:key#1...";

PfSelfTest "pfselftest", HyperLogLog, arity 1, since "2.8.9"
    [ADMIN] [HYPERLOGLOG]
    system true
    summary "Tests the HyperLogLog's registers and the error of its estimates."
    complexity "N/A"
    grammar "";

    } };
}
