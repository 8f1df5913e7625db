//! Planted faults that the simulation has to find, to show that it would: each breaks one rule of the cache.
//!
//! A fault stands between the cache and the reader of replies, and passes wrong events to the cache, or none. A run without a
//! fault is the test; a run with one must fail.

use super::super::shards::faults::Overtaken;
use super::super::tracking::Connection;
use crate::error::Error;
use crate::pipe::cached_read::{Answer, Cache, KeyLifetime, ReadId};
use crate::pipe::slot::Completions;
use crate::sys::lock::Mutex;

/// The planted fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// A reply is kept although its key was invalidated after the read was sent.
    KeepsOvertaken,
    /// Kept replies stay when the connection is lost.
    StaysAcrossConnections,
    /// The reply to an older read replaces the reply to a newer read.
    KeepsOlder,
    /// The caller's own writes remove no replies; only the server's report does.
    LeavesOwnWrites,
    /// An invalidation of all keys is ignored.
    MissesFlushes,
    /// The time to live of a key is ignored.
    OutlivesKeys,
    /// The present owner of a slot is ignored.
    IgnoresOwners,
    /// A reply is kept, whichever connection it arrived over.
    KeepsRedirected,
}

/// The cache as a connection invalidates it, with the planted fault if there is one.
pub(super) struct Planted {
    pub(super) connection: Connection,
    fault: Fault,
    late: Mutex<Vec<Overtaken>>,
}

impl Planted {
    pub(super) fn new(connection: Connection, fault: Fault) -> Self {
        Self { connection, fault, late: Mutex::default() }
    }
}

impl Cache for Planted {
    fn asked(&self, reply: &[u8]) {
        self.connection.asked(reply);
    }

    fn told(&self, message: &[u8]) {
        if self.fault != Fault::MissesFlushes || !message.ends_with(b"_\r\n") {
            self.connection.told(message);
        }
    }

    fn lost(&self) {
        match self.fault {
            Fault::StaysAcrossConnections => self.connection.set_tracked(false),
            _ => self.connection.lost(),
        }
    }

    fn landed(&self, place: ReadId, answer: &mut Answer, done: &mut Completions) {
        let shards = &self.connection.tracking.shards;
        if self.fault == Fault::KeepsOvertaken {
            shards.unhear(place);
        }
        if self.fault == Fault::OutlivesKeys {
            answer.lifetime = KeyLifetime::Endless;
        }
        if self.fault == Fault::KeepsRedirected && answer.payload.frame().is_ok() {
            return shards.land_anywhere(place, answer, done);
        }
        let late = shards.overtaken(place, answer).filter(|_| self.fault == Fault::KeepsOlder);
        self.connection.landed(place, answer, done);
        let mut waiting = self.late.lock();
        match late {
            Some(late) => waiting.push(late),
            None => {
                waiting.extract_if(.., |late| late.hash() == place.hash).for_each(|late| shards.keep_overtaken(&late))
            }
        }
    }

    fn wrote(&self, requests: &[u8]) {
        if self.fault != Fault::LeavesOwnWrites {
            self.connection.wrote(requests);
        }
    }

    fn request(&self) -> &[u8] {
        self.connection.request()
    }

    fn refused(&self, why: Error) {
        self.connection.refused(why);
    }
}
