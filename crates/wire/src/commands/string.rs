//! String commands: values of a key that are bytes, or numbers written as such.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! string_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Append "append", String, arity 3, since "2.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW INSERT)
    summary "Adds bytes to the end of a key's string, creating it when it is missing."
    complexity "O(1) amortized, for small appended values"
    grammar "key value";

Decr "decr", String, arity 2, since "1.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    merges (IncrBy, Shape::Step(-1), Sum)
    summary "Lowers the integer at a key by one; a missing key counts as 0."
    complexity "O(1)"
    grammar "key";

DecrBy "decrby", String, arity 3, since "1.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    merges (IncrBy, Shape::Amount(-1), Sum)
    summary "Lowers the integer at a key by a given amount; a missing key counts as 0."
    complexity "O(1)"
    grammar "key decrement:integer";

DelEx "delex", String, arity -2, since "8.4.0"
    [WRITE FAST] [STRING]
    keys (1; RW DELETE VARIABLE_FLAGS)
    summary "Removes a key, which a condition on its string or on the string's digest may prevent."
    complexity "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value."
    grammar "key [condition=<IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest:integer|IFDNE ifdne-digest:integer>]";

DelIfEq "delifeq", String, arity 3, since "9.0.0"
    [WRITE FAST] [STRING]
    keys (1; RM DELETE)
    summary "Removes a key whose string is the given one."
    complexity "O(1)"
    grammar "key value";

Digest "digest", String, arity 2, since "8.4.0"
    [READONLY FAST] [STRING]
    keys (1; RO ACCESS)
    summary "Gives the XXH3 digest of the string at a key."
    complexity "O(N) where N is the length of the string value."
    grammar "key";

Get "get", String, arity 2, since "1.0.0"
    [READONLY FAST] [STRING]
    keys (1; RO ACCESS)
    merges (MGet, Shape::Keys, EachOrError)
    summary "Gives the string at a key."
    complexity "O(1)"
    grammar "key";

GetDel "getdel", String, arity 2, since "6.2.0"
    [WRITE FAST] [STRING]
    keys (1; RW ACCESS DELETE)
    summary "Gives the string at a key and removes the key."
    complexity "O(1)"
    grammar "key";

GetEx "getex", String, arity -2, since "6.2.0"
    [WRITE FAST] [STRING]
    keys (1; RW ACCESS UPDATE; "RW and UPDATE because it changes the TTL")
    summary "Gives the string at a key and can set or remove the key's deadline."
    complexity "O(1)"
    grammar "key [expiration=<EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|PXAT \
        unix-time-milliseconds:unix-time|PERSIST>]";

GetRange "getrange", String, arity 4, since "2.4.0"
    [READONLY] [STRING]
    keys (1; RO ACCESS)
    summary "Gives the part of a key's string between two offsets."
    complexity "O(N) where N is the length of the returned string"
    grammar "key start:integer end:integer";

GetSet "getset", String, arity 3, since "1.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    deprecated "6.2.0" "`SET` with the `!GET` argument"
    summary "Replaces the string at a key and gives the one before."
    complexity "O(1)"
    grammar "key value";

Incr "incr", String, arity 2, since "1.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    merges (IncrBy, Shape::Step(1), Sum)
    summary "Raises the integer at a key by one; a missing key counts as 0."
    complexity "O(1)"
    grammar "key";

IncrBy "incrby", String, arity 3, since "1.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    merges (IncrBy, Shape::Amount(1), Sum)
    summary "Raises the integer at a key by a given amount; a missing key counts as 0."
    complexity "O(1)"
    grammar "key increment:integer";

IncrByFloat "incrbyfloat", String, arity 3, since "2.6.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    summary "Raises the floating-point number at a key by a given amount; a missing key counts as 0."
    complexity "O(1)"
    grammar "key increment:double";

IncrEx "increx", String, arity -2, since "8.8.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; RW ACCESS UPDATE)
    summary "Raises the number at a key by a given amount within bounds, and can give the key a deadline."
    complexity "O(1)"
    grammar "key [increment=<BYFLOAT float:double|BYINT integer:integer>] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] \
        [expiration=<EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|PXAT \
        unix-time-milliseconds:unix-time|PERSIST>] [ENX]";

Lcs "lcs", String, arity -3, since "7.0.0"
    [READONLY] [STRING]
    keys (1 to 1 step 1; RO ACCESS)
    summary "Finds the longest subsequence that the strings at two keys have in common."
    complexity "O(N*M) where N and M are the lengths of the two strings"
    grammar "key1:key key2:key [LEN] [IDX] [MINMATCHLEN len:integer] [WITHMATCHLEN]";

