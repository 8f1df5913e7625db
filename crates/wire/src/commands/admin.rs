//! Commands about the server: its abilities, its configuration, its state.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! admin_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Command "command", Server, arity -1, since "2.8.13"
    [LOADING STALE] [CONNECTION]
    tips "nondeterministic_output_order"
    summary "Describes all commands."
    complexity "O(N) where N is the total number of commands"
    grammar "";

CommandCount "command|count" of Command, Server, arity 2, since "2.8.13"
    [LOADING STALE] [CONNECTION]
    summary "Counts the commands."
    complexity "O(1)"
    grammar "";

CommandDocs "command|docs" of Command, Server, arity -2, since "7.0.0"
    [LOADING STALE] [CONNECTION]
    tips "nondeterministic_output_order"
    summary "Gives the documentation of commands."
    complexity "O(N) where N is the number of commands to look up"
    grammar "[command-name...]";

CommandGetKeys "command|getkeys" of Command, Server, arity -4, since "2.8.13"
    [LOADING STALE] [CONNECTION]
    summary "Finds the keys in a full command line."
    complexity "O(N) where N is the number of arguments to the command"
    grammar "command [arg...]";

CommandGetKeysAndFlags "command|getkeysandflags" of Command, Server, arity -4, since "7.0.0"
    [LOADING STALE] [CONNECTION]
    summary "Finds the keys in a full command line, and what would be done to each."
    complexity "O(N) where N is the number of arguments to the command"
    grammar "command [arg...]";

CommandHelp "command|help" of Command, Server, arity 2, since "5.0.0"
    [LOADING STALE] [CONNECTION]
    summary "Lists the subcommands of COMMAND."
    complexity "O(1)"
    grammar "";

CommandInfo "command|info" of Command, Server, arity -2, since "2.8.13"
    [LOADING STALE] [CONNECTION]
    tips "nondeterministic_output_order"
    summary "Describes some or all commands."
    complexity "O(N) where N is the number of commands to look up"
    grammar "[command-name...]";

CommandList "command|list" of Command, Server, arity -2, since "7.0.0"
    [LOADING STALE] [CONNECTION]
    tips "nondeterministic_output_order"
    summary "Lists the names of commands, or of those that pass a filter."
    complexity "O(N) where N is the total number of commands"
    grammar "[FILTERBY filterby=<MODULE module-name|ACLCAT category|PATTERN pattern>]";

Config "config", Server, arity -2, since "2.0.0"
    [] []
    summary "Holds the commands about the server's options."
    complexity "Depends on subcommand."
    grammar "";

ConfigGet "config|get" of Config, Server, arity -3, since "2.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Gives the values of the options that match patterns."
    complexity "O(N) when N is the number of configuration parameters provided"
    grammar "parameter=<parameter>...";

ConfigHelp "config|help" of Config, Server, arity 2, since "5.0.0"
    [LOADING STALE] []
    summary "Lists the subcommands of CONFIG."
    complexity "O(1)"
    grammar "";

ConfigResetStat "config|resetstat" of Config, Server, arity 2, since "2.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Sets the counters that INFO shows back to zero."
    complexity "O(1)"
    grammar "";

ConfigRewrite "config|rewrite" of Config, Server, arity 2, since "2.8.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Writes the options in effect into the configuration file."
    complexity "O(1)"
    grammar "";

ConfigSet "config|set" of Config, Server, arity -4, since "2.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    reach Each
    secrets (Secrets::OptionValues(2))
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Changes options while the server runs; all of them or none."
    complexity "O(N) when N is the number of configuration parameters provided"
    grammar "parameter_value=<parameter value>...";

DbSize "dbsize", Server, arity 1, since "1.0.0"
    [READONLY FAST] [KEYSPACE]
    reach Each
    tips "request_policy:all_shards" "response_policy:agg_sum"
    summary "Counts the keys of the database."
    complexity "O(1)"
    grammar "";

Debug "debug", Server, arity -2, since "1.0.0"
    [ADMIN NOSCRIPT LOADING STALE PROTECTED] []
    reach All
    system true
    summary "Holds tools for testing and debugging the server."
    complexity "Depends on subcommand."
    grammar "";

FlushAll "flushall", Server, arity -1, since "1.0.0"
    [WRITE] [KEYSPACE DANGEROUS]
    reach All
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Removes all keys of all databases."
    complexity "O(N) where N is the total number of keys in all databases"
    grammar "[async=<ASYNC@4.0.0|SYNC@6.2.0>]";

FlushDb "flushdb", Server, arity -1, since "1.0.0"
    [WRITE] [KEYSPACE DANGEROUS]
    reach All
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Removes all keys of the database."
    complexity "O(N) where N is the number of keys in the selected database"
    grammar "[async=<ASYNC@4.0.0|SYNC@6.2.0>]";

