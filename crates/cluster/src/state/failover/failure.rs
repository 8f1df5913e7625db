//! The detection of failed nodes.
//!
//! A node that does not answer for the node timeout is PFAIL, which is this node's own opinion. If a majority of the primaries
//! reports it, the node is FAIL, and all nodes are told so.

use crate::action::LogLevel;
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::{Node, NodeFlags};
use crate::packet::{Body, HeartbeatKind};
use crate::planted::{self, Fault};
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::{members, send};

/// A report counts for this many node timeouts.
const REPORT_TIMEOUTS: u64 = 2;

/// The longer life of a report for each primary, in milliseconds. In a large cluster the reports of a majority arrive over a
/// longer time, and the first must not expire before the last arrives.
const REPORT_MS_PER_VOTER: u64 = 20;

/// A failed primary that answers again keeps its slots if no replica has taken them within this many node timeouts.
const UNDO_TIMEOUTS: u64 = 2;

/// The longest and the shortest pause between two attempts to connect to a node, in milliseconds.
const RETRY_MS_MAX: u64 = 1_000;
const RETRY_MS_MIN: u64 = 100;

/// The pings of one tick per node that are spread by chance: one node of this many each second.
const SAMPLES: usize = 5;

/// Opens the links that are missing, and gives up handshakes that take too long.
pub(crate) fn reconnect(state: &mut ClusterState, now: Time, host: &mut dyn Host) {
    let handshake_ms = members::handshake_ms(state);
    let ids: Vec<NodeId> = state.nodes.keys().copied().filter(|id| *id != state.me).collect();
    for id in ids {
        let Some(node) = state.nodes.get(&id) else { continue };
        let since = |ms: u64| now.ms.saturating_sub(ms);
        if node.is_in_handshake() && since(node.created_ms) > handshake_ms {
            let line = format!("Handshake timeout: {}:{}", node.address.ip, node.address.bus_port);
            state.log(LogLevel::Verbose, line);
            members::remove(state, id);
            continue;
        }
        if node.flags.has(NodeFlags::NO_ADDRESS) {
            continue;
        }
        let links = &node.links;
        if links.outgoing.is_none() && links.retry_ms <= now.ms {
            members::connect(state, id, now);
            continue;
        }
        let is_one_way = links.is_connected && links.incoming.is_none() && !node.is_in_handshake();
        let link = links.outgoing.filter(|_| is_one_way);
        if since(links.incoming_lost_ms) > handshake_ms
            && since(links.meet_ms) > handshake_ms
            && let Some(link) = link
        {
            // The node answers and never opens a link: it does not know this node.
            send::heartbeat(state, link, HeartbeatKind::Meet, now, host);
        }
    }
}

/// Plans the next attempt to connect to a node after its link was lost. The pause grows with each failure, so dead nodes cost
/// little. A node that comes back speaks first, and is then connected to at once.
pub(crate) fn link_lost(state: &mut ClusterState, id: NodeId, was_connected: bool, now: Time) {
    let longest = (state.options.node_timeout_ms / 4).clamp(RETRY_MS_MIN, RETRY_MS_MAX);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let pause = (RETRY_MS_MIN << node.links.failures.min(5)).min(longest);
    node.links.failures = node.links.failures.saturating_add(1);
    node.links.retry_ms = if was_connected && node.links.failures == 1 { 0 } else { now.ms + pause };
}

/// Sends a PING to the node with the oldest PONG, out of a few random ones. Called once a second.
pub(crate) fn ping_one(state: &mut ClusterState, now: Time, host: &mut dyn Host) {
    let is_idle = |node: &&Node| {
        node.id != state.me && !node.is_in_handshake() && node.links.is_connected && node.contact.ping_sent_ms == 0
    };
    let idle: Vec<&Node> = state.nodes.values().filter(is_idle).collect();
    if idle.is_empty() {
        return;
    }
    let samples = (0..SAMPLES).map(|_| idle[(host.random() % idle.len() as u64) as usize]);
    let oldest = samples.min_by_key(|node| node.contact.pong_ms).and_then(|node| node.links.outgoing);
    if let Some(link) = oldest {
        send::heartbeat(state, link, HeartbeatKind::Ping, now, host);
    }
}

/// Sends a PING to each node that has not been heard of for half the node timeout, renews links on which nothing comes, and
/// finds the nodes that are silent.
pub(crate) fn watch(state: &mut ClusterState, now: Time, host: &mut dyn Host) {
    let is_watched = |node: &&Node| node.id != state.me && !node.is_in_handshake();
    let ids: Vec<NodeId> = state.nodes.values().filter(is_watched).map(|node| node.id).collect();
    for id in ids {
        watch_node(state, id, now, host);
    }
}