MGet "mget", String, arity -2, since "1.0.0"
    [READONLY FAST] [STRING]
    keys (1 to -1 step 1; RO ACCESS)
    tips "request_policy:multi_shard"
    summary "Gives the strings at several keys, atomically."
    complexity "O(N) where N is the number of keys"
    grammar "key...";

MSet "mset", String, arity -3, since "1.0.1"
    [WRITE DENYOOM] [STRING]
    keys (1 to -1 step 2; OW UPDATE)
    repeats (Repeat::Always)
    tips "request_policy:multi_shard" "response_policy:all_succeeded"
    summary "Sets the strings at several keys, atomically."
    complexity "O(N) where N is the number of keys"
    grammar "key_value=<key value>...";

MSetEx "msetex", String, arity -4, since "8.4.0"
    [WRITE DENYOOM MOVABLE_KEYS] [STRING]
    keys (1 counted step 2; OW UPDATE)
    tips "request_policy:multi_shard" "response_policy:all_succeeded"
    summary "Sets the strings at several keys, atomically; options make it conditional or timed."
    complexity "O(N) where N is the number of keys to set."
    grammar "numkeys:integer data=<key value>... [condition=<NX|XX>] [expiration=<EX seconds:integer|PX \
        milliseconds:integer|EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|KEEPTTL>]";

MSetNx "msetnx", String, arity -3, since "1.0.1"
    [WRITE DENYOOM] [STRING]
    keys (1 to -1 step 2; OW INSERT)
    tips "request_policy:multi_shard" "response_policy:agg_min"
    summary "Sets the strings at several keys, atomically, unless one of the keys exists."
    complexity "O(N) where N is the number of keys"
    grammar "key_value=<key value>...";

PSetEx "psetex", String, arity 4, since "2.6.0"
    [WRITE DENYOOM] [STRING]
    keys (1; OW UPDATE)
    repeats (Repeat::Always)
    summary "Sets a key's string and its time to live in milliseconds."
    complexity "O(1)"
    grammar "key milliseconds:integer value";

Set "set", String, arity -3, since "1.0.0"
    [WRITE DENYOOM] [STRING]
    keys (1; RW ACCESS UPDATE VARIABLE_FLAGS; "RW and ACCESS due to the optional `GET` argument")
    merges (MSet, Shape::KeyValue, Same)
    repeats (Repeat::Only(3, &["EX", "PX", "EXAT", "PXAT", "KEEPTTL"]))
    summary "Sets a key's string, whatever the key held before; options make it conditional, timed or return the \
        old one."
    complexity "O(1)"
    grammar "key value [condition=<NX|XX|IFEQ ifeq-value@8.4.0|IFNE ifne-value@8.4.0|IFDEQ \
        ifdeq-digest:integer@8.4.0|IFDNE ifdne-digest:integer@8.4.0>@2.6.12] [GET@6.2.0] [expiration=<EX \
        seconds:integer@2.6.12|PX milliseconds:integer@2.6.12|EXAT unix-time-seconds:unix-time@6.2.0|PXAT \
        unix-time-milliseconds:unix-time@6.2.0|KEEPTTL@6.0.0>]";

SetEx "setex", String, arity 4, since "2.0.0"
    [WRITE DENYOOM] [STRING]
    keys (1; OW UPDATE)
    repeats (Repeat::Always)
    summary "Sets a key's string and its time to live in seconds."
    complexity "O(1)"
    grammar "key seconds:integer value";

SetNx "setnx", String, arity 3, since "1.0.0"
    [WRITE DENYOOM FAST] [STRING]
    keys (1; OW INSERT)
    summary "Sets a key's string unless the key exists."
    complexity "O(1)"
    grammar "key value";

SetRange "setrange", String, arity 4, since "2.2.0"
    [WRITE DENYOOM] [STRING]
    keys (1; RW UPDATE)
    summary "Overwrites part of a key's string from an offset on, padding with zero bytes where it is shorter."
    complexity "O(M) where M is the length of the value; O(1) amortized for small ones"
    grammar "key offset:integer value";

StrLen "strlen", String, arity 2, since "2.2.0"
    [READONLY FAST] [STRING]
    keys (1; RO)
    summary "Gives the length in bytes of the string at a key."
    complexity "O(1)"
    grammar "key";

SubStr "substr", String, arity 4, since "1.0.0"
    [READONLY] [STRING]
    keys (1; RO ACCESS)
    deprecated "2.0.0" "`GETRANGE`"
    summary "Gives the part of a key's string between two offsets; the old name of GETRANGE."
    complexity "O(N) where N is the length of the returned string"
    grammar "key start:integer end:integer";

    } };
}
