//! The commands on strings and counters as methods, one line each.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::number::Number;
use crate::resp::options::{Expiry, LcsOptions, SetOptions};
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands on strings and on the numbers in them.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.set("greeting", "hello").wait()?;
    /// assert_eq!(client.append("greeting", " there").wait()?, 11);
    /// assert_eq!(client.get::<String>("greeting").wait()?, "hello there");
    /// assert_eq!(client.get::<Option<String>>("nothing").wait()?, None);
    /// assert_eq!(client.incrby("counter", 5).wait()?, 5);
    /// assert_eq!(client.mget::<Vec<Option<String>>>(["counter", "nothing"]).wait()?, [Some("5".to_owned()), None]);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    StringCommands {
        /// Adds to the end of the value; returns its new length.
        append(key: impl ToArg, value: impl ToArg) -> usize = ["APPEND", key, value];
        /// Subtracts one from the number; returns the new number.
        decr(key: impl ToArg) -> i64 = ["DECR", key];
        /// Subtracts this amount from the number; returns the new number.
        decrby(key: impl ToArg, by: i64) -> i64 = ["DECRBY", key, by];
        /// Returns the value; nil if the key does not exist.
        get<T>(key: impl ToArg) -> T = ["GET", key];
        /// Returns the value, or nil, and deletes the key.
        getdel<T>(key: impl ToArg) -> T = ["GETDEL", key];
        /// Returns the value, or nil, and sets the time at which the key expires.
        getex<T>(key: impl ToArg, expiry: Expiry) -> T = ["GETEX", key, expiry];
        /// Returns the bytes from `start` to `end`, both included; negative positions count from the end.
        getrange<T>(key: impl ToArg, start: i64, end: i64) -> T = ["GETRANGE", key, start, end];
        /// Sets the value; returns the value from before, or nil.
        getset<T>(key: impl ToArg, value: impl ToArg) -> T = ["GETSET", key, value];
        /// Adds one to the number; returns the new number.
        incr(key: impl ToArg) -> i64 = ["INCR", key];
        /// Adds this amount to the number; returns the new number.
        incrby(key: impl ToArg, by: i64) -> i64 = ["INCRBY", key, by];
        /// Adds this amount, which may have a fraction, to the number; returns the new number.
        incrbyfloat(key: impl ToArg, by: impl Number) -> f64 = ["INCRBYFLOAT", key, by];
        /// Returns the longest common subsequence of two values.
        lcs<T>(first: impl ToArg, second: impl ToArg) -> T = ["LCS", first, second];
        /// Returns the ranges in which two values agree, as the server describes them.
        lcs_idx<T>(first: impl ToArg, second: impl ToArg) -> T = ["LCS", first, second, "IDX"];
        /// Works as `lcs_idx` does, with options.
        lcs_idx_with<T>(first: impl ToArg, second: impl ToArg, options: LcsOptions) -> T = ["LCS", first, second, "IDX", options];
        /// Returns the length of the longest common subsequence.
        lcs_len(first: impl ToArg, second: impl ToArg) -> usize = ["LCS", first, second, "LEN"];
        /// Returns the values of several keys; nil for each that is missing.
        mget<T>(keys: impl ToArgs) -> T = ["MGET", keys];
        /// Sets several keys: `[("a", 1), ("b", 2)]`, or a map.
        mset(pairs: impl ToArgs) -> () = ["MSET", pairs];
        /// Sets several keys if none of them exists; returns whether it did.
        msetnx(pairs: impl ToArgs) -> bool = ["MSETNX", pairs];
        /// Sets the value, with a time to live of this many milliseconds.
        psetex(key: impl ToArg, milliseconds: u64, value: impl ToArg) -> () = ["PSETEX", key, milliseconds, value];
        /// Sets the value and removes the time to live, if there is one.
        set(key: impl ToArg, value: impl ToArg) -> () = ["SET", key, value];
        /// Sets the value with options. A result of type `bool` says whether it was set; with the option GET the result is
        /// the value from before.
        set_with<T>(key: impl ToArg, value: impl ToArg, options: SetOptions) -> T = ["SET", key, value, options];
        /// Sets the value, with a time to live of this many seconds.
        setex(key: impl ToArg, seconds: u64, value: impl ToArg) -> () = ["SETEX", key, seconds, value];
        /// Sets the value if the key does not exist; returns whether it did.
        setnx(key: impl ToArg, value: impl ToArg) -> bool = ["SETNX", key, value];
        /// Overwrites the value from this offset on; returns its new length.
        setrange(key: impl ToArg, offset: u64, value: impl ToArg) -> usize = ["SETRANGE", key, offset, value];
        /// Returns the length of the value in bytes, 0 if the key does not exist.
        strlen(key: impl ToArg) -> usize = ["STRLEN", key];
        /// Sends SUBSTR, the old name of GETRANGE.
        substr<T>(key: impl ToArg, start: i64, end: i64) -> T = ["SUBSTR", key, start, end];
    }
}