fn watch_node(state: &mut ClusterState, id: NodeId, now: Time, host: &mut dyn Host) {
    let timeout = state.options.node_timeout_ms;
    let Some(node) = state.nodes.get(&id) else { return };
    let since = |ms: u64| now.ms.saturating_sub(ms);
    let (contact, links) = (&node.contact, &node.links);
    let is_asked = contact.ping_sent_ms != 0;
    let silence = since(contact.ping_sent_ms).min(since(contact.data_ms));
    if let Some(link) = links.outgoing.filter(|_| is_asked)
        && since(links.opened_ms) > timeout
        && silence > timeout / 2
    {
        let was_connected = links.is_connected;
        members::close(state, link);
        link_lost(state, id, was_connected, now);
    }
    let Some(node) = state.nodes.get(&id) else { return };
    let hands_over = state.manual_failover.replica == Some(id);
    let is_due = !is_asked && since(node.contact.pong_ms) > timeout / 2;
    if let Some(link) = node.links.outgoing.filter(|_| node.links.is_connected && (is_due || hands_over)) {
        send::heartbeat(state, link, HeartbeatKind::Ping, now, host);
    }
    if is_asked && silence > timeout {
        suspect(state, id);
        declare_if_agreed(state, id, now);
    }
}

/// Marks a node as silent.
fn suspect(state: &mut ClusterState, id: NodeId) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    if !node.flags.has_any(NodeFlags::PFAIL.with(NodeFlags::FAIL)) {
        node.flags.set(NodeFlags::PFAIL, true);
        state.duties.judge = true;
        state.log(LogLevel::Verbose, format!("Node {id} possibly failing"));
    }
}

/// Takes over a report of a primary that a node is silent, or answers.
pub(crate) fn report(state: &mut ClusterState, id: NodeId, reporter: NodeId, is_silent: bool, now: Time) {
    let may_report = state.nodes.get(&reporter).is_some_and(Node::is_voter);
    let Some(node) = state.nodes.get_mut(&id).filter(|node| node.id != state.me) else { return };
    if !is_silent {
        if node.reports.remove(&reporter).is_some() {
            state.log(LogLevel::Verbose, format!("Node {reporter} reported node {id} as back online."));
        }
    } else if may_report {
        if node.reports.insert(reporter, now.ms).is_none() {
            state.log(LogLevel::Verbose, format!("Node {reporter} reported node {id} as not reachable."));
        }
        declare_if_agreed(state, id, now);
    }
}

/// Returns the number of valid reports that a node is silent, without this node's own opinion. Drops those that are too old,
/// and those of primaries that have been replaced since: with their successors' reports they would be two voices of one shard.
pub(crate) fn reports(state: &mut ClusterState, id: NodeId, now: Time) -> usize {
    let life = state.options.node_timeout_ms * REPORT_TIMEOUTS + state.voters() as u64 * REPORT_MS_PER_VOTER;
    let Some(node) = state.nodes.get(&id) else { return 0 };
    let is_replaced = |reporter: &NodeId| !state.nodes.get(reporter).is_some_and(Node::is_voter);
    let replaced: Vec<NodeId> = node.reports.keys().copied().filter(is_replaced).collect();
    let Some(node) = state.nodes.get_mut(&id) else { return 0 };
    node.reports.retain(|reporter, ms| now.ms.saturating_sub(*ms) <= life && !replaced.contains(reporter));
    node.reports.len()
}

/// Declares a silent node failed if a majority of the primaries reports it, and tells all nodes.
fn declare_if_agreed(state: &mut ClusterState, id: NodeId, now: Time) {
    if !state.nodes.get(&id).is_some_and(|node| node.flags.has(NodeFlags::PFAIL)) {
        return;
    }
    let own = usize::from(state.myself().is_primary());
    if reports(state, id, now) + own < state.quorum() && !planted::has(Fault::FailsAlone) {
        return;
    }
    state.log(LogLevel::Notice, format!("Marking node {id} as failing (quorum reached)."));
    fail(state, id, now);
    send::to_all(state, Body::Fail(id));
}

/// Marks a node as failed, on the word of a majority. Returns whether that is new.
pub(crate) fn fail(state: &mut ClusterState, id: NodeId, now: Time) -> bool {
    let Some(node) = state.nodes.get_mut(&id).filter(|node| node.id != state.me && !node.has_failed()) else {
        return false;
    };
    node.flags.set(NodeFlags::PFAIL, false);
    node.flags.set(NodeFlags::FAIL, true);
    node.contact.fail_ms = now.ms;
    state.config_changed(Save::Lazy);
    true
}

/// Clears the marks of a node that has answered, unless it is a failed primary that its replicas still have time to replace.
pub(crate) fn answered(state: &mut ClusterState, id: NodeId, now: Time) {
    let timeout = state.options.node_timeout_ms;
    let Some(node) = state.nodes.get_mut(&id) else { return };
    if node.flags.has(NodeFlags::PFAIL) {
        node.flags.set(NodeFlags::PFAIL, false);
        state.duties.judge = true;
    } else if node.has_failed() {
        let is_old = now.ms.saturating_sub(node.contact.fail_ms) > timeout * UNDO_TIMEOUTS;
        if node.is_voter() && !is_old {
            return;
        }
        node.flags.set(NodeFlags::FAIL, false);
        state.log(LogLevel::Notice, format!("Clear FAIL state for node {id}: it is reachable again."));
        state.config_changed(Save::Lazy);
    }
}
