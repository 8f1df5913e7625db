//! The manual failover that this node takes part in.

use crate::id::NodeId;

/// The kind of a manual failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailoverKind {
    /// The primary pauses its writes, and the replica asks for votes when it has all data.
    Agreed,
    /// FORCE: the replica asks for votes without its primary.
    Forced,
    /// TAKEOVER: the replica takes the slots without any vote.
    Takeover,
}

/// A manual failover, as a replica that takes over or as a primary that hands over. There is none while `end_ms` is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManualFailover {
    /// When the failover is given up, in milliseconds.
    pub(crate) end_ms: u64,
    /// The replica that takes over, if this node is the primary.
    pub(crate) replica: Option<NodeId>,
    /// Whether the writes of this node, the primary, stand still. The offset in its packets is the last one since then.
    pub(crate) pause: Pause,
    /// The last offset of the primary, if this node is the replica and the primary has paused its writes.
    pub(crate) primary_offset: Option<u64>,
    /// Whether this node, the replica, may ask for votes.
    pub(crate) can_start: bool,
}

/// The pause of a primary's writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pause {
    /// The primary writes.
    #[default]
    None,
    /// The caller has not taken the action yet, or may still be carrying it out.
    Asked,
    /// The caller has taken the action.
    Taken,
    /// The caller has called again, so it has carried out the action, and the offset stands still.
    InEffect,
}

impl ManualFailover {
    /// The milliseconds after which a manual failover is given up.
    pub const TIMEOUT_MS: u64 = 5_000;

    /// The milliseconds for which a primary pauses its writes at most.
    pub const PAUSE_MS: u64 = 2 * Self::TIMEOUT_MS;

    /// Returns whether a manual failover is in progress.
    pub fn is_active(&self) -> bool {
        self.end_ms != 0
    }

    /// Moves a pause on when the caller takes actions.
    pub(crate) fn actions_taken(&mut self) {
        if self.pause == Pause::Asked {
            self.pause = Pause::Taken;
        }
    }

    /// Moves a pause on when the caller reports the next event.
    pub(crate) fn event_begins(&mut self) {
        if self.pause == Pause::Taken {
            self.pause = Pause::InEffect;
        }
    }
}
