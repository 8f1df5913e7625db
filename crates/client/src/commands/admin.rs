//! The commands about the server (INFO, CONFIG, MEMORY, FLUSHALL, ...) as methods, one line each.
//!
//! How a line is read, and how methods get their names and types, is said in [`commands`](super).

use crate::request::ToArgs;
use crate::values::options::{CommandFilter, FlushMode};

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
        /// How many commands the server has.
        command_count() -> u64 = ["COMMAND", "COUNT"];
        /// The server's documentation of these commands, of all without any.
        command_docs<T>(names: impl ToArgs) -> T = ["COMMAND", "DOCS", names];
        /// Which of a command's arguments are keys.
        command_getkeys<T>(words: impl ToArgs) -> T = ["COMMAND", "GETKEYS", words];
        /// Returns which of a command's arguments are keys, and its effect on each.
        command_getkeysandflags<T>(words: impl ToArgs) -> T = ["COMMAND", "GETKEYSANDFLAGS", words];
        /// Returns the help of COMMAND, in lines.
        command_help() -> Vec<String> = ["COMMAND", "HELP"];
        /// Returns the server's facts about these commands.
        command_info<T>(names: impl ToArgs) -> T = ["COMMAND", "INFO", names];
        /// The names of all commands.
        command_list() -> Vec<String> = ["COMMAND", "LIST"];
        /// The names of some commands.
        command_list_filtered(filter: CommandFilter) -> Vec<String> = ["COMMAND", "LIST", filter];
        /// Options and their values, by glob patterns.
        config_get<T>(patterns: impl ToArgs) -> T = ["CONFIG", "GET", patterns];
        /// Returns the help of CONFIG, in lines.
        config_help() -> Vec<String> = ["CONFIG", "HELP"];
        /// Sets the statistics back.
        config_resetstat() -> () = ["CONFIG", "RESETSTAT"];
        /// Writes the options into the server's configuration file.
        config_rewrite() -> () = ["CONFIG", "REWRITE"];
        /// Sets options: `[("maxmemory", "100mb")]`, or a map.
        config_set(pairs: impl ToArgs) -> () = ["CONFIG", "SET", pairs];
        /// How many keys the database has.
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
        /// Returns the server's report on itself, by sections; the default ones without any.
        info(sections: impl ToArgs) -> String = ["INFO", sections];
        /// Ends the server (`NOSAVE`, `SAVE`, `NOW`, `FORCE`, `ABORT`). Its only good answer is a lost connection.
        shutdown(words: impl ToArgs) -> () = ["SHUTDOWN", words];
        /// Exchanges two databases for everyone.
        swapdb(first: u32, second: u32) -> () = ["SWAPDB", first, second];
        /// The server's clock: Unix seconds, and microseconds of the second.
        time() -> (u64, u64) = ["TIME"];
    }
}
