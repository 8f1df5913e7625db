//! Reads that go to replicas, if the configuration allows it: the choice of the replica, and the way of a read that a replica
//! has refused.
//!
//! Callers use the known state and never wait for a replica (`transport/health_checks`). A read that comes back from a
//! replica goes to the owner of its slot at once, and from then on it is a request as any other. A read that was never sent,
//! because neither the owner nor a replica was connected, goes to the first of them that is.

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
    /// Runs the health checks of the replicas that are due.
    pub(super) fn check_replicas(&mut self, map: &Map, now: Instant) {
        if self.cluster.is_open() {
            let shards = map.shards.iter().map(|shard| (&shard.primary, &shard.replicas));
            if self.checks.turn(shards, &mut self.requests, now) {
                self.rounds.want(now);
            }
        }
    }

    /// Handles a returned read that any copy of its slot may answer. If it comes from a replica, it is sent to the owner at
    /// once. If it comes from an owner, it is returned, to be handled as any request; a read that was never sent may still be
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
