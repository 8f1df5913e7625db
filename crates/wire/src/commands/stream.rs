//! Stream commands: entries in the order of their ids, and the consumer groups that read them.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! stream_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

XAck "xack", Stream, arity -4, since "5.0.0"
    [WRITE FAST] [STREAM]
    keys (1; RW UPDATE)
    summary "Acknowledges entries that were delivered to consumers of a group."
    complexity "O(1) for each message ID processed."
    grammar "key group id...";

XAckDel "xackdel", Stream, arity -6, since "8.2.0"
    [WRITE FAST] [STREAM]
    keys (1; RW UPDATE DELETE)
    summary "Acknowledges entries that were delivered to consumers of a group, and deletes them."
    complexity "O(1) for each message ID processed."
    grammar "key group [condition=<KEEPREF|DELREF|ACKED>] IDS ids=<numids:integer id...>";

XAdd "xadd", Stream, arity -5, since "5.0.0"
    [WRITE DENYOOM FAST] [STREAM]
    keys (1; RW UPDATE; "UPDATE instead of INSERT because of the optional trimming feature")
    repeats (Repeat::Numbered)
    tips "nondeterministic_output"
    summary "Appends an entry to a stream, creating it when it is missing."
    complexity "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted."
    grammar "key [NOMKSTREAM@6.2.0] [condition=<KEEPREF|DELREF|ACKED>@8.2.0] \
        [idmp=<idmpauto-with-pid=<idmpauto-token=IDMPAUTO pid>|idmp-with-pid-iid=<idmp-token=IDMP pid iid>>@8.6.0] \
        [trim=<strategy=<MAXLEN|MINID@6.2.0> [operator=<equal=\"=\"|approximately=\"~\">] threshold \
        [LIMIT count:integer@6.2.0]>] id_or_auto=<auto_id=\"*\"|id> field_value=<field value>...";

XAutoClaim "xautoclaim", Stream, arity -6, since "6.2.0"
    [WRITE FAST] [STREAM]
    keys (1; RW DELETE)
    tips "nondeterministic_output"
    summary "Gives a consumer the entries of its group that others have had for too long."
    complexity "O(1) if COUNT is small."
    grammar "key group consumer min-idle-time start [COUNT count:integer] [JUSTID]";

XCfgSet "xcfgset", Stream, arity -2, since "8.6.0"
    [WRITE FAST] [STREAM]
    keys (1; RW UPDATE)
    summary "Sets for how long and how many ids of its producers' messages a stream knows."
    complexity "O(1)"
    grammar "key [idmp-duration-block=<idmp-duration-token=IDMP-DURATION duration:integer>] \
        [idmp-maxsize-block=<idmp-maxsize-token=IDMP-MAXSIZE maxsize:integer>]";

XClaim "xclaim", Stream, arity -6, since "5.0.0"
    [WRITE FAST] [STREAM]
    keys (1; RW UPDATE)
    tips "nondeterministic_output"
    summary "Gives a consumer entries of its group that others have, as if they had been delivered to it."
    complexity "O(log N) with N being the number of messages in the PEL of the consumer group."
    grammar "key group consumer min-idle-time id... [IDLE ms:integer] [TIME unix-time-milliseconds:unix-time] [RETRYCOUNT \
        count:integer] [FORCE] [JUSTID] [LASTID id]";

XDel "xdel", Stream, arity -3, since "5.0.0"
    [WRITE FAST] [STREAM]
    keys (1; RW DELETE)
    summary "Deletes entries of a stream and counts them."
    complexity "O(1) for each single item to delete in the stream, regardless of the stream size."
    grammar "key id...";

XDelEx "xdelex", Stream, arity -5, since "8.2.0"
    [WRITE FAST] [STREAM]
    keys (1; RW DELETE)
    summary "Deletes entries of a stream, with regard to the groups that read them."
    complexity "O(1) for each single item to delete in the stream, regardless of the stream size."
    grammar "key [condition=<KEEPREF|DELREF|ACKED>] IDS ids=<numids:integer id...>";

