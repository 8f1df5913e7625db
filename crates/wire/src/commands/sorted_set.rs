//! Sorted set commands: distinct members of a key, each with a score, in the order of scores.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! sorted_set_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

BZMPop "bzmpop", SortedSet, arity -5, since "7.0.0"
    [WRITE BLOCKING MOVABLE_KEYS] [SORTEDSET]
    keys (2 counted; RW ACCESS DELETE)
    waits (Place::At(1), Seconds)
    summary "Takes members with the lowest or highest scores from the first sorted set that has any; waits for one \
        if there is none."
    complexity "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the \
        sorted set, and M being the number of elements popped."
    grammar "timeout:double numkeys:integer key... where=<MIN|MAX> [COUNT count:integer]";

BZPopMax "bzpopmax", SortedSet, arity -3, since "5.0.0"
    [WRITE BLOCKING FAST] [SORTEDSET]
    keys (1 to -2 step 1; RW ACCESS DELETE)
    waits (Place::Last, Seconds)
    summary "Takes the member with the highest score from the first sorted set that has any; waits for one if there \
        is none."
    complexity "O(log(N)) with N being the number of elements in the sorted set."
    grammar "key... timeout:double";

BZPopMin "bzpopmin", SortedSet, arity -3, since "5.0.0"
    [WRITE BLOCKING FAST] [SORTEDSET]
    keys (1 to -2 step 1; RW ACCESS DELETE)
    waits (Place::Last, Seconds)
    summary "Takes the member with the lowest score from the first sorted set that has any; waits for one if there \
        is none."
    complexity "O(log(N)) with N being the number of elements in the sorted set."
    grammar "key... timeout:double";

ZAdd "zadd", SortedSet, arity -4, since "1.2.0"
    [WRITE DENYOOM FAST] [SORTEDSET]
    keys (1; RW UPDATE)
    merges (ZAdd, Shape::ScoresAndMembers, Nobody)
    summary "Adds members with their scores to a sorted set, or gives members other scores."
    complexity "O(log(N)) for each item added, where N is the number of elements in the sorted set."
    grammar "key [condition=<NX|XX>@3.0.2] [comparison=<GT|LT>@6.2.0] [change=CH@3.0.2] [increment=INCR@3.0.2] \
        score_member=<score:double member>...";

ZCard "zcard", SortedSet, arity 2, since "1.2.0"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO)
    summary "Gives the number of members of a sorted set."
    complexity "O(1)"
    grammar "key";

ZCount "zcount", SortedSet, arity 4, since "2.0.0"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO ACCESS)
    summary "Counts the members of a sorted set whose scores lie in a range."
    complexity "O(log(N)) with N being the number of elements in the sorted set."
    grammar "key min:double max:double";

ZDiff "zdiff", SortedSet, arity -3, since "6.2.0"
    [READONLY MOVABLE_KEYS] [SORTEDSET]
    keys (1 counted; RO ACCESS)
    summary "Gives the members of the first sorted set that are in none of the others."
    complexity "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size \
        of the first set, and K is the size of the result set."
    grammar "numkeys:integer key... [WITHSCORES]";

ZDiffStore "zdiffstore", SortedSet, arity -4, since "6.2.0"
    [WRITE DENYOOM MOVABLE_KEYS] [SORTEDSET]
    keys (1; OW UPDATE) (2 counted; RO ACCESS)
    summary "Stores the members of the first sorted set that are in none of the others."
    complexity "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size \
        of the first set, and K is the size of the result set."
    grammar "destination:key numkeys:integer key#1...";

ZIncrBy "zincrby", SortedSet, arity 4, since "1.2.0"
    [WRITE DENYOOM FAST] [SORTEDSET]
    keys (1; RW ACCESS UPDATE)
    summary "Adds to the score of a member of a sorted set and gives the new one."
    complexity "O(log(N)) where N is the number of elements in the sorted set."
    grammar "key increment:integer member";

ZInter "zinter", SortedSet, arity -3, since "6.2.0"
    [READONLY MOVABLE_KEYS] [SORTEDSET]
    keys (1 counted; RO ACCESS)
    summary "Gives the members that several sorted sets have in common."
    complexity "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of \
        input sorted sets and M being the number of elements in the resulting sorted set."
    grammar "numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>] [WITHSCORES]";

