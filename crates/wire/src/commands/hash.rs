//! Hash commands: values of a key that are fields with values of their own, and the deadlines of fields.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! hash_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

HDel "hdel", Hash, arity -3, since "2.0.0"
    [WRITE FAST] [HASH]
    keys (1; RW DELETE)
    merges (HDel, Shape::Members, Nobody)
    summary "Removes fields from a hash, and the key with the last of them."
    complexity "O(N) where N is the number of fields to be removed."
    grammar "key field...";

HExists "hexists", Hash, arity 3, since "2.0.0"
    [READONLY FAST] [HASH]
    keys (1; RO)
    summary "Tells whether a hash has a field."
    complexity "O(1)"
    grammar "key field";

HExpire "hexpire", Hash, arity -6, since "7.4.0"
    [WRITE FAST] [HASH]
    keys (1; RW UPDATE)
    summary "Has fields of a hash go away after a number of seconds."
    complexity "O(N) where N is the number of specified fields"
    grammar "key seconds:integer [condition=<NX|XX|GT|LT>] FIELDS fields=<numfields:integer field...>";

HExpireAt "hexpireat", Hash, arity -6, since "7.4.0"
    [WRITE FAST] [HASH]
    keys (1; RW UPDATE)
    summary "Has fields of a hash go away at a time in seconds since 1970."
    complexity "O(N) where N is the number of specified fields"
    grammar "key unix-time-seconds:unix-time [condition=<NX|XX|GT|LT>] FIELDS fields=<numfields:integer field...>";

HExpireTime "hexpiretime", Hash, arity -5, since "7.4.0"
    [READONLY FAST] [HASH]
    keys (1; RO ACCESS)
    summary "Gives the times in seconds since 1970 at which fields of a hash go away."
    complexity "O(N) where N is the number of specified fields"
    grammar "key FIELDS fields=<numfields:integer field...>";

HGet "hget", Hash, arity 3, since "2.0.0"
    [READONLY FAST] [HASH]
    keys (1; RO ACCESS)
    merges (HMGet, Shape::Members, Each)
    summary "Gives the value of a field of a hash."
    complexity "O(1)"
    grammar "key field";

HGetAll "hgetall", Hash, arity 2, since "2.0.0"
    [READONLY] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives all fields of a hash with their values."
    complexity "O(N) where N is the size of the hash."
    grammar "key";

HGetDel "hgetdel", Hash, arity -5, since "8.0.0"
    [WRITE FAST] [HASH]
    keys (1; RW ACCESS DELETE)
    summary "Gives the values of fields of a hash and removes the fields."
    complexity "O(N) where N is the number of specified fields"
    grammar "key FIELDS fields=<numfields:integer field...>";

HGetEx "hgetex", Hash, arity -5, since "8.0.0"
    [WRITE FAST] [HASH]
    keys (1; RW ACCESS UPDATE; "RW and UPDATE because it changes the TTL")
    summary "Gives the values of fields of a hash and can set or remove the fields' deadlines."
    complexity "O(N) where N is the number of specified fields"
    grammar "key [expiration=<EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|PXAT \
        unix-time-milliseconds:unix-time|PERSIST>] FIELDS fields=<numfields:integer field...>";

HIncrBy "hincrby", Hash, arity 4, since "2.0.0"
    [WRITE DENYOOM FAST] [HASH]
    keys (1; RW ACCESS UPDATE)
    summary "Raises the integer in a field of a hash by a given amount; a missing field counts as 0."
    complexity "O(1)"
    grammar "key field increment:integer";

HIncrByFloat "hincrbyfloat", Hash, arity 4, since "2.6.0"
    [WRITE DENYOOM FAST] [HASH]
    keys (1; RW ACCESS UPDATE)
    summary "Raises the floating-point number in a field of a hash by a given amount; a missing field counts as 0."
    complexity "O(1)"
    grammar "key field increment:double";

HKeys "hkeys", Hash, arity 2, since "2.0.0"
    [READONLY] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives all fields of a hash."
    complexity "O(N) where N is the size of the hash."
    grammar "key";

HLen "hlen", Hash, arity 2, since "2.0.0"
    [READONLY FAST] [HASH]
    keys (1; RO)
    summary "Gives the number of fields of a hash."
    complexity "O(1)"
    grammar "key";

HMGet "hmget", Hash, arity -3, since "2.0.0"
    [READONLY FAST] [HASH]
    keys (1; RO ACCESS)
    summary "Gives the values of several fields of a hash."
    complexity "O(N) where N is the number of fields being requested."
    grammar "key field...";

