//! The commands on the bits of strings as methods, one line each.
//!
//! [`commands`](super) explains how to read a line, and how methods get their names and types.

use crate::resp::options::BitOperation;
use crate::resp::options::bits::{BitField, BitRange};
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands on the bits of strings.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// client.setbit("seen", 7, true).wait()?;
    /// assert!(client.getbit("seen", 7).wait()?);
    /// assert_eq!(client.bitcount("seen").wait()?, 1);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    BitmapCommands {
        /// Returns the number of set bits.
        bitcount(key: impl ToArg) -> u64 = ["BITCOUNT", key];
        /// Returns the number of set bits in a part of the value.
        bitcount_range(key: impl ToArg, range: BitRange) -> u64 = ["BITCOUNT", key, range];
        /// Reads and writes integers of any width; returns one value for each step.
        bitfield(key: impl ToArg, steps: BitField) -> Vec<Option<i64>> = ["BITFIELD", key, steps];
        /// Reads integers of any width.
        bitfield_ro(key: impl ToArg, steps: BitField) -> Vec<i64> = ["BITFIELD_RO", key, steps];
        /// Combines the keys' bits into `destination`; returns its length in bytes.
        bitop(operation: BitOperation, destination: impl ToArg, keys: impl ToArgs) -> usize = ["BITOP", operation, destination, keys];
        /// Returns the position of the first bit of this value; -1 if there is none.
        bitpos(key: impl ToArg, bit: bool) -> i64 = ["BITPOS", key, bit];
        /// Returns the position of the first bit of this value in a part of the string; -1 if there is none.
        bitpos_range(key: impl ToArg, bit: bool, range: BitRange) -> i64 = ["BITPOS", key, bit, range];
        /// Returns one bit.
        getbit(key: impl ToArg, offset: u64) -> bool = ["GETBIT", key, offset];
        /// Sets one bit; returns its former value.
        setbit(key: impl ToArg, offset: u64, bit: bool) -> bool = ["SETBIT", key, offset, bit];
    }
}
