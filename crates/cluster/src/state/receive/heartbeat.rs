//! PING, PONG and MEET: the handshake, the address, the role and the slots of their sender.

use crate::action::{LinkId, LogLevel};
use crate::epochs;
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::{Address, NodeFlags};
use crate::packet::{Header, Heartbeat, HeartbeatKind};
use crate::planted::{self, Fault};
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::failover::failure;
use crate::state::receive::{extensions, gossip};
use crate::state::send::Audience;
use crate::state::{members, send, slot_claims};

/// A collision of epochs that lasts for longer than this many milliseconds is decided by the ids.
const COLLISION_MS_MAX: u64 = 3_000;

/// The place and the sender of a heartbeat.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub link: LinkId,
    pub header: &'a Header,
    /// The sender. None if it is not known.
    pub sender: Option<NodeId>,
}

/// Takes a heartbeat.
pub(super) fn take(state: &mut ClusterState, arrival: Arrival<'_>, body: Heartbeat, now: Time, host: &mut dyn Host) {
    let Arrival { link, sender, .. } = arrival;
    if body.kind != HeartbeatKind::Pong {
        learn_own_address(state, link, body.kind, now, host);
        if body.kind == HeartbeatKind::Meet {
            meet(state, arrival, now, host);
        }
        send::heartbeat(state, link, HeartbeatKind::Pong, now, host);
    }
    let Some(open) = state.links.get(link) else { return };
    let mut sender = sender;
    if open.is_outgoing {
        let Some(peer) = open.node else { return };
        match answer_of(state, arrival, peer) {
            Some(node) => sender = Some(node),
            None => return,
        }
    }
    let Some(sender) = sender.filter(|sender| *sender != state.me) else { return };
    take_known(state, Arrival { sender: Some(sender), ..arrival }, sender, body.kind, now, host);
    gossip::take(state, sender, &body.gossip, now);
    extensions::take(state, sender, &body.extensions, now);
}

/// Takes the facts of a heartbeat of a known sender.
fn take_known(
    state: &mut ClusterState,
    arrival: Arrival<'_>,
    sender: NodeId,
    kind: HeartbeatKind,
    now: Time,
    host: &mut dyn Host,
) {
    let Arrival { link, header, .. } = arrival;
    let Some(open) = state.links.get(link) else { return };
    let is_answer = open.is_outgoing && kind == HeartbeatKind::Pong;
    if let Some(address) = address_of(state, link, header).filter(|_| !open.is_outgoing) {
        members::move_to(state, sender, &address);
    }
    let Some(node) = state.nodes.get_mut(&sender) else { return };
    node.flags.set(NodeFlags::MEET, false);
    node.flags.set(NodeFlags::NO_FAILOVER, header.flags.has(NodeFlags::NO_FAILOVER));
    if is_answer {
        node.contact.pong_ms = now.ms;
        node.contact.pong_unix_ms = now.unix_ms;
        node.contact.ping_sent_ms = 0;
        node.links.failures = 0;
        failure::answered(state, sender, now);
    }
    take_role(state, sender, header, host);
    take_slots(state, sender, header, host);
    resolve_collision(state, sender, header, now);
}

/// Takes over the address at which a MEET reached this node, unless one is announced. A PING does if no other node reaches
/// this one at its old address: then it has moved.
fn learn_own_address(state: &mut ClusterState, link: LinkId, kind: HeartbeatKind, now: Time, host: &mut dyn Host) {
    let ip = state.links.get(link).map(|link| link.local_ip.clone()).unwrap_or_default();
    let old = &state.myself().address.ip;
    let is_reached = || state.links.iter().any(|(_, link)| link.local_ip == *old);
    let may_learn = kind == HeartbeatKind::Meet || old.is_empty() || !is_reached();
    if !state.options.address.ip.is_empty() || ip.is_empty() || ip == *old || !may_learn {
        return;
    }
    state.log(LogLevel::Notice, format!("IP address for this node updated to {ip}"));
    state.myself_mut().address.ip = ip;
    state.config_changed(Save::Lazy);
    send::announce(state, HeartbeatKind::Ping, Audience::All, now, host);
}

