//! Set commands: values of a key that are distinct strings in no order.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! set_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

SAdd "sadd", Set, arity -3, since "1.0.0"
    [WRITE DENYOOM FAST] [SET]
    keys (1; RW INSERT)
    merges (SAdd, Shape::Members, Nobody)
    summary "Adds members to a set, creating it when it is missing."
    complexity "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments."
    grammar "key member...";

SCard "scard", Set, arity 2, since "1.0.0"
    [READONLY FAST] [SET]
    keys (1; RO)
    summary "Gives the number of members of a set."
    complexity "O(1)"
    grammar "key";

SDiff "sdiff", Set, arity -2, since "1.0.0"
    [READONLY] [SET]
    keys (1 to -1 step 1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives the members of the first set that are in none of the others."
    complexity "O(N) where N is the total number of elements in all given sets."
    grammar "key...";

SDiffCard "sdiffcard", Set, arity -3, since "8.10.0"
    [READONLY MOVABLE_KEYS] [SET]
    keys (1 counted; RO ACCESS)
    summary "Counts the members of the first set that are in none of the others, up to a limit."
    complexity "O(N) where N is the total number of elements in all given sets."
    grammar "numkeys:integer key... [LIMIT limit:integer]";

SDiffStore "sdiffstore", Set, arity -3, since "1.0.0"
    [WRITE DENYOOM] [SET]
    keys (1; OW UPDATE) (2 to -1 step 1; RO ACCESS)
    summary "Stores the members of the first set that are in none of the others."
    complexity "O(N) where N is the total number of elements in all given sets."
    grammar "destination:key key#1...";

SInter "sinter", Set, arity -2, since "1.0.0"
    [READONLY] [SET]
    keys (1 to -1 step 1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives the members that all sets have in common."
    complexity "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
    grammar "key...";

SInterCard "sintercard", Set, arity -3, since "7.0.0"
    [READONLY MOVABLE_KEYS] [SET]
    keys (1 counted; RO ACCESS)
    summary "Counts the members that all sets have in common, up to a limit."
    complexity "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
    grammar "numkeys:integer key... [LIMIT limit:integer]";

SInterStore "sinterstore", Set, arity -3, since "1.0.0"
    [WRITE DENYOOM] [SET]
    keys (1; RW UPDATE) (2 to -1 step 1; RO ACCESS)
    summary "Stores the members that all sets have in common."
    complexity "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
    grammar "destination:key key#1...";

SIsMember "sismember", Set, arity 3, since "1.0.0"
    [READONLY FAST] [SET]
    keys (1; RO)
    merges (SMIsMember, Shape::Members, Each)
    summary "Says whether a set has a member."
    complexity "O(1)"
    grammar "key member";

SMIsMember "smismember", Set, arity -3, since "6.2.0"
    [READONLY FAST] [SET]
    keys (1; RO ACCESS)
    summary "Says of each of several members whether a set has it."
    complexity "O(N) where N is the number of elements being checked for membership"
    grammar "key member...";

SMembers "smembers", Set, arity 2, since "1.0.0"
    [READONLY] [SET]
    keys (1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives all members of a set."
    complexity "O(N) where N is the set cardinality."
    grammar "key";

SMove "smove", Set, arity 4, since "1.0.0"
    [WRITE FAST] [SET]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    summary "Takes a member out of one set and adds it to another."
    complexity "O(1)"
    grammar "source:key destination:key#1 member";

SPop "spop", Set, arity -2, since "1.0.0"
    [WRITE FAST] [SET]
    keys (1; RW ACCESS DELETE)
    tips "nondeterministic_output"
    summary "Takes random members out of a set and gives them."
    complexity "Without the count argument O(1), otherwise O(N) where N is the value of the passed count."
    grammar "key [count:integer@3.2.0]";

SRandMember "srandmember", Set, arity -2, since "1.0.0"
    [READONLY] [SET]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives random members of a set: different ones, or with a negative count any."
    complexity "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count."
    grammar "key [count:integer@2.6.0]";

SRem "srem", Set, arity -3, since "1.0.0"
    [WRITE FAST] [SET]
    keys (1; RW DELETE)
    merges (SRem, Shape::Members, Nobody)
    summary "Removes members from a set."
    complexity "O(N) where N is the number of members to be removed."
    grammar "key member...";

SScan "sscan", Set, arity -3, since "2.8.0"
    [READONLY] [SET]
    keys (1; RO ACCESS)
    tips "nondeterministic_output"
    summary "Gives some members of a set and the cursor with which the next call goes on."
    complexity "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return \
        back to 0. N is the number of elements inside the collection.."
    grammar "key cursor:integer [MATCH pattern] [COUNT count:integer]";

SUnion "sunion", Set, arity -2, since "1.0.0"
    [READONLY] [SET]
    keys (1 to -1 step 1; RO ACCESS)
    tips "nondeterministic_output_order"
    summary "Gives the members that at least one of the sets has."
    complexity "O(N) where N is the total number of elements in all given sets."
    grammar "key...";

SUnionCard "sunioncard", Set, arity -3, since "8.10.0"
    [READONLY MOVABLE_KEYS] [SET]
    keys (1 counted; RO ACCESS)
    summary "Counts the members that at least one of several sets has, up to a limit."
    complexity "O(N) where N is the total number of elements in all given sets."
    grammar "numkeys:integer key... [APPROX] [LIMIT limit:integer]";

SUnionStore "sunionstore", Set, arity -3, since "1.0.0"
    [WRITE DENYOOM] [SET]
    keys (1; OW UPDATE) (2 to -1 step 1; RO ACCESS)
    summary "Stores the members that at least one of the sets has."
    complexity "O(N) where N is the total number of elements in all given sets."
    grammar "destination:key key#1...";

    } };
}
