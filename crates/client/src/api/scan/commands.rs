//! Whole scans: each begins with `scan_all` or its kin, and is read as an iterator or as a stream.
//!
//! Single pages, for callers that keep the cursor themselves, are `scan`, `sscan`, `hscan` and `zscan` in their families.

use super::Scan;
use crate::api::handles::{Client, Db};
use crate::api::lease::Lease;
use crate::commands::ask::Ask;
use crate::request::ToArg;
use crate::values::decode::FromReply;
use crate::values::options::key::{MembersScan, ScanOptions};

/// Scans to their end, where replies come while one asks: on a client, a database or a lease. `T` is one element.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, ScanOptions, prelude::*};
///
/// let client = Client::embedded();
/// client.mset([("user:1", "Ann"), ("user:2", "Bob"), ("other", "")]).wait()?;
/// let mut users: Vec<String> = Vec::new();
/// for key in client.scan_all_with(ScanOptions::new().pattern("user:*")) {
///     users.push(key?);
/// }
/// users.sort();
/// assert_eq!(users, ["user:1", "user:2"]);
///
/// client.hset("ages", [("ann", 36), ("bob", 41)]).wait()?;
/// let ages = client.hscan_all::<(String, u32)>("ages").into_iter().collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(ages.len(), 2);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// In async code `while let Some(key) = scan.next().await`, in any runtime and without another crate; it is a stream too, for
/// `StreamExt` and its kin.
pub trait ScanCommands: Ask + Sized {
    /// Scans all keys of the database.
    fn scan_all<T: FromReply>(&self) -> Scan<'_, Self, T> {
        Scan::new(self, "SCAN", ())
    }

    /// Scans as `scan_all` does, with options.
    fn scan_all_with<T: FromReply>(&self, options: ScanOptions) -> Scan<'_, Self, T> {
        Scan::new(self, "SCAN", options)
    }

    /// Scans all members of a set.
    fn sscan_all<T: FromReply>(&self, key: impl ToArg) -> Scan<'_, Self, T> {
        Scan::new(self, ("SSCAN", key), ())
    }

    /// Scans as `sscan_all` does, with options.
    fn sscan_all_with<T: FromReply>(&self, key: impl ToArg, options: MembersScan) -> Scan<'_, Self, T> {
        Scan::new(self, ("SSCAN", key), options)
    }

    /// Scans all fields of a hash with their values, as pairs.
    fn hscan_all<T: FromReply>(&self, key: impl ToArg) -> Scan<'_, Self, T> {
        Scan::new(self, ("HSCAN", key), ())
    }

    /// Scans as `hscan_all` does, with options.
    fn hscan_all_with<T: FromReply>(&self, key: impl ToArg, options: MembersScan) -> Scan<'_, Self, T> {
        Scan::new(self, ("HSCAN", key), options)
    }

    /// Scans all members of a sorted set with their scores, as pairs, in no order.
    fn zscan_all<T: FromReply>(&self, key: impl ToArg) -> Scan<'_, Self, T> {
        Scan::new(self, ("ZSCAN", key), ())
    }

    /// Scans as `zscan_all` does, with options.
    fn zscan_all_with<T: FromReply>(&self, key: impl ToArg, options: MembersScan) -> Scan<'_, Self, T> {
        Scan::new(self, ("ZSCAN", key), options)
    }
}

impl ScanCommands for Client {}
impl ScanCommands for Db {}
impl ScanCommands for Lease {}