/// Returns the address that a header and its link tell.
fn address_of(state: &ClusterState, link: LinkId, header: &Header) -> Option<Address> {
    let peer_ip = &state.links.get(link)?.peer_ip;
    let ip = if header.ip.is_empty() { peer_ip } else { &header.ip };
    let (port, tls_port) = send::ports_by_use(state, header.port, header.other_port);
    let address = Address { ip: ip.clone(), port, tls_port, bus_port: header.bus_port, ..Address::default() };
    (!ip.is_empty() && header.bus_port != 0).then_some(address)
}

/// Answers a MEET. A stranger is taken up in handshake. If a known node sends it, the node does not know this one, and a
/// new link with a PING tells it.
fn meet(state: &mut ClusterState, arrival: Arrival<'_>, now: Time, host: &mut dyn Host) {
    let Arrival { link, header, sender } = arrival;
    let Some(open) = state.links.get(link).filter(|link| !link.is_outgoing) else { return };
    if let Some(node) = sender.and_then(|id| state.nodes.get(&id)) {
        let is_settled = now.ms.saturating_sub(node.created_ms) > members::handshake_ms(state);
        if let Some(outgoing) = node.links.outgoing.filter(|_| is_settled && node.id != state.me) {
            members::close(state, outgoing);
        }
        return;
    }
    if open.node.is_some() {
        return;
    }
    let Some(address) = address_of(state, link, header) else { return };
    let Some(random) = members::begin_handshake(state, address, false, now, host) else { return };
    if let Some(node) = state.nodes.get_mut(&random) {
        node.flags.set(NodeFlags::EXTENSIONS, header.reads_extensions);
    }
    members::bind(state, link, random);
}

/// Takes the first answer on a link that this node opened: it tells the id of a node in handshake. Returns the sender if it
/// is the node that the link belongs to.
fn answer_of(state: &mut ClusterState, arrival: Arrival<'_>, peer: NodeId) -> Option<NodeId> {
    let Arrival { link, header, sender } = arrival;
    if state.nodes.get(&peer)?.is_in_handshake() {
        if let Some(known) = sender {
            if let Some(address) = address_of(state, link, header) {
                members::move_to(state, known, &address);
            }
            members::remove(state, peer);
            return None;
        }
        members::rename(state, peer, header.sender);
        state.forgotten.remove(header.sender);
        state.log(LogLevel::Verbose, format!("Handshake with node {} completed.", header.sender));
        let node = state.nodes.get_mut(&header.sender)?;
        node.flags.set(NodeFlags::EXTENSIONS, header.reads_extensions);
        return Some(header.sender);
    }
    if peer != header.sender {
        found_other(state, arrival, peer);
        return None;
    }
    Some(peer)
}

/// Another node answers at the address of a node: the address of the one is lost, that of the other found. So the nodes of a
/// cluster that have exchanged their addresses find each other.
fn found_other(state: &mut ClusterState, arrival: Arrival<'_>, peer: NodeId) {
    let Arrival { link, header, sender } = arrival;
    let address = address_of(state, link, header);
    state.log(LogLevel::Notice, format!("Node {} answers at the address of node {peer}", header.sender));
    members::close(state, link);
    if let Some(node) = state.nodes.get_mut(&peer) {
        node.flags.set(NodeFlags::NO_ADDRESS, true);
        node.address.ip.clear();
        node.address.port = 0;
        node.address.tls_port = 0;
        node.address.bus_port = 0;
        // It is silent until it speaks or is found elsewhere, and is declared failed in the usual way.
        node.contact.ping_sent_ms = node.contact.ping_sent_ms.max(node.contact.data_ms).max(1);
    }
    state.config_changed(Save::Lazy);
    let is_lost = |id: &NodeId| state.nodes.get(id).is_some_and(|node| !node.links.is_connected);
    if let (Some(sender), Some(address)) = (sender.filter(is_lost), address) {
        members::move_to(state, sender, &address);
    }
}

