//! The failures of the simulation's servers: deaths, power cuts, ends, and changes of roles. Also their repair.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::world::{Inherited, Lost, Stage, World};
use crate::engine::Engine;
use crate::host::log;

/// The possible failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The primary dies or loses its power, and starts again as the primary.
    LosesPrimary,
    /// A replica dies.
    LosesReplica,
    /// The primary dies, and a replica takes its place.
    ReplacesPrimary,
    /// A server is told to end, and starts again.
    Ends,
    /// The primary ends.
    EndsPrimary,
    /// The primary hands its role over (FAILOVER).
    HandsOver,
    /// A replica follows another server, so chains of replicas come and go.
    FollowsAnother,
    /// A snapshot is written, or the AOF rewritten.
    Writes,
    /// A replica applies nothing for a while.
    PausesReplica,
}

/// The failures for worlds in which any server may fail.
pub const ANY: &[Failure] = &[
    Failure::LosesPrimary,
    Failure::LosesReplica,
    Failure::ReplacesPrimary,
    Failure::ReplacesPrimary,
    Failure::Ends,
    Failure::HandsOver,
    Failure::FollowsAnother,
    Failure::Writes,
    Failure::PausesReplica,
];

/// The failures for worlds in which only the primary fails, and becomes the primary again.
pub const OF_PRIMARY: &[Failure] = &[Failure::LosesPrimary, Failure::LosesPrimary, Failure::EndsPrimary];

impl World {
    /// Makes some server fail while no other is failing.
    pub(super) fn fail(&mut self) -> Result<(), String> {
        self.check()?;
        if let Some(down) = self.stages.iter().position(|stage| *stage == Stage::Down) {
            if self.dice.below(3) == 0 {
                self.start(down);
            }
            return Ok(());
        }
        if !self.is_calm() {
            return Ok(());
        }
        let number = self.dice.below(self.nodes.len());
        let is_power = self.dice.below(2) == 0;
        match self.manner.failures[self.dice.below(self.manner.failures.len())] {
            Failure::LosesPrimary => self.lose_primary(is_power),
            Failure::LosesReplica if number != self.primary => {
                self.hear();
                self.owed.lose_replica(self.number);
                self.kill(number, is_power)
            }
            Failure::ReplacesPrimary => self.replace_primary(is_power),
            Failure::Ends => self.tell_to_end(number),
            Failure::EndsPrimary => self.tell_to_end(self.primary),
            Failure::HandsOver => self.hand_over(),
            Failure::FollowsAnother if number != self.primary => {
                let other = self.dice.below(self.nodes.len());
                // A server never follows one of its own followers.
                if other == self.primary || self.nodes[other].follows == Some(self.primary) && other != number {
                    self.follow(number, other);
                }
                Ok(())
            }
            Failure::Writes => {
                let what = ["BGREWRITEAOF", "BGSAVE"][self.dice.below(2)];
                self.ask(number, &[what]);
                Ok(())
            }
            Failure::PausesReplica if number != self.primary => {
                let time_ms = ["20", "400", "1500"][self.dice.below(3)];
                self.ask(number, &["CLIENT", "PAUSE", time_ms, "WRITE"]);
                Ok(())
            }
            Failure::LosesReplica | Failure::FollowsAnother | Failure::PausesReplica => Ok(()),
        }
    }

    /// Tells a server to end; it starts again.
    fn tell_to_end(&mut self, number: usize) -> Result<(), String> {
        log::notice(&format!("n{number} is told to end"));
        if self.nodes[number].shut_down() {
            self.stages[number] = Stage::Ending;
        }
        Ok(())
    }

    /// Returns whether all servers run and have loaded their data, and none is handing its role over.
    fn is_calm(&self) -> bool {
        let is_up = |number: usize| self.stages[number] == Stage::Up && self.nodes[number].loaded().is_some();
        !self.is_handing_over && self.lost.is_none() && (0..self.nodes.len()).all(is_up)
    }

    /// Returns the other servers with loaded data, and the order of the writes at each of them.
    fn others(&mut self) -> Vec<(usize, Vec<u64>)> {
        let others: Vec<usize> = (0..self.nodes.len()).filter(|&number| number != self.primary).collect();
        others.into_iter().filter_map(|number| Some((number, self.order_at(number)?))).collect()
    }

    /// Returns the servers that have the primary's stream, each up to its own offset.
    fn following(&mut self) -> Vec<(usize, Vec<u64>)> {
        let others = self.others();
        others.into_iter().filter(|(_, order)| self.order.starts_with(order)).collect()
    }

    /// Kills the primary, which then starts as the primary again.
    ///
    /// The other servers may have writes that the primary loses, but none that they got from this primary. Until the
    /// primary's AOF has all writes that it had when it became the primary, it has sent none of them. Those writes were
    /// acknowledged by the primary before it, or by a replica that had applied them and has failed now.
    fn lose_primary(&mut self, is_power: bool) -> Result<(), String> {
        let mut had = self.following();
        if is_power && !self.is_always {
            // A follower is sent only bytes that are written, and a power cut loses bytes that are not fsynced.
            had.clear();
        }
        let passed = self.nodes[self.primary].engine().map_or(0, |engine| engine.persistence.passed());
        if let Some(inherited) = self.inherited.filter(|inherited| passed < inherited.offset) {
            had.retain(|(_, order)| order.len() > inherited.writes);
            let writes = inherited.writes.min(self.order.len());
            self.owed.lose_inherited(&self.order[..writes]);
        }
        let primary = self.primary;
        self.kill(primary, is_power)?;
        if is_power {
            self.owed.lose_power();
        }
        self.lost = Some(Lost { had });
        Ok(())
    }

