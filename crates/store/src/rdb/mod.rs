//! Redis's snapshot format (RDB), in both directions: single values, as DUMP has them, and whole files.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `file` | Whole files: a [`Writer`](file::Writer) and a [`Reader`](file::Reader), neither of which opens anything. |
//! | `record` | One value, written: whole, or a large one part by part. |
//! | `read` | One value, read. |
//! | `extent` | How long one value is. |
//! | `encoder`, `scan` | Lengths, strings and numbers, written and read. |
//! | `old` | The packed forms of Redis before version 7, which are read and never written. |
//! | `bad` | What can be wrong with foreign bytes. |
//! | `crc64` | The sum that stands behind files and dumps. |
//!
//! What is read is foreign: nothing is reserved for what a length claims, and what is packed is unpacked and packed again
//! under our own limits. The format is described in Redis's `rdb.h`; versions up to 13 (Redis 8.6) and Valkey's 80 are read.
//! A dump is written in the oldest version that has its type, a file in the [`Version`] that its writer was given.

pub mod bad;
pub mod crc64;
pub mod encoder;
mod extent;
pub mod file;
mod old;
pub mod read;
pub mod record;
pub mod scan;

pub use bad::Bad;
pub use crc64::crc64;
pub use encoder::{Encoder, Version, push_len};
pub use read::{Destination, Limits, Loaded, Origin, read};
pub use record::{Record, write};
pub use scan::{Input, Source};

/// The newest version of Redis's format that is read.
pub const VERSION_MAX: u16 = 13;

/// The version of Valkey's own format that is read.
pub const VERSION_VALKEY: u16 = 80;

/// Whose format a dump of this version is in; none if it is not known.
pub fn origin_of(version: u16) -> Option<Origin> {
    match version {
        0..=VERSION_MAX => Some(Origin::Redis),
        VERSION_VALKEY => Some(Origin::Valkey),
        _ => None,
    }
}

/// The types of values, as the format numbers them.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const MODULE: u8 = 6;
    pub const MODULE_2: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    /// Valkey 9 has this number for hashes with deadlines, Redis had it before 7.4 was finished.
    pub const HASH_TIMED_VALKEY: u8 = 22;
    pub const HASH_TIMED_EARLY: u8 = 22;
    pub const HASH_TIMED_LISTPACK_EARLY: u8 = 23;
    pub const HASH_TIMED: u8 = 24;
    pub const HASH_TIMED_LISTPACK: u8 = 25;
    /// A stream with what Redis 8.6 keeps of producers that number their messages (`XADD ... IDMP`).
    pub const STREAM_4: u8 = 26;
}