/// Takes over the role of the sender.
fn take_role(state: &mut ClusterState, sender: NodeId, header: &Header, host: &mut dyn Host) {
    let Some(node) = state.nodes.get(&sender) else { return };
    // The packet left before the sender was elected, and was overtaken by one on the other link.
    if header.current_epoch < node.config_epoch {
        return;
    }
    let Some(primary) = header.primary else {
        // A replica that does not know its primary, because its nodes.conf was torn, is no primary.
        if !header.flags.has(NodeFlags::REPLICA) {
            members::make_primary(state, sender);
        }
        return;
    };
    let was_primary = node.is_primary();
    let is_known = |id: &NodeId| state.nodes.get(id).is_some_and(|node| !node.is_in_handshake());
    let known = Some(primary).filter(|primary| *primary != sender && is_known(primary));
    if was_primary {
        // The new primary may not have spoken yet. Its slots are those in the header, at its epoch, as in an UPDATE.
        if let Some(primary) = known.filter(|primary| *primary != state.me) {
            let old = state.nodes.get(&primary).map_or(0, |node| node.config_epoch);
            if header.config_epoch > old {
                if let Some(node) = state.nodes.get_mut(&primary) {
                    node.config_epoch = header.config_epoch;
                }
                members::make_primary(state, primary);
                slot_claims::apply(state, primary, header.config_epoch, &header.slots, host);
            }
        }
        members::release_slots(state, sender);
    }
    members::make_replica(state, sender, known);
}

/// Compares the slots that the sender claims, for itself or for its primary, with those that it is known to own.
fn take_slots(state: &mut ClusterState, sender: NodeId, header: &Header, host: &mut dyn Host) {
    let Some(node) = state.nodes.get(&sender) else { return };
    if header.primary.is_none() {
        if !node.is_primary() {
            return;
        }
        let has_forgotten = header.config_epoch < node.config_epoch;
        if node.slots == header.slots && !has_forgotten && !has_moves(state) {
            return;
        }
        let mut claimed = header.slots.clone();
        if has_forgotten {
            node.slots.iter().for_each(|slot| _ = claimed.insert(slot));
            slot_claims::remind(state, sender);
        }
        slot_claims::apply(state, sender, header.config_epoch, &claimed, host);
        slot_claims::correct(state, sender, header.config_epoch, &header.slots);
    } else if let Some(primary) = state.primary_of(sender).and_then(|id| state.node(id))
        && primary.slots != header.slots
    {
        slot_claims::correct(state, sender, header.config_epoch, &header.slots);
    }
}

/// Returns whether slots are on the move, which the claims of their new owners concern even if they claim no more than before.
fn has_moves(state: &ClusterState) -> bool {
    !state.slots.migrating.is_empty() || !state.slots.importing.is_empty() || !state.slots.released.is_empty()
}

/// Gives this node, a primary, a new epoch if another primary has the same.
///
/// Of two primaries of one shard, the one that was elected gets the higher epoch, and with it the slots: the other took its
/// epoch without a vote, as an import of a slot does. If that does not decide, the one with more data gets it. The nodes of
/// other servers decide by the id alone, and so does this one if the collision lasts.
fn resolve_collision(state: &mut ClusterState, sender: NodeId, header: &Header, now: Time) {
    let me = state.myself();
    let (own_epoch, own_offset, is_primary) = (me.config_epoch, me.offset, me.is_primary());
    let is_same_shard = state.are_in_one_shard(state.me, sender);
    let (me, won_epoch) = (state.me, state.election.won_epoch);
    let Some(other) = state.nodes.get_mut(&sender) else { return };
    let collides = is_primary && other.is_primary() && [other.config_epoch, header.config_epoch] == [own_epoch; 2];
    if !collides {
        other.contact.collided_ms = 0;
        return;
    }
    if other.contact.collided_ms == 0 {
        other.contact.collided_ms = now.ms.max(1);
    }
    let lasts = now.ms.saturating_sub(other.contact.collided_ms) > COLLISION_MS_MAX;
    let moves = if lasts || !is_same_shard {
        me < sender
    } else if own_epoch != 0 && won_epoch == own_epoch {
        true
    } else if own_offset != header.offset {
        own_offset > header.offset
    } else {
        me < sender
    };
    if moves && !planted::has(Fault::KeepsCollision) {
        state.epochs.current = epochs::without_vote(state.epoch_max());
        let epoch = state.epochs.current;
        state.myself_mut().config_epoch = epoch;
        state.config_changed(Save::Synced);
        let line = format!("configEpoch collision with node {sender}. configEpoch set to {epoch}");
        state.log(LogLevel::Verbose, line);
    }
}
