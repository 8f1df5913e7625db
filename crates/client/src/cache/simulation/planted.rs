//! Planted faults that the simulation has to find, to show that it would: each breaks one rule of the cache.
//!
//! A fault stands between the cache and the reader of replies, and gives the cache wrong or no notice of events. A run
//! without one is the test; a run with one must fail.

use super::super::shards::faults::Overtaken;
use super::super::tracking::Connection;
use crate::error::Error;
use crate::pipe::cached_read::{Answer, Cache, KeyLifetime, ReadId};
use crate::pipe::slot::Completions;
use crate::sys::lock::Mutex;

/// The planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// A reply is kept although something was heard of its key after it was asked for.
    KeepsOvertaken,
    /// Kept replies stay when the connection is lost.
    StaysAcrossConnections,
    /// The reply to an older read comes to lie over that to a newer one.
    KeepsOlder,
    /// The caller's own writes are left to the server.
    LeavesOwnWrites,
    /// A message for all keys is not understood.
    MissesFlushes,
    /// How long the key lives is of no interest.
    OutlivesKeys,
    /// The present owner of a slot is ignored.
    IgnoresOwners,
    /// A reply is kept wherever it came from.
    KeepsRedirected,
}

/// The cache as a connection invalidates it, or with the planted fault.
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
