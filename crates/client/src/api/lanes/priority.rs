//! A handle with calls on a connection of their own, so that they never queue behind large ones.
//!
//! It is a client or a database, and as cheap. All such handles of a client share one further connection, which is made with
//! the first of them. Any thread.

use std::sync::Arc;

use crate::api::cmd::Cmd;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;
use crate::transport::Transport;

/// A [`Client`](crate::Client) or [`Db`](crate::Db) with calls that do not queue behind those of other handles: they use a
/// second connection, on which no large request is ahead of them.
///
/// A connection answers in order, so a small command waits until all replies before its own have arrived, even if they take a
/// hundred megabytes. Commands that must not wait (a heartbeat, a lock that is to be renewed) are sent here. Calls of this
/// handle are executed in their own order; their order among the calls of other handles is not defined.
#[derive(Clone)]
pub struct Priority {
    /// The state that keeps the client alive.
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
