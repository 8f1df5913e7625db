//! The facts about this server that the state machine asks for while it handles an event of the bus.
//!
//! The state machine is locked meanwhile, and a command that has all shards may be waiting for it. So no shard is waited for
//! here: where a shard is in use, the answer is the one that asks for more care.

use sleeve_cluster::Slot;
use sleeve_cluster::host::{Host, ReplicationLink};
use sleeve_store::keys_in_slot;

use crate::engine::Engine;
use crate::engine::replication::role::LinkState;
use crate::host::clock::Instant;
use crate::host::dice::Dice;

/// This server, as the thread of the bus sees it.
#[derive(Debug)]
pub(super) struct EngineHost<'e> {
    /// The engine.
    pub engine: &'e Engine,
    /// The thread's source of random numbers.
    pub dice: &'e Dice,
    /// The time of the event.
    pub now: Instant,
}

impl Host for EngineHost<'_> {
    fn replication_offset(&self) -> u64 {
        self.engine.journal.end()
    }

    fn replication_link(&self) -> ReplicationLink {
        let Some(link) = self.engine.replication.role.link() else { return ReplicationLink::Down { for_ms: u64::MAX } };
        let since = |ms: u64| self.now.monotonic_ms().saturating_sub(ms);
        match link.state {
            LinkState::Connected => ReplicationLink::Up,
            _ => ReplicationLink::Down { for_ms: link.down_since_ms.map_or(u64::MAX, since) },
        }
    }

    fn keys_in_slot(&self, slot: Slot) -> u64 {
        let store = &self.engine.keyspace.store;
        let Some(shard) = store.try_lock(store.shard_of_slot(slot)) else { return 1 };
        (0..store.databases()).map(|database| keys_in_slot(&shard, database, slot)).sum()
    }

    fn is_empty(&self) -> bool {
        let store = &self.engine.keyspace.store;
        let is_empty = |shard: usize| {
            store.try_lock(shard).is_some_and(|shard| (0..store.databases()).all(|database| shard.len(database) == 0))
        };
        (0..store.shards()).all(is_empty)
    }

    fn random(&mut self) -> u64 {
        self.dice.number()
    }
}
