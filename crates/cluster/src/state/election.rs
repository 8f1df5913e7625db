//! The election in which this node, a replica, asks to replace its primary.

use std::collections::BTreeSet;

use crate::id::NodeId;

/// The election. There is none while `start_ms` is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Election {
    /// When the votes are to be asked for, in milliseconds.
    pub(crate) start_ms: u64,
    /// When the votes were last asked for. 0 if they have not been.
    pub(crate) asked_ms: u64,
    /// The epoch of the election, once the votes have been asked for.
    pub(crate) epoch: u64,
    /// The primaries that have voted for this node. A set, because a vote that is counted twice could elect two replicas.
    pub(crate) votes: BTreeSet<NodeId>,
    /// The number of replicas of the same primary with more data. Each delays the election by 1,000 ms.
    pub(crate) rank: u64,
    /// The number of other shards with a failed primary that go first. Each delays the election by 500 ms.
    pub(crate) shard_rank: u64,
    /// The last epoch that this node has won by votes. 0 if it has not won since its start.
    pub(crate) won_epoch: u64,
    /// The reason why the node does not ask for votes, and when it was last logged, in milliseconds.
    pub(crate) obstacle: Option<(&'static str, u64)>,
}

impl Election {
    /// Forgets the election, so that the next one may begin at once. The last obstacle stays, for it limits the log, and so
    /// does the epoch that was won.
    pub fn reset(&mut self) {
        *self = Self { obstacle: self.obstacle, won_epoch: self.won_epoch, ..Self::default() };
    }

    /// Returns whether the votes have been asked for.
    pub fn is_asked(&self) -> bool {
        self.asked_ms != 0
    }

    /// Plans the election for a time.
    pub(crate) fn plan(&mut self, start_ms: u64, rank: u64, shard_rank: u64) {
        self.reset();
        *self = Self { start_ms: start_ms.max(1), rank, shard_rank, ..self.clone() };
    }
}
