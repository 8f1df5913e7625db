//! The commands on hashes and their fields as methods, one line each.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::counted::Counted;
use crate::resp::number::Number;
use crate::resp::options::key::MembersScan;
use crate::resp::options::{ExpireIf, Expiry, FieldsIf};
use crate::resp::request::{Request, ToArg, ToArgs};

/// Fields and values, written behind the number of the pairs.
struct CountedPairs<T>(T);

impl<T: ToArgs> ToArgs for CountedPairs<T> {
    fn write_to(&self, request: &mut Request) {
        let mut alone = Request::empty();
        alone.arg(&self.0);
        request.arg(alone.len() / 2);
        request.arg(&self.0);
    }
}

super::commands! {
    /// Commands on hashes: keys with fields that have values of their own.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// assert_eq!(client.hset("user:1", [("name", "Ann"), ("age", "36")]).wait()?, 2);
    /// assert_eq!(client.hincrby("user:1", "age", 1).wait()?, 37);
    /// let user: std::collections::HashMap<String, String> = client.hgetall("user:1").wait()?;
    /// assert_eq!(user["name"], "Ann");
    /// // A field that expires.
    /// assert_eq!(client.hexpire("user:1", 60, "age").wait()?, [1]);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    HashCommands {
        /// Removes fields; returns the number of those that existed.
        hdel(key: impl ToArg, fields: impl ToArgs) -> u64 = ["HDEL", key, fields];
        /// Returns whether the field exists.
        hexists(key: impl ToArg, field: impl ToArg) -> bool = ["HEXISTS", key, field];
        /// Lets fields expire after this many seconds; returns for each 1, or 2 if it is removed at once, or -2 if it does
        /// not exist.
        hexpire(key: impl ToArg, seconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HEXPIRE", key, seconds, "FIELDS", Counted(fields)];
        /// Works as `hexpire` does, under a condition; returns 0 for a field for which it does not hold.
        hexpire_if(key: impl ToArg, seconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HEXPIRE", key, seconds, condition, "FIELDS", Counted(fields)];
        /// Lets fields expire at this Unix time in seconds; returns the values that `hexpire` does.
        hexpireat(key: impl ToArg, unix_seconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HEXPIREAT", key, unix_seconds, "FIELDS", Counted(fields)];
        /// Works as `hexpireat` does, under a condition.
        hexpireat_if(key: impl ToArg, unix_seconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HEXPIREAT", key, unix_seconds, condition, "FIELDS", Counted(fields)];
        /// Returns the Unix times in seconds at which fields expire; -1 for never, -2 for one that does not exist.
        hexpiretime(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HEXPIRETIME", key, "FIELDS", Counted(fields)];
        /// Returns the value of a field, nil if it does not exist.
        hget<T>(key: impl ToArg, field: impl ToArg) -> T = ["HGET", key, field];
        /// Returns all fields with their values.
        hgetall<T>(key: impl ToArg) -> T = ["HGETALL", key];
        /// Returns the values of fields, and removes them; nil for a field that does not exist. Since Redis 8.0.
        hgetdel<T>(key: impl ToArg, fields: impl ToArgs) -> T = ["HGETDEL", key, "FIELDS", Counted(fields)];
        /// Returns the values of fields, and sets the time at which they expire; nil for a field that does not exist. Since
        /// Redis 8.0.
        hgetex<T>(key: impl ToArg, expiry: Expiry, fields: impl ToArgs) -> T = ["HGETEX", key, expiry, "FIELDS", Counted(fields)];
        /// Adds to the integer in a field, which begins at 0; returns the sum.
        hincrby(key: impl ToArg, field: impl ToArg, by: i64) -> i64 = ["HINCRBY", key, field, by];
        /// Adds to the number in a field, which begins at 0; returns the sum.
        hincrbyfloat(key: impl ToArg, field: impl ToArg, by: impl Number) -> f64 = ["HINCRBYFLOAT", key, field, by];
        /// Returns all fields.
        hkeys<T>(key: impl ToArg) -> T = ["HKEYS", key];
        /// Returns the number of fields.
        hlen(key: impl ToArg) -> u64 = ["HLEN", key];
        /// Returns the values of fields; nil for one that does not exist.
        hmget<T>(key: impl ToArg, fields: impl ToArgs) -> T = ["HMGET", key, fields];
        /// Sets fields: pairs, or a map. The old form of `hset`.
        hmset(key: impl ToArg, pairs: impl ToArgs) -> () = ["HMSET", key, pairs];
        /// Removes the times to live of fields; returns for each 1, or -1 if it had none, or -2 if it does not exist.
        hpersist(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HPERSIST", key, "FIELDS", Counted(fields)];
        /// Lets fields expire after this many milliseconds; returns the values that `hexpire` does.
        hpexpire(key: impl ToArg, milliseconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIRE", key, milliseconds, "FIELDS", Counted(fields)];
        /// Works as `hpexpire` does, under a condition.
        hpexpire_if(key: impl ToArg, milliseconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIRE", key, milliseconds, condition, "FIELDS", Counted(fields)];
        /// Lets fields expire at this Unix time in milliseconds; returns the values that `hexpire` does.
        hpexpireat(key: impl ToArg, unix_milliseconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIREAT", key, unix_milliseconds, "FIELDS", Counted(fields)];
        /// Works as `hpexpireat` does, under a condition.
        hpexpireat_if(key: impl ToArg, unix_milliseconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIREAT", key, unix_milliseconds, condition, "FIELDS", Counted(fields)];
        /// Returns the Unix times in milliseconds at which fields expire; -1 for never, -2 for one that does not exist.
        hpexpiretime(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIRETIME", key, "FIELDS", Counted(fields)];
        /// Returns the milliseconds until each field expires; -1 for never, -2 for a field that does not exist.
        hpttl(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HPTTL", key, "FIELDS", Counted(fields)];
        /// Returns a random field; nil if there is none.
        hrandfield<T>(key: impl ToArg) -> T = ["HRANDFIELD", key];
        /// Returns up to this many different random fields; with a negative count exactly this many, which may repeat.
        hrandfield_count<T>(key: impl ToArg, count: i64) -> T = ["HRANDFIELD", key, count];
        /// Works as `hrandfield_count` does, with the values.
        hrandfield_pairs<T>(key: impl ToArg, count: i64) -> T = ["HRANDFIELD", key, count, "WITHVALUES"];
        /// Returns some of the fields with their values, and the cursor for the next call. The first call has the cursor 0;
        /// the scan has ended when 0 is returned.
        hscan<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["HSCAN", key, cursor];
        /// Works as `hscan` does, with options.
        hscan_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["HSCAN", key, cursor, options];
        /// Works as `hscan` does, without the values. Since Redis 7.4.
        hscan_novalues<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["HSCAN", key, cursor, "NOVALUES"];
        /// Works as `hscan_novalues` does, with options.
        hscan_novalues_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["HSCAN", key, cursor, options, "NOVALUES"];
        /// Sets fields: pairs, or a map; returns the number of new ones.
        hset(key: impl ToArg, pairs: impl ToArgs) -> u64 = ["HSET", key, pairs];
        /// Sets fields, and the time at which they expire. Since Redis 8.0.
        hsetex(key: impl ToArg, expiry: Expiry, pairs: impl ToArgs) -> () = ["HSETEX", key, expiry, "FIELDS", CountedPairs(pairs)];
        /// Works as `hsetex` does, under a condition; returns whether it did.
        hsetex_if(key: impl ToArg, condition: FieldsIf, expiry: Option<Expiry>, pairs: impl ToArgs) -> bool = ["HSETEX", key, condition, expiry, "FIELDS", CountedPairs(pairs)];
        /// Sets a field if it does not exist; returns whether it did.
        hsetnx(key: impl ToArg, field: impl ToArg, value: impl ToArg) -> bool = ["HSETNX", key, field, value];
        /// Returns the length of the value of a field in bytes, 0 if it does not exist.
        hstrlen(key: impl ToArg, field: impl ToArg) -> usize = ["HSTRLEN", key, field];
        /// Returns the seconds until each field expires; -1 for never, -2 for a field that does not exist.
        httl(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HTTL", key, "FIELDS", Counted(fields)];
        /// Returns all values.
        hvals<T>(key: impl ToArg) -> T = ["HVALS", key];
    }
}
