//! The nodes that an operator told the cluster to forget.

use std::collections::BTreeMap;

use crate::host::Time;
use crate::id::NodeId;

/// The nodes that must not be taken up again by gossip for a while. Without it a node that is forgotten here would come back
/// with the next packet of a node that has not forgotten it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    until_ms: BTreeMap<NodeId, u64>,
}

impl Forgotten {
    /// The milliseconds for which CLUSTER FORGET bans a node.
    pub const BAN_MS: u64 = 60_000;

    /// The longest ban that another node may ask for, in milliseconds.
    const BAN_MS_MAX: u64 = 3_600_000;

    /// Bans a node for this many milliseconds.
    pub fn add(&mut self, node: NodeId, now: Time, for_ms: u64) {
        self.until_ms.retain(|_, until| *until > now.ms);
        self.until_ms.insert(node, now.ms + for_ms.min(Self::BAN_MS_MAX));
    }

    /// Lifts the ban of a node.
    pub fn remove(&mut self, node: NodeId) {
        self.until_ms.remove(&node);
    }

    /// Returns whether a node is banned.
    pub fn contains(&self, node: NodeId, now: Time) -> bool {
        self.until_ms.get(&node).is_some_and(|until| *until > now.ms)
    }

    /// Returns the banned nodes, each with the seconds that are left, rounded up.
    pub fn iter(&self, now: Time) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        let left = move |(node, until): (&NodeId, &u64)| {
            let ms = until.saturating_sub(now.ms);
            (ms > 0).then_some((*node, ms.div_ceil(1_000)))
        };
        self.until_ms.iter().filter_map(left)
    }

    /// Lifts all bans.
    pub fn clear(&mut self) {
        self.until_ms.clear();
    }
}
