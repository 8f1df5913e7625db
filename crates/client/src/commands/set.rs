//! The commands on sets as methods, one line each.
//!
//! How a line is read, and how methods get their names and types, is said in [`commands`](super).

use crate::request::{ToArg, ToArgs};
use crate::values::counted::Counted;
use crate::values::options::key::MembersScan;

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
        /// Adds members; answers how many of them are new.
        sadd(key: impl ToArg, members: impl ToArgs) -> u64 = ["SADD", key, members];
        /// The number of members.
        scard(key: impl ToArg) -> u64 = ["SCARD", key];
        /// The members of the first set that are in none of the others.
        sdiff<T>(keys: impl ToArgs) -> T = ["SDIFF", keys];
        /// Stores the members of the first set that are in none of the others; answers how many.
        sdiffstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["SDIFFSTORE", destination, keys];
        /// The members that all sets have in common.
        sinter<T>(keys: impl ToArgs) -> T = ["SINTER", keys];
        /// How many members all sets have in common.
        sintercard(keys: impl ToArgs) -> u64 = ["SINTERCARD", Counted(&keys)];
        /// As `sintercard`, but counts no further than this.
        sintercard_limit(keys: impl ToArgs, limit: u64) -> u64 = ["SINTERCARD", Counted(&keys), "LIMIT", limit];
        /// Stores the members that all sets have in common; answers how many.
        sinterstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["SINTERSTORE", destination, keys];
        /// Whether the set has this member.
        sismember(key: impl ToArg, member: impl ToArg) -> bool = ["SISMEMBER", key, member];
        /// All members.
        smembers<T>(key: impl ToArg) -> T = ["SMEMBERS", key];
        /// Whether the set has each of these members.
        smismember(key: impl ToArg, members: impl ToArgs) -> Vec<bool> = ["SMISMEMBER", key, members];
        /// Moves a member to another set; answers whether it was there.
        smove(source: impl ToArg, destination: impl ToArg, member: impl ToArg) -> bool = ["SMOVE", source, destination, member];
        /// Takes a random member out; nil if there is none.
        spop<T>(key: impl ToArg) -> T = ["SPOP", key];
        /// Takes up to this many random members out.
        spop_count<T>(key: impl ToArg, count: u64) -> T = ["SPOP", key, count];
        /// A random member; nil if there is none.
        srandmember<T>(key: impl ToArg) -> T = ["SRANDMEMBER", key];
        /// Up to this many different random members; a negative count gives so many, some perhaps more than once.
        srandmember_count<T>(key: impl ToArg, count: i64) -> T = ["SRANDMEMBER", key, count];
        /// Removes members; answers how many were there.
        srem(key: impl ToArg, members: impl ToArgs) -> u64 = ["SREM", key, members];
        /// Some of the members, and the cursor for the next call. Begin with 0; the end is reached when 0 comes back.
        sscan<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["SSCAN", key, cursor];
        /// As `sscan`, with options.
        sscan_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["SSCAN", key, cursor, options];
        /// The members that at least one of the sets has.
        sunion<T>(keys: impl ToArgs) -> T = ["SUNION", keys];
        /// Stores the members that at least one of the sets has; answers how many.
        sunionstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["SUNIONSTORE", destination, keys];
    }
}
