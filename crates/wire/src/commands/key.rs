//! Commands on keys of any type: life, names, deadlines, iteration.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! key_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Copy "copy", Generic, arity -3, since "6.2.0"
    [WRITE DENYOOM] [KEYSPACE]
    keys (1; RO ACCESS) (2; OW UPDATE)
    summary "Copies what a key holds, with its deadline, to another key or database."
    complexity "O(N) where N is the number of nested items; O(1) for strings"
    grammar "source:key destination:key#1 [DB destination-db:integer] [REPLACE]";

Del "del", Generic, arity -2, since "1.0.0"
    [WRITE] [KEYSPACE]
    keys (1 to -1 step 1; RM DELETE)
    merges (Del, Shape::Keys, Nobody)
    tips "request_policy:multi_shard" "response_policy:agg_sum"
    summary "Removes keys."
    complexity "O(N) where N is the number of keys; for a key that is no string, O(M) where M is the number of its \
        elements"
    grammar "key...";

Dump "dump", Generic, arity 2, since "2.6.0"
    [READONLY] [KEYSPACE]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives what a key holds as bytes that RESTORE takes."
    complexity "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of its elements and M \
        their average size"
    grammar "key";

Exists "exists", Generic, arity -2, since "1.0.0"
    [READONLY FAST] [KEYSPACE]
    keys (1 to -1 step 1; RO)
    merges (Exists, Shape::Keys, Nobody)
    tips "request_policy:multi_shard" "response_policy:agg_sum"
    summary "Counts how many of the given keys exist; a key given twice counts twice."
    complexity "O(N) where N is the number of keys"
    grammar "key...";

Expire "expire", Generic, arity -3, since "1.0.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW UPDATE)
    summary "Sets a key's time to live in seconds."
    complexity "O(1)"
    grammar "key seconds:integer [condition=<NX|XX|GT|LT>@7.0.0]";

ExpireAt "expireat", Generic, arity -3, since "1.2.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW UPDATE)
    summary "Sets a key's deadline as Unix time in seconds."
    complexity "O(1)"
    grammar "key unix-time-seconds:unix-time [condition=<NX|XX|GT|LT>@7.0.0]";

ExpireTime "expiretime", Generic, arity 2, since "7.0.0"
    [READONLY FAST] [KEYSPACE]
    keys (1; RO ACCESS)
    summary "Gives a key's deadline as Unix time in seconds."
    complexity "O(1)"
    grammar "key";

Keys "keys", Generic, arity 2, since "1.0.0"
    [READONLY] [KEYSPACE DANGEROUS]
    reach Each
    tips "request_policy:all_shards" "nondeterministic_output_order"
    summary "Lists all keys that match a pattern."
    complexity "O(N) where N is the number of keys in the database"
    grammar "pattern";

Migrate "migrate", Generic, arity -6, since "2.6.0"
    [WRITE MOVABLE_KEYS] [KEYSPACE DANGEROUS]
    keys (3; RW ACCESS DELETE) (after "KEYS" -2, to the end; RW ACCESS DELETE INCOMPLETE)
    secrets (Secrets::Behind(SecretWords { from: 6, words: &[("auth", 1), ("auth2", 2)], end: Some("keys") }))
    tips "nondeterministic_output"
    summary "Moves keys to another server."
    complexity "O(N) for the transfer, and what DUMP, RESTORE and DEL take for each key"
    grammar "host port:integer key_or_empty_string=<key|empty_string=\"\"> destination-db:integer timeout:integer [COPY@3.0.0] \
        [REPLACE@3.0.0] [authentication=<[AUTH password@4.0.7]|[AUTH2 username_password=<username password>@6.0.0]>] \
        [KEYS key#1...@3.0.6]";

Move "move", Generic, arity 3, since "1.0.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW ACCESS UPDATE)
    summary "Moves a key to another database."
    complexity "O(1)"
    grammar "key db:integer";

