//! The nodes that come and go, their roles, and the links to them.

use crate::action::{Action, LinkId, LogLevel};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::{Address, Node, NodeFlags};
use crate::planted::{self, Fault};
use crate::slots::Slot;
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::links::Link;
use crate::state::manual_failover::ManualFailover;

/// The nodes in handshake at most. A stranger may send a MEET, so their number must not be its choice.
const HANDSHAKES_MAX: usize = 1_000;

/// The shortest time in milliseconds for which a handshake may last.
const HANDSHAKE_MS_MIN: u64 = 1_000;

/// Returns the milliseconds for which a handshake may last: the node timeout, and at least 1,000.
pub(crate) fn handshake_ms(state: &ClusterState) -> u64 {
    state.options.node_timeout_ms.max(HANDSHAKE_MS_MIN)
}

/// Adds a node in handshake under a random id. With `asks`, this node sends a MEET, otherwise it answers one. Returns the
/// random id, or None if a handshake with this address is in progress already or too many are.
pub(crate) fn begin_handshake(
    state: &mut ClusterState,
    address: Address,
    asks: bool,
    now: Time,
    host: &mut dyn Host,
) -> Option<NodeId> {
    let handshakes = || state.nodes.values().filter(|node| node.is_in_handshake());
    let is_same = |node: &Node| node.address.ip == address.ip && node.address.bus_port == address.bus_port;
    if handshakes().any(is_same) || handshakes().count() >= HANDSHAKES_MAX {
        return None;
    }
    let id = random_id(host);
    let flags = if asks { NodeFlags::HANDSHAKE.with(NodeFlags::MEET) } else { NodeFlags::HANDSHAKE };
    add(state, Node { address, ..Node::new(id, flags, now.ms) });
    Some(id)
}

/// Returns a random id.
pub(crate) fn random_id(host: &mut dyn Host) -> NodeId {
    let mut bytes = [0; 20];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&host.random().to_le_bytes()[..part.len()]);
    }
    NodeId::new(bytes)
}

/// Adds a node.
pub(crate) fn add(state: &mut ClusterState, mut node: Node) {
    node.links.incoming_lost_ms = node.created_ms;
    state.nodes.insert(node.id, node);
    state.config_changed(Save::Lazy);
}

/// Removes a node with its slots, its links and its reports. This node itself is never removed.
pub(crate) fn remove(state: &mut ClusterState, id: NodeId) {
    if id == state.me || !state.nodes.contains_key(&id) {
        return;
    }
    release_slots(state, id);
    state.slots.migrating.retain(|_, to| *to != id);
    state.slots.importing.retain(|_, from| *from != id);
    close_links(state, id);
    let old_primary = state.nodes.remove(&id).and_then(|node| node.primary);
    for node in state.nodes.values_mut() {
        node.reports.remove(&id);
        if node.primary == Some(id) {
            node.primary = None;
        }
    }
    if let Some(primary) = old_primary {
        replica_left(state, primary);
    }
    if state.manual_failover.replica == Some(id) {
        end_manual_failover(state);
    }
    state.config_changed(Save::Lazy);
}

/// Takes all slots from a node.
pub(crate) fn release_slots(state: &mut ClusterState, id: NodeId) {
    let slots: Vec<Slot> = state.nodes.get(&id).map(|node| node.slots.iter().collect()).unwrap_or_default();
    for slot in slots {
        state.assign_slot(slot, None);
    }
}

/// Gives a node in handshake its own id, which its first packet has told.
pub(crate) fn rename(state: &mut ClusterState, random: NodeId, id: NodeId) {
    let Some(mut node) = state.nodes.remove(&random) else { return };
    node.id = id;
    node.shard = id;
    node.flags.set(NodeFlags::HANDSHAKE.with(NodeFlags::MEET), false);
    for link in [node.links.outgoing, node.links.incoming].into_iter().flatten() {
        if let Some(link) = state.links.get_mut(link) {
            link.node = Some(id);
        }
    }
    state.nodes.insert(id, node);
    state.config_changed(Save::Lazy);
}

