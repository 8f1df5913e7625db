//! A handle with calls on a connection of their own, so that they never queue behind large ones.
//!
//! It is a client or a database, and as cheap. All such handles of a client share one further connection, which is made when
//! the first of them is. Any thread.

use std::sync::Arc;

use crate::api::cmd::Cmd;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::Transport;
use crate::values::decode::FromReply;

/// A [`Client`](crate::Client) or [`Db`](crate::Db) with calls that go ahead of those of the others: over a second
/// connection, on which nothing large is in front of them.
///
/// A connection answers in order, so a small command waits until all replies before its own have arrived, even if they take a
/// hundred megabytes. Commands that must not wait (a heartbeat, a lock that is to be renewed) are sent here. The order in
/// which the server executes calls of this handle and calls of another is not defined; among themselves these keep theirs.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::connect("embedded://")?; // or "redis://..."
/// client.set("large", vec![0; 1_000_000]).wait()?;
/// let large = client.get::<Vec<u8>>("large");
/// let renewed = client.priority()?.pexpire("lock:7", 30_000).wait()?; // does not wait for it
/// assert!(!renewed && large.wait()?.len() == 1_000_000);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct Priority {
    /// Keeps the client there.
    origin: Arc<Origin>,
    transport: Transport,
    database: u32,
}

impl Priority {
    pub(crate) fn new(origin: Arc<Origin>, transport: Transport, database: u32) -> Self {
        Self { origin, transport, database }
    }

    /// Returns another database of the same server, on the same connection.
    pub fn db(&self, database: u32) -> Self {
        Self { origin: self.origin.clone(), transport: self.transport.clone(), database }
    }

    /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }
}

impl Ask for Priority {
    #[inline]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.transport.ask(self.database, write)
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.ask_waiting_or(self.database, None, write, |request| self.ask(|out| *out = request))
    }

    fn nodes(&self) -> Result<Vec<u32>, crate::error::Error> {
        self.transport.nodes()
    }

    fn ask_node<T: FromReply>(&self, node: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.transport.ask_node(node, self.database, write)
    }
}

impl std::fmt::Debug for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Priority").field("database", &self.database).finish_non_exhaustive()
    }
}
