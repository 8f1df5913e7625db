//! Whether the cluster works, as this node sees it.

use crate::host::Time;

/// The longest and the shortest time for which a primary refuses commands after it was cut off with a minority.
const REJOIN_MS_MAX: u64 = 5_000;
const REJOIN_MS_MIN: u64 = 500;

/// The time for which a primary refuses commands after its start.
const WRITABLE_DELAY_MS: u64 = 2_000;

/// Whether the cluster works, and since when this node has known better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether commands with keys are executed.
    pub is_ok: bool,
    /// When the state was judged first, in milliseconds. 0 if it has not been.
    pub(crate) first_ms: u64,
    /// When this node last saw only a minority of the primaries, in milliseconds. None if it never did.
    pub(crate) minority_ms: Option<u64>,
}

/// The facts by which the health is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Whether this node is a primary.
    pub is_primary: bool,
    /// Whether each slot has an owner that has not failed, or no full coverage is required.
    pub is_covered: bool,
    /// The primaries with slots.
    pub voters: usize,
    /// The primaries with slots that answer.
    pub reachable: usize,
    /// The node timeout.
    pub node_timeout_ms: u64,
}

impl Health {
    /// Notes that this node was out of touch with the others, so that it waits before it serves again.
    pub(crate) fn lost_touch(&mut self, now: Time) {
        self.is_ok = false;
        self.minority_ms = Some(now.ms);
    }

    /// Judges the health anew. Returns whether it has changed.
    ///
    /// A primary that has just started, or that was cut off with a minority, waits before it serves again: in its absence
    /// another node may have taken its slots, and it needs time to hear of that.
    pub(crate) fn judge(&mut self, facts: &Facts, now: Time) -> bool {
        if self.first_ms == 0 {
            self.first_ms = now.ms.max(1);
        }
        if facts.is_primary && !self.is_ok && now.ms.saturating_sub(self.first_ms) < WRITABLE_DELAY_MS {
            return false;
        }
        let has_majority = facts.reachable > facts.voters / 2;
        if !has_majority {
            self.minority_ms = Some(now.ms);
        }
        let is_ok = facts.is_covered && has_majority;
        if is_ok == self.is_ok {
            return false;
        }
        let rejoin_ms = facts.node_timeout_ms.clamp(REJOIN_MS_MIN, REJOIN_MS_MAX);
        let rejoined = |minority_ms: u64| now.ms.saturating_sub(minority_ms) >= rejoin_ms;
        if is_ok && facts.is_primary && !self.minority_ms.is_none_or(rejoined) {
            return false;
        }
        self.is_ok = is_ok;
        true
    }
}
