//! The move of a replica to a primary that has lost its last one.

use std::collections::BTreeMap;

use crate::action::LogLevel;
use crate::host::Time;
use crate::id::NodeId;
use crate::node::{Node, NodeFlags};
use crate::state::cluster_state::ClusterState;
use crate::state::members;

/// The milliseconds for which a primary must have been without replicas: after a failover its own replicas need time to
/// follow it.
const DELAY_MS: u64 = 5_000;

/// Moves this node, a replica, to an orphaned primary if its own can spare it and no other replica is to move first.
pub(crate) fn advance(state: &mut ClusterState, now: Time) {
    if !state.options.allows_replica_migration || !state.myself().is_replica() {
        return;
    }
    let working = working_replicas(state);
    note_orphans(state, &working, now);
    let most = working.values().copied().max().unwrap_or_default();
    let Some(own) = state.own_primary().filter(|own| state.health.is_ok && working.get(own) == Some(&most)) else {
        return;
    };
    let answers = |node: &&Node| !node.flags.has_any(NodeFlags::PFAIL.with(NodeFlags::FAIL));
    if most < 2 || state.replicas_of(own).filter(answers).count() <= state.options.migration_barrier {
        return;
    }
    let is_rich = |node: &&Node| node.primary.is_some_and(|primary| working.get(&primary) == Some(&most));
    let first = state.nodes.values().filter(|node| node.is_replica()).filter(is_rich).map(|node| node.id).min();
    let since = |node: &Node| now.ms.saturating_sub(node.contact.orphaned_ms);
    let is_orphan = |node: &&Node| node.contact.orphaned_ms != 0 && !node.slots.is_empty();
    let target = state.nodes.values().find(is_orphan).filter(|node| since(node) > DELAY_MS).map(|node| node.id);
    if let Some(target) = target.filter(|_| first == Some(state.me)) {
        state.log(LogLevel::Warning, format!("Migrating to orphaned primary {target}"));
        members::follow(state, target);
    }
}

/// Returns for each primary with replicas the number of those that have not failed.
fn working_replicas(state: &ClusterState) -> BTreeMap<NodeId, usize> {
    let mut working = BTreeMap::new();
    for node in state.nodes.values().filter(|node| node.is_replica()) {
        if let Some(primary) = node.primary {
            *working.entry(primary).or_default() += usize::from(!node.has_failed());
        }
    }
    working
}

fn note_orphans(state: &mut ClusterState, working: &BTreeMap<NodeId, usize>, now: Time) {
    for node in state.nodes.values_mut() {
        let has_none = working.get(&node.id).is_none_or(|count| *count == 0);
        let is_orphan = node.is_primary() && !node.has_failed() && node.flags.has(NodeFlags::MIGRATE_TO) && has_none;
        if !is_orphan {
            node.contact.orphaned_ms = 0;
        } else if node.contact.orphaned_ms == 0 {
            node.contact.orphaned_ms = now.ms.max(1);
        }
    }
}
