//! List commands: values of a key that are strings in an order of their own.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! list_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

BLMove "blmove", List, arity 6, since "6.2.0"
    [WRITE DENYOOM BLOCKING] [LIST]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    waits (Place::Last, Seconds)
    summary "As LMOVE, and waits for the source where there is none."
    complexity "O(1)"
    grammar "source:key destination:key#1 wherefrom=<LEFT|RIGHT> whereto=<LEFT|RIGHT> timeout:double";

BLMoveM "blmovem", List, arity -6, since "8.10.0"
    [WRITE DENYOOM BLOCKING] [LIST]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    waits (Place::At(5), Seconds)
    summary "As LMOVEM, and waits for the source where it has none or not enough."
    complexity "O(N) where N is the number of elements moved."
    grammar "source:key destination:key#1 wherefrom=<LEFT|RIGHT> whereto=<LEFT|RIGHT> timeout:double \
        [how-many=<selector=<COUNT count:integer|EXACTLY exactly:integer> ordering=<OBO|BULK>>]";

BLMPop "blmpop", List, arity -5, since "7.0.0"
    [WRITE BLOCKING MOVABLE_KEYS] [LIST]
    keys (2 counted; RW ACCESS DELETE)
    waits (Place::At(1), Seconds)
    summary "As LMPOP, and waits for one of the lists where there is none."
    complexity "O(N+M) where N is the number of provided keys and M is the number of elements returned."
    grammar "timeout:double numkeys:integer key... where=<LEFT|RIGHT> [COUNT count:integer]";

BLPop "blpop", List, arity -3, since "2.0.0"
    [WRITE BLOCKING] [LIST]
    keys (1 to -2 step 1; RW ACCESS DELETE)
    waits (Place::Last, Seconds)
    summary "Takes the first element of the first list that is not empty, and waits where there is none."
    complexity "O(N) where N is the number of provided keys."
    grammar "key... timeout:double";

BRPop "brpop", List, arity -3, since "2.0.0"
    [WRITE BLOCKING] [LIST]
    keys (1 to -2 step 1; RW ACCESS DELETE)
    waits (Place::Last, Seconds)
    summary "Takes the last element of the first list that is not empty, and waits where there is none."
    complexity "O(N) where N is the number of provided keys."
    grammar "key... timeout:double";

BRPopLPush "brpoplpush", List, arity 4, since "2.2.0"
    [WRITE DENYOOM BLOCKING] [LIST]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    waits (Place::Last, Seconds)
    deprecated "6.2.0" "`BLMOVE` with the `RIGHT` and `LEFT` arguments"
    summary "As RPOPLPUSH, and waits for the source where there is none."
    complexity "O(1)"
    grammar "source:key destination:key#1 timeout:double";

LIndex "lindex", List, arity 3, since "1.0.0"
    [READONLY] [LIST]
    keys (1; RO ACCESS)
    summary "Gives the element of a list at an index."
    complexity "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for \
        the first or the last element of the list O(1)."
    grammar "key index:integer";

LInsert "linsert", List, arity 5, since "2.2.0"
    [WRITE DENYOOM] [LIST]
    keys (1; RW INSERT)
    summary "Puts an element before or after another one of a list."
    complexity "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that \
        inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right \
        end (tail) is O(N)."
    grammar "key where=<BEFORE|AFTER> pivot element";

LLen "llen", List, arity 2, since "1.0.0"
    [READONLY FAST] [LIST]
    keys (1; RO)
    summary "Gives the number of elements of a list."
    complexity "O(1)"
    grammar "key";

LMove "lmove", List, arity 5, since "6.2.0"
    [WRITE DENYOOM] [LIST]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    summary "Takes an element from one end of a list, pushes it to an end of another list, and gives it."
    complexity "O(1)"
    grammar "source:key destination:key#1 wherefrom=<LEFT|RIGHT> whereto=<LEFT|RIGHT>";

LMoveM "lmovem", List, arity -5, since "8.10.0"
    [WRITE DENYOOM] [LIST]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    summary "Takes elements from one end of a list, puts them at an end of another list, and gives them."
    complexity "O(N) where N is the number of elements moved."
    grammar "source:key destination:key#1 wherefrom=<LEFT|RIGHT> whereto=<LEFT|RIGHT> \
        [how-many=<selector=<COUNT count:integer|EXACTLY exactly:integer> ordering=<OBO|BULK>>]";

