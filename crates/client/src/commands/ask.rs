//! The common part of every type on which a command can begin.
//!
//! A client, a database, a batch, a transaction and a lease take the same commands and return the same replies; they only
//! differ in when the request leaves. So each command is written once, in a trait of its family, on top of this one.

use sleeve_wire::commands::Row;

use crate::error::Error;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;
use crate::resp::request::refusal;

/// A handle on which commands are sent.
pub trait Ask {
    /// Takes the request that `write` writes and returns its reply.
    ///
    /// The commands' own methods are above this; for a command that has none use [`cmd`](crate::Client::cmd), which
    /// also makes sure that it may travel on a shared connection.
    #[doc(hidden)]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T>;

    /// Sends a command as `ask` does, if it may wait on the server: it gets a connection of its own if other calls would wait
    /// behind it.
    #[doc(hidden)]
    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.ask(write)
    }

    /// Returns the numbers of a cluster's nodes that a whole scan goes through; none for a single server.
    #[doc(hidden)]
    fn nodes(&self) -> Result<Vec<u32>, Error> {
        Ok(Vec::new())
    }

    /// Sends a command as `ask` does, to this node.
    #[doc(hidden)]
    fn ask_node<T: FromReply>(&self, node: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let _ = node;
        self.ask(write)
    }

    /// Returns the error for a command by its name that must not be sent on this handle.
    #[doc(hidden)]
    fn refusal(&self, row: Option<&'static Row>) -> Option<Error> {
        refusal::shared(row)
    }
}
