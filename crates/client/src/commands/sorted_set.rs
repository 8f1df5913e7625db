//! Sorted set commands, one line each. Those that wait are in `blocking`.
//!
//! Where scores come with the members, the answer is taken for pairs, such as `Vec<(String, f64)>`.

use crate::resp::counted::Counted;
use crate::resp::number::Number;
use crate::resp::options::key::MembersScan;
use crate::resp::options::sorted_set::{AddOptions, CombineOptions, RankEnd, RankRange};
use crate::resp::request::{ToArg, ToArgs};

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
        /// Adds members, given as pairs of score and member; returns the number of new ones.
        zadd(key: impl ToArg, scored: impl ToArgs) -> u64 = ["ZADD", key, scored];
        /// Adds to the score of a member as `zincrby` does; returns the new score.
        zadd_incr(key: impl ToArg, by: impl Number, member: impl ToArg) -> Option<f64> = ["ZADD", key, "INCR", by, member];
        /// Works as `zadd_incr` does, if the options allow it; returns nil if they do not.
        zadd_incr_with(key: impl ToArg, by: impl Number, member: impl ToArg, options: AddOptions) -> Option<f64> = ["ZADD", key, options, "INCR", by, member];
        /// Works as `zadd` does, under conditions; returns the number of new members, with changed ones if they are counted.
        zadd_with(key: impl ToArg, scored: impl ToArgs, options: AddOptions) -> u64 = ["ZADD", key, options, scored];
        /// Returns the number of members.
        zcard(key: impl ToArg) -> u64 = ["ZCARD", key];
        /// Returns the number of members with scores in a range; bounds are as in [`RankRange::by_score`].
        zcount(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZCOUNT", key, min, max];
        /// Returns the members of the first set that are in none of the others.
        zdiff<T>(keys: impl ToArgs) -> T = ["ZDIFF", Counted(&keys)];
        /// Works as `zdiff` does, with the scores.
        zdiff_scores<T>(keys: impl ToArgs) -> T = ["ZDIFF", Counted(&keys), "WITHSCORES"];
        /// Stores the members of the first set that are in none of the others; returns their number.
        zdiffstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["ZDIFFSTORE", destination, Counted(&keys)];
        /// Adds to the score of a member, which begins at 0; returns the sum.
        zincrby(key: impl ToArg, by: impl Number, member: impl ToArg) -> f64 = ["ZINCRBY", key, by, member];
        /// Returns the members that all sets have in common.
        zinter<T>(keys: impl ToArgs) -> T = ["ZINTER", Counted(&keys)];
        /// Works as `zinter` does, with options.
        zinter_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZINTER", Counted(&keys), options];
        /// Works as `zinter` does, with the scores.
        zinter_scores<T>(keys: impl ToArgs) -> T = ["ZINTER", Counted(&keys), "WITHSCORES"];
        /// Works as `zinter_scores` does, with options.
        zinter_scores_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZINTER", Counted(&keys), options, "WITHSCORES"];
        /// Returns the number of members that all sets have in common.
        zintercard(keys: impl ToArgs) -> u64 = ["ZINTERCARD", Counted(&keys)];
        /// Works as `zintercard` does, but counts only up to this limit.
        zintercard_limit(keys: impl ToArgs, limit: u64) -> u64 = ["ZINTERCARD", Counted(&keys), "LIMIT", limit];
        /// Stores the members that all sets have in common; returns their number.
        zinterstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["ZINTERSTORE", destination, Counted(&keys)];
        /// Works as `zinterstore` does, with options.
        zinterstore_with(destination: impl ToArg, keys: impl ToArgs, options: CombineOptions) -> u64 = ["ZINTERSTORE", destination, Counted(&keys), options];
        /// Returns the number of members with names in a range; bounds are as in [`RankRange::by_name`].
        zlexcount(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZLEXCOUNT", key, min, max];
        /// Takes up to this many members from an end of the first set that has any: its key and the pairs, or nil.
        zmpop<T>(keys: impl ToArgs, end: RankEnd, count: u64) -> T = ["ZMPOP", Counted(&keys), end, "COUNT", count];
        /// Returns the score of each of these members; nil for one that does not exist.
        zmscore(key: impl ToArg, members: impl ToArgs) -> Vec<Option<f64>> = ["ZMSCORE", key, members];
        /// Takes the member with the greatest score, with its score; nothing if there is none.
        zpopmax<T>(key: impl ToArg) -> T = ["ZPOPMAX", key];
        /// Takes up to this many members with the greatest scores, with their scores.
        zpopmax_count<T>(key: impl ToArg, count: u64) -> T = ["ZPOPMAX", key, count];
        /// Takes the member with the least score, with its score; nothing if there is none.
        zpopmin<T>(key: impl ToArg) -> T = ["ZPOPMIN", key];
        /// Takes up to this many members with the least scores, with their scores.
        zpopmin_count<T>(key: impl ToArg, count: u64) -> T = ["ZPOPMIN", key, count];
        /// Returns a random member; nil if there is none.
        zrandmember<T>(key: impl ToArg) -> T = ["ZRANDMEMBER", key];
        /// Returns up to this many different random members; with a negative count exactly this many, which may repeat.
        zrandmember_count<T>(key: impl ToArg, count: i64) -> T = ["ZRANDMEMBER", key, count];
        /// Works as `zrandmember_count` does, with the scores.
        zrandmember_scores<T>(key: impl ToArg, count: i64) -> T = ["ZRANDMEMBER", key, count, "WITHSCORES"];
        /// Returns the members in a range.
        zrange<T>(key: impl ToArg, range: RankRange) -> T = ["ZRANGE", key, range];
        /// Works as `zrange` does, with the scores; not by name.
        zrange_scores<T>(key: impl ToArg, range: RankRange) -> T = ["ZRANGE", key, range, "WITHSCORES"];
        /// Returns the members with names in a range. The old form of `zrange`.
        zrangebylex<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> T = ["ZRANGEBYLEX", key, min, max];
        /// Works as `zrangebylex` does: returns at most `count`, or all if it is negative, after the first `skipped`.
        zrangebylex_limit<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg, skipped: u64, count: i64) -> T = ["ZRANGEBYLEX", key, min, max, "LIMIT", skipped, count];
        /// Returns the members with scores in a range. The old form of `zrange`.
        zrangebyscore<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> T = ["ZRANGEBYSCORE", key, min, max];
        /// Works as `zrangebyscore` does: returns at most `count`, or all if it is negative, after the first `skipped`.
        zrangebyscore_limit<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg, skipped: u64, count: i64) -> T = ["ZRANGEBYSCORE", key, min, max, "LIMIT", skipped, count];
        /// Works as `zrangebyscore` does, with the scores.
        zrangebyscore_scores<T>(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> T = ["ZRANGEBYSCORE", key, min, max, "WITHSCORES"];
        /// Stores the members in a range; returns their number.
        zrangestore(destination: impl ToArg, source: impl ToArg, range: RankRange) -> u64 = ["ZRANGESTORE", destination, source, range];
        /// Returns the number of members before this one; nil if it does not exist.
        zrank(key: impl ToArg, member: impl ToArg) -> Option<u64> = ["ZRANK", key, member];
        /// Works as `zrank` does, with the score; since Redis 7.2.
        zrank_score(key: impl ToArg, member: impl ToArg) -> Option<(u64, f64)> = ["ZRANK", key, member, "WITHSCORE"];
        /// Removes members; returns the number of those that existed.
        zrem(key: impl ToArg, members: impl ToArgs) -> u64 = ["ZREM", key, members];
        /// Removes the members with names in a range; returns their number.
        zremrangebylex(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZREMRANGEBYLEX", key, min, max];
        /// Removes the members with ranks in a range; returns their number.
        zremrangebyrank(key: impl ToArg, start: i64, stop: i64) -> u64 = ["ZREMRANGEBYRANK", key, start, stop];
        /// Removes the members with scores in a range; returns their number.
        zremrangebyscore(key: impl ToArg, min: impl ToArg, max: impl ToArg) -> u64 = ["ZREMRANGEBYSCORE", key, min, max];
        /// Returns the members between two ranks, the greatest score first. The old form of `zrange`.
        zrevrange<T>(key: impl ToArg, start: i64, stop: i64) -> T = ["ZREVRANGE", key, start, stop];
        /// Works as `zrevrange` does, with the scores.
        zrevrange_scores<T>(key: impl ToArg, start: i64, stop: i64) -> T = ["ZREVRANGE", key, start, stop, "WITHSCORES"];
        /// Returns the members with names in a range, the greatest first. The old form of `zrange`.
        zrevrangebylex<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg) -> T = ["ZREVRANGEBYLEX", key, max, min];
        /// Works as `zrevrangebylex` does: returns at most `count`, or all if it is negative, after the first `skipped`.
        zrevrangebylex_limit<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg, skipped: u64, count: i64) -> T = ["ZREVRANGEBYLEX", key, max, min, "LIMIT", skipped, count];
        /// Returns the members with scores in a range, the greatest first. The old form of `zrange`.
        zrevrangebyscore<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg) -> T = ["ZREVRANGEBYSCORE", key, max, min];
        /// Works as `zrevrangebyscore` does: returns at most `count`, or all if it is negative, after the first `skipped`.
        zrevrangebyscore_limit<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg, skipped: u64, count: i64) -> T = ["ZREVRANGEBYSCORE", key, max, min, "LIMIT", skipped, count];
        /// Works as `zrevrangebyscore` does, with the scores.
        zrevrangebyscore_scores<T>(key: impl ToArg, max: impl ToArg, min: impl ToArg) -> T = ["ZREVRANGEBYSCORE", key, max, min, "WITHSCORES"];
        /// Returns the number of members behind this one; nil if it does not exist.
        zrevrank(key: impl ToArg, member: impl ToArg) -> Option<u64> = ["ZREVRANK", key, member];
        /// Works as `zrevrank` does, with the score; since Redis 7.2.
        zrevrank_score(key: impl ToArg, member: impl ToArg) -> Option<(u64, f64)> = ["ZREVRANK", key, member, "WITHSCORE"];
        /// Returns some of the members with their scores, and the cursor for the next call. The first call has the cursor 0;
        /// the scan has ended when 0 is returned.
        zscan<T>(key: impl ToArg, cursor: u64) -> (u64, T) = ["ZSCAN", key, cursor];
        /// Works as `zscan` does, with options.
        zscan_with<T>(key: impl ToArg, cursor: u64, options: MembersScan) -> (u64, T) = ["ZSCAN", key, cursor, options];
        /// Returns the score of a member, or nil.
        zscore(key: impl ToArg, member: impl ToArg) -> Option<f64> = ["ZSCORE", key, member];
        /// Returns the members that at least one of the sets has.
        zunion<T>(keys: impl ToArgs) -> T = ["ZUNION", Counted(&keys)];
        /// Works as `zunion` does, with options.
        zunion_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZUNION", Counted(&keys), options];
        /// Works as `zunion` does, with the scores.
        zunion_scores<T>(keys: impl ToArgs) -> T = ["ZUNION", Counted(&keys), "WITHSCORES"];
        /// Works as `zunion_scores` does, with options.
        zunion_scores_with<T>(keys: impl ToArgs, options: CombineOptions) -> T = ["ZUNION", Counted(&keys), options, "WITHSCORES"];
        /// Stores the members that at least one of the sets has; returns their number.
        zunionstore(destination: impl ToArg, keys: impl ToArgs) -> u64 = ["ZUNIONSTORE", destination, Counted(&keys)];
        /// Works as `zunionstore` does, with options.
        zunionstore_with(destination: impl ToArg, keys: impl ToArgs, options: CombineOptions) -> u64 = ["ZUNIONSTORE", destination, Counted(&keys), options];
    }
}
