//! The manual failover: a primary hands its slots over to a replica that has all its data.

use crate::action::{Action, LogLevel};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::packet::{Body, Header};
use crate::state::cluster_state::ClusterState;
use crate::state::failover::campaign;
use crate::state::manual_failover::{FailoverKind, ManualFailover, Pause};
use crate::state::{members, send};

/// Begins a manual failover on this node, a replica of a known primary. CLUSTER FAILOVER has checked that. A takeover is over
/// when this returns; the others go on with the next events.
pub fn start(state: &mut ClusterState, kind: FailoverKind, now: Time, host: &mut dyn Host) {
    let Some(primary) = state.own_primary().filter(|primary| *primary != state.me) else { return };
    state.take_offset(host);
    members::end_manual_failover(state);
    state.election.reset();
    match kind {
        FailoverKind::Takeover => {
            state.log(LogLevel::Warning, "Taking over the primary (user request).");
            state.bump_epoch();
            campaign::replace(state, primary);
            return;
        }
        FailoverKind::Forced => {
            state.log(LogLevel::Warning, "Forced failover user request accepted.");
            state.manual_failover.can_start = true;
        }
        FailoverKind::Agreed => {
            state.log(LogLevel::Warning, "Manual failover user request accepted.");
            send::to_node(state, primary, Body::ManualFailover);
        }
    }
    state.manual_failover.end_ms = now.ms + ManualFailover::TIMEOUT_MS;
}

/// Begins to hand over to a replica of this node, which has asked for it: the writes pause. The packets with the last offset
/// follow when the caller has carried that out.
pub(crate) fn requested(state: &mut ClusterState, replica: NodeId, now: Time) {
    let is_own = state.nodes.get(&replica).is_some_and(|node| node.is_replica() && node.primary == Some(state.me));
    if !is_own || !state.myself().is_primary() {
        return;
    }
    members::end_manual_failover(state);
    state.manual_failover = ManualFailover {
        end_ms: now.ms + ManualFailover::TIMEOUT_MS,
        replica: Some(replica),
        pause: Pause::Asked,
        ..ManualFailover::default()
    };
    state.actions.push(Action::PauseWrites { until_ms: now.ms + ManualFailover::PAUSE_MS });
    state.log(LogLevel::Warning, format!("Manual failover requested by replica {replica}."));
}

/// Takes the last offset out of a packet of the primary that has paused its writes.
pub(crate) fn saw_offset(state: &mut ClusterState, sender: NodeId, header: &Header) {
    let failover = &mut state.manual_failover;
    let waits = failover.is_active() && failover.replica.is_none() && failover.primary_offset.is_none();
    if waits && header.is_paused && state.own_primary() == Some(sender) && sender != state.me {
        state.manual_failover.primary_offset = Some(header.offset);
        let line = format!("Received replication offset for paused primary manual failover: {}", header.offset);
        state.log(LogLevel::Warning, line);
    }
}

/// Gives a manual failover up that takes too long, and lets this node ask for votes once it has all data of its primary.
pub(crate) fn advance(state: &mut ClusterState, now: Time) {
    if state.manual_failover.is_active() && state.manual_failover.end_ms < now.ms {
        state.log(LogLevel::Warning, "Manual failover timed out.");
        members::end_manual_failover(state);
        return;
    }
    let offset = state.myself().offset;
    let failover = &mut state.manual_failover;
    if failover.can_start || failover.primary_offset.is_none_or(|last| offset < last) {
        return;
    }
    failover.can_start = true;
    state.election.reset();
    state.log(LogLevel::Warning, "All primary replication stream processed, manual failover can start.");
}