HMSet "hmset", Hash, arity -4, since "2.0.0"
    [WRITE DENYOOM FAST] [HASH]
    keys (1; RW UPDATE)
    repeats (Repeat::Always)
    deprecated "4.0.0" "`HSET` with multiple field-value pairs"
    summary "Sets fields of a hash."
    complexity "O(N) where N is the number of fields being set."
    grammar "key field_value=<field value>...";

HPExpire "hpexpire", Hash, arity -6, since "7.4.0"
    [WRITE FAST] [HASH]
    keys (1; RW UPDATE)
    summary "Has fields of a hash go away after a number of milliseconds."
    complexity "O(N) where N is the number of specified fields"
    grammar "key milliseconds:integer [condition=<NX|XX|GT|LT>] FIELDS fields=<numfields:integer field...>";

HPExpireAt "hpexpireat", Hash, arity -6, since "7.4.0"
    [WRITE FAST] [HASH]
    keys (1; RW UPDATE)
    summary "Has fields of a hash go away at a time in milliseconds since 1970."
    complexity "O(N) where N is the number of specified fields"
    grammar "key unix-time-milliseconds:unix-time [condition=<NX|XX|GT|LT>] FIELDS fields=<numfields:integer \
        field...>";

HPExpireTime "hpexpiretime", Hash, arity -5, since "7.4.0"
    [READONLY FAST] [HASH]
    keys (1; RO ACCESS)
    summary "Gives the times in milliseconds since 1970 at which fields of a hash go away."
    complexity "O(N) where N is the number of specified fields"
    grammar "key FIELDS fields=<numfields:integer field...>";

HPTtl "hpttl", Hash, arity -5, since "7.4.0"
    [READONLY FAST] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives the milliseconds until fields of a hash go away."
    complexity "O(N) where N is the number of specified fields"
    grammar "key FIELDS fields=<numfields:integer field...>";

HPersist "hpersist", Hash, arity -5, since "7.4.0"
    [WRITE FAST] [HASH]
    keys (1; RW UPDATE)
    summary "Takes the deadlines of fields of a hash away."
    complexity "O(N) where N is the number of specified fields"
    grammar "key FIELDS fields=<numfields:integer field...>";

HRandField "hrandfield", Hash, arity -2, since "6.2.0"
    [READONLY] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives one or several fields of a hash, chosen at random."
    complexity "O(N) where N is the number of fields returned"
    grammar "key [options=<count:integer [WITHVALUES]>]";

HScan "hscan", Hash, arity -3, since "2.8.0"
    [READONLY] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Walks over the fields of a hash, some with each call."
    complexity "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to \
        return back to 0. N is the number of elements inside the collection.."
    grammar "key cursor:integer [MATCH pattern] [COUNT count:integer] [NOVALUES@7.4.0]";

HSet "hset", Hash, arity -4, since "2.0.0"
    [WRITE DENYOOM FAST] [HASH]
    keys (1; RW UPDATE)
    merges (HSet, Shape::FieldsAndValues, Nobody)
    summary "Sets fields of a hash and tells how many of them are new."
    complexity "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called \
        with multiple field/value pairs."
    grammar "key field_value=<field value>...";

HSetEx "hsetex", Hash, arity -6, since "8.0.0"
    [WRITE DENYOOM FAST] [HASH]
    keys (1; RW UPDATE)
    summary "Sets fields of a hash, with a deadline and under a condition if wanted."
    complexity "O(N) where N is the number of fields being set."
    grammar "key [condition=<FNX|FXX>] [expiration=<EX seconds:integer|PX milliseconds:integer|EXAT \
        unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|KEEPTTL>] FIELDS \
        fields=<numfields:integer data=<field value>...>";

HSetNx "hsetnx", Hash, arity 4, since "2.0.0"
    [WRITE DENYOOM FAST] [HASH]
    keys (1; RW INSERT)
    summary "Sets a field of a hash unless it is there."
    complexity "O(1)"
    grammar "key field value";

HStrLen "hstrlen", Hash, arity 3, since "3.2.0"
    [READONLY FAST] [HASH]
    keys (1; RO)
    summary "Gives the length in bytes of the value of a field of a hash."
    complexity "O(1)"
    grammar "key field";

HTtl "httl", Hash, arity -5, since "7.4.0"
    [READONLY FAST] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives the seconds until fields of a hash go away."
    complexity "O(N) where N is the number of specified fields"
    grammar "key FIELDS fields=<numfields:integer field...>";

HVals "hvals", Hash, arity 2, since "2.0.0"
    [READONLY] [HASH]
    keys (1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives all values of a hash."
    complexity "O(N) where N is the size of the hash."
    grammar "key";

    } };
}
