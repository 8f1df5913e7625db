//! The commands on hashes and their fields as methods, one line each.
//!
//! How a line is read, and how methods get their names and types, is said in [`commands`](super).

use crate::request::{Request, ToArg, ToArgs};
use crate::values::counted::Counted;
use crate::values::number::Number;
use crate::values::options::key::MembersScan;
use crate::values::options::{ExpireIf, Expiry, FieldsIf};

/// Fields and values behind the number of the pairs.
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
        /// Removes fields; answers how many were there.
        hdel(key: impl ToArg, fields: impl ToArgs) -> u64 = ["HDEL", key, fields];
        /// Whether the field is there.
        hexists(key: impl ToArg, field: impl ToArg) -> bool = ["HEXISTS", key, field];
        /// Lets fields expire after this many seconds; answers for each 1, or 2 if it is removed at once, or -2 if it does
        /// not exist.
        hexpire(key: impl ToArg, seconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HEXPIRE", key, seconds, "FIELDS", Counted(fields)];
        /// As `hexpire`, under a condition; answers 0 where it does not hold.
        hexpire_if(key: impl ToArg, seconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HEXPIRE", key, seconds, condition, "FIELDS", Counted(fields)];
        /// Lets fields expire at this Unix time in seconds; answers as `hexpire` does.
        hexpireat(key: impl ToArg, unix_seconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HEXPIREAT", key, unix_seconds, "FIELDS", Counted(fields)];
        /// As `hexpireat`, under a condition.
        hexpireat_if(key: impl ToArg, unix_seconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HEXPIREAT", key, unix_seconds, condition, "FIELDS", Counted(fields)];
        /// The Unix times in seconds at which fields go away; -1 for never, -2 for one that is not there.
        hexpiretime(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HEXPIRETIME", key, "FIELDS", Counted(fields)];
        /// The value of a field, nil if it is not there.
        hget<T>(key: impl ToArg, field: impl ToArg) -> T = ["HGET", key, field];
        /// All fields with their values.
        hgetall<T>(key: impl ToArg) -> T = ["HGETALL", key];
        /// The values of fields, which are removed; nil for one that is not there. Since Redis 8.0.
        hgetdel<T>(key: impl ToArg, fields: impl ToArgs) -> T = ["HGETDEL", key, "FIELDS", Counted(fields)];
        /// The values of fields, which go away as told from now on; nil for one that is not there. Since Redis 8.0.
        hgetex<T>(key: impl ToArg, expiry: Expiry, fields: impl ToArgs) -> T = ["HGETEX", key, expiry, "FIELDS", Counted(fields)];
        /// Adds to the integer in a field, which begins at 0; answers the sum.
        hincrby(key: impl ToArg, field: impl ToArg, by: i64) -> i64 = ["HINCRBY", key, field, by];
        /// Adds to the number in a field, which begins at 0; answers the sum.
        hincrbyfloat(key: impl ToArg, field: impl ToArg, by: impl Number) -> f64 = ["HINCRBYFLOAT", key, field, by];
        /// All fields.
        hkeys<T>(key: impl ToArg) -> T = ["HKEYS", key];
        /// How many fields there are.
        hlen(key: impl ToArg) -> u64 = ["HLEN", key];
        /// The values of fields, nil for one that is not there.
        hmget<T>(key: impl ToArg, fields: impl ToArgs) -> T = ["HMGET", key, fields];
        /// Sets fields: pairs, or a map. The old form of `hset`.
        hmset(key: impl ToArg, pairs: impl ToArgs) -> () = ["HMSET", key, pairs];
        /// Takes the times to live of fields away; answers for each 1, or -1 where there was none, or -2 where it is not
        /// there.
        hpersist(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HPERSIST", key, "FIELDS", Counted(fields)];
        /// Lets fields expire after this many milliseconds; answers as `hexpire` does.
        hpexpire(key: impl ToArg, milliseconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIRE", key, milliseconds, "FIELDS", Counted(fields)];
        /// As `hpexpire`, under a condition.
        hpexpire_if(key: impl ToArg, milliseconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIRE", key, milliseconds, condition, "FIELDS", Counted(fields)];
        /// Lets fields expire at this Unix time in milliseconds; answers as `hexpire` does.
        hpexpireat(key: impl ToArg, unix_milliseconds: i64, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIREAT", key, unix_milliseconds, "FIELDS", Counted(fields)];
        /// As `hpexpireat`, under a condition.
        hpexpireat_if(key: impl ToArg, unix_milliseconds: i64, condition: ExpireIf, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIREAT", key, unix_milliseconds, condition, "FIELDS", Counted(fields)];
        /// The Unix times in milliseconds at which fields go away; -1 for never, -2 for one that is not there.
        hpexpiretime(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HPEXPIRETIME", key, "FIELDS", Counted(fields)];
        /// Milliseconds until fields go away; -1 for never, -2 for one that is not there.
        hpttl(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HPTTL", key, "FIELDS", Counted(fields)];
        /// Some field, nil if there is none.
        hrandfield<T>(key: impl ToArg) -> T = ["HRANDFIELD", key];
        /// So many different fields, or fewer if there are not so many; a negative number may repeat them.
        hrandfield_count<T>(key: impl ToArg, count: i64) -> T = ["HRANDFIELD", key, count];
        /// As `hrandfield_count`, with the values.
        hrandfield_pairs<T>(key: impl ToArg, count: i64) -> T = ["HRANDFIELD", key, count, "WITHVALUES"];
        /// Some of the fields with their values, and the cursor for the next call. Begin with 0; the end is reached when 0
        /// comes back.
        hscan<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["HSCAN", key, cursor];
        /// As `hscan`, with options.
        hscan_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["HSCAN", key, cursor, options];
        /// As `hscan`, without the values. Since Redis 7.4.
        hscan_novalues<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["HSCAN", key, cursor, "NOVALUES"];
        /// As `hscan_novalues`, with options.
        hscan_novalues_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["HSCAN", key, cursor, options, "NOVALUES"];
        /// Sets fields: pairs, or a map; answers how many of them are new.
        hset(key: impl ToArg, pairs: impl ToArgs) -> u64 = ["HSET", key, pairs];
        /// Sets fields that go away as told. Since Redis 8.0.
        hsetex(key: impl ToArg, expiry: Expiry, pairs: impl ToArgs) -> () = ["HSETEX", key, expiry, "FIELDS", CountedPairs(pairs)];
        /// As `hsetex`, under a condition; answers whether it did.
        hsetex_if(key: impl ToArg, condition: FieldsIf, expiry: Option<Expiry>, pairs: impl ToArgs) -> bool = ["HSETEX", key, condition, expiry, "FIELDS", CountedPairs(pairs)];
        /// Sets a field if it is not there; answers whether it did.
        hsetnx(key: impl ToArg, field: impl ToArg, value: impl ToArg) -> bool = ["HSETNX", key, field, value];
        /// The length of the value of a field in bytes, 0 if it is not there.
        hstrlen(key: impl ToArg, field: impl ToArg) -> usize = ["HSTRLEN", key, field];
        /// Seconds until fields go away; -1 for never, -2 for one that is not there.
        httl(key: impl ToArg, fields: impl ToArgs) -> Vec<i64> = ["HTTL", key, "FIELDS", Counted(fields)];
        /// All values.
        hvals<T>(key: impl ToArg) -> T = ["HVALS", key];
    }
}
