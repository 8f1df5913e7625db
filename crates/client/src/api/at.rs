//! A handle with a deadline that its caller sets.
//!
//! It is a client or a database with a deadline, and as cheap. The deadline holds in every phase of a call; the call fails at
//! the deadline even if no caller waits for it.

use std::sync::Arc;
use std::time::Instant;

use super::cmd::Cmd;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;

/// A [`Client`](crate::Client) or [`Db`](crate::Db) with calls that fail with
/// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) at a deadline: while they wait for room in the queue or for a
/// connection, in flight, and while they wait on the server. A request that has not begun to be written by then is never
/// sent, and [`Error::effect`](crate::Error::effect) says so. The effect of any other request is unknown; but if the
/// connection is lost before it has left whole, it is not sent again. The configuration's command timeout holds too.
#[derive(Clone)]
pub struct At {
    pub(crate) origin: Arc<Origin>,
    pub(crate) database: u32,
    pub(crate) deadline: Instant,
}

impl At {
    /// Returns another database of the same server, with the same deadline.
    pub fn db(&self, database: u32) -> Self {
        Self { origin: self.origin.clone(), database, deadline: self.deadline }
    }

    /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }
}

impl Ask for At {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.transport.ask_until(self.database, self.deadline, write)
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.ask_waiting(self.database, Some(self.deadline), write)
    }
}

impl std::fmt::Debug for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("At").field("database", &self.database).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
