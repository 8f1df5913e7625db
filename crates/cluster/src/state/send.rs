//! The packets that this node sends.

use std::sync::Arc;

use crate::action::{Action, LinkId, Priority};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::{Node, NodeFlags};
use crate::packet::{Body, Extension, Gossip, Header, Heartbeat, HeartbeatKind, Message, Packet};
use crate::state::cluster_state::ClusterState;
use crate::state::manual_failover::Pause;

/// The gossip entries of a heartbeat: at least this many, and a tenth of the nodes.
const GOSSIP_MIN: usize = 3;
const NODES_PER_GOSSIP: usize = 10;

/// The gossip entries of a heartbeat at most, so that a packet stays below 512 KiB in the largest cluster.
const GOSSIP_MAX: usize = 4_096;

/// Returns the header that describes this node. The offset is that of the last [`ClusterState::take_offset`].
pub(crate) fn header(state: &ClusterState) -> Header {
    let me = state.myself();
    let source = state.own_primary().and_then(|id| state.node(id)).unwrap_or(me);
    let address = &me.address;
    let (port, other_port) = ports_by_use(state, address.port, address.tls_port);
    Header {
        sender: me.id,
        flags: me.flags,
        current_epoch: state.epochs.current,
        config_epoch: source.config_epoch,
        offset: me.offset,
        slots: source.slots.clone(),
        primary: if me.is_replica() { me.primary } else { None },
        ip: state.options.address.ip.clone(),
        port,
        other_port,
        bus_port: address.bus_port,
        is_cluster_ok: state.health.is_ok,
        is_paused: me.is_primary() && state.manual_failover.pause == Pause::InEffect,
        is_forced: false,
        reads_extensions: true,
    }
}

/// Returns the base port and the other one, from the plain and the TLS port, or the other way round.
pub(crate) fn ports_by_use(state: &ClusterState, plain: u16, tls: u16) -> (u16, u16) {
    if state.options.has_tls { (tls, plain) } else { (plain, tls) }
}

fn full(state: &ClusterState, body: Body) -> Packet {
    Packet::Full { header: Box::new(header(state)), body }
}

fn push(state: &mut ClusterState, link: LinkId, bytes: Arc<[u8]>, priority: Priority) {
    state.actions.push(Action::Send { link, bytes, priority });
}

/// Sends a packet over a link.
fn send(state: &mut ClusterState, link: LinkId, packet: &Packet) {
    state.traffic.count_sent(packet);
    push(state, link, packet.encode().into(), Priority::Control);
}

/// Returns the link over which packets for a node leave. None if it is not up.
fn link_to(state: &ClusterState, node: NodeId) -> Option<LinkId> {
    let links = &state.nodes.get(&node)?.links;
    links.outgoing.filter(|_| links.is_connected)
}

/// Sends a packet to a node, if the link to it is up. Returns whether it is.
pub(crate) fn to_node(state: &mut ClusterState, node: NodeId, body: Body) -> bool {
    let Some(link) = link_to(state, node) else { return false };
    let packet = full(state, body);
    send(state, link, &packet);
    true
}

/// Sends a packet to all nodes to which a link is up.
pub(crate) fn to_all(state: &mut ClusterState, body: Body) {
    let packet = full(state, body);
    broadcast(state, &packet, Priority::Control, |_| true);
}

/// Asks all nodes for their votes. If the failover is manual, they are to vote although the primary works.
pub(crate) fn vote_request(state: &mut ClusterState, is_forced: bool) {
    let header = Header { is_forced, ..header(state) };
    let packet = Packet::Full { header: Box::new(header), body: Body::VoteRequest };
    broadcast(state, &packet, Priority::Control, |_| true);
}

fn broadcast(state: &mut ClusterState, packet: &Packet, priority: Priority, concerns: impl Fn(&Node) -> bool) {
    let links = connected(state, concerns);
    if links.is_empty() {
        return;
    }
    let bytes: Arc<[u8]> = packet.encode().into();
    for link in links {
        state.traffic.count_sent(packet);
        push(state, link, Arc::clone(&bytes), priority);
    }
}

fn connected(state: &ClusterState, concerns: impl Fn(&Node) -> bool) -> Vec<LinkId> {
    let is_peer = |node: &&Node| node.id != state.me && !node.is_in_handshake() && concerns(node);
    let links = state.nodes.values().filter(is_peer).filter(|node| node.links.is_connected);
    links.filter_map(|node| node.links.outgoing).collect()
}

/// Sends a published message to all nodes, or to those of the own shard if it is a message of a shard. Nodes that offer to
/// read light headers get one if they have spoken on a link of their own, because a light packet does not name its sender.
pub(crate) fn message(state: &mut ClusterState, message: Message) {
    let (me, is_sharded) = (state.me, message.is_sharded);
    let of_shard: Vec<NodeId> = state.nodes.keys().copied().filter(|id| state.are_in_one_shard(me, *id)).collect();
    let concerns = |node: &Node| !is_sharded || of_shard.binary_search(&node.id).is_ok();
    let reads_light = |node: &Node| node.flags.has(NodeFlags::LIGHT_PUBLISH) && node.links.incoming.is_some();
    let packet = full(state, Body::Publish(message.clone()));
    broadcast(state, &packet, Priority::Message, |node| concerns(node) && !reads_light(node));
    broadcast(state, &Packet::Light(message), Priority::Message, |node| concerns(node) && reads_light(node));
}

