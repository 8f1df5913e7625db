//! Requests that are gathered to leave together, with a reply for each: the common part of a batch and a transaction.
//!
//! Its owner decides when they leave, and in which form. It belongs to one caller, so its lock is uncontended; each method
//! takes that lock for itself.

use std::mem;

use crate::error::Error;
use crate::pipe::asker::Unit;
use crate::pipe::slot::{Completions, Handle, Payload, Source, Target};
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;
use crate::resp::request::name::Name;
use crate::sys::lock::Mutex;
use crate::transport::Transport;

/// Requests, and their askers.
pub(in crate::api) struct Gathered(Mutex<Inner>);

struct Inner {
    /// The database in which the next commands run.
    database: u32,
    source: Source,
    bytes: Vec<u8>,
    units: Vec<Unit>,
}

impl Gathered {
    /// Creates an empty collection.
    pub(in crate::api) fn new(transport: &Transport, database: u32) -> Self {
        let source = Source::unsent(transport.driver());
        Self(Mutex::new(Inner { database, source, bytes: Vec::new(), units: Vec::new() }))
    }

    /// Selects the database in which the following commands run.
    pub(in crate::api) fn select(&self, database: u32) {
        self.0.lock().database = database;
    }

    /// Returns the number of gathered commands.
    pub(in crate::api) fn len(&self) -> usize {
        self.0.lock().units.len()
    }

    /// Gathers the request that `write` writes.
    pub(in crate::api) fn ask<T: FromReply>(
        &self,
        transport: &Transport,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        let gathered = Request::with(write, |request| {
            let inner = &mut *self.0.lock();
            let (target, handle) = inner.source.pair(request.name);
            inner.bytes.extend_from_slice(request.bytes);
            inner.units.push(Unit { database: inner.database, target, length: request.bytes.len(), issued_ms: 0 });
            handle
        });
        match gathered {
            Ok(handle) => Reply::of(handle),
            Err(error) => Reply::failed(error, transport.error_hook()),
        }
    }

    /// Returns the two ends of one more reply, to a request that is not gathered here.
    pub(in crate::api) fn pair(&self, name: Name) -> (Target, Handle) {
        self.0.lock().source.pair(name)
    }

    /// Takes the gathered requests, to be sent. Later requests form a new collection.
    pub(in crate::api) fn take(&self) -> (Vec<u8>, Vec<Unit>) {
        let inner = &mut *self.0.lock();
        inner.source.renew();
        (mem::take(&mut inner.bytes), mem::take(&mut inner.units))
    }

    /// Fails the replies of gathered requests that will not be sent.
    pub(in crate::api) fn give_up(&mut self, why: &str) {
        let mut done = Completions::default();
        for unit in mem::take(&mut self.0.get_mut().units) {
            unit.target.complete(Payload::Failed(Error::closed(why)), &mut done);
        }
    }
}