ZInterCard "zintercard", SortedSet, arity -3, since "7.0.0"
    [READONLY MOVABLE_KEYS] [SORTEDSET]
    keys (1 counted; RO ACCESS)
    summary "Counts the members that several sorted sets have in common."
    complexity "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted \
        sets."
    grammar "numkeys:integer key... [LIMIT limit:integer]";

ZInterStore "zinterstore", SortedSet, arity -4, since "2.0.0"
    [WRITE DENYOOM MOVABLE_KEYS] [SORTEDSET]
    keys (1; OW UPDATE) (2 counted; RO ACCESS)
    summary "Stores the members that several sorted sets have in common."
    complexity "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of \
        input sorted sets and M being the number of elements in the resulting sorted set."
    grammar "destination:key numkeys:integer key#1... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>]";

ZLexCount "zlexcount", SortedSet, arity 4, since "2.8.9"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO ACCESS)
    summary "Counts the members of a sorted set that lie in a range of names, where all scores are the same."
    complexity "O(log(N)) with N being the number of elements in the sorted set."
    grammar "key min max";

ZMPop "zmpop", SortedSet, arity -4, since "7.0.0"
    [WRITE MOVABLE_KEYS] [SORTEDSET]
    keys (1 counted; RW ACCESS DELETE)
    summary "Takes members with the lowest or highest scores from the first sorted set that is not empty, and gives \
        them."
    complexity "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the \
        sorted set, and M being the number of elements popped."
    grammar "numkeys:integer key... where=<MIN|MAX> [COUNT count:integer]";

ZMScore "zmscore", SortedSet, arity -3, since "6.2.0"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO ACCESS)
    summary "Gives the scores of several members of a sorted set."
    complexity "O(N) where N is the number of members being requested."
    grammar "key member...";

ZPopMax "zpopmax", SortedSet, arity -2, since "5.0.0"
    [WRITE FAST] [SORTEDSET]
    keys (1; RW ACCESS DELETE)
    summary "Takes members with the highest scores from a sorted set and gives them."
    complexity "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of \
        elements popped."
    grammar "key [count:integer]";

ZPopMin "zpopmin", SortedSet, arity -2, since "5.0.0"
    [WRITE FAST] [SORTEDSET]
    keys (1; RW ACCESS DELETE)
    summary "Takes members with the lowest scores from a sorted set and gives them."
    complexity "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of \
        elements popped."
    grammar "key [count:integer]";

ZRandMember "zrandmember", SortedSet, arity -2, since "6.2.0"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives random members of a sorted set."
    complexity "O(N) where N is the number of elements returned"
    grammar "key [options=<count:integer [WITHSCORES]>]";

ZRange "zrange", SortedSet, arity -4, since "1.2.0"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    summary "Gives a range of members of a sorted set, by rank, by score or by name, in either direction."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
        returned."
    grammar "key start stop [sortby=<BYSCORE|BYLEX>@6.2.0] [REV@6.2.0] [LIMIT offset_count=<offset:integer \
        count:integer>@6.2.0] [WITHSCORES]";

ZRangeByLex "zrangebylex", SortedSet, arity -4, since "2.8.9"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`ZRANGE` with the `BYLEX` argument"
    summary "Gives the members of a sorted set that lie in a range of names."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being \
        returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it \
        O(log(N))."
    grammar "key min max [LIMIT offset_count=<offset:integer count:integer>]";

ZRangeByScore "zrangebyscore", SortedSet, arity -4, since "1.0.5"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`ZRANGE` with the `BYSCORE` argument"
    summary "Gives the members of a sorted set whose scores lie in a range."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being \
        returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it \
        O(log(N))."
    grammar "key min:double max:double [WITHSCORES@2.0.0] [LIMIT offset_count=<offset:integer count:integer>]";

ZRangeStore "zrangestore", SortedSet, arity -5, since "6.2.0"
    [WRITE DENYOOM] [SORTEDSET]
    keys (1; OW UPDATE) (2; RO ACCESS)
    summary "Stores a range of members of a sorted set under another key."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
        stored into the destination key."
    grammar "dst:key src:key#1 min max [sortby=<BYSCORE|BYLEX>] [REV] [LIMIT offset_count=<offset:integer \
        count:integer>]";

