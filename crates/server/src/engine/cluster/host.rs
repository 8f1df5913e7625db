//! The server around the state machine of a node: its data, its replication and its source of chance.
//!
//! A command of CLUSTER lends the locks of all shards, which it holds. Another thread waits for no shard, because a command that
//! has all shards may be waiting for the state machine, which the thread has locked: a shard in use counts as one with keys.
//! One thread.

use std::cell::RefCell;

use sleeve_cluster::host::{Host, ReplicationLink};
use sleeve_cluster::{Slot, Time};
use sleeve_store::Shard;

use crate::engine::Engine;
use crate::engine::keyspace::locks::Locks;
use crate::engine::replication::role::LinkState;
use crate::host::clock::Instant;
use crate::host::dice::Dice;

/// The server around the state machine.
pub struct ServerHost<'a, 's> {
    engine: &'a Engine,
    locks: Option<RefCell<&'a mut Locks<'s>>>,
    dice: &'a Dice,
    now: Instant,
}

impl<'a, 's> ServerHost<'a, 's> {
    /// Makes the server around the state machine, for calls at this time.
    pub fn new(engine: &'a Engine, locks: &'a mut Locks<'s>, dice: &'a Dice, now: Instant) -> Self {
        Self { engine, locks: Some(RefCell::new(locks)), dice, now }
    }

    /// Makes the server around the state machine for a thread that lends no locks.
    pub fn without_locks(engine: &'a Engine, dice: &'a Dice, now: Instant) -> Self {
        Self { engine, locks: None, dice, now }
    }

    /// Returns the result of `look` at a shard. None if the shard is in use.
    fn look_at<T>(&self, shard: usize, look: impl FnOnce(&Shard) -> T) -> Option<T> {
        match &self.locks {
            Some(locks) => Some(locks.borrow_mut().with(shard, |shard| look(shard))),
            None => self.engine.keyspace.store.try_lock(shard).map(|shard| look(&shard)),
        }
    }
}

impl Host for ServerHost<'_, '_> {
    /// As in Redis, the offset is 0 during a full sync: clients are not sent to this node meanwhile, and other replicas go
    /// first in an election.
    fn replication_offset(&self) -> u64 {
        let role = &self.engine.replication.role;
        if role.is_replica() && role.is_syncing() { 0 } else { self.engine.journal.end() }
    }

    fn replication_link(&self) -> ReplicationLink {
        let Some(link) = self.engine.replication.role.link() else { return ReplicationLink::Down { for_ms: u64::MAX } };
        if link.state == LinkState::Connected {
            return ReplicationLink::Up;
        }
        let silent_ms = |since_ms: u64| self.now.monotonic_ms().saturating_sub(since_ms);
        ReplicationLink::Down { for_ms: link.copied_ms.map_or(u64::MAX, silent_ms) }
    }

    fn keys_in_slot(&self, slot: Slot) -> u64 {
        let shard = self.engine.keyspace.store.shard_of_slot(slot);
        let count = |shard: &Shard| {
            (0..shard.databases()).map(|database| sleeve_store::keys_in_slot(shard, database, slot)).sum()
        };
        self.look_at(shard, count).unwrap_or(1)
    }

    fn is_empty(&self) -> bool {
        let is_empty = |shard: &Shard| (0..shard.databases()).all(|database| shard.len(database) == 0);
        (0..self.engine.keyspace.store.shards()).all(|shard| self.look_at(shard, is_empty).unwrap_or(false))
    }

    fn random(&mut self) -> u64 {
        self.dice.number()
    }
}

/// Returns a time on both clocks of the state machine.
pub fn time(now: Instant) -> Time {
    Time { ms: now.monotonic_ms(), unix_ms: u64::try_from(now.wall_ms()).unwrap_or(0) }
}
