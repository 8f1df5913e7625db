//! Whole scans: each begins with `scan_all` or a method like it, and is read as an iterator or as a stream.
//!
//! Single pages, for callers that keep the cursor themselves, are `scan`, `sscan`, `hscan` and `zscan` in their families.

use super::Scan;
use crate::api::handles::{Client, Db};
use crate::api::lease::Lease;
use crate::commands::ask::Ask;
use crate::resp::decode::FromReply;
use crate::resp::options::key::{MembersScan, ScanOptions};
use crate::resp::request::ToArg;

/// Whole scans, on a client, a database or a lease. `T` is one element.
///
/// In async code `while let Some(key) = scan.next().await`, in any runtime and without another crate; it is a stream too, for
/// `StreamExt` and the like.
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
