//! String commands, one line each.

use crate::argument::ToArg;

super::commands! {
    /// Commands on strings and on the numbers in them.
    StringCommands {
        /// The value, or nil.
        get<T>(key: impl ToArg) -> T = ["GET", key];
        /// Sets the value and takes any time to live away.
        set(key: impl ToArg, value: impl ToArg) -> () = ["SET", key, value];
        /// Adds one to the number; returns the new one.
        incr(key: impl ToArg) -> i64 = ["INCR", key];
    }
}