/// The nodes that an announcement goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// All nodes.
    All,
    /// The other replicas of the same primary.
    FellowReplicas,
}

/// Sends a heartbeat to all nodes of the audience without being asked, so that they learn of a change at once.
pub(crate) fn announce(
    state: &mut ClusterState,
    kind: HeartbeatKind,
    audience: Audience,
    now: Time,
    host: &mut dyn Host,
) {
    let primary = state.own_primary();
    let links = connected(state, |node| match audience {
        Audience::All => true,
        Audience::FellowReplicas => node.is_replica() && node.primary == primary,
    });
    for link in links {
        heartbeat(state, link, kind, now, host);
    }
}

/// Sends a PING, PONG or MEET over a link.
pub(crate) fn heartbeat(state: &mut ClusterState, link: LinkId, kind: HeartbeatKind, now: Time, host: &mut dyn Host) {
    let Some(open) = state.links.get(link) else { return };
    let (peer, is_outgoing) = (open.node, open.is_outgoing);
    if let Some(node) = peer.filter(|_| is_outgoing).and_then(|id| state.nodes.get_mut(&id)) {
        if kind != HeartbeatKind::Pong && node.contact.ping_sent_ms == 0 {
            node.contact.ping_sent_ms = now.ms.max(1);
        }
        if kind == HeartbeatKind::Meet {
            node.links.meet_ms = now.ms;
        }
    }
    let gossip = gossip(state, peer, now, host);
    let reads_all = reads_extensions(state, peer);
    let mut extensions = extensions(state, now);
    // Each packet tells the slots, and clients are redirected by the host name. Redis 7.0 reads that extension, and sends it
    // to every node.
    extensions.retain(|extension| reads_all || matches!(extension, Extension::Hostname(_)));
    let packet = full(state, Body::Heartbeat(Heartbeat { kind, gossip, extensions }));
    send(state, link, &packet);
}

/// Returns whether a node is known to read extensions. Redis 7.0 logs a warning for each that it does not know.
fn reads_extensions(state: &ClusterState, peer: Option<NodeId>) -> bool {
    peer.and_then(|id| state.node(id)).is_some_and(|node| node.flags.has(NodeFlags::EXTENSIONS))
}

/// Returns the extensions that describe this node.
fn extensions(state: &ClusterState, now: Time) -> Vec<Extension> {
    let me = state.myself();
    let text = |text: &String, make: fn(String) -> Extension| (!text.is_empty()).then(|| make(text.clone()));
    let address = &me.address;
    let mut extensions: Vec<Extension> = [
        text(&address.hostname, Extension::Hostname),
        text(&address.human_name, Extension::HumanName),
        text(&address.client_ipv4, Extension::ClientIpv4),
        text(&address.client_ipv6, Extension::ClientIpv6),
    ]
    .into_iter()
    .flatten()
    .collect();
    extensions.extend(state.forgotten.iter(now).map(|(node, ttl_s)| Extension::Forgotten { node, ttl_s }));
    extensions.push(Extension::Shard(me.shard));
    extensions
}

/// Chooses the nodes that a heartbeat tells of: all that this node finds silent, so that a failure is agreed on quickly, and
/// a random tenth of the others.
fn gossip(state: &ClusterState, peer: Option<NodeId>, now: Time, host: &mut dyn Host) -> Vec<Gossip> {
    let is_other = |node: &&Node| node.id != state.me && Some(node.id) != peer && !node.is_in_handshake();
    let is_silent = |node: &&Node| node.flags.has(NodeFlags::PFAIL);
    let is_useful =
        |node: &&Node| !node.flags.has(NodeFlags::NO_ADDRESS) && (node.links.is_connected || !node.slots.is_empty());
    let silent = state.nodes.values().filter(is_other).filter(is_silent);
    let mut chosen: Vec<&Node> = silent.take(GOSSIP_MAX).collect();
    let others = state.nodes.values().filter(is_other).filter(|node| !is_silent(node));
    let mut others: Vec<&Node> = others.filter(is_useful).collect();
    let wanted = (state.nodes.len() / NODES_PER_GOSSIP).max(GOSSIP_MIN).min(GOSSIP_MAX - chosen.len());
    for place in 0..wanted.min(others.len()) {
        let left = others.len() - place;
        others.swap(place, place + (host.random() % left as u64) as usize);
    }
    chosen.extend(others.iter().take(wanted));
    chosen.into_iter().map(|node| entry(state, node, now)).collect()
}

fn entry(state: &ClusterState, node: &Node, now: Time) -> Gossip {
    let contact = &node.contact;
    let age_ms = now.ms.saturating_sub(contact.ping_sent_ms);
    let ping_sent = if contact.ping_sent_ms == 0 { 0 } else { now.unix_ms.saturating_sub(age_ms) };
    let seconds = |ms: u64| u32::try_from(ms / 1_000).unwrap_or(u32::MAX);
    let (port, other_port) = ports_by_use(state, node.address.port, node.address.tls_port);
    Gossip {
        node: node.id,
        ping_sent_s: seconds(ping_sent),
        pong_s: seconds(contact.pong_unix_ms),
        ip: node.address.ip.clone(),
        port,
        bus_port: node.address.bus_port,
        flags: node.flags,
        other_port,
    }
}