XGroup "xgroup", Stream, arity -2, since "5.0.0"
    [] []
    summary "A container for commands on groups of consumers."
    complexity "Depends on subcommand."
    grammar "";

XGroupCreate "xgroup|create" of XGroup, Stream, arity -5, since "5.0.0"
    [WRITE DENYOOM] [STREAM]
    keys (2; RW INSERT)
    summary "Creates a group of consumers that begin to read after an id."
    complexity "O(1)"
    grammar "key groupname id=<id|new_id=\"$\"> [MKSTREAM] [ENTRIESREAD entries_read:integer]";

XGroupCreateConsumer "xgroup|createconsumer" of XGroup, Stream, arity 5, since "6.2.0"
    [WRITE DENYOOM] [STREAM]
    keys (2; RW INSERT)
    summary "Creates a consumer in a group."
    complexity "O(1)"
    grammar "key groupname consumername";

XGroupDelConsumer "xgroup|delconsumer" of XGroup, Stream, arity 5, since "5.0.0"
    [WRITE] [STREAM]
    keys (2; RW DELETE)
    summary "Removes a consumer from a group, with what it has not acknowledged."
    complexity "O(1)"
    grammar "key groupname consumername";

XGroupDestroy "xgroup|destroy" of XGroup, Stream, arity 4, since "5.0.0"
    [WRITE] [STREAM]
    keys (2; RW DELETE)
    summary "Removes a group of consumers."
    complexity "O(N) where N is the number of entries in the group's pending entries list (PEL)."
    grammar "key groupname";

XGroupHelp "xgroup|help" of XGroup, Stream, arity 2, since "5.0.0"
    [LOADING STALE] [STREAM]
    summary "Lists the subcommands."
    complexity "O(1)"
    grammar "";

XGroupSetId "xgroup|setid" of XGroup, Stream, arity -5, since "5.0.0"
    [WRITE] [STREAM]
    keys (2; RW UPDATE)
    summary "Sets the id after which a group goes on reading."
    complexity "O(1)"
    grammar "key groupname id=<id|new_id=\"$\"> [ENTRIESREAD entries_read:integer]";

XInfo "xinfo", Stream, arity -2, since "5.0.0"
    [] []
    summary "A container for commands that describe streams."
    complexity "Depends on subcommand."
    grammar "";

XInfoConsumers "xinfo|consumers" of XInfo, Stream, arity 4, since "5.0.0"
    [READONLY] [STREAM]
    keys (2; RO ACCESS)
    tips "nondeterministic_output"
    summary "Describes the consumers of a group."
    complexity "O(1)"
    grammar "key groupname";

XInfoGroups "xinfo|groups" of XInfo, Stream, arity 3, since "5.0.0"
    [READONLY] [STREAM]
    keys (2; RO ACCESS)
    summary "Describes the groups of a stream."
    complexity "O(1)"
    grammar "key";

XInfoHelp "xinfo|help" of XInfo, Stream, arity 2, since "5.0.0"
    [LOADING STALE] [STREAM]
    summary "Lists the subcommands."
    complexity "O(1)"
    grammar "";

XInfoStream "xinfo|stream" of XInfo, Stream, arity -3, since "5.0.0"
    [READONLY] [STREAM]
    keys (2; RO ACCESS)
    summary "Describes a stream."
    complexity "O(1)"
    grammar "key [FULL full=<[COUNT count:integer]>]";

XLen "xlen", Stream, arity 2, since "5.0.0"
    [READONLY FAST] [STREAM]
    keys (1; RO)
    summary "Gives the number of entries of a stream."
    complexity "O(1)"
    grammar "key";

