//! The commands on keys of any type as methods, one line each: deadlines, names, copies, dumps.
//!
//! How a line is read, and how methods get their names and types, is said in [`commands`](super).

use crate::request::{ToArg, ToArgs};
use crate::values::options::ExpireIf;
use crate::values::options::key::{CopyOptions, MigrateTarget, RestoreOptions, ScanOptions};

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
        /// Copies a key; answers whether it did.
        copy(source: impl ToArg, destination: impl ToArg) -> bool = ["COPY", source, destination];
        /// As `copy`, with options.
        copy_with(source: impl ToArg, destination: impl ToArg, options: CopyOptions) -> bool = ["COPY", source, destination, options];
        /// Deletes keys; answers how many were there.
        del(keys: impl ToArgs) -> u64 = ["DEL", keys];
        /// The value in the form of Redis's files, for `restore` of any server; nil if it is not there.
        dump(key: impl ToArg) -> Option<Box<[u8]>> = ["DUMP", key];
        /// How many of the keys are there; one that is named twice counts twice.
        exists(keys: impl ToArgs) -> u64 = ["EXISTS", keys];
        /// Lets the key expire after this many seconds; answers whether it exists.
        expire(key: impl ToArg, seconds: i64) -> bool = ["EXPIRE", key, seconds];
        /// As `expire`, under a condition; answers whether it did.
        expire_if(key: impl ToArg, seconds: i64, condition: ExpireIf) -> bool = ["EXPIRE", key, seconds, condition];
        /// Lets the key expire at this Unix time in seconds; answers whether it exists.
        expireat(key: impl ToArg, unix_seconds: i64) -> bool = ["EXPIREAT", key, unix_seconds];
        /// As `expireat`, under a condition; answers whether it did.
        expireat_if(key: impl ToArg, unix_seconds: i64, condition: ExpireIf) -> bool = ["EXPIREAT", key, unix_seconds, condition];
        /// The Unix time in seconds at which the key goes away; -1 for never, -2 if it is not there.
        expiretime(key: impl ToArg) -> i64 = ["EXPIRETIME", key];
        /// All keys that the glob pattern matches. It looks at every key: use `scan` where there are many.
        keys<T>(pattern: impl ToArg) -> T = ["KEYS", pattern];
        /// An estimate of the bytes that the key takes, nil if it is not there.
        memory_usage(key: impl ToArg) -> Option<u64> = ["MEMORY", "USAGE", key];
        /// Moves keys to another server; answers whether any of them was there. A key that the target refuses stays, as does
        /// one of which nothing more was heard.
        migrate(target: &MigrateTarget, keys: impl ToArgs) -> bool = ["MIGRATE", target, "KEYS", keys];
        /// Moves the key to another database; answers whether it did.
        move_to(key: impl ToArg, database: u32) -> bool = ["MOVE", key, database];
        /// How the value is kept, nil if the key is not there.
        object_encoding(key: impl ToArg) -> Option<String> = ["OBJECT", "ENCODING", key];
        /// How often the key is used, on a logarithmic scale; the server must evict by LFU.
        object_freq(key: impl ToArg) -> Option<u64> = ["OBJECT", "FREQ", key];
        /// Returns the help of OBJECT, in lines.
        object_help() -> Vec<String> = ["OBJECT", "HELP"];
        /// Seconds since the key was last used.
        object_idletime(key: impl ToArg) -> Option<u64> = ["OBJECT", "IDLETIME", key];
        /// How many references to the value there are.
        object_refcount(key: impl ToArg) -> Option<u64> = ["OBJECT", "REFCOUNT", key];
        /// Takes the time to live away; answers whether there was one.
        persist(key: impl ToArg) -> bool = ["PERSIST", key];
        /// Lets the key expire after this many milliseconds; answers whether it exists.
        pexpire(key: impl ToArg, milliseconds: i64) -> bool = ["PEXPIRE", key, milliseconds];
        /// As `pexpire`, under a condition; answers whether it did.
        pexpire_if(key: impl ToArg, milliseconds: i64, condition: ExpireIf) -> bool = ["PEXPIRE", key, milliseconds, condition];
        /// Lets the key expire at this Unix time in milliseconds; answers whether it exists.
        pexpireat(key: impl ToArg, unix_milliseconds: i64) -> bool = ["PEXPIREAT", key, unix_milliseconds];
        /// As `pexpireat`, under a condition; answers whether it did.
        pexpireat_if(key: impl ToArg, unix_milliseconds: i64, condition: ExpireIf) -> bool = ["PEXPIREAT", key, unix_milliseconds, condition];
        /// The Unix time in milliseconds at which the key goes away; -1 for never, -2 if it is not there.
        pexpiretime(key: impl ToArg) -> i64 = ["PEXPIRETIME", key];
        /// Milliseconds until the key goes away; -1 for never, -2 if it is not there.
        pttl(key: impl ToArg) -> i64 = ["PTTL", key];
        /// Some key, nil if there is none.
        randomkey<T>() -> T = ["RANDOMKEY"];
        /// Gives the key another name, replacing a key of that name.
        rename(key: impl ToArg, name: impl ToArg) -> () = ["RENAME", key, name];
        /// Gives the key another name if nothing has it; answers whether it did.
        renamenx(key: impl ToArg, name: impl ToArg) -> bool = ["RENAMENX", key, name];
        /// Makes a key of a dump, with this time to live in milliseconds, or 0 for none.
        restore(key: impl ToArg, ttl_ms: u64, dump: impl ToArg) -> () = ["RESTORE", key, ttl_ms, dump];
        /// As `restore`, with options.
        restore_with(key: impl ToArg, ttl_ms: u64, dump: impl ToArg, options: RestoreOptions) -> () = ["RESTORE", key, ttl_ms, dump, options];
        /// Some of the keys, and the cursor for the next call. Begin with 0; the end is reached when 0 comes back.
        scan<T>(cursor: u64) -> (u64, T) = ["SCAN", cursor];
        /// As `scan`, with options.
        scan_with<T>(cursor: u64, options: ScanOptions) -> (u64, T) = ["SCAN", cursor, options];
        /// Marks keys as used; answers how many are there.
        touch(keys: impl ToArgs) -> u64 = ["TOUCH", keys];
        /// Seconds until the key goes away; -1 for never, -2 if it is not there.
        ttl(key: impl ToArg) -> i64 = ["TTL", key];
        /// The type of the value (`string`, ...), `none` if the key is not there.
        type_of(key: impl ToArg) -> String = ["TYPE", key];
        /// Deletes keys and frees their memory later; answers how many were there.
        unlink(keys: impl ToArgs) -> u64 = ["UNLINK", keys];
    }
}