Info "info", Server, arity -1, since "1.0.0"
    [LOADING STALE] [DANGEROUS]
    reach Each
    tips "nondeterministic_output" "request_policy:all_shards" "response_policy:special"
    summary "Describes the server and its statistics."
    complexity "O(1)"
    grammar "[section...]";

LolWut "lolwut", Server, arity -1, since "5.0.0"
    [READONLY FAST] []
    summary "Draws something for the joy of it, and says which version this is."
    complexity ""
    grammar "[VERSION version:integer]";

Memory "memory", Server, arity -2, since "4.0.0"
    [] []
    summary "Holds the commands that look into memory use."
    complexity "Depends on subcommand."
    grammar "";

MemoryDoctor "memory|doctor" of Memory, Server, arity 2, since "4.0.0"
    [] []
    reach Each
    tips "nondeterministic_output" "request_policy:all_shards" "response_policy:special"
    summary "Says in words how memory is doing and what may help."
    complexity "O(1)"
    grammar "";

MemoryHelp "memory|help" of Memory, Server, arity 2, since "4.0.0"
    [LOADING STALE] []
    summary "Lists the subcommands of MEMORY."
    complexity "O(1)"
    grammar "";

MemoryMallocStats "memory|malloc-stats" of Memory, Server, arity 2, since "4.0.0"
    [] []
    tips "nondeterministic_output" "request_policy:all_shards" "response_policy:special"
    summary "Tells what the allocator knows of its own work."
    complexity "Depends on how much memory is allocated, could be slow"
    grammar "";

MemoryPurge "memory|purge" of Memory, Server, arity 2, since "4.0.0"
    [] []
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Gives memory that is free back to the system."
    complexity "Depends on how much memory is allocated, could be slow"
    grammar "";

MemoryStats "memory|stats" of Memory, Server, arity 2, since "4.0.0"
    [] []
    reach Each
    tips "nondeterministic_output" "request_policy:all_shards" "response_policy:special"
    summary "Tells where memory goes."
    complexity "O(1)"
    grammar "";

MemoryUsage "memory|usage" of Memory, Server, arity -3, since "4.0.0"
    [READONLY] []
    keys (2; RO)
    summary "Estimates the memory that a key and its value take, in bytes."
    complexity "O(N) where N is the number of samples."
    grammar "key [SAMPLES count:integer]";

Module "module", Server, arity -2, since "4.0.0"
    [] []
    summary "Holds the commands about modules, of which there are none."
    complexity "Depends on subcommand."
    grammar "";

ModuleHelp "module|help" of Module, Server, arity 2, since "5.0.0"
    [LOADING STALE] []
    summary "Lists the subcommands of MODULE."
    complexity "O(1)"
    grammar "";

ModuleList "module|list" of Module, Server, arity 2, since "4.0.0"
    [ADMIN NOSCRIPT] []
    tips "nondeterministic_output_order"
    summary "Lists the loaded modules: none."
    complexity "O(N) where N is the number of loaded modules."
    grammar "";

ModuleLoad "module|load" of Module, Server, arity -3, since "4.0.0"
    [ADMIN NOSCRIPT PROTECTED NO_ASYNC_LOADING] []
    summary "Would load a module; answers that there are none."
    complexity "O(1)"
    grammar "path [arg...]";

ModuleLoadEx "module|loadex" of Module, Server, arity -3, since "7.0.0"
    [ADMIN NOSCRIPT PROTECTED NO_ASYNC_LOADING] []
    summary "Would load a module with options; answers that there are none."
    complexity "O(1)"
    grammar "path [CONFIG configs=<name value>...+] [ARGS args=<arg>...]";

ModuleUnload "module|unload" of Module, Server, arity 3, since "4.0.0"
    [ADMIN NOSCRIPT PROTECTED NO_ASYNC_LOADING] []
    summary "Would unload a module; answers that there is none of this name."
    complexity "O(1)"
    grammar "name";

Monitor "monitor", Server, arity 1, since "1.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    connection Messages
    summary "Shows the commands of all clients as they run."
    complexity ""
    grammar "";

Shutdown "shutdown", Server, arity -1, since "1.0.0"
    [ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY] []
    summary "Stops the server, saving first where that is configured."
    complexity "O(N) when saving, where N is the number of keys in all databases; otherwise O(1)"
    grammar "[nosave_save=<NOSAVE|SAVE>] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]";

SwapDb "swapdb", Server, arity 3, since "4.0.0"
    [WRITE FAST] [KEYSPACE DANGEROUS]
    reach All
    summary "Exchanges the contents of two databases."
    complexity "O(N) where N is the number of clients that watch or wait for keys of either database"
    grammar "index1:integer index2:integer";

Time "time", Server, arity 1, since "2.6.0"
    [LOADING STALE FAST] []
    tips "nondeterministic_output"
    summary "Gives the server's clock."
    complexity "O(1)"
    grammar "";

    } };
}
