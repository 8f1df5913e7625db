//! Commands that list slow requests and the keys in use most.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! monitoring_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

CommandLog "commandlog", Server, arity -2, since "8.1.0"
    [] []
    summary "Holds the commands of the logs of slow and of large commands."
    complexity "Depends on subcommand."
    grammar "";

CommandLogGet "commandlog|get" of CommandLog, Server, arity 4, since "8.1.0"
    [ADMIN LOADING STALE] []
    tips "request_policy:all_nodes" "nondeterministic_output"
    summary "Gives the latest entries of one of the logs."
    complexity "O(N) where N is the number of entries returned"
    grammar "count:integer type=<SLOW|LARGE-REQUEST|LARGE-REPLY>";

CommandLogHelp "commandlog|help" of CommandLog, Server, arity 2, since "8.1.0"
    [LOADING STALE] []
    summary "Lists the subcommands of COMMANDLOG."
    complexity "O(1)"
    grammar "";

CommandLogLen "commandlog|len" of CommandLog, Server, arity 3, since "8.1.0"
    [ADMIN LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:agg_sum" "nondeterministic_output"
    summary "Counts the entries of one of the logs."
    complexity "O(1)"
    grammar "type=<SLOW|LARGE-REQUEST|LARGE-REPLY>";

CommandLogReset "commandlog|reset" of CommandLog, Server, arity 3, since "8.1.0"
    [ADMIN LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Forgets all entries of one of the logs."
    complexity "O(N) where N is the number of entries in the commandlog"
    grammar "type=<SLOW|LARGE-REQUEST|LARGE-REPLY>";

HotKeys "hotkeys", Server, arity -2, since "8.6.0"
    [] []
    summary "Holds the commands that tell which keys take most of the time and of the network."
    complexity "Depends on subcommand."
    grammar "";

HotKeysGet "hotkeys|get" of HotKeys, Server, arity 2, since "8.6.0"
    [ADMIN NOSCRIPT] []
    tips "nondeterministic_output" "request_policy:special" "response_policy:special"
    summary "Gives the keys that have taken most since the collection began."
    complexity "O(K) where K is the number of hotkeys returned."
    grammar "";

HotKeysHelp "hotkeys|help" of HotKeys, Server, arity 2, since "8.6.1"
    [LOADING STALE] []
    summary "Lists the subcommands of HOTKEYS."
    complexity "O(1)"
    grammar "";

HotKeysReset "hotkeys|reset" of HotKeys, Server, arity 2, since "8.6.0"
    [ADMIN NOSCRIPT] []
    tips "request_policy:special"
    summary "Forgets what was collected."
    complexity "O(1)"
    grammar "";

HotKeysStart "hotkeys|start" of HotKeys, Server, arity -2, since "8.6.0"
    [ADMIN NOSCRIPT] []
    tips "request_policy:special"
    summary "Begins to collect which keys take most."
    complexity "O(1)"
    grammar "METRICS metrics=<count:integer [CPU] [NET]> [COUNT k:integer] [DURATION seconds:integer] [SAMPLE ratio:integer] \
        [SLOTS slots=<count:integer slot:integer...>]";

HotKeysStop "hotkeys|stop" of HotKeys, Server, arity 2, since "8.6.0"
    [ADMIN NOSCRIPT] []
    tips "request_policy:special"
    summary "Ends the collection; what it has found can still be asked for."
    complexity "O(1)"
    grammar "";

HotKeysTop "hotkeys|top" of HotKeys, Server, arity -2, since "8.6.0"
    [ADMIN NOSCRIPT] []
    tips "nondeterministic_output" "request_policy:special" "response_policy:special"
    summary "Gives the keys that were used most of late, from a sample that is always taken. Sleeve's own."
    complexity "O(K) where K is the number of keys that are sampled."
    grammar "[count:integer]";

Latency "latency", Server, arity -2, since "2.8.13"
    [] []
    summary "Holds the commands of the latency monitor."
    complexity "Depends on subcommand."
    grammar "";

LatencyDoctor "latency|doctor" of Latency, Server, arity 2, since "2.8.13"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "nondeterministic_output" "request_policy:all_nodes" "response_policy:special"
    summary "Says in words what was slow and what may help."
    complexity "O(1)"
    grammar "";

LatencyGraph "latency|graph" of Latency, Server, arity 3, since "2.8.13"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "nondeterministic_output" "request_policy:all_nodes" "response_policy:special"
    summary "Draws the latencies of an event."
    complexity "O(1)"
    grammar "event";

LatencyHelp "latency|help" of Latency, Server, arity 2, since "2.8.13"
    [LOADING STALE] []
    summary "Lists the subcommands of LATENCY."
    complexity "O(1)"
    grammar "";

LatencyHistogram "latency|histogram" of Latency, Server, arity -2, since "7.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "nondeterministic_output" "request_policy:all_nodes" "response_policy:special"
    summary "Gives the distribution of the execution times of some or all commands."
    complexity "O(N) where N is the number of commands with latency information being retrieved."
    grammar "[COMMAND...]";

LatencyHistory "latency|history" of Latency, Server, arity 3, since "2.8.13"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "nondeterministic_output" "request_policy:all_nodes" "response_policy:special"
    summary "Gives the times and latencies of an event."
    complexity "O(1)"
    grammar "event";

LatencyLatest "latency|latest" of Latency, Server, arity 2, since "2.8.13"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "nondeterministic_output" "request_policy:all_nodes" "response_policy:special"
    summary "Gives the latest and the greatest latency of every event."
    complexity "O(1)"
    grammar "";

LatencyReset "latency|reset" of Latency, Server, arity -2, since "2.8.13"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Forgets the latencies of some or all events."
    complexity "O(1)"
    grammar "[event...]";

SlowLog "slowlog", Server, arity -2, since "2.2.12"
    [] []
    summary "Holds the commands of the slow log."
    complexity "Depends on subcommand."
    grammar "";

SlowLogGet "slowlog|get" of SlowLog, Server, arity -2, since "2.2.12"
    [ADMIN LOADING STALE] []
    tips "request_policy:all_nodes" "nondeterministic_output"
    summary "Gives the latest entries of the slow log."
    complexity "O(N) where N is the number of entries returned"
    grammar "[count:integer]";

SlowLogHelp "slowlog|help" of SlowLog, Server, arity 2, since "6.2.0"
    [LOADING STALE] []
    summary "Lists the subcommands of SLOWLOG."
    complexity "O(1)"
    grammar "";

SlowLogLen "slowlog|len" of SlowLog, Server, arity 2, since "2.2.12"
    [ADMIN LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:agg_sum" "nondeterministic_output"
    summary "Counts the entries of the slow log."
    complexity "O(1)"
    grammar "";

SlowLogReset "slowlog|reset" of SlowLog, Server, arity 2, since "2.2.12"
    [ADMIN LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Forgets all entries of the slow log."
    complexity "O(N) where N is the number of entries in the slowlog"
    grammar "";

    } };
}
