//! Calls with replies that tell how long they took.
//!
//! A call marks its command as timed, on the handle that its closure is given; all else goes the way of every call. Any
//! thread.

use std::sync::Arc;

use super::cmd::Cmd;
use super::handles::{Client, Db};
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::error::Error;
use crate::reply::Reply;
use crate::reply::timed::TimedReply;
use crate::request::Request;
use crate::values::decode::FromReply;

/// A [`Client`] or [`Db`] with timed replies: the closure of [`Client::timed`] is given it.
pub struct Timed {
    origin: Arc<Origin>,
    database: u32,
}

impl Timed {
    /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }
}

/// Writes the same request with a timed reply.
fn marked(write: impl FnOnce(&mut Request)) -> impl FnOnce(&mut Request) {
    |request| {
        write(request);
        request.call(request.name().timed());
    }
}

impl Ask for Timed {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.transport.ask(self.database, marked(write))
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.ask_waiting(self.database, None, marked(write))
    }

    fn nodes(&self) -> Result<Vec<u32>, Error> {
        self.origin.transport.nodes()
    }

    fn ask_node<T: FromReply>(&self, node: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.transport.ask_node(node, self.database, marked(write))
    }
}

impl std::fmt::Debug for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timed").field("database", &self.database).finish_non_exhaustive()
    }
}

macro_rules! timed {
    ($($handle:ident)+) => { $(
        impl $handle {
            /// Makes one call with a reply that tells how long it was queued, how long it travelled, how long it lay until
            /// the caller took it, and how long it took to decode; see [`Timing`](crate::Timing).
            ///
            /// ```
            /// # #[cfg(feature = "embedded")] {
            /// use sleeve::{Client, prelude::*};
            ///
            /// let client = Client::connect("embedded://")?; // or "redis://..."
            /// let (value, timing) = client.timed(|client| client.incr("visits")).wait(); // or .await
            /// assert_eq!(value?, 1);
            /// println!("INCR took {timing}");
            /// assert!(timing.travelled.is_some_and(|travelled| travelled <= timing.total));
            /// # }
            /// # Ok::<(), sleeve::Error>(())
            /// ```
            ///
            /// The call is made on the handle that the closure is given; it costs a look or two more at the clock, and all
            /// other calls cost the same as without. For the reply to another handle's call only the total is reported. For
            /// all calls at once there is [`metrics`](Client::metrics), and [`Config::slow_after`](crate::Config::slow_after)
            /// reports those that took long.
            pub fn timed<T: FromReply>(&self, call: impl FnOnce(&Timed) -> Reply<T>) -> TimedReply<T> {
                let handle = Timed { origin: self.origin.clone(), database: self.database };
                TimedReply::of(|| call(&handle))
            }
        }
    )+ };
}

timed!(Client Db);
