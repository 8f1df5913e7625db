//! The commands that count different elements approximately as methods, one line each.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands that count different elements approximately, in 12 KiB for any number.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.pfadd("visitors", ["ann", "bob", "ann"]).wait()?;
    /// assert_eq!(client.pfcount("visitors").wait()?, 2);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    HyperLogLogCommands {
        /// Counts elements; returns whether the count may have changed.
        pfadd(key: impl ToArg, elements: impl ToArgs) -> bool = ["PFADD", key, elements];
        /// Returns the approximate number of different elements that the keys have counted together, to 0.81 per cent.
        pfcount(keys: impl ToArgs) -> u64 = ["PFCOUNT", keys];
        /// Shows the internals of a count, for tests of servers: `GETREG`, `DECODE`, `ENCODING` or `TODENSE`.
        pfdebug<T>(subcommand: impl ToArg, key: impl ToArg) -> T = ["PFDEBUG", subcommand, key];
        /// Merges the sources into the destination.
        pfmerge(destination: impl ToArg, sources: impl ToArgs) -> () = ["PFMERGE", destination, sources];
        /// Runs the server's test of its own arithmetic.
        pfselftest() -> () = ["PFSELFTEST"];
    }
}