ZRank "zrank", SortedSet, arity -3, since "2.0.0"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO ACCESS)
    summary "Gives the rank of a member of a sorted set, counted from the lowest score."
    complexity "O(log(N))"
    grammar "key member [WITHSCORE]";

ZRem "zrem", SortedSet, arity -3, since "1.2.0"
    [WRITE FAST] [SORTEDSET]
    keys (1; RW DELETE)
    merges (ZRem, Shape::Members, Nobody)
    summary "Removes members from a sorted set."
    complexity "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be \
        removed."
    grammar "key member...";

ZRemRangeByLex "zremrangebylex", SortedSet, arity 4, since "2.8.9"
    [WRITE] [SORTEDSET]
    keys (1; RW DELETE)
    summary "Removes the members of a sorted set that lie in a range of names."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
        removed by the operation."
    grammar "key min max";

ZRemRangeByRank "zremrangebyrank", SortedSet, arity 4, since "2.0.0"
    [WRITE] [SORTEDSET]
    keys (1; RW DELETE)
    summary "Removes the members of a sorted set whose ranks lie in a range."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
        removed by the operation."
    grammar "key start:integer stop:integer";

ZRemRangeByScore "zremrangebyscore", SortedSet, arity 4, since "1.2.0"
    [WRITE] [SORTEDSET]
    keys (1; RW DELETE)
    summary "Removes the members of a sorted set whose scores lie in a range."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
        removed by the operation."
    grammar "key min:double max:double";

ZRevRange "zrevrange", SortedSet, arity -4, since "1.2.0"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`ZRANGE` with the `REV` argument"
    summary "Gives the members of a sorted set whose ranks, counted from the highest score, lie in a range."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
        returned."
    grammar "key start:integer stop:integer [WITHSCORES]";

ZRevRangeByLex "zrevrangebylex", SortedSet, arity -4, since "2.8.9"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`ZRANGE` with the `REV` and `BYLEX` arguments"
    summary "Gives the members of a sorted set that lie in a range of names, in reverse order."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being \
        returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it \
        O(log(N))."
    grammar "key max min [LIMIT offset_count=<offset:integer count:integer>]";

ZRevRangeByScore "zrevrangebyscore", SortedSet, arity -4, since "2.2.0"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    deprecated "6.2.0" "`ZRANGE` with the `REV` and `BYSCORE` arguments"
    summary "Gives the members of a sorted set whose scores lie in a range, in reverse order."
    complexity "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being \
        returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it \
        O(log(N))."
    grammar "key max:double min:double [WITHSCORES] [LIMIT offset_count=<offset:integer count:integer>]";

ZRevRank "zrevrank", SortedSet, arity -3, since "2.0.0"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO ACCESS)
    summary "Gives the rank of a member of a sorted set, counted from the highest score."
    complexity "O(log(N))"
    grammar "key member [WITHSCORE]";

ZScan "zscan", SortedSet, arity -3, since "2.8.0"
    [READONLY] [SORTEDSET]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Walks over the members of a sorted set, some at a time."
    complexity "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to \
        return back to 0. N is the number of elements inside the collection.."
    grammar "key cursor:integer [MATCH pattern] [COUNT count:integer] [NOSCORES@8.0.0]";

ZScore "zscore", SortedSet, arity 3, since "1.2.0"
    [READONLY FAST] [SORTEDSET]
    keys (1; RO ACCESS)
    merges (ZMScore, Shape::Members, Each)
    summary "Gives the score of a member of a sorted set."
    complexity "O(1)"
    grammar "key member";

ZUnion "zunion", SortedSet, arity -3, since "6.2.0"
    [READONLY MOVABLE_KEYS] [SORTEDSET]
    keys (1 counted; RO ACCESS)
    summary "Gives the members that are in any of several sorted sets."
    complexity "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number \
        of elements in the resulting sorted set."
    grammar "numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>] [WITHSCORES]";

ZUnionStore "zunionstore", SortedSet, arity -4, since "2.0.0"
    [WRITE DENYOOM MOVABLE_KEYS] [SORTEDSET]
    keys (1; OW UPDATE) (2 counted; RO ACCESS)
    summary "Stores the members that are in any of several sorted sets."
    complexity "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number \
        of elements in the resulting sorted set."
    grammar "destination:key numkeys:integer key#1... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>]";

    } };
}
