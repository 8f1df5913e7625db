//! Calls with replies that report the times that they took.
//!
//! A call marks its command as timed, on the handle that its closure is given; in all other respects it is as every call. Any
//! thread.

use std::sync::Arc;

use super::cmd::Cmd;
use super::handles::{Client, Db};
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::error::Error;
use crate::reply::Reply;
use crate::reply::timed::TimedReply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;

/// A [`Client`] or [`Db`] with timed replies: the closure of [`Client::timed`] gets it.
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
            /// Makes one call with a reply that reports its times: in the queue, on the way, waiting to be taken by the
            /// caller, and in decoding; see [`Timing`](crate::Timing).
            ///
            /// The call is made on the handle that the closure is given. It costs one or two reads of the clock; all other
            /// calls cost the same as without. For the reply to another handle's call only the total is reported.
            /// [`metrics`](Client::metrics) has the latencies of all calls, and
            /// [`Config::slow_after`](crate::Config::slow_after) reports those that took long.
            pub fn timed<T: FromReply>(&self, call: impl FnOnce(&Timed) -> Reply<T>) -> TimedReply<T> {
                let handle = Timed { origin: self.origin.clone(), database: self.database };
                TimedReply::of(|| call(&handle))
            }
        }
    )+ };
}

timed!(Client Db);