Object "object", Generic, arity -2, since "2.2.3"
    [] []
    summary "Holds the commands that look at how a key's value is kept."
    complexity "Depends on subcommand."
    grammar "";

ObjectEncoding "object|encoding" of Object, Generic, arity 3, since "2.2.3"
    [READONLY] [KEYSPACE]
    keys (2; RO)
    tips "nondeterministic_output"
    summary "Names the encoding in which a key's value is kept."
    complexity "O(1)"
    grammar "key";

ObjectFreq "object|freq" of Object, Generic, arity 3, since "4.0.0"
    [READONLY] [KEYSPACE]
    keys (2; RO)
    tips "nondeterministic_output"
    summary "Gives the logarithmic access counter of a key, under an LFU policy."
    complexity "O(1)"
    grammar "key";

ObjectHelp "object|help" of Object, Generic, arity 2, since "6.2.0"
    [LOADING STALE] [KEYSPACE]
    summary "Lists the subcommands of OBJECT."
    complexity "O(1)"
    grammar "";

ObjectIdleTime "object|idletime" of Object, Generic, arity 3, since "2.2.3"
    [READONLY] [KEYSPACE]
    keys (2; RO)
    tips "nondeterministic_output"
    summary "Gives the seconds since a key was last used, unless the policy is LFU."
    complexity "O(1)"
    grammar "key";

ObjectRefCount "object|refcount" of Object, Generic, arity 3, since "2.2.3"
    [READONLY] [KEYSPACE]
    keys (2; RO)
    tips "nondeterministic_output"
    summary "Gives how many references share a key's value."
    complexity "O(1)"
    grammar "key";

Persist "persist", Generic, arity 2, since "2.2.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW UPDATE)
    summary "Removes a key's deadline."
    complexity "O(1)"
    grammar "key";

PExpire "pexpire", Generic, arity -3, since "2.6.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW UPDATE)
    summary "Sets a key's time to live in milliseconds."
    complexity "O(1)"
    grammar "key milliseconds:integer [condition=<NX|XX|GT|LT>@7.0.0]";

PExpireAt "pexpireat", Generic, arity -3, since "2.6.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW UPDATE)
    summary "Sets a key's deadline as Unix time in milliseconds."
    complexity "O(1)"
    grammar "key unix-time-milliseconds:unix-time [condition=<NX|XX|GT|LT>@7.0.0]";

PExpireTime "pexpiretime", Generic, arity 2, since "7.0.0"
    [READONLY FAST] [KEYSPACE]
    keys (1; RO ACCESS)
    summary "Gives a key's deadline as Unix time in milliseconds."
    complexity "O(1)"
    grammar "key";

PTtl "pttl", Generic, arity 2, since "2.6.0"
    [READONLY FAST] [KEYSPACE]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives a key's time to live in milliseconds."
    complexity "O(1)"
    grammar "key";

RandomKey "randomkey", Generic, arity 1, since "1.0.0"
    [READONLY] [KEYSPACE]
    reach Each
    tips "request_policy:all_shards" "nondeterministic_output"
    summary "Gives some key of the database."
    complexity "O(1)"
    grammar "";

Rename "rename", Generic, arity 3, since "1.0.0"
    [WRITE] [KEYSPACE]
    keys (1; RW ACCESS DELETE) (2; OW UPDATE)
    summary "Gives a key another name, replacing what had that name."
    complexity "O(1)"
    grammar "key newkey:key#1";

RenameNx "renamenx", Generic, arity 3, since "1.0.0"
    [WRITE FAST] [KEYSPACE]
    keys (1; RW ACCESS DELETE) (2; OW INSERT)
    summary "Gives a key another name, unless that name is taken."
    complexity "O(1)"
    grammar "key newkey:key#1";

Restore "restore", Generic, arity -4, since "2.6.0"
    [WRITE DENYOOM] [KEYSPACE DANGEROUS]
    keys (1; OW UPDATE)
    summary "Makes a key from the bytes that DUMP gave."
    complexity "O(1) to create the key and additional O(N*M) to reconstruct the value, where N is the number of its \
        elements and M their average size; for sorted sets O(N*M*log(N))"
    grammar "key ttl:integer serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds:integer@5.0.0] \
        [FREQ frequency:integer@5.0.0]";

