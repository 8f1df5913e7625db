//! Sorted set commands, one line each. Those that wait are in `blocking`.
//!
//! Where scores come with the members, the answer is taken for pairs, such as `Vec<(String, f64)>`.

use crate::request::{ToArg, ToArgs};
use crate::values::counted::Counted;
use crate::values::number::Number;
use crate::values::options::key::MembersScan;
use crate::values::options::sorted_set::{AddOptions, CombineOptions, RankEnd, RankRange};

super::commands! {
    /// Commands on sorted sets: distinct members, each with a score that orders them.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.zadd("scores", [(30, "ann"), (20, "bob")]).wait()?;
    /// assert_eq!(client.zincrby("scores", 15, "bob").wait()?, 35.0);
    /// let best = sleeve::RankRange::by_rank(0, 0).reverse();
    /// assert_eq!(client.zrange_scores::<Vec<(String, f64)>>("scores", best).wait()?, [("bob".to_owned(), 35.0)]);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    SortedSetCommands {
        /// Adds members, given as pairs of score and member; answers how many are new.
        zadd(key: impl ToArg, scored: impl ToArgs) -> u64 = ["ZADD", key, scored];
        /// Adds to the score of a member as `zincrby` does; answers the new score.
        zadd_incr(key: impl ToArg, by: impl Number, member: impl ToArg) -> Option<f64> = ["ZADD", key, "INCR", by, member];
        /// As `zadd_incr`, if the options allow it; answers nil if they do not.
        zadd_incr_with(key: impl ToArg, by: impl Number, member: impl ToArg, options: AddOptions) -> Option<f64> = ["ZADD", key, options, "INCR", by, member];
        /// As `zadd`, under conditions; answers how many are new, or have changed if that is counted.
        zadd_with(key: impl ToArg, scored: impl ToArgs, options: AddOptions) -> u64 = ["ZADD", key, options, scored];
        /// The number of members.
        zcard(key: impl ToArg) -> u64 = ["ZCARD", key];
        /// How many members have scores in a range; bounds are as in [`RankRange::by_score`].
        zcount(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZCOUNT", key, min, max];
        /// The members of the first set that are in none of the others.
        zdiff<T>(keys: impl ToArgs) -> T = ["ZDIFF", Counted(&keys)];
        /// As `zdiff`, with the scores.
        zdiff_scores<T>(keys: impl ToArgs) -> T = ["ZDIFF", Counted(&keys), "WITHSCORES"];
        /// Stores the members of the first set that are in none of the others; answers how many.
        zdiffstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["ZDIFFSTORE", destination, Counted(&keys)];
        /// Adds to the score of a member, which begins at 0; answers the sum.
        zincrby(key: impl ToArg, by: impl Number, member: impl ToArg) -> f64 = ["ZINCRBY", key, by, member];
        /// The members that all sets have in common.
        zinter<T>(keys: impl ToArgs) -> T = ["ZINTER", Counted(&keys)];
        /// As `zinter`, with options.
        zinter_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZINTER", Counted(&keys), options];
        /// As `zinter`, with the scores.
        zinter_scores<T>(keys: impl ToArgs) -> T = ["ZINTER", Counted(&keys), "WITHSCORES"];
        /// As `zinter_scores`, with options.
        zinter_scores_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZINTER", Counted(&keys), options, "WITHSCORES"];
        /// How many members all sets have in common.
        zintercard(keys: impl ToArgs) -> u64 = ["ZINTERCARD", Counted(&keys)];
        /// As `zintercard`, but counts no further than this.
        zintercard_limit(keys: impl ToArgs, limit: u64) -> u64 = ["ZINTERCARD", Counted(&keys), "LIMIT", limit];
        /// Stores the members that all sets have in common; answers how many.
        zinterstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["ZINTERSTORE", destination, Counted(&keys)];
        /// As `zinterstore`, with options.
        zinterstore_with(destination: impl ToArg, keys: impl ToArgs, options: CombineOptions) -> u64 = ["ZINTERSTORE", destination, Counted(&keys), options];
        /// How many members have names in a range; bounds are as in [`RankRange::by_name`].
        zlexcount(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZLEXCOUNT", key, min, max];
        /// Takes up to this many members from an end of the first set that has any: its key and the pairs, or nil.
        zmpop<T>(keys: impl ToArgs, end: RankEnd, count: u64) -> T = ["ZMPOP", Counted(&keys), end, "COUNT", count];
        /// The score of each of these members, nil for one that is not there.
        zmscore(key: impl ToArg, members: impl ToArgs) -> Vec<Option<f64>> = ["ZMSCORE", key, members];
        /// Takes the member with the greatest score, with its score; nothing if there is none.
        zpopmax<T>(key: impl ToArg) -> T = ["ZPOPMAX", key];
        /// Takes up to this many members with the greatest scores, with their scores.
        zpopmax_count<T>(key: impl ToArg, count: u64) -> T = ["ZPOPMAX", key, count];
        /// Takes the member with the least score, with its score; nothing if there is none.
        zpopmin<T>(key: impl ToArg) -> T = ["ZPOPMIN", key];
        /// Takes up to this many members with the least scores, with their scores.
        zpopmin_count<T>(key: impl ToArg, count: u64) -> T = ["ZPOPMIN", key, count];
        /// A random member; nil if there is none.
        zrandmember<T>(key: impl ToArg) -> T = ["ZRANDMEMBER", key];
        /// Up to this many different random members; a negative count gives so many, some perhaps more than once.
        zrandmember_count<T>(key: impl ToArg, count: i64) -> T = ["ZRANDMEMBER", key, count];
        /// As `zrandmember_count`, with the scores.
        zrandmember_scores<T>(key: impl ToArg, count: i64) -> T = ["ZRANDMEMBER", key, count, "WITHSCORES"];
        /// The members in a range.
        zrange<T>(key: impl ToArg, range: RankRange) -> T = ["ZRANGE", key, range];
        /// As `zrange`, with the scores; not by name.
        zrange_scores<T>(key: impl ToArg, range: RankRange) -> T = ["ZRANGE", key, range, "WITHSCORES"];
        /// The members with names in a range. The old form of `zrange`.
        zrangebylex<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> T = ["ZRANGEBYLEX", key, min, max];
        /// As `zrangebylex`: only so many, or all if negative, after the first `skipped`.
        zrangebylex_limit<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg, skipped: u64, count: i64) -> T = ["ZRANGEBYLEX", key, min, max, "LIMIT", skipped, count];
        /// The members with scores in a range. The old form of `zrange`.
        zrangebyscore<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> T = ["ZRANGEBYSCORE", key, min, max];
        /// As `zrangebyscore`: only so many, or all if negative, after the first `skipped`.
        zrangebyscore_limit<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg, skipped: u64, count: i64) -> T = ["ZRANGEBYSCORE", key, min, max, "LIMIT", skipped, count];
        /// As `zrangebyscore`, with the scores.
        zrangebyscore_scores<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> T = ["ZRANGEBYSCORE", key, min, max, "WITHSCORES"];
        /// Stores the members in a range; answers how many.
        zrangestore(destination: impl ToArg, source: impl ToArg, range: RankRange) -> u64 = ["ZRANGESTORE", destination, source, range];
        /// How many members come before this one, or nil if it is not there.
        zrank(key: impl ToArg, member: impl ToArg) -> Option<u64> = ["ZRANK", key, member];
        /// As `zrank`, with the score; since Redis 7.2.
        zrank_score(key: impl ToArg, member: impl ToArg) -> Option<(u64, f64)> = ["ZRANK", key, member, "WITHSCORE"];
        /// Removes members; answers how many were there.
        zrem(key: impl ToArg, members: impl ToArgs) -> u64 = ["ZREM", key, members];
        /// Removes the members with names in a range; answers how many.
        zremrangebylex(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZREMRANGEBYLEX", key, min, max];
        /// Removes the members with ranks in a range; answers how many.
        zremrangebyrank(key: impl ToArg, start: i64, stop: i64) -> u64 = ["ZREMRANGEBYRANK", key, start, stop];
        /// Removes the members with scores in a range; answers how many.
        zremrangebyscore(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZREMRANGEBYSCORE", key, min, max];
        /// The members between two ranks, the greatest score first. The old form of `zrange`.
        zrevrange<T>(key: impl ToArg, start: i64, stop: i64) -> T = ["ZREVRANGE", key, start, stop];
        /// As `zrevrange`, with the scores.
        zrevrange_scores<T>(key: impl ToArg, start: i64, stop: i64) -> T = ["ZREVRANGE", key, start, stop, "WITHSCORES"];
        /// The members with names in a range, the greatest first. The old form of `zrange`.
        zrevrangebylex<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg) -> T = ["ZREVRANGEBYLEX", key, max, min];
        /// As `zrevrangebylex`: only so many, or all if negative, after the first `skipped`.
        zrevrangebylex_limit<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg, skipped: u64, count: i64) -> T = ["ZREVRANGEBYLEX", key, max, min, "LIMIT", skipped, count];
        /// The members with scores in a range, the greatest first. The old form of `zrange`.
        zrevrangebyscore<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg) -> T = ["ZREVRANGEBYSCORE", key, max, min];
        /// As `zrevrangebyscore`: only so many, or all if negative, after the first `skipped`.
        zrevrangebyscore_limit<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg, skipped: u64, count: i64) -> T = ["ZREVRANGEBYSCORE", key, max, min, "LIMIT", skipped, count];
        /// As `zrevrangebyscore`, with the scores.
        zrevrangebyscore_scores<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg) -> T = ["ZREVRANGEBYSCORE", key, max, min, "WITHSCORES"];
        /// How many members come behind this one, or nil if it is not there.
        zrevrank(key: impl ToArg, member: impl ToArg) -> Option<u64> = ["ZREVRANK", key, member];
        /// As `zrevrank`, with the score; since Redis 7.2.
        zrevrank_score(key: impl ToArg, member: impl ToArg) -> Option<(u64, f64)> = ["ZREVRANK", key, member, "WITHSCORE"];
        /// Some of the members with their scores, and the cursor for the next call. Begin with 0; the end is reached when 0
        /// comes back.
        zscan<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["ZSCAN", key, cursor];
        /// As `zscan`, with options.
        zscan_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["ZSCAN", key, cursor, options];
        /// The score of a member, or nil.
        zscore(key: impl ToArg, member: impl ToArg) -> Option<f64> = ["ZSCORE", key, member];
        /// The members that at least one of the sets has.
        zunion<T>(keys: impl ToArgs) -> T = ["ZUNION", Counted(&keys)];
        /// As `zunion`, with options.
        zunion_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZUNION", Counted(&keys), options];
        /// As `zunion`, with the scores.
        zunion_scores<T>(keys: impl ToArgs) -> T = ["ZUNION", Counted(&keys), "WITHSCORES"];
        /// As `zunion_scores`, with options.
        zunion_scores_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZUNION", Counted(&keys), options, "WITHSCORES"];
        /// Stores the members that at least one of the sets has; answers how many.
        zunionstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["ZUNIONSTORE", destination, Counted(&keys)];
        /// As `zunionstore`, with options.
        zunionstore_with(destination: impl ToArg, keys: impl ToArgs, options: CombineOptions) -> u64 = ["ZUNIONSTORE", destination, Counted(&keys), options];
    }
}
