//! Forbidden behaviour of the cache, as calls that the simulation's planted faults make (`simulation/planted`).
//!
//! These calls reach into a shard as no other code may, so they stand beside it; only the build of the tests has them.

use super::{KeyedRequest, Over, Shards, Tenure};
use crate::pipe::cached_read::{Answer, KeyLifetime, ReadId};
use crate::pipe::slot::Completions;

/// A read that was overtaken by an invalidation, and its answer.
pub(in super::super) struct Overtaken {
    tenure: Tenure,
    hash: u64,
    database: u32,
    request: Box<[u8]>,
    key: (usize, usize),
    sent_ms: u64,
    answer: Answer,
}

impl Shards {
    /// Forgets the invalidation of this read's key.
    pub(in super::super) fn unhear(&self, place: ReadId) {
        if let Some(flight) = self.shard(place.hash).flights.by_number(place.hash, place.number) {
            flight.is_current = true;
        }
    }

    /// Lands a read as if it had arrived over the connection that invalidates its slot.
    pub(in super::super) fn land_anywhere(&self, place: ReadId, answer: &Answer, done: &mut Completions) {
        let connection = match self.shard(place.hash).flights.by_number(place.hash, place.number) {
            Some(flight) => flight.tenure.connection(),
            None => return,
        };
        let answer = Answer { is_remembered: true, lifetime: KeyLifetime::Endless, ..answer.clone() };
        self.land(place, Over { connection, is_tracked: true }, &answer, done);
    }

    /// Returns a copy of a read that was overtaken by an invalidation.
    pub(in super::super) fn overtaken(&self, place: ReadId, answer: &Answer) -> Option<Overtaken> {
        let mut shard = self.shard(place.hash);
        let flight = shard.flights.by_number(place.hash, place.number).filter(|flight| !flight.is_current)?;
        let (request, answer) = (flight.request.clone(), answer.clone());
        let (hash, database, key, sent_ms) = (place.hash, flight.database, flight.key, flight.sent_ms);
        Some(Overtaken { tenure: flight.tenure, hash, database, request, key, sent_ms, answer })
    }

    /// Keeps the answer of an overtaken read although a later read was answered after it.
    pub(in super::super) fn keep_overtaken(&self, late: &Overtaken) {
        let Overtaken { tenure, hash, database, ref request, key, .. } = *late;
        let asked = KeyedRequest { hash, database, request, key, tenure };
        let mut shard = self.shard(late.hash);
        self.keep_in(&mut shard, asked, &late.answer, late.sent_ms, true);
    }
}

impl Overtaken {
    pub(in super::super) fn hash(&self) -> u64 {
        self.hash
    }
}
