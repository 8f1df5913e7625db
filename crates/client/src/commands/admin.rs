//! The commands about the server (INFO, CONFIG, MEMORY, FLUSHALL, ...) as methods, one line each.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::options::{CommandFilter, FlushMode};
use crate::resp::request::ToArgs;

super::commands! {
    /// Commands about the server, its databases and its commands.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.set("a", 1).wait()?;
    /// assert_eq!(client.dbsize().wait()?, 1);
    /// assert!(client.info("memory").wait()?.contains("used_memory:"));
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    AdminCommands {
        /// Returns the server's facts about all its commands.
        command<T>() -> T = ["COMMAND"];
        /// Returns the number of the server's commands.
        command_count() -> u64 = ["COMMAND", "COUNT"];
        /// Returns the server's documentation of these commands; without a name, of all commands.
        command_docs<T>(names: impl ToArgs) -> T = ["COMMAND", "DOCS", names];
        /// Returns those of a command's arguments that are keys.
        command_getkeys<T>(words: impl ToArgs) -> T = ["COMMAND", "GETKEYS", words];
        /// Returns which of a command's arguments are keys, and its effect on each.
        command_getkeysandflags<T>(words: impl ToArgs) -> T = ["COMMAND", "GETKEYSANDFLAGS", words];
        /// Returns the help of COMMAND, in lines.
        command_help() -> Vec<String> = ["COMMAND", "HELP"];
        /// Returns the server's facts about these commands.
        command_info<T>(names: impl ToArgs) -> T = ["COMMAND", "INFO", names];
        /// Returns the names of all commands.
        command_list() -> Vec<String> = ["COMMAND", "LIST"];
        /// Returns the names of the commands that match the filter.
        command_list_filtered(filter: CommandFilter) -> Vec<String> = ["COMMAND", "LIST", filter];
        /// Returns the options that match glob patterns, with their values.
        config_get<T>(patterns: impl ToArgs) -> T = ["CONFIG", "GET", patterns];
        /// Returns the help of CONFIG, in lines.
        config_help() -> Vec<String> = ["CONFIG", "HELP"];
        /// Resets the statistics.
        config_resetstat() -> () = ["CONFIG", "RESETSTAT"];
        /// Writes the options into the server's configuration file.
        config_rewrite() -> () = ["CONFIG", "REWRITE"];
        /// Sets options: `[("maxmemory", "100mb")]`, or a map.
        config_set(pairs: impl ToArgs) -> () = ["CONFIG", "SET", pairs];
        /// Returns the number of keys in the database.
        dbsize() -> u64 = ["DBSIZE"];
        /// Sends DEBUG with these words.
        debug<T>(words: impl ToArgs) -> T = ["DEBUG", words];
        /// Deletes all keys of all databases.
        flushall() -> () = ["FLUSHALL"];
        /// Deletes all keys of all databases, now or later.
        flushall_with(mode: FlushMode) -> () = ["FLUSHALL", mode];
        /// Deletes all keys of the database.
        flushdb() -> () = ["FLUSHDB"];
        /// Deletes all keys of the database, now or later.
        flushdb_with(mode: FlushMode) -> () = ["FLUSHDB", mode];
        /// Returns the server's report on itself, in sections; without a name, the default sections.
        info(sections: impl ToArgs) -> String = ["INFO", sections];
        /// Ends the server (`NOSAVE`, `SAVE`, `NOW`, `FORCE`, `ABORT`). If it succeeds, the connection is lost without an
        /// answer.
        shutdown(words: impl ToArgs) -> () = ["SHUTDOWN", words];
        /// Swaps two databases, for all clients.
        swapdb(first: u32, second: u32) -> () = ["SWAPDB", first, second];
        /// Returns the server's time: Unix seconds, and microseconds of the second.
        time() -> (u64, u64) = ["TIME"];
    }
}
