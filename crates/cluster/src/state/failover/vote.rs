//! The vote of this node, a primary.

use crate::action::LogLevel;
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::{Node, NodeFlags};
use crate::packet::{Body, Header, HeartbeatKind};
use crate::planted::{self, Fault};
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::{send, slot_claims};

/// A primary gives no vote to another replica of the same primary within this many node timeouts.
const VOTE_TIMEOUTS: u64 = 2;

/// Answers a request for a vote. A vote leaves only after nodes.conf records it on the disk, so that no power failure makes
/// this node vote twice in one epoch. A refusal teaches the replica that its knowledge is outdated, so that it asks again.
pub(crate) fn answer(state: &mut ClusterState, candidate: NodeId, request: &Header, now: Time, host: &mut dyn Host) {
    if !state.myself().is_voter() {
        return;
    }
    if let Some(reason) = refusal(state, candidate, request, now) {
        let line =
            format!("Failover auth denied to {candidate} for epoch {}: {}", request.current_epoch, reason.text());
        state.log(LogLevel::Warning, line);
        teach(state, candidate, request, &reason, now, host);
        return;
    }
    state.epochs.last_vote = state.epochs.current;
    let primary = state.nodes.get(&candidate).and_then(|node| node.primary);
    let lock_ms = state.options.node_timeout_ms * VOTE_TIMEOUTS;
    if let Some(node) = primary.and_then(|primary| state.nodes.get_mut(&primary)) {
        // A candidate that asks again and again must not keep the vote from a better one for ever.
        let is_over = now.ms.saturating_sub(node.contact.voted_ms) >= lock_ms;
        if is_over || node.contact.voted_for != Some(candidate) {
            node.contact.voted_ms = now.ms.max(1);
        }
        node.contact.voted_for = Some(candidate);
    }
    state.config_changed(if planted::has(Fault::VotesBeforeSync) { Save::Lazy } else { Save::Synced });
    send::to_node(state, candidate, Body::Vote);
    let line = format!("Failover auth granted to {candidate} for epoch {}", state.epochs.current);
    state.log(LogLevel::Notice, line);
}

/// The reason why a vote is refused.
enum Refusal {
    OldEpoch,
    Voted,
    NoReplica,
    PrimaryWorks,
    VotedForOther,
    LessData,
    OldSlots,
}

impl Refusal {
    fn text(&self) -> &'static str {
        match self {
            Self::OldEpoch => "its epoch is older than the current one",
            Self::Voted => "already voted for this epoch",
            Self::NoReplica => "it is no replica of a known primary",
            Self::PrimaryWorks => "its primary is up",
            Self::VotedForOther => "another replica of the same primary has just got the vote",
            Self::LessData => "another replica of the same primary has more data",
            Self::OldSlots => "a slot of it has an owner of a newer epoch",
        }
    }
}

fn refusal(state: &ClusterState, candidate: NodeId, request: &Header, now: Time) -> Option<Refusal> {
    if request.current_epoch < state.epochs.current {
        return Some(Refusal::OldEpoch);
    }
    if state.epochs.last_vote >= state.epochs.current && !planted::has(Fault::VotesTwice) {
        return Some(Refusal::Voted);
    }
    let replica = state.nodes.get(&candidate).filter(|node| node.is_replica());
    let Some(primary) = replica.and_then(|node| state.nodes.get(&node.primary?)) else {
        return Some(Refusal::NoReplica);
    };
    if !primary.has_failed() && !request.is_forced {
        return Some(Refusal::PrimaryWorks);
    }
    let contact = &primary.contact;
    let is_recent = now.ms.saturating_sub(contact.voted_ms) < state.options.node_timeout_ms * VOTE_TIMEOUTS;
    if contact.voted_ms != 0 && is_recent && contact.voted_for != Some(candidate) {
        return Some(Refusal::VotedForOther);
    }
    if !request.is_forced && is_outdone(state, primary, candidate, request, now) {
        return Some(Refusal::LessData);
    }
    let is_newer = |owner: NodeId| state.nodes.get(&owner).is_some_and(|node| node.config_epoch > request.config_epoch);
    let is_outdated = |slot| !state.slots.released.contains(slot) && state.slots.owner(slot).is_some_and(is_newer);
    request.slots.iter().any(is_outdated).then_some(Refusal::OldSlots)
}

/// Returns whether another replica of a failed primary has more data and may still stand. After two node timeouts it is not
/// waited for any more: it may have a reason not to stand that this node does not know.
fn is_outdone(state: &ClusterState, primary: &Node, candidate: NodeId, request: &Header, now: Time) -> bool {
    let timeout = state.options.node_timeout_ms;
    let silent = NodeFlags::PFAIL.with(NodeFlags::FAIL).with(NodeFlags::NO_FAILOVER);
    let may_stand = |node: &&Node| {
        node.id != candidate
            && !node.flags.has_any(silent)
            && now.ms.saturating_sub(node.contact.offset_ms) <= timeout
            && node.offset > request.offset
    };
    now.ms.saturating_sub(primary.contact.fail_ms) < timeout * VOTE_TIMEOUTS
        && state.replicas_of(primary.id).any(|node| may_stand(&node))
}

fn teach(
    state: &mut ClusterState,
    candidate: NodeId,
    request: &Header,
    reason: &Refusal,
    now: Time,
    host: &mut dyn Host,
) {
    match reason {
        Refusal::OldSlots => {
            slot_claims::correct(state, candidate, request.config_epoch, &request.slots);
        }
        Refusal::OldEpoch => {
            let links = state.nodes.get(&candidate).map(|node| node.links.clone()).unwrap_or_default();
            if let Some(link) = links.outgoing.filter(|_| links.is_connected) {
                send::heartbeat(state, link, HeartbeatKind::Pong, now, host);
            }
        }
        _ => {}
    }
}
