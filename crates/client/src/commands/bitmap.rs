//! The commands on the bits of strings as methods, one line each.
//!
//! How a line is read, and how methods get their names and types, is said in [`commands`](super).

use crate::request::{ToArg, ToArgs};
use crate::values::options::BitOperation;
use crate::values::options::bits::{BitField, BitRange};

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
        /// How many bits are set.
        bitcount(key: impl ToArg) -> u64 = ["BITCOUNT", key];
        /// How many bits of a part are set.
        bitcount_range(key: impl ToArg, range: BitRange) -> u64 = ["BITCOUNT", key, range];
        /// Reads and writes numbers of any width; answers one value a step.
        bitfield(key: impl ToArg, steps: BitField) -> Vec<Option<i64>> = ["BITFIELD", key, steps];
        /// Reads numbers of any width.
        bitfield_ro(key: impl ToArg, steps: BitField) -> Vec<i64> = ["BITFIELD_RO", key, steps];
        /// Combines the keys' bits into `destination`; answers its length in bytes.
        bitop(operation: BitOperation, destination: impl ToArg, keys: impl ToArgs) -> usize = ["BITOP", operation, destination, keys];
        /// Where the first bit of this value is, -1 if there is none.
        bitpos(key: impl ToArg, bit: bool) -> i64 = ["BITPOS", key, bit];
        /// Where the first bit of this value is in a part, -1 if there is none.
        bitpos_range(key: impl ToArg, bit: bool, range: BitRange) -> i64 = ["BITPOS", key, bit, range];
        /// One bit.
        getbit(key: impl ToArg, offset: u64) -> bool = ["GETBIT", key, offset];
        /// Sets one bit; answers its former value.
        setbit(key: impl ToArg, offset: u64, bit: bool) -> bool = ["SETBIT", key, offset, bit];
    }
}
