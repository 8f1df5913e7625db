//! Blocking commands, one line each.
//!
//! A client and its databases send each on a connection of its own until it is answered, so no other call waits with it; the
//! connection is kept for the next. Drop the reply, and the command waits no longer. The command timeout counts on top of the
//! requested time. In a transaction none of them waits; in a batch they are refused.
//!
//! ```
//! # #[cfg(feature = "embedded")] {
//! use std::time::Duration;
//! use sleeve::{Client, prelude::*};
//!
//! let client = Client::embedded();
//! let job = client.blpop::<Option<(String, String)>>(["urgent", "jobs"], Duration::from_secs(60));
//! client.rpush("jobs", "sweep").wait()?; // the client is as free as before
//! assert_eq!(job.wait()?, Some(("jobs".to_owned(), "sweep".to_owned())));
//!
//! let nothing = client.blpop::<Option<(String, String)>>("jobs", Duration::from_millis(20)).wait()?;
//! assert_eq!(nothing, None);
//! # }
//! # Ok::<(), sleeve::Error>(())
//! ```

use std::time::Duration;

use crate::resp::counted::Counted;
use crate::resp::options::list::ListEnd;
use crate::resp::options::sorted_set::RankEnd;
use crate::resp::request::{Request, ToArg, ToArgs};

/// A time in seconds with milliseconds, rounded up: a time above zero must not become zero, which means for ever.
struct Seconds(Duration);

impl ToArgs for Seconds {
    fn write_to(&self, request: &mut Request) {
        let milliseconds = self.0.as_nanos().div_ceil(1_000_000);
        request.word(&format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000));
    }
}

super::commands! {
    /// Commands that wait until there is an element to take, for at most `timeout`; zero waits for ever.
    BlockingCommands {
        /// Moves an element from an end of a list to an end of another, once there is one; returns it, or nil.
        blmove<T>(source: impl ToArg, destination: impl ToArg, from: ListEnd, to: ListEnd, timeout: Duration) -> T =
            ["BLMOVE", source, destination, from, to, Seconds(timeout)];
        /// Takes up to this many elements from an end of the first list that has any: its key and the elements, or nil.
        blmpop<T>(timeout: Duration, keys: impl ToArgs, end: ListEnd, count: u64) -> T =
            ["BLMPOP", Seconds(timeout), Counted(&keys), end, "COUNT", count];
        /// Takes the first element of the first list that has one: its key and the element, or nil.
        blpop<T>(keys: impl ToArgs, timeout: Duration) -> T = ["BLPOP", keys, Seconds(timeout)];
        /// Takes the last element of the first list that has one: its key and the element, or nil.
        brpop<T>(keys: impl ToArgs, timeout: Duration) -> T = ["BRPOP", keys, Seconds(timeout)];
        /// Moves the last element of a list to the front of another, once there is one; returns it, or nil.
        brpoplpush<T>(source: impl ToArg, destination: impl ToArg, timeout: Duration) -> T =
            ["BRPOPLPUSH", source, destination, Seconds(timeout)];
        /// Takes up to this many members from an end of the first sorted set that has any: its key and the members with their
        /// scores, or nil.
        bzmpop<T>(timeout: Duration, keys: impl ToArgs, end: RankEnd, count: u64) -> T =
            ["BZMPOP", Seconds(timeout), Counted(&keys), end, "COUNT", count];
        /// Takes the member with the highest score of the first sorted set that has any: its key, the member and the score,
        /// or nil.
        bzpopmax<T>(keys: impl ToArgs, timeout: Duration) -> T = ["BZPOPMAX", keys, Seconds(timeout)];
        /// Takes the member with the lowest score of the first sorted set that has any: its key, the member and the score,
        /// or nil.
        bzpopmin<T>(keys: impl ToArgs, timeout: Duration) -> T = ["BZPOPMIN", keys, Seconds(timeout)];
    }
}