RestoreAsking "restore-asking", Server, arity -4, since "3.0.0"
    [WRITE DENYOOM ASKING] [KEYSPACE DANGEROUS]
    keys (1; OW UPDATE)
    system true
    summary "RESTORE as one node of a cluster sends it to another."
    complexity "O(1) to create the key and additional O(N*M) to reconstruct the value, where N is the number of its \
        elements and M their average size; for sorted sets O(N*M*log(N))"
    grammar "key ttl:integer serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds:integer@5.0.0] \
        [FREQ frequency:integer@5.0.0]";

Scan "scan", Generic, arity -2, since "2.8.0"
    [READONLY] [KEYSPACE]
    reach Each
    tips "nondeterministic_output" "request_policy:special"
    summary "Walks over the keys of the database, a few at a time."
    complexity "O(1) per call; O(N) for a complete walk, where N is the number of keys"
    grammar "cursor:integer [MATCH pattern] [COUNT count:integer] [TYPE type@6.0.0]";

Sort "sort", Generic, arity -2, since "1.0.0"
    [WRITE DENYOOM MOVABLE_KEYS] [SET SORTEDSET LIST DANGEROUS]
    keys (1; RO ACCESS)
        (unknown; RO ACCESS; "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
            content of the key we sort")
        (unknown; OW UPDATE; "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere \
            in the argument array")
    reach All
    summary "Gives the elements of a list, set or sorted set in an order of their own, or stores them as a list."
    complexity "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned \
        elements. When the elements are not sorted, complexity is O(N)."
    grammar "key [BY pattern:pattern#1] [LIMIT offset_count=<offset:integer count:integer>] [GET pattern:pattern#1...+] \
        [order=<ASC|DESC>] [sorting=ALPHA] [STORE destination:key#2]";

SortRo "sort_ro", Generic, arity -2, since "7.0.0"
    [READONLY MOVABLE_KEYS] [SET SORTEDSET LIST DANGEROUS]
    keys (1; RO ACCESS)
        (unknown; RO ACCESS; "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
            content of the key we sort")
    reach All
    summary "Gives the elements of a list, set or sorted set in an order of their own."
    complexity "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned \
        elements. When the elements are not sorted, complexity is O(N)."
    grammar "key [BY pattern:pattern#1] [LIMIT offset_count=<offset:integer count:integer>] [GET pattern:pattern#1...+] \
        [order=<ASC|DESC>] [sorting=ALPHA]";

Touch "touch", Generic, arity -2, since "3.2.1"
    [READONLY FAST] [KEYSPACE]
    keys (1 to -1 step 1; RO)
    merges (Touch, Shape::Keys, Nobody)
    tips "request_policy:multi_shard" "response_policy:agg_sum"
    summary "Marks keys as just used and counts those that exist."
    complexity "O(N) where N is the number of keys"
    grammar "key...";

Ttl "ttl", Generic, arity 2, since "1.0.0"
    [READONLY FAST] [KEYSPACE]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives a key's time to live in seconds."
    complexity "O(1)"
    grammar "key";

Type "type", Generic, arity 2, since "1.0.0"
    [READONLY FAST] [KEYSPACE]
    keys (1; RO)
    summary "Names the type of a key's value."
    complexity "O(1)"
    grammar "key";

Unlink "unlink", Generic, arity -2, since "4.0.0"
    [WRITE FAST] [KEYSPACE]
    keys (1 to -1 step 1; RM DELETE)
    merges (Unlink, Shape::Keys, Nobody)
    tips "request_policy:multi_shard" "response_policy:agg_sum"
    summary "Removes keys; the memory is given back in the background."
    complexity "O(1) per key; O(N) in the background, where N is the number of allocations of the removed values"
    grammar "key...";

    } };
}
