//! Mistakes that the simulation has to find, to show that it would: each breaks one rule of the cache.
//!
//! A fault stands between the cache and whoever reads replies, and gives the cache wrong or no notice of what was heard. A run
//! without one is the test; a run with one must fail.

use super::super::shards::faults::Overtaken;
use super::super::tracking::Tracking;
use crate::error::Error;
use crate::pipe::near::{Answer, Cache, KeyLifetime, ReadId};
use crate::pipe::slot::Completions;
use crate::process::lock::Mutex;

/// What is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// A reply is kept although something was heard of its key after it was asked for.
    KeepsOvertaken,
    /// What was kept stays when the connection is lost.
    StaysAcrossConnections,
    /// The reply to an older read comes to lie over that to a newer one.
    KeepsOlder,
    /// The caller's own writes are left to the server.
    LeavesOwnWrites,
    /// A message for all keys is not understood.
    MissesFlushes,
    /// How long the key lives is of no interest.
    OutlivesKeys,
}

/// The cache, or what it must not be.
pub(super) struct Planted {
    pub(super) tracking: Tracking,
    pub(super) fault: Fault,
    pub(super) late: Mutex<Vec<Overtaken>>,
}

impl Cache for Planted {
    fn asked(&self, reply: &[u8]) {
        self.tracking.asked(reply);
    }

    fn told(&self, message: &[u8]) {
        if self.fault != Fault::MissesFlushes || !message.ends_with(b"_\r\n") {
            self.tracking.told(message);
        }
    }

    fn lost(&self) {
        match self.fault {
            Fault::StaysAcrossConnections => self.tracking.shards.stay_deaf(),
            _ => self.tracking.lost(),
        }
    }

    fn landed(&self, place: ReadId, answer: &mut Answer, done: &mut Completions) {
        let shards = &self.tracking.shards;
        if self.fault == Fault::KeepsOvertaken {
            shards.unhear(place);
        }
        if self.fault == Fault::OutlivesKeys {
            answer.lifetime = KeyLifetime::Endless;
        }
        let late = shards.overtaken(place, answer).filter(|_| self.fault == Fault::KeepsOlder);
        self.tracking.landed(place, answer, done);
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
            self.tracking.wrote(requests);
        }
    }

    fn request(&self) -> &[u8] {
        self.tracking.request()
    }

    fn refused(&self, why: Error) {
        self.tracking.refused(why);
    }
}
