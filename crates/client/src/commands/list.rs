//! The commands on lists as methods, one line each. Those that wait are in [`blocking`](super::blocking).

use crate::resp::counted::Counted;
use crate::resp::options::list::{ListEnd, ListSide, PosOptions, SortOptions};
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands on lists.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.rpush("jobs", ["sweep", "cook"]).wait()?;
    /// assert_eq!(client.lrange::<Vec<String>>("jobs", 0, -1).wait()?, ["sweep", "cook"]);
    /// assert_eq!(client.lpop::<Option<String>>("jobs").wait()?.as_deref(), Some("sweep"));
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    ListCommands {
        /// Returns the element at this index; negative ones count from the end. Nil if there is none.
        lindex<T>(key: impl ToArg, index: i64) -> T = ["LINDEX", key, index];
        /// Inserts an element beside another one; returns the new length, 0 if there is no list, -1 if there is no such
        /// element.
        linsert(key: impl ToArg, side: ListSide, pivot: impl ToArg, element: impl ToArg) -> i64 =
            ["LINSERT", key, side, pivot, element];
        /// Returns the number of elements.
        llen(key: impl ToArg) -> u64 = ["LLEN", key];
        /// Moves an element from an end of a list to an end of another; returns the element, or nil.
        lmove<T>(source: impl ToArg, destination: impl ToArg, from: ListEnd, to: ListEnd) -> T =
            ["LMOVE", source, destination, from, to];
        /// Takes up to this many elements from an end of the first list that has any: its key and the elements, or nil.
        lmpop<T>(keys: impl ToArgs, end: ListEnd, count: u64) -> T = ["LMPOP", Counted(&keys), end, "COUNT", count];
        /// Takes the first element; nil if there is none.
        lpop<T>(key: impl ToArg) -> T = ["LPOP", key];
        /// Takes up to this many elements from the front; nil if there is no list.
        lpop_count<T>(key: impl ToArg, count: u64) -> T = ["LPOP", key, count];
        /// Returns the index of an element, or nil.
        lpos(key: impl ToArg, element: impl ToArg) -> Option<u64> = ["LPOS", key, element];
        /// Works as `lpos` does, with options.
        lpos_with(key: impl ToArg, element: impl ToArg, options: PosOptions) -> Option<u64> = ["LPOS", key, element, options];
        /// Returns up to this many indexes of an element; 0 for all.
        lpos_count(key: impl ToArg, element: impl ToArg, count: u64) -> Vec<u64> = ["LPOS", key, element, "COUNT", count];
        /// Works as `lpos_count` does, with options.
        lpos_count_with(key: impl ToArg, element: impl ToArg, count: u64, options: PosOptions) -> Vec<u64> = ["LPOS", key, element, "COUNT", count, options];
        /// Adds elements at the front, one after the other; returns the new length.
        lpush(key: impl ToArg, elements: impl ToArgs) -> u64 = ["LPUSH", key, elements];
        /// Works as `lpush` does, if the list exists; returns 0 if not.
        lpushx(key: impl ToArg, elements: impl ToArgs) -> u64 = ["LPUSHX", key, elements];
        /// Returns the elements between two indexes, both included; negative ones count from the end.
        lrange<T>(key: impl ToArg, start: i64, stop: i64) -> T = ["LRANGE", key, start, stop];
        /// Removes up to this many of the elements that equal this one, from the back if negative, all if 0; returns their
        /// number.
        lrem(key: impl ToArg, count: i64, element: impl ToArg) -> u64 = ["LREM", key, count, element];
        /// Replaces the element at this index.
        lset(key: impl ToArg, index: i64, element: impl ToArg) -> () = ["LSET", key, index, element];
        /// Keeps the elements between two indexes, both included.
        ltrim(key: impl ToArg, start: i64, stop: i64) -> () = ["LTRIM", key, start, stop];
        /// Takes the last element; nil if there is none.
        rpop<T>(key: impl ToArg) -> T = ["RPOP", key];
        /// Takes up to this many elements from the back; nil if there is no list.
        rpop_count<T>(key: impl ToArg, count: u64) -> T = ["RPOP", key, count];
        /// Moves the last element of a list to the front of another; returns it, or nil.
        rpoplpush<T>(source: impl ToArg, destination: impl ToArg) -> T = ["RPOPLPUSH", source, destination];
        /// Adds elements at the back, one after the other; returns the new length.
        rpush(key: impl ToArg, elements: impl ToArgs) -> u64 = ["RPUSH", key, elements];
        /// Works as `rpush` does, if the list exists; returns 0 if not.
        rpushx(key: impl ToArg, elements: impl ToArgs) -> u64 = ["RPUSHX", key, elements];
        /// Returns the elements of a list, set or sorted set in another order, or values of other keys that they name.
        sort<T>(key: impl ToArg) -> T = ["SORT", key];
        /// Works as `sort` does, with options.
        sort_with<T>(key: impl ToArg, options: SortOptions) -> T = ["SORT", key, options];
        /// Works as `sort` does, also on servers that take no writes; since Redis 7.0.
        sort_ro<T>(key: impl ToArg) -> T = ["SORT_RO", key];
        /// Works as `sort_ro` does, with options.
        sort_ro_with<T>(key: impl ToArg, options: SortOptions) -> T = ["SORT_RO", key, options];
        /// Works as `sort` does, and stores the answer as a list; returns its length.
        sort_store(key: impl ToArg, destination: impl ToArg) -> u64 = ["SORT", key, "STORE", destination];
        /// Works as `sort_store` does, with options.
        sort_store_with(key: impl ToArg, destination: impl ToArg, options: SortOptions) -> u64 = ["SORT", key, options, "STORE", destination];
    }
}
