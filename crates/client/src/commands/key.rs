//! The commands on keys of any type as methods, one line each: deadlines, names, copies, dumps.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::options::ExpireIf;
use crate::resp::options::key::{CopyOptions, MigrateTarget, RestoreOptions, ScanOptions};
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands on keys of any type.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.set("a", 1).wait()?;
    /// assert!(client.expire("a", 60).wait()?);
    /// client.rename("a", "b").wait()?;
    /// assert_eq!(client.exists(["a", "b"]).wait()?, 1);
    /// assert_eq!(client.type_of("b").wait()?, "string");
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    KeyCommands {
        /// Copies a key; returns whether it did.
        copy(source: impl ToArg, destination: impl ToArg) -> bool = ["COPY", source, destination];
        /// Works as `copy` does, with options.
        copy_with(source: impl ToArg, destination: impl ToArg, options: CopyOptions) -> bool = ["COPY", source, destination, options];
        /// Deletes keys; returns the number of those that existed.
        del(keys: impl ToArgs) -> u64 = ["DEL", keys];
        /// Returns the value in the form of Redis's files, for `restore` on any server; nil if the key does not exist.
        dump(key: impl ToArg) -> Option<Box<[u8]>> = ["DUMP", key];
        /// Returns the number of the keys that exist; a key that is given twice counts twice.
        exists(keys: impl ToArgs) -> u64 = ["EXISTS", keys];
        /// Lets the key expire after this many seconds; returns whether it exists.
        expire(key: impl ToArg, seconds: i64) -> bool = ["EXPIRE", key, seconds];
        /// Works as `expire` does, under a condition; returns whether it did.
        expire_if(key: impl ToArg, seconds: i64, condition: ExpireIf) -> bool = ["EXPIRE", key, seconds, condition];
        /// Lets the key expire at this Unix time in seconds; returns whether it exists.
        expireat(key: impl ToArg, unix_seconds: i64) -> bool = ["EXPIREAT", key, unix_seconds];
        /// Works as `expireat` does, under a condition; returns whether it did.
        expireat_if(key: impl ToArg, unix_seconds: i64, condition: ExpireIf) -> bool = ["EXPIREAT", key, unix_seconds, condition];
        /// Returns the Unix time in seconds at which the key expires; -1 for never, -2 if it does not exist.
        expiretime(key: impl ToArg) -> i64 = ["EXPIRETIME", key];
        /// Returns all keys that match the glob pattern. The server checks every key: use `scan` if there are many.
        keys<T>(pattern: impl ToArg) -> T = ["KEYS", pattern];
        /// Returns an estimate of the bytes that the key takes; nil if it does not exist.
        memory_usage(key: impl ToArg) -> Option<u64> = ["MEMORY", "USAGE", key];
        /// Moves keys to another server; returns whether any of them existed. A key that the target refuses stays, as does a
        /// key without an answer from the target.
        migrate(target: &MigrateTarget, keys: impl ToArgs) -> bool = ["MIGRATE", target, "KEYS", keys];
        /// Moves the key to another database; returns whether it did.
        move_to(key: impl ToArg, database: u32) -> bool = ["MOVE", key, database];
        /// Returns the encoding of the value; nil if the key does not exist.
        object_encoding(key: impl ToArg) -> Option<String> = ["OBJECT", "ENCODING", key];
        /// Returns the frequency of the key's use, on a logarithmic scale; the server must evict by LFU.
        object_freq(key: impl ToArg) -> Option<u64> = ["OBJECT", "FREQ", key];
        /// Returns the help of OBJECT, in lines.
        object_help() -> Vec<String> = ["OBJECT", "HELP"];
        /// Returns the seconds since the key was last used.
        object_idletime(key: impl ToArg) -> Option<u64> = ["OBJECT", "IDLETIME", key];
        /// Returns the number of references to the value.
        object_refcount(key: impl ToArg) -> Option<u64> = ["OBJECT", "REFCOUNT", key];
        /// Removes the time to live; returns whether there was one.
        persist(key: impl ToArg) -> bool = ["PERSIST", key];
        /// Lets the key expire after this many milliseconds; returns whether it exists.
        pexpire(key: impl ToArg, milliseconds: i64) -> bool = ["PEXPIRE", key, milliseconds];
        /// Works as `pexpire` does, under a condition; returns whether it did.
        pexpire_if(key: impl ToArg, milliseconds: i64, condition: ExpireIf) -> bool = ["PEXPIRE", key, milliseconds, condition];
        /// Lets the key expire at this Unix time in milliseconds; returns whether it exists.
        pexpireat(key: impl ToArg, unix_milliseconds: i64) -> bool = ["PEXPIREAT", key, unix_milliseconds];
        /// Works as `pexpireat` does, under a condition; returns whether it did.
        pexpireat_if(key: impl ToArg, unix_milliseconds: i64, condition: ExpireIf) -> bool = ["PEXPIREAT", key, unix_milliseconds, condition];
        /// Returns the Unix time in milliseconds at which the key expires; -1 for never, -2 if it does not exist.
        pexpiretime(key: impl ToArg) -> i64 = ["PEXPIRETIME", key];
        /// Returns the milliseconds until the key expires; -1 for never, -2 if it does not exist.
        pttl(key: impl ToArg) -> i64 = ["PTTL", key];
        /// Returns a random key; nil if there is none.
        randomkey<T>() -> T = ["RANDOMKEY"];
        /// Renames the key, and replaces a key of the new name.
        rename(key: impl ToArg, name: impl ToArg) -> () = ["RENAME", key, name];
        /// Renames the key if no key has the new name; returns whether it did.
        renamenx(key: impl ToArg, name: impl ToArg) -> bool = ["RENAMENX", key, name];
        /// Creates a key from a dump, with this time to live in milliseconds; 0 for none.
        restore(key: impl ToArg, ttl_ms: u64, dump: impl ToArg) -> () = ["RESTORE", key, ttl_ms, dump];
        /// Works as `restore` does, with options.
        restore_with(key: impl ToArg, ttl_ms: u64, dump: impl ToArg, options: RestoreOptions) -> () = ["RESTORE", key, ttl_ms, dump, options];
        /// Returns some of the keys, and the cursor for the next call. The first call has the cursor 0; the scan has ended
        /// when 0 is returned.
        scan<T>(cursor: u64) -> (u64, T) = ["SCAN", cursor];
        /// Works as `scan` does, with options.
        scan_with<T>(cursor: u64, options: ScanOptions) -> (u64, T) = ["SCAN", cursor, options];
        /// Marks keys as used; returns the number of those that exist.
        touch(keys: impl ToArgs) -> u64 = ["TOUCH", keys];
        /// Returns the seconds until the key expires; -1 for never, -2 if it does not exist.
        ttl(key: impl ToArg) -> i64 = ["TTL", key];
        /// Returns the type of the value (`string`, ...), `none` if the key does not exist.
        type_of(key: impl ToArg) -> String = ["TYPE", key];
        /// Deletes keys and frees their memory later; returns the number of those that existed.
        unlink(keys: impl ToArgs) -> u64 = ["UNLINK", keys];
    }
}
