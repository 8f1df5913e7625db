//! Values as Redis's snapshot files and DUMP have them (RDB), in both directions.
//!
//! [`write()`] turns a value into its type and its bytes; [`read`] makes a value of such bytes, which are foreign: nothing is
//! reserved for what a length claims, and what is packed is unpacked and packed again under our own limits. The format
//! is described in Redis's `rdb.h`; versions up to 12 (Redis 7.4) are read, and each value is written in the oldest
//! version that has its type. [`crc64`] is the sum that stands behind a dump, and [`Input`] and [`push_len`] are what
//! other parts of the format are made of.

mod crc64;
mod old;
mod read;
mod scan;
mod write;

pub use crc64::crc64;
pub use read::{Limits, Loaded, read};
pub use scan::{Bad, Input};
pub use write::{push_len, push_string, write};

/// The newest version of the format that is read.
pub const VERSION_MAX: u16 = 12;

/// The types of values, as the format numbers them.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
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
    pub const HASH_TIMED: u8 = 24;
    pub const HASH_TIMED_LISTPACK: u8 = 25;
}
