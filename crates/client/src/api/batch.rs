//! Commands that leave together, without another caller's command between them.
//!
//! Pipelining needs no batch: calls are pipelined anyway. A batch is for commands that should not be interleaved, or should
//! go out in one piece. It is no transaction, so commands of other connections may still be executed between its own. It
//! belongs to one caller; an uncontended lock lets it move between threads, which a task does if it awaits while it gathers.

pub(super) mod gathered;

use std::sync::Arc;

use super::cmd::Cmd;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::error::Error;
use crate::pipe::slot::{Completions, Payload};
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;
use crate::resp::request::blocking_commands;
use gathered::Gathered;

/// Commands that are gathered here until [`send`](Batch::send).
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::connect("embedded://")?;
/// let batch = client.batch();
/// let one = batch.incr("a");
/// let two = batch.incr("b");
/// batch.send();
/// println!("{} {}", one.wait()?, two.wait()?);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// A reply is answered after the batch was sent; waiting for it before fails with
/// [`ErrorKind::Usage`](crate::ErrorKind::Usage). When the batch is dropped without being sent, its replies fail with
/// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
#[must_use = "a batch does nothing until it is sent"]
pub struct Batch {
    origin: Arc<Origin>,
    gathered: Gathered,
}

impl Batch {
    pub(crate) fn new(origin: Arc<Origin>, database: u32) -> Self {
        let gathered = Gathered::new(&origin.transport, database);
        Self { origin, gathered }
    }

    /// Selects the database that the following commands work on.
    pub fn select(&self, database: u32) -> &Self {
        self.gathered.select(database);
        self
    }

    /// Begins a command by its name, for commands without a method of their own.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// Returns the number of gathered commands.
    pub fn len(&self) -> usize {
        self.gathered.len()
    }

    /// Returns whether no command is gathered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the gathered commands, in one piece. The batch can then be filled again.
    pub fn send(&self) {
        let (bytes, units) = self.gathered.take();
        let connection = self.origin.transport.connection();
        units.iter().for_each(|unit| unit.target.mark_sent(connection));
        if units.is_empty() {
            return;
        }
        if let Err((error, units)) = self.origin.transport.send_units(units, &bytes) {
            let mut done = Completions::default();
            for unit in units {
                unit.target.complete(Payload::Failed(error.clone()), &mut done);
            }
            self.origin.transport.finish(&mut done);
        }
    }
}

impl Ask for Batch {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.gathered.ask(&self.origin.transport, write)
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let mut request = Request::empty();
        write(&mut request);
        if blocking_commands::of(&request).is_some() {
            request
                .refuse(Error::usage("a command that waits would hold up the batch and everyone else: send it alone"));
        }
        self.ask(|out| *out = request)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.gathered.give_up("the batch was dropped");
    }
}