    /// Kills the primary, and makes another server the primary. That server has all writes that some replica must have: it is
    /// the one with the highest offset, or another. Replicas ahead of it do not get a partial sync.
    fn replace_primary(&mut self, is_power: bool) -> Result<(), String> {
        let (old, mut others) = (self.primary, self.others());
        if others.is_empty() {
            return Ok(());
        }
        self.kill(old, is_power)?;
        self.owed.lose_primary();
        others.sort_by_key(|(_, order)| order.len());
        let furthest = others.last().and_then(|(_, order)| self.owed.missing(order));
        others.retain(|(_, order)| self.owed.missing(order).is_none());
        let chosen =
            if self.dice.below(2) == 0 { others.len().saturating_sub(1) } else { self.dice.below(others.len().max(1)) };
        let Some(&(best, _)) = others.get(chosen) else {
            let missing = furthest.unwrap_or_default();
            return Err(format!("n{old} is lost, and no other has all that replicas had: {missing}"));
        };
        self.ask(best, &["REPLICAOF", "NO", "ONE"]);
        self.nodes[best].follows = None;
        for number in (0..self.nodes.len()).filter(|&number| number != best) {
            if number == old {
                self.nodes[number].follows = Some(best);
            } else if self.nodes[number].follows != Some(best) || self.dice.below(2) == 0 {
                self.follow(number, best);
            }
        }
        self.primary = best;
        self.inherit();
        self.check()
    }

    /// Notes the data with which the present primary has become the primary.
    fn inherit(&mut self) {
        self.order = self.order_at(self.primary).unwrap_or_default();
        let offset = self.nodes[self.primary].engine().map_or(0, |engine| engine.journal.end());
        self.inherited = Some(Inherited { writes: self.order.len(), offset });
    }

    /// Makes the primary hand its role over to a replica that has the complete stream.
    pub(super) fn hand_over(&mut self) -> Result<(), String> {
        let primary = self.primary;
        let reply = self.ask(primary, &["FAILOVER", "TIMEOUT", "2000"]);
        self.is_handing_over = reply.is_some_and(|reply| reply.starts_with(b"+"));
        Ok(())
    }

    /// Checks whether a handover has ended, and notes the new primary if it has succeeded.
    pub(super) fn note_handed_over(&mut self) -> Result<(), String> {
        let old = self.primary;
        let Some(engine) = self.nodes[old].loaded().filter(|_| self.is_handing_over) else { return Ok(()) };
        let (role, failover) = (&engine.replication.role, &engine.replication.failover);
        if failover.is_running() {
            return Ok(());
        }
        self.is_handing_over = false;
        let Some(link) = role.link() else { return Ok(()) };
        let next = usize::from(link.primary.port - super::node::port(0));
        self.hear();
        self.owed.hand_over(self.number);
        self.nodes[old].follows = Some(next);
        self.nodes[next].follows = None;
        self.primary = next;
        self.inherit();
        if self.nodes[next].loaded().is_some_and(|engine| engine.replication.role.is_replica()) {
            return Err(format!("n{old} has handed its role over to n{next}, which is a replica"));
        }
        Ok(())
    }

    /// Makes each server the primary in turn, while all have the complete stream. As an operator would, it first promotes the
    /// new primary, and some time later makes the others follow it. Returns the number of full syncs that this took.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn take_turns(&mut self) -> Result<u64, String> {
        self.calm_down()?;
        let before = self.full_syncs();
        for _ in 0..self.nodes.len() {
            let (old, next) = (self.primary, (self.primary + 1) % self.nodes.len());
            // Prevent signs of life during the change: a server that got one from the old primary would be ahead of the new
            // primary.
            self.ask(old, &["CONFIG", "SET", "repl-ping-replica-period", "3600"]);
            self.calm_down()?;
            self.ask(next, &["REPLICAOF", "NO", "ONE"]);
            self.nodes[next].follows = None;
            self.primary = next;
            self.inherit();
            (0..150).try_for_each(|_| self.round(10_000))?;
            (0..self.nodes.len()).filter(|&number| number != next).for_each(|number| self.follow(number, next));
            self.ask(next, &["CONFIG", "SET", "repl-ping-replica-period", "1"]);
            self.calm_down()?;
            // Write only keys without a deadline: the old primary would send a deletion during the next change.
            for _ in 0..20 {
                self.ask(next, &["INCR", "turns"]);
                self.round(5_000)?;
            }
            self.calm_down()?;
        }
        Ok(self.full_syncs() - before)
    }

    /// Returns the number of full syncs.
    fn full_syncs(&self) -> u64 {
        let full = |engine: &Arc<Engine>| engine.replication.replicas.syncs.full.load(Ordering::Relaxed);
        self.nodes.iter().filter_map(|node| node.engine().map(full)).sum()
    }

    /// Starts all servers that are down.
    pub(super) fn heal(&mut self) {
        for number in 0..self.nodes.len() {
            if self.stages[number] == Stage::Down {
                self.start(number);
            }
        }
    }
}
