//! The epochs of a cluster: logical clocks that order its changes.
//!
//! Elections take even epochs. A node that takes an epoch without a vote, because it imports a slot or has met another with its
//! epoch, takes an odd one. So a primary that is cut off and its elected replica never own the same slots in one epoch, and the
//! election wins: from the same greatest epoch it takes the higher one. Redis and Valkey take the next number for both, which
//! any node understands as well.

/// The epochs of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epochs {
    /// The greatest epoch that this node has seen.
    pub current: u64,
    /// The epoch in which this node last voted.
    pub last_vote: u64,
}

/// Returns the epoch that a node takes without a vote if this is the greatest one.
pub(crate) fn without_vote(greatest: u64) -> u64 {
    greatest.saturating_add(1) | 1
}

/// Returns the epoch of an election if this is the greatest one.
pub(crate) fn by_vote(greatest: u64) -> u64 {
    without_vote(greatest).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::{by_vote, without_vote};

    #[test]
    fn an_election_beats_an_epoch_that_was_taken_at_the_same_time() {
        for greatest in [0, 1, 2, 9, 10] {
            assert!(without_vote(greatest) > greatest && without_vote(greatest) % 2 == 1);
            assert!(by_vote(greatest) > without_vote(greatest) && by_vote(greatest).is_multiple_of(2));
        }
        assert_eq!((without_vote(u64::MAX), by_vote(u64::MAX)), (u64::MAX, u64::MAX));
    }
}