LMPop "lmpop", List, arity -4, since "7.0.0"
    [WRITE MOVABLE_KEYS] [LIST]
    keys (1 counted; RW ACCESS DELETE)
    summary "Takes elements from one end of the first list that is not empty, and gives them."
    complexity "O(N+M) where N is the number of provided keys and M is the number of elements returned."
    grammar "numkeys:integer key... where=<LEFT|RIGHT> [COUNT count:integer]";

LPop "lpop", List, arity -2, since "1.0.0"
    [WRITE FAST] [LIST]
    keys (1; RW ACCESS DELETE)
    summary "Takes elements from the front of a list and gives them."
    complexity "O(N) where N is the number of elements returned"
    grammar "key [count:integer@6.2.0]";

LPos "lpos", List, arity -3, since "6.0.6"
    [READONLY] [LIST]
    keys (1; RO ACCESS)
    summary "Gives the indexes at which a list has an element."
    complexity "O(N) where N is the number of elements in the list, for the average case. When searching for elements \
        near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time."
    grammar "key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]";

LPush "lpush", List, arity -3, since "1.0.0"
    [WRITE DENYOOM FAST] [LIST]
    keys (1; RW INSERT)
    merges (LPush, Shape::Members, Length)
    summary "Pushes elements to the front of a list, one after the other, creating it when it is missing."
    complexity "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments."
    grammar "key element...";

LPushX "lpushx", List, arity -3, since "2.2.0"
    [WRITE DENYOOM FAST] [LIST]
    keys (1; RW INSERT)
    summary "Pushes elements to the front of a list, one after the other, if the list exists."
    complexity "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments."
    grammar "key element...";

LRange "lrange", List, arity 4, since "1.0.0"
    [READONLY] [LIST]
    keys (1; RO ACCESS)
    summary "Gives the elements of a list between two indexes."
    complexity "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) \
        for large lists; and N is the number of elements in the specified range."
    grammar "key start:integer stop:integer";

LRem "lrem", List, arity 4, since "1.0.0"
    [WRITE] [LIST]
    keys (1; RW DELETE)
    summary "Removes elements of a list that are equal to a given one."
    complexity "O(N+M) where N is the length of the list and M is the number of elements removed."
    grammar "key count:integer element";

LSet "lset", List, arity 4, since "1.0.0"
    [WRITE DENYOOM] [LIST]
    keys (1; RW UPDATE)
    summary "Replaces the element of a list at an index."
    complexity "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1)."
    grammar "key index:integer element";

LTrim "ltrim", List, arity 4, since "1.0.0"
    [WRITE] [LIST]
    keys (1; RW DELETE)
    summary "Keeps the elements of a list between two indexes and removes the others."
    complexity "O(N) where N is the number of elements to be removed by the operation."
    grammar "key start:integer stop:integer";

RPop "rpop", List, arity -2, since "1.0.0"
    [WRITE FAST] [LIST]
    keys (1; RW ACCESS DELETE)
    summary "Takes elements from the back of a list and gives them."
    complexity "O(N) where N is the number of elements returned"
    grammar "key [count:integer@6.2.0]";

RPopLPush "rpoplpush", List, arity 3, since "1.2.0"
    [WRITE DENYOOM] [LIST]
    keys (1; RW ACCESS DELETE) (2; RW INSERT)
    deprecated "6.2.0" "`LMOVE` with the `RIGHT` and `LEFT` arguments"
    summary "Takes the last element of a list, pushes it to the front of another list, and gives it."
    complexity "O(1)"
    grammar "source:key destination:key#1";

RPush "rpush", List, arity -3, since "1.0.0"
    [WRITE DENYOOM FAST] [LIST]
    keys (1; RW INSERT)
    merges (RPush, Shape::Members, Length)
    summary "Pushes elements to the back of a list, one after the other, creating it when it is missing."
    complexity "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments."
    grammar "key element...";

RPushX "rpushx", List, arity -3, since "2.2.0"
    [WRITE DENYOOM FAST] [LIST]
    keys (1; RW INSERT)
    summary "Pushes elements to the back of a list, one after the other, if the list exists."
    complexity "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments."
    grammar "key element...";
    } };
}
