//! A handle with small calls that never wait behind its large ones.
//!
//! It is a client or a database, and as cheap; the shared state of all such handles of a client, and the rules, are in
//! `transport/lanes`. Any thread.

use std::sync::Arc;

use crate::api::cmd::Cmd;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::error::Error;
use crate::lanes::Lane;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;

/// A [`Client`](crate::Client) or [`Db`](crate::Db) that sends large calls over a second connection, by itself.
///
/// A connection answers in order, so a request behind a reply of a hundred megabytes waits until that has arrived. Here a
/// call takes the second connection if its request is [large](crate::LaneOptions::large_min), or if replies to calls of its
/// kind were: the same command, with a key that differs only in parts with digits in them. Everything else stays on the
/// connection that the client's other handles use.
///
/// **The promise.** Calls on a key are executed in the order in which they were made, of any size. A large call overtakes
/// nothing: it leaves when all calls that were sent before it are answered, which costs it one round trip. But **a call that
/// is made after a large call may be executed before it**, if it names none of its keys. If that matters (the data first, and
/// then the sign that they are there), wait for the reply to the large one, or use the client itself, which keeps everything
/// in order.
///
/// A call that names one of a large call's keys while that is in flight waits for it, and so does a call that may touch any
/// key: FLUSHALL, KEYS, a script that declares no keys. Scripts that declare some count for these alone. A call that names no
/// key at all (PING, PUBLISH) waits for nothing. Batches, transactions, leases and subscriptions are the client's own, as
/// without lanes; a command that may wait has a connection of its own. Behind Sentinels, large calls go to the primary.
///
/// The second connection is made again when it is lost, under the same rules as the first: a call that may have written is
/// never sent twice. [`Client::metrics`](crate::Client::metrics) has its metrics as an entry of its own, which counts anew
/// when the connection was idle and is opened again.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::connect("embedded://")?; // or "redis://..."
/// let lanes = client.lanes()?;
/// let stored = lanes.set("export", vec![0_u8; 1_000_000]); // over the second connection
/// let visits = lanes.incr("visits"); // does not wait for it
/// let length = lanes.strlen("export"); // does, since it is about the same key
/// stored.wait()?;
/// assert_eq!((visits.wait()?, length.wait()?), (1, 1_000_000));
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct Lanes {
    /// The state that keeps the client alive.
    origin: Arc<Origin>,
    lane: Arc<Lane>,
    database: u32,
}

impl Lanes {
    pub(crate) fn new(origin: Arc<Origin>, lane: Arc<Lane>, database: u32) -> Self {
        Self { origin, lane, database }
    }

    /// Returns another database of the same server, on the same connections.
    pub fn db(&self, database: u32) -> Self {
        Self { database, ..self.clone() }
    }

    /// Returns the number of its database.
    pub fn number(&self) -> u32 {
        self.database
    }

    /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }
}

impl Ask for Lanes {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.lane.ask(&self.origin, self.database, write)
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.ask_waiting_or(self.database, None, write, |request| self.ask(|out| *out = request))
    }

    fn nodes(&self) -> Result<Vec<u32>, Error> {
        self.origin.transport.nodes()
    }

    fn ask_node<T: FromReply>(&self, node: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.transport.ask_node(node, self.database, write)
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").field("database", &self.database).finish_non_exhaustive()
    }
}
