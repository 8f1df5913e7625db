//! The epochs of a cluster: logical clocks that order its changes.

/// The epochs of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epochs {
    /// The greatest epoch that this node has seen.
    pub current: u64,
    /// The epoch in which this node last voted.
    pub last_vote: u64,
}
