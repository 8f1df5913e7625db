//! The commands on sets as methods, one line each.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::counted::Counted;
use crate::resp::options::key::MembersScan;
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands on sets: distinct values in no order.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.sadd("cats", ["tom", "felix"]).wait()?;
    /// client.sadd("films", ["felix", "brazil"]).wait()?;
    /// assert!(client.sismember("cats", "tom").wait()?);
    /// assert_eq!(client.sinter::<Vec<String>>(["cats", "films"]).wait()?, ["felix"]);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    SetCommands {
        /// Adds members; returns the number of new ones.
        sadd(key: impl ToArg, members: impl ToArgs) -> u64 = ["SADD", key, members];
        /// Returns the number of members.
        scard(key: impl ToArg) -> u64 = ["SCARD", key];
        /// Returns the members of the first set that are in none of the others.
        sdiff<T>(keys: impl ToArgs) -> T = ["SDIFF", keys];
        /// Stores the members of the first set that are in none of the others; returns their number.
        sdiffstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["SDIFFSTORE", destination, keys];
        /// Returns the members that all sets have in common.
        sinter<T>(keys: impl ToArgs) -> T = ["SINTER", keys];
        /// Returns the number of members that all sets have in common.
        sintercard(keys: impl ToArgs) -> u64 = ["SINTERCARD", Counted(&keys)];
        /// Works as `sintercard` does, but counts only up to this limit.
        sintercard_limit(keys: impl ToArgs, limit: u64) -> u64 = ["SINTERCARD", Counted(&keys), "LIMIT", limit];
        /// Stores the members that all sets have in common; returns their number.
        sinterstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["SINTERSTORE", destination, keys];
        /// Returns whether the set has this member.
        sismember(key: impl ToArg, member: impl ToArg) -> bool = ["SISMEMBER", key, member];
        /// Returns all members.
        smembers<T>(key: impl ToArg) -> T = ["SMEMBERS", key];
        /// Returns for each of these members whether the set has it.
        smismember(key: impl ToArg, members: impl ToArgs) -> Vec<bool> = ["SMISMEMBER", key, members];
        /// Moves a member to another set; returns whether it existed.
        smove(source: impl ToArg, destination: impl ToArg, member: impl ToArg) -> bool = ["SMOVE", source, destination, member];
        /// Takes a random member out; nil if there is none.
        spop<T>(key: impl ToArg) -> T = ["SPOP", key];
        /// Takes up to this many random members out.
        spop_count<T>(key: impl ToArg, count: u64) -> T = ["SPOP", key, count];
        /// Returns a random member; nil if there is none.
        srandmember<T>(key: impl ToArg) -> T = ["SRANDMEMBER", key];
        /// Returns up to this many different random members; with a negative count exactly this many, which may repeat.
        srandmember_count<T>(key: impl ToArg, count: i64) -> T = ["SRANDMEMBER", key, count];
        /// Removes members; returns the number of those that existed.
        srem(key: impl ToArg, members: impl ToArgs) -> u64 = ["SREM", key, members];
        /// Returns some of the members, and the cursor for the next call. The first call has the cursor 0; the scan has ended
        /// when 0 is returned.
        sscan<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["SSCAN", key, cursor];
        /// Works as `sscan` does, with options.
        sscan_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["SSCAN", key, cursor, options];
        /// Returns the members that at least one of the sets has.
        sunion<T>(keys: impl ToArgs) -> T = ["SUNION", keys];
        /// Stores the members that at least one of the sets has; returns their number.
        sunionstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["SUNIONSTORE", destination, keys];
    }
}