/// Makes a node a primary. Its shard stays, for the shard is the same after a failover.
pub(crate) fn make_primary(state: &mut ClusterState, id: NodeId) {
    let is_me = id == state.me;
    let Some(node) = state.nodes.get_mut(&id).filter(|node| !node.is_primary()) else { return };
    let old = node.primary.take();
    node.flags.set(NodeFlags::REPLICA, false);
    node.flags.set(NodeFlags::PRIMARY, true);
    if let Some(old) = old {
        if !is_me {
            node.flags.set(NodeFlags::MIGRATE_TO, true);
        }
        replica_left(state, old);
    }
    state.config_changed(Save::Lazy);
}

/// Makes a node a replica of a primary, and of the primary's shard. If the primary is not known, the node keeps the one that
/// it had. Slots and open moves of slots must have been given up before.
pub(crate) fn make_replica(state: &mut ClusterState, id: NodeId, primary: Option<NodeId>) {
    let primary = primary.filter(|primary| *primary != id && state.nodes.contains_key(primary));
    let shard = primary.and_then(|primary| state.nodes.get(&primary)).map(|node| node.shard);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let was_primary = node.is_primary();
    node.flags.set(NodeFlags::PRIMARY.with(NodeFlags::MIGRATE_TO), false);
    node.flags.set(NodeFlags::REPLICA, true);
    let old = node.primary;
    let has_moved = primary.is_some() && primary != old;
    if has_moved {
        node.primary = primary;
    }
    let has_new_shard = shard.is_some_and(|shard| shard != node.shard);
    node.shard = shard.unwrap_or(node.shard);
    if let Some(node) = primary.and_then(|primary| state.nodes.get_mut(&primary)) {
        node.flags.set(NodeFlags::MIGRATE_TO, true);
    }
    if let Some(old) = old.filter(|_| has_moved) {
        replica_left(state, old);
    }
    if was_primary || has_moved || has_new_shard {
        state.config_changed(Save::Lazy);
    }
}

/// Makes this node a replica of a primary. A replica moves no slots, so open moves end, and a manual failover ends as well.
pub(crate) fn follow(state: &mut ClusterState, primary: NodeId) {
    if primary == state.me || !state.nodes.contains_key(&primary) {
        return;
    }
    let me = state.me;
    release_slots(state, me);
    if !planted::has(Fault::KeepsMoves) {
        state.slots.migrating.clear();
        state.slots.importing.clear();
    }
    make_replica(state, me, Some(primary));
    state.election.reset();
    end_manual_failover(state);
    state.config_changed(Save::Synced);
    state.duties.announce = true;
}

/// Forgets that a primary takes replicas if its last one has left.
fn replica_left(state: &mut ClusterState, primary: NodeId) {
    if state.replicas_of(primary).next().is_some() {
        return;
    }
    if let Some(node) = state.nodes.get_mut(&primary) {
        node.flags.set(NodeFlags::MIGRATE_TO, false);
    }
}

/// Sets the shard of a primary and of its replicas, which are of the same shard by definition.
pub(crate) fn set_shard(state: &mut ClusterState, primary: NodeId, shard: NodeId) {
    let is_of_shard = |node: &Node| node.id == primary || (node.is_replica() && node.primary == Some(primary));
    let mut has_changed = false;
    for node in state.nodes.values_mut().filter(|node| is_of_shard(node) && node.shard != shard) {
        node.shard = shard;
        has_changed = true;
    }
    if has_changed {
        state.config_changed(Save::Lazy);
    }
}

/// Ends a manual failover, and the pause of the writes if there is one.
pub(crate) fn end_manual_failover(state: &mut ClusterState) {
    if state.manual_failover.replica.is_some() {
        state.actions.push(Action::ResumeWrites);
    }
    state.manual_failover = ManualFailover::default();
}