XNack "xnack", Stream, arity -7, since "8.8.0"
    [WRITE FAST] [STREAM]
    keys (1; RW UPDATE)
    summary "Gives back entries that are pending in a group, for others to claim at once."
    complexity "O(1) for each message ID processed."
    grammar "key group mode=<SILENT|FAIL|FATAL> IDS ids=<numids:integer id...> [RETRYCOUNT count:integer] [FORCE]";

XPending "xpending", Stream, arity -3, since "5.0.0"
    [READONLY] [STREAM]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Describes the entries of a group that were delivered and not acknowledged."
    complexity "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per call \
        is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the command \
        returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an additional O(N) \
        time for iterating every consumer."
    grammar "key group [filters=<[IDLE min-idle-time:integer@6.2.0] start end count:integer [consumer]>]";

XRange "xrange", Stream, arity -4, since "5.0.0"
    [READONLY] [STREAM]
    keys (1; RO ACCESS)
    summary "Gives the entries of a stream between two ids."
    complexity "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for the \
        first 10 elements with COUNT), you can consider it O(1)."
    grammar "key start end [COUNT count:integer]";

XRead "xread", Stream, arity -4, since "5.0.0"
    [READONLY BLOCKING MOVABLE_KEYS] [STREAM]
    keys (after "STREAMS" 1, half; RO ACCESS)
    waits (Place::Behind("BLOCK"), Milliseconds)
    summary "Gives the entries of streams after given ids, and may wait for some."
    complexity "For each stream mentioned: O(N) with N being the number of elements being returned, it means that \
        XREAD-ing with a fixed COUNT is O(1). Note that when the BLOCK option is used, XADD will pay O(M) time in order to \
        serve the M clients blocked on the stream getting new data."
    grammar "[COUNT count:integer] [BLOCK milliseconds:integer] STREAMS streams=<key... id...>";

XReadGroup "xreadgroup", Stream, arity -7, since "5.0.0"
    [WRITE BLOCKING MOVABLE_KEYS] [STREAM]
    keys (after "STREAMS" 4, half; RO ACCESS)
    waits (Place::Behind("BLOCK"), Milliseconds)
    summary "Gives a consumer of a group entries that no other one has got, or those that it has not acknowledged."
    complexity "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant (e.g. \
        always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when XREADGROUP \
        blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream getting new data."
    grammar "GROUP group_consumer=<group consumer> [COUNT count:integer] [BLOCK milliseconds:integer] [CLAIM \
        min-idle-time:integer@8.4.0] [NOACK] STREAMS streams=<key... id...>";

XRevRange "xrevrange", Stream, arity -4, since "5.0.0"
    [READONLY] [STREAM]
    keys (1; RO ACCESS)
    summary "Gives the entries of a stream between two ids, the last one first."
    complexity "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the first 10 \
        elements with COUNT), you can consider it O(1)."
    grammar "key end start [COUNT count:integer]";

XSetId "xsetid", Stream, arity -3, since "5.0.0"
    [WRITE DENYOOM FAST] [STREAM]
    keys (1; RW UPDATE)
    summary "Sets the last id and the counters of a stream; meant for replication."
    complexity "O(1)"
    grammar "key last-id [ENTRIESADDED entries_added:integer@7.0.0] [MAXDELETEDID max_deleted_entry_id@7.0.0]";

XTrim "xtrim", Stream, arity -4, since "5.0.0"
    [WRITE] [STREAM]
    keys (1; RW DELETE)
    tips "nondeterministic_output"
    summary "Removes entries from the beginning of a stream."
    complexity "O(N), with N being the number of evicted entries. Constant times are very small however, since entries are \
        organized in macro nodes containing multiple entries that can be released with a single deallocation."
    grammar "key trim=<strategy=<MAXLEN|MINID@6.2.0> [operator=<equal=\"=\"|approximately=\"~\">] threshold [LIMIT \
        count:integer@6.2.0] [condition=<KEEPREF|DELREF|ACKED>@8.2.0]>";

    } };
}
