//! Commands that run and keep scripts: EVAL and its kin, SCRIPT, FUNCTION and FCALL.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! scripting_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Eval "eval", Scripting, arity -3, since "2.6.0"
    [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS MAY_REPLICATE] [SCRIPTING]
    keys (2 counted; RW ACCESS UPDATE; "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")
    reach All
    summary "Runs a Lua script."
    complexity "Depends on the script that is executed."
    grammar "script numkeys:integer [key...] [arg...]";

EvalRo "eval_ro", Scripting, arity -3, since "7.0.0"
    [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] [SCRIPTING]
    keys (2 counted; RO ACCESS; "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")
    reach All
    summary "Runs a Lua script that changes nothing."
    complexity "Depends on the script that is executed."
    grammar "script numkeys:integer [key...] [arg...]";

EvalSha "evalsha", Scripting, arity -3, since "2.6.0"
    [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS MAY_REPLICATE] [SCRIPTING]
    keys (2 counted; RW ACCESS UPDATE)
    reach All
    summary "Runs a Lua script that is known by its SHA-1 digest."
    complexity "Depends on the script that is executed."
    grammar "sha1 numkeys:integer [key...] [arg...]";

EvalShaRo "evalsha_ro", Scripting, arity -3, since "7.0.0"
    [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] [SCRIPTING]
    keys (2 counted; RO ACCESS)
    reach All
    summary "Runs a Lua script that changes nothing and is known by its SHA-1 digest."
    complexity "Depends on the script that is executed."
    grammar "sha1 numkeys:integer [key...] [arg...]";

FCall "fcall", Scripting, arity -3, since "7.0.0"
    [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS MAY_REPLICATE] [SCRIPTING]
    keys (2 counted; RW ACCESS UPDATE; "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")
    reach All
    summary "Calls a function of a library."
    complexity "Depends on the function that is executed."
    grammar "function numkeys:integer [key...] [arg...]";

FCallRo "fcall_ro", Scripting, arity -3, since "7.0.0"
    [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] [SCRIPTING]
    keys (2 counted; RO ACCESS; "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")
    reach All
    summary "Calls a function of a library that changes nothing."
    complexity "Depends on the function that is executed."
    grammar "function numkeys:integer [key...] [arg...]";

Function "function", Scripting, arity -2, since "7.0.0"
    [] []
    summary "Keeps libraries of functions."
    complexity "Depends on subcommand."
    grammar "";

FunctionDelete "function|delete" of Function, Scripting, arity 3, since "7.0.0"
    [WRITE NOSCRIPT] [SCRIPTING]
    reach All
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Removes a library with its functions."
    complexity "O(1)"
    grammar "library-name";

FunctionDump "function|dump" of Function, Scripting, arity 2, since "7.0.0"
    [NOSCRIPT] [SCRIPTING]
    summary "Gives all libraries as one opaque value."
    complexity "O(N) where N is the number of functions"
    grammar "";

FunctionFlush "function|flush" of Function, Scripting, arity -2, since "7.0.0"
    [WRITE NOSCRIPT] [SCRIPTING]
    reach All
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Removes all libraries."
    complexity "O(N) where N is the number of functions deleted"
    grammar "[flush-type=<ASYNC|SYNC>]";

FunctionHelp "function|help" of Function, Scripting, arity 2, since "7.0.0"
    [LOADING STALE] [SCRIPTING]
    summary "Lists the subcommands of FUNCTION."
    complexity "O(1)"
    grammar "";

FunctionKill "function|kill" of Function, Scripting, arity 2, since "7.0.0"
    [NOSCRIPT ALLOW_BUSY] [SCRIPTING]
    tips "request_policy:all_shards" "response_policy:one_succeeded"
    summary "Ends the function that runs, if it has written nothing."
    complexity "O(1)"
    grammar "";

FunctionList "function|list" of Function, Scripting, arity -2, since "7.0.0"
    [NOSCRIPT] [SCRIPTING]
    tips "nondeterministic_output_order"
    summary "Describes the libraries."
    complexity "O(N) where N is the number of functions"
    grammar "[LIBRARYNAME library-name-pattern] [WITHCODE]";

FunctionLoad "function|load" of Function, Scripting, arity -3, since "7.0.0"
    [WRITE DENYOOM NOSCRIPT] [SCRIPTING]
    reach All
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Adds a library."
    complexity "O(1) (considering compilation time is redundant)"
    grammar "[REPLACE] function-code";

FunctionRestore "function|restore" of Function, Scripting, arity -3, since "7.0.0"
    [WRITE DENYOOM NOSCRIPT] [SCRIPTING]
    reach All
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Brings libraries back from the value that FUNCTION DUMP gave."
    complexity "O(N) where N is the number of functions on the payload"
    grammar "serialized-value [policy=<FLUSH|APPEND|REPLACE>]";

FunctionStats "function|stats" of Function, Scripting, arity 2, since "7.0.0"
    [NOSCRIPT ALLOW_BUSY] [SCRIPTING]
    tips "nondeterministic_output" "request_policy:all_shards" "response_policy:special"
    summary "Describes the function that runs, and counts libraries and functions."
    complexity "O(1)"
    grammar "";

Script "script", Scripting, arity -2, since "2.6.0"
    [] []
    summary "Keeps scripts by their digests."
    complexity "Depends on subcommand."
    grammar "";

ScriptDebug "script|debug" of Script, Scripting, arity 3, since "3.2.0"
    [NOSCRIPT] [SCRIPTING]
    summary "Says whether scripts of this connection run in a debugger."
    complexity "O(1)"
    grammar "mode=<YES|SYNC|NO>";

ScriptExists "script|exists" of Script, Scripting, arity -3, since "2.6.0"
    [NOSCRIPT] [SCRIPTING]
    tips "request_policy:all_shards" "response_policy:agg_logical_and"
    summary "Says for each digest whether its script is known."
    complexity "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation)."
    grammar "sha1...";

ScriptFlush "script|flush" of Script, Scripting, arity -2, since "2.6.0"
    [NOSCRIPT] [SCRIPTING]
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Forgets all scripts."
    complexity "O(N) with N being the number of scripts in cache"
    grammar "[flush-type=<ASYNC|SYNC>@6.2.0]";

ScriptHelp "script|help" of Script, Scripting, arity 2, since "5.0.0"
    [LOADING STALE] [SCRIPTING]
    summary "Lists the subcommands of SCRIPT."
    complexity "O(1)"
    grammar "";

ScriptKill "script|kill" of Script, Scripting, arity 2, since "2.6.0"
    [NOSCRIPT ALLOW_BUSY] [SCRIPTING]
    tips "request_policy:all_shards" "response_policy:one_succeeded"
    summary "Ends the script that runs, if it has written nothing."
    complexity "O(1)"
    grammar "";

ScriptLoad "script|load" of Script, Scripting, arity 3, since "2.6.0"
    [NOSCRIPT STALE] [SCRIPTING]
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Keeps a script and gives its digest."
    complexity "O(N) with N being the length in bytes of the script body."
    grammar "script";

ScriptShow "script|show" of Script, Scripting, arity 3, since "8.0.0"
    [NOSCRIPT STALE] [SCRIPTING]
    summary "Gives the text of a script that is kept, by its digest."
    complexity "O(1)."
    grammar "sha1";

    } };
}
