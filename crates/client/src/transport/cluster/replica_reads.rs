//! Reads that go to replicas, if the configuration allows it: which replicas have the slot, and how a read goes on that one
//! has turned away.
//!
//! Callers look at the known state and never wait for a replica (`transport/health_checks`). A read that comes back from one goes
//! to the owner of its slot at once, and from then on it is a request as any other. One that was never sent, because neither
//! the owner nor a replica was there, goes to the first of them that is.

use std::time::Instant;

use super::map::Map;
use super::task::ClusterTask;
use crate::config::Resend;
use crate::error::{Error, ErrorKind};
use crate::pipe::routed::{Destination, Routed};
use crate::pipe::slot::Completions;
use crate::transport::node::Fitness;
use crate::transport::time_left;

impl ClusterTask<'_> {
    /// Looks after the replicas.
    pub(super) fn check_replicas(&mut self, map: &Map, now: Instant) {
        if self.cluster.is_open() {
            let shards = map.shards.iter().map(|shard| (&shard.primary, &shard.replicas));
            if self.checks.turn(shards, &mut self.requests, now) {
                self.rounds.want(now);
            }
        }
    }

    /// A read that might have been answered by any copy has come back: from a replica to the owner at once. It is given back
    /// where it comes from an owner, which is no other case than with any request; but one that was never sent there may still be
    /// answered by any copy.
    pub(super) fn take_from_copy(
        &mut self,
        map: &Map,
        mut routed: Routed,
        why: &Error,
        now: Instant,
        done: &mut Completions,
    ) -> Option<Routed> {
        let Destination::Copies(slot) = routed.destination else { return Some(routed) };
        let is_lost = why.kind() == ErrorKind::Disconnected;
        if is_lost && self.cluster.config.retry.resend == Resend::Nothing {
            self.give_up(routed, why.clone(), done);
            return None;
        }
        let owner = map.route(slot).map(|shard| shard.primary.number);
        let was_sent = !matches!(why.kind(), ErrorKind::Connect | ErrorKind::Closed);
        if was_sent || owner != Some(routed.node) {
            routed.destination = Destination::Slot(slot);
        }
        if owner == Some(routed.node) {
            return Some(routed);
        }
        if let Some(replica) = self.registry.numbered(routed.node) {
            replica.set_fitness(Fitness::Unfit);
        }
        if !matches!(why.code(), Some("LOADING" | "BUSY")) {
            self.rounds.want(now);
        }
        routed.attempts = routed.attempts.saturating_add(1);
        time_left::own(&mut routed, self.cluster.limit_ms());
        self.note_due(&routed, now);
        if let Some(routed) = self.send_on(map, routed, now, done) {
            self.put_off(routed, now, why.clone());
        }
        None
    }
}
