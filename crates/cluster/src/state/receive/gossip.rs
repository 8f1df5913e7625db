//! The gossip of a heartbeat: other nodes as its sender sees them.

use crate::host::Time;
use crate::id::NodeId;
use crate::node::{Address, Node, NodeFlags};
use crate::nodes_conf::NODES_MAX;
use crate::packet::Gossip;
use crate::state::cluster_state::ClusterState;
use crate::state::failover::failure;
use crate::state::{members, send};

/// A clock of another node may be ahead by this many milliseconds. Later times are not believed.
const CLOCK_AHEAD_MS_MAX: u64 = 500;

/// The marks of a node that does not answer.
const SILENT: NodeFlags = NodeFlags::PFAIL.with(NodeFlags::FAIL);

/// The flags of an unknown node that the word of another is enough for.
const BELIEVED: NodeFlags =
    NodeFlags::PRIMARY.with(NodeFlags::REPLICA).with(NodeFlags::FAIL).with(NodeFlags::NO_FAILOVER);

/// Takes the gossip of a known sender.
pub(super) fn take(state: &mut ClusterState, sender: NodeId, gossip: &[Gossip], now: Time) {
    for entry in gossip.iter().filter(|entry| !entry.flags.has(NodeFlags::HANDSHAKE)) {
        if entry.node == state.me {
            continue;
        }
        if state.nodes.contains_key(&entry.node) {
            about_known(state, sender, entry, now);
        } else if !state.forgotten.contains(entry.node, now) {
            add(state, entry, now);
        }
    }
}

fn about_known(state: &mut ClusterState, sender: NodeId, entry: &Gossip, now: Time) {
    let is_silent = entry.flags.has_any(SILENT);
    if sender != entry.node {
        failure::report(state, entry.node, sender, is_silent, now);
    }
    if is_silent {
        return;
    }
    let is_undisputed = failure::reports(state, entry.node, now) == 0;
    let Some(node) = state.nodes.get_mut(&entry.node) else { return };
    if is_undisputed && node.contact.ping_sent_ms == 0 {
        take_pong(node, entry, now);
    }
    // A node that this one cannot reach, and the sender can, may have moved.
    let is_lost = node.flags.has_any(SILENT.with(NodeFlags::NO_ADDRESS));
    if let Some(address) = address_of(state, entry).filter(|_| is_lost) {
        members::move_to(state, entry.node, &address);
    }
}

/// Takes over that a node has answered another, so that not all nodes need to ask all.
fn take_pong(node: &mut Node, entry: &Gossip, now: Time) {
    let pong_unix_ms = u64::from(entry.pong_s) * 1_000;
    if pong_unix_ms > node.contact.pong_unix_ms && pong_unix_ms <= now.unix_ms + CLOCK_AHEAD_MS_MAX {
        let age = now.unix_ms.saturating_sub(pong_unix_ms);
        node.contact.pong_unix_ms = pong_unix_ms;
        node.contact.pong_ms = node.contact.pong_ms.max(now.ms.saturating_sub(age));
    }
}

fn address_of(state: &ClusterState, entry: &Gossip) -> Option<Address> {
    let (port, tls_port) = send::ports_by_use(state, entry.port, entry.other_port);
    let address = Address { ip: entry.ip.clone(), port, tls_port, bus_port: entry.bus_port, ..Address::default() };
    let is_usable = !entry.ip.is_empty() && entry.bus_port != 0 && !entry.flags.has(NodeFlags::NO_ADDRESS);
    is_usable.then_some(address)
}

/// Adds a node that a known node knows. Its id is the right one, so it needs no handshake: a link at which another node
/// answers does not become its link.
fn add(state: &mut ClusterState, entry: &Gossip, now: Time) {
    let Some(address) = address_of(state, entry).filter(|_| state.nodes.len() < NODES_MAX) else { return };
    let flags = NodeFlags(entry.flags.0 & BELIEVED.0);
    let mut node = Node { address, ..Node::new(entry.node, flags, now.ms) };
    if node.has_failed() {
        node.contact.fail_ms = now.ms;
    }
    members::add(state, node);
}
