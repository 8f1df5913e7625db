//! The common part of every type on which a command can begin.
//!
//! A client, a database, a batch, a transaction and a lease take the same commands and return the same replies; they only
//! differ in when the request leaves. So each command is written once, in a trait of its family, on top of this one.

use sleeve_wire::commands::Row;

use crate::error::Error;
use crate::reply::Reply;
use crate::request::Request;
use crate::request::refusal;
use crate::values::decode::FromReply;

/// A place where commands begin.
pub trait Ask {
    /// Takes the request that `write` writes and returns its reply.
    ///
    /// The commands' own methods are above this; for a command that has none use [`cmd`](crate::Client::cmd), which
    /// also makes sure that it may travel on a shared connection.
    #[doc(hidden)]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T>;

    /// As `ask`, for a command that may wait on the server: it gets a connection of its own where others would wait with it.
    #[doc(hidden)]
    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.ask(write)
    }

    /// The nodes of a cluster that a whole scan goes through, by number; none where one server has everything.
    #[doc(hidden)]
    fn nodes(&self) -> Result<Vec<u32>, Error> {
        Ok(Vec::new())
    }

    /// As `ask`, of one of the nodes.
    #[doc(hidden)]
    fn ask_node<T: FromReply>(&self, node: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let _ = node;
        self.ask(write)
    }

    /// Why a command by name must not begin here.
    #[doc(hidden)]
    fn refusal(&self, row: Option<&'static Row>) -> Option<Error> {
        refusal::shared(row)
    }
}
