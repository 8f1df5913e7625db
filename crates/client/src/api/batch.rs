//! Commands that leave together, with nobody else's in between.
//!
//! Pipelining needs no batch: calls are pipelined anyway. A batch is for what should not be interleaved, or should go out
//! in one piece; it is no transaction, so other connections' commands may still run between its own. It belongs to one
//! caller; a lock that nobody else wants lets it move between threads, as a task does that awaits while it gathers.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use super::cmd::Cmd;
use crate::commands::ask::Ask;
use crate::error::Error;
use crate::pipe::in_flight::Unit;
use crate::pipe::slot::{Completions, Payload, Source};
use crate::reply::Reply;
use crate::request::Request;
use crate::request::blocking_commands;
use crate::route::origin::Origin;
use crate::values::decode::FromReply;

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
    gathered: Mutex<Gathered>,
}

/// Requests, and who asked for them.
struct Gathered {
    /// What the next commands work on.
    database: u32,
    source: Source,
    bytes: Vec<u8>,
    units: Vec<Unit>,
}

impl Batch {
    pub(crate) fn new(origin: Arc<Origin>, database: u32) -> Self {
        let source = Source::unsent(origin.route.driver());
        let gathered = Mutex::new(Gathered { database, source, bytes: Vec::new(), units: Vec::new() });
        Self { origin, gathered }
    }

    /// Has the commands that follow work on this database.
    pub fn select(&self, database: u32) -> &Self {
        self.gathered.lock().database = database;
        self
    }

    /// A command by its name, for those that have no method of their own.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// How many commands are gathered.
    pub fn len(&self) -> usize {
        self.gathered.lock().units.len()
    }

    /// Whether nothing is gathered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends what is gathered, in one piece. The batch can then be filled again.
    pub fn send(&self) {
        let (bytes, units) = {
            let gathered = &mut *self.gathered.lock();
            gathered.source.renew();
            (mem::take(&mut gathered.bytes), mem::take(&mut gathered.units))
        };
        let connection = self.origin.route.connection();
        units.iter().for_each(|unit| unit.target.mark_sent(connection));
        if units.is_empty() {
            return;
        }
        if let Err((error, units)) = self.origin.route.send_units(units, &bytes) {
            let mut done = Completions::default();
            for unit in units {
                unit.target.complete(Payload::Failed(error.clone()), &mut done);
            }
        }
    }
}

impl Ask for Batch {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let gathered = Request::with(write, |request| {
            let gathered = &mut *self.gathered.lock();
            let (target, handle) = gathered.source.pair(request.name);
            gathered.bytes.extend_from_slice(request.bytes);
            gathered.units.push(Unit { database: gathered.database, target, length: request.bytes.len() });
            handle
        });
        match gathered {
            Ok(handle) => Reply::of(handle),
            Err(error) => Reply::failed(error, self.origin.route.error_hook()),
        }
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
        let mut done = Completions::default();
        for unit in mem::take(&mut self.gathered.get_mut().units) {
            unit.target.complete(Payload::Failed(Error::closed("the batch was dropped")), &mut done);
        }
    }
}