/// Takes over a new address of a node. The link to the old address is closed, and one to the new address opened by the next
/// tick. Returns whether the address is new.
pub(crate) fn move_to(state: &mut ClusterState, id: NodeId, address: &Address) -> bool {
    let may_move = id != state.me && !planted::has(Fault::KeepsAddress);
    let Some(node) = state.nodes.get_mut(&id).filter(|node| may_move && !is_at(node, address)) else {
        return false;
    };
    node.address.ip.clone_from(&address.ip);
    node.address.port = address.port;
    node.address.tls_port = address.tls_port;
    node.address.bus_port = address.bus_port;
    node.flags.set(NodeFlags::NO_ADDRESS, false);
    node.links.failures = 0;
    node.links.retry_ms = 0;
    let link = node.links.outgoing;
    let line = format!("Address updated for node {id}, now {}:{}", address.ip, address.port.max(address.tls_port));
    if let Some(link) = link {
        close(state, link);
    }
    state.log(LogLevel::Notice, line);
    state.config_changed(Save::Lazy);
    true
}

fn is_at(node: &Node, address: &Address) -> bool {
    let place = |of: &Address| (of.port, of.tls_port, of.bus_port);
    node.address.ip == address.ip && place(&node.address) == place(address) && !node.flags.has(NodeFlags::NO_ADDRESS)
}

/// Opens a link to a node.
pub(crate) fn connect(state: &mut ClusterState, id: NodeId, now: Time) {
    let number = state.links.next_number();
    let Some(node) = state.nodes.get_mut(&id) else { return };
    node.links.outgoing = Some(number);
    node.links.is_connected = false;
    node.links.opened_ms = now.ms;
    // The silence of a node that cannot be connected to counts from here.
    if node.contact.ping_sent_ms == 0 {
        node.contact.ping_sent_ms = now.ms.max(1);
    }
    let (ip, port) = (node.address.ip.clone(), node.address.bus_port);
    let link = Link {
        node: Some(id),
        is_outgoing: true,
        peer_ip: ip.clone(),
        local_ip: String::new(),
        opened_ms: now.ms,
        opened_unix_ms: now.unix_ms,
    };
    state.links.add(number, link);
    state.actions.push(Action::Connect { link: number, ip, port });
}

/// Notes that a known node speaks on an accepted link. An older link of the node is closed: the node has lost it.
pub(crate) fn bind(state: &mut ClusterState, link: LinkId, id: NodeId) {
    if let Some(older) = state.nodes.get(&id).and_then(|node| node.links.incoming).filter(|older| *older != link) {
        close(state, older);
    }
    if let Some(open) = state.links.get_mut(link) {
        open.node = Some(id);
    }
    if let Some(node) = state.nodes.get_mut(&id) {
        node.links.incoming = Some(link);
        // A node that speaks can be connected to: it need not wait for the next attempt.
        node.links.retry_ms = 0;
    }
}

/// Closes a link.
pub(crate) fn close(state: &mut ClusterState, link: LinkId) {
    if state.links.get(link).is_some() {
        state.actions.push(Action::Close(link));
        forget_link(state, link);
    }
}

/// Closes both links of a node.
pub(crate) fn close_links(state: &mut ClusterState, id: NodeId) {
    let Some(node) = state.nodes.get(&id) else { return };
    for link in [node.links.outgoing, node.links.incoming].into_iter().flatten() {
        close(state, link);
    }
}

/// Removes a link that is closed from the node at its other end.
pub(crate) fn forget_link(state: &mut ClusterState, link: LinkId) {
    let Some(closed) = state.links.remove(link) else { return };
    let Some(node) = closed.node.and_then(|id| state.nodes.get_mut(&id)) else { return };
    if node.links.outgoing == Some(link) {
        node.links.outgoing = None;
        node.links.is_connected = false;
    }
    if node.links.incoming == Some(link) {
        node.links.incoming = None;
    }
}
