//! Reads in flight: one for each request, shared by all callers that ask for it.
//!
//! The first caller sends; callers that ask before the reply wait for the same one. That is sound while no invalidation of
//! the key has arrived since the read was sent: a caller that asks after an invalidation must not get a value from before it.
//! So an invalidated read keeps its present waiters, takes in no more, and its reply is not kept; the next caller sends
//! another one. At most one read of a request at a time is not invalidated. A new owner of the key's slot counts as an
//! invalidation.
//!
//! Pure data; one shard's lock guards it.

use super::owners::Tenure;
use super::store::{ByHash, KeyedRequest};
use crate::pipe::slot::Target;

/// A read in flight.
pub(super) struct Flight {
    number: u64,
    pub(super) database: u32,
    pub(super) request: Box<[u8]>,
    pub(super) key: (usize, usize),
    /// The waiters in addition to the caller that sent the read.
    pub(super) others: Vec<Target>,
    /// The time at which the read was sent.
    pub(super) sent_ms: u64,
    /// True while no invalidation of its key has arrived since the read was sent.
    pub(super) is_current: bool,
    /// The tenure of its slot when the read was sent: the connection that invalidated the slot.
    pub(super) tenure: Tenure,
}

impl Flight {
    pub(super) fn key(&self) -> &[u8] {
        self.request.get(self.key.0..self.key.1).unwrap_or_default()
    }

    /// Returns the request, with the hash of its key.
    pub(super) fn asked(&self, hash: u64) -> KeyedRequest<'_> {
        let Self { database, ref request, key, tenure, .. } = *self;
        KeyedRequest { hash, database, request, key, tenure }
    }
}

/// All reads in flight of a shard's keys, by the hashes of their keys.
#[derive(Default)]
pub(super) struct Flights {
    by_hash: ByHash<Vec<Flight>>,
    last: u64,
}

impl Flights {
    /// Returns the read that callers of this request may wait for.
    pub(super) fn current(&mut self, asked: KeyedRequest<'_>) -> Option<&mut Flight> {
        let is_same = |flight: &Flight| {
            let is_current = flight.is_current && flight.tenure == asked.tenure;
            is_current && flight.database == asked.database && *flight.request == *asked.request
        };
        self.by_hash.get_mut(&asked.hash)?.iter_mut().find(|flight| is_same(flight))
    }

    /// Notes a read that is about to be sent, and returns its number.
    pub(super) fn begin(&mut self, asked: KeyedRequest<'_>, sent_ms: u64) -> u64 {
        self.last += 1;
        self.by_hash.entry(asked.hash).or_default().push(Flight {
            number: self.last,
            database: asked.database,
            request: asked.request.into(),
            key: asked.key,
            others: Vec::new(),
            sent_ms,
            is_current: true,
            tenure: asked.tenure,
        });
        self.last
    }

    /// Takes out a read that was answered.
    pub(super) fn end(&mut self, hash: u64, number: u64) -> Option<Flight> {
        let flights = self.by_hash.get_mut(&hash)?;
        let at = flights.iter().position(|flight| flight.number == number)?;
        let flight = flights.swap_remove(at);
        if flights.is_empty() {
            self.by_hash.remove(&hash);
        }
        Some(flight)
    }

    /// Marks the reads of a key as overtaken by an invalidation.
    pub(super) fn overtake(&mut self, hash: u64, key: &[u8]) {
        for flight in self.by_hash.get_mut(&hash).into_iter().flatten().filter(|flight| flight.key() == key) {
            flight.is_current = false;
        }
    }

    /// Marks all reads as overtaken by an invalidation.
    pub(super) fn overtake_all(&mut self) {
        self.by_hash.values_mut().flatten().for_each(|flight| flight.is_current = false);
    }
}
