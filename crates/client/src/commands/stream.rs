//! Stream commands, one line each.
//!
//! An id travels as its text (`1700000000000-0`, `*`, `$`, `-`, `+`, `>`). Entries come as pairs of an id and the type chosen
//! for their names and values, such as `Vec<(String, HashMap<String, String>)>`; the answers of XREAD and XREADGROUP as pairs
//! of a stream and its entries, or nil.

use crate::resp::options::stream::{ClaimOptions, GroupStart, ReadOptions, StreamTrim};
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands on streams: entries in the order of their ids, and groups of consumers.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.xadd("events", [("kind", "login")]).wait()?;
    /// client.xgroup_create("events", "mail", sleeve::GroupStart::first()).wait()?;
    /// let options = sleeve::ReadOptions::new().count(10);
    /// type Entries = Vec<(String, Vec<(String, String)>)>;
    /// let read: Vec<(String, Entries)> = client.xreadgroup_with("mail", "worker1", "events", ">", options).wait()?;
    /// let (id, fields) = &read[0].1[0];
    /// assert_eq!(fields[0], ("kind".to_owned(), "login".to_owned()));
    /// assert_eq!(client.xack("events", "mail", id).wait()?, 1);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    StreamCommands {
        /// Acknowledges entries that were delivered in a group; returns the number of those that were pending.
        xack(key: impl ToArg, group: impl ToArg, ids: impl ToArgs) -> u64 = ["XACK", key, group, ids];
        /// Adds an entry with an id that the server chooses; returns the id.
        xadd(key: impl ToArg, fields: impl ToArgs) -> String = ["XADD", key, "*", fields];
        /// Adds an entry once, however often it is sent: its producer has given it this number, which the server remembers
        /// for a while (`XCFGSET`). Returns the id of the entry, also if it existed already. The client sends it again by
        /// itself if a connection was lost. Redis 8.6 and Sleeve.
        xadd_idmp(key: impl ToArg, producer: impl ToArg, number: impl ToArg, fields: impl ToArgs) -> String = ["XADD", key, "IDMP", producer, number, "*", fields];
        /// Adds an entry as `xadd_idmp` does, with the entry's contents in place of a number: its producer cannot add two
        /// equal entries.
        xadd_idmpauto(key: impl ToArg, producer: impl ToArg, fields: impl ToArgs) -> String = ["XADD", key, "IDMPAUTO", producer, "*", fields];
        /// Adds an entry with this id (`5-1`, `5-*`), which must be greater than the last one.
        xadd_id(key: impl ToArg, id: impl ToArg, fields: impl ToArgs) -> String = ["XADD", key, id, fields];
        /// Adds an entry and trims the stream.
        xadd_trim(key: impl ToArg, trim: StreamTrim, fields: impl ToArgs) -> String = ["XADD", key, trim, "*", fields];
        /// Adds an entry if the stream exists; returns its id, or nil.
        xadd_present(key: impl ToArg, fields: impl ToArgs) -> Option<String> = ["XADD", key, "NOMKSTREAM", "*", fields];
        /// Claims for a consumer entries that are pending for others for at least this long; returns the id from which to
        /// continue, the entries, and the ids of deleted ones.
        xautoclaim<T>(key: impl ToArg, group: impl ToArg, consumer: impl ToArg, idle_ms_min: u64, start: impl ToArg, count: u64) -> T = ["XAUTOCLAIM", key, group, consumer, idle_ms_min, start, "COUNT", count];
        /// Claims for a consumer entries that are pending for others for at least this long; returns the entries.
        xclaim<T>(key: impl ToArg, group: impl ToArg, consumer: impl ToArg, idle_ms_min: u64, ids: impl ToArgs) -> T = ["XCLAIM", key, group, consumer, idle_ms_min, ids];
        /// Works as `xclaim` does, with options.
        xclaim_with<T>(key: impl ToArg, group: impl ToArg, consumer: impl ToArg, idle_ms_min: u64, ids: impl ToArgs, options: ClaimOptions) -> T = ["XCLAIM", key, group, consumer, idle_ms_min, ids, options];
        /// Deletes entries; returns the number of those that existed.
        xdel(key: impl ToArg, ids: impl ToArgs) -> u64 = ["XDEL", key, ids];
        /// Creates a group that begins to read after an id.
        xgroup_create(key: impl ToArg, group: impl ToArg, start: GroupStart) -> () = ["XGROUP", "CREATE", key, group, start];
        /// Creates a consumer; returns whether it is new.
        xgroup_createconsumer(key: impl ToArg, group: impl ToArg, consumer: impl ToArg) -> bool = ["XGROUP", "CREATECONSUMER", key, group, consumer];
        /// Removes a consumer; returns the number of its pending entries.
        xgroup_delconsumer(key: impl ToArg, group: impl ToArg, consumer: impl ToArg) -> u64 = ["XGROUP", "DELCONSUMER", key, group, consumer];
        /// Removes a group; returns whether it existed.
        xgroup_destroy(key: impl ToArg, group: impl ToArg) -> bool = ["XGROUP", "DESTROY", key, group];
        /// Sets the id after which a group continues to read.
        xgroup_setid(key: impl ToArg, group: impl ToArg, id: impl ToArg) -> () = ["XGROUP", "SETID", key, group, id];
        /// Returns the server's facts about the consumers of a group.
        xinfo_consumers<T>(key: impl ToArg, group: impl ToArg) -> T = ["XINFO", "CONSUMERS", key, group];
        /// Returns the server's facts about the groups of a stream.
        xinfo_groups<T>(key: impl ToArg) -> T = ["XINFO", "GROUPS", key];
        /// Returns the server's facts about a stream.
        xinfo_stream<T>(key: impl ToArg) -> T = ["XINFO", "STREAM", key];
        /// Returns all facts about a stream, with up to this many entries of each kind.
        xinfo_stream_full<T>(key: impl ToArg, count: u64) -> T = ["XINFO", "STREAM", key, "FULL", "COUNT", count];
        /// Returns the number of entries.
        xlen(key: impl ToArg) -> u64 = ["XLEN", key];
        /// Returns a summary of a group's pending entries: their number, the first and the last id, and the number of each
        /// consumer.
        xpending<T>(key: impl ToArg, group: impl ToArg) -> T = ["XPENDING", key, group];
        /// Returns a group's pending entries between two ids: each with its consumer, its idle time in milliseconds and the
        /// number of its deliveries.
        xpending_range<T>(key: impl ToArg, group: impl ToArg, start: impl ToArg, end: impl ToArg, count: u64) -> T = ["XPENDING", key, group, start, end, count];
        /// Returns the pending entries of one consumer, in the form of `xpending_range`.
        xpending_consumer<T>(key: impl ToArg, group: impl ToArg, start: impl ToArg, end: impl ToArg, count: u64, consumer: impl ToArg) -> T = ["XPENDING", key, group, start, end, count, consumer];
        /// Returns the entries between two ids.
        xrange<T>(key: impl ToArg, start: impl ToArg, end: impl ToArg) -> T = ["XRANGE", key, start, end];
        /// Returns the first `count` entries between two ids.
        xrange_count<T>(key: impl ToArg, start: impl ToArg, end: impl ToArg, count: u64) -> T = ["XRANGE", key, start, end, "COUNT", count];
        /// Returns the entries of each stream after its id.
        xread<T>(keys: impl ToArgs, ids: impl ToArgs) -> T = ["XREAD", "STREAMS", keys, ids];
        /// Works as `xread` does, with options.
        xread_with<T>(keys: impl ToArgs, ids: impl ToArgs, options: ReadOptions) -> T = ["XREAD", options, "STREAMS", keys, ids];
        /// Returns the entries of streams that are new to a group (`>`), or that the consumer has not acknowledged.
        xreadgroup<T>(group: impl ToArg, consumer: impl ToArg, keys: impl ToArgs, ids: impl ToArgs) -> T = ["XREADGROUP", "GROUP", group, consumer, "STREAMS", keys, ids];
        /// Works as `xreadgroup` does, with options.
        xreadgroup_with<T>(group: impl ToArg, consumer: impl ToArg, keys: impl ToArgs, ids: impl ToArgs, options: ReadOptions) -> T = ["XREADGROUP", "GROUP", group, consumer, options, "STREAMS", keys, ids];
        /// Returns the entries between two ids, the last one first.
        xrevrange<T>(key: impl ToArg, end: impl ToArg, start: impl ToArg) -> T = ["XREVRANGE", key, end, start];
        /// Returns the last `count` entries between two ids, the last one first.
        xrevrange_count<T>(key: impl ToArg, end: impl ToArg, start: impl ToArg, count: u64) -> T = ["XREVRANGE", key, end, start, "COUNT", count];
        /// Sets the last id of a stream.
        xsetid(key: impl ToArg, last_id: impl ToArg) -> () = ["XSETID", key, last_id];
        /// Removes entries from the beginning; returns their number.
        xtrim(key: impl ToArg, trim: StreamTrim) -> u64 = ["XTRIM", key, trim];
    }
}
