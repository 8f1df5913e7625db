//! The packets that this node receives.

use crate::action::{Action, LinkId, LogLevel};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::NodeFlags;
use crate::packet::{Body, Header, Message, Packet};
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::failover::{campaign, failure, manual, vote};
use crate::state::{members, slot_claims};

mod extensions;
mod gossip;
mod heartbeat;

/// Takes a packet of a link. A packet of a stranger changes nothing, except a MEET, which begins a handshake.
pub(crate) fn packet(state: &mut ClusterState, link: LinkId, packet: Packet, now: Time, host: &mut dyn Host) {
    state.traffic.count_received(&packet);
    match packet {
        Packet::Light(message) => light(state, link, message, now),
        Packet::Full { header, body } => full(state, link, &header, body, now, host),
    }
}

/// Takes a message with a light header. Its sender is the node of the link.
fn light(state: &mut ClusterState, link: LinkId, message: Message, now: Time) {
    let sender = state.links.get(link).and_then(|link| link.node);
    let Some(node) = sender.and_then(|id| state.nodes.get_mut(&id)).filter(|node| !node.is_in_handshake()) else {
        state.log(LogLevel::Notice, "A light packet came before its sender was known, the link is closed.");
        members::close(state, link);
        return;
    };
    node.contact.data_ms = now.ms;
    publish(state, message);
}

fn publish(state: &mut ClusterState, message: Message) {
    let Message { channel, message, is_sharded } = message;
    state.actions.push(Action::Publish { channel, message, is_sharded });
}

fn full(state: &mut ClusterState, link: LinkId, header: &Header, body: Body, now: Time, host: &mut dyn Host) {
    let Ok(sender) = sender_of(state, link, header) else { return };
    if let Some(sender) = sender {
        take_header(state, sender, header, now, host);
    }
    let body = match body {
        Body::Heartbeat(body) => {
            let arrival = heartbeat::Arrival { link, header, sender };
            return heartbeat::take(state, arrival, body, now, host);
        }
        body => body,
    };
    let Some(sender) = sender.filter(|sender| *sender != state.me) else { return };
    match body {
        Body::Heartbeat(_) | Body::Module | Body::Unknown(_) => {}
        Body::Fail(node) => {
            if failure::fail(state, node, now) {
                state.log(LogLevel::Notice, format!("FAIL message received from {sender} about {node}"));
            }
        }
        Body::Publish(message) => publish(state, message),
        Body::VoteRequest => {
            campaign::saw_request(state, sender, header, now);
            vote::answer(state, sender, header, now, host);
        }
        Body::Vote => campaign::vote(state, sender, header),
        Body::ManualFailover => manual::requested(state, sender, now),
        Body::Update { node, config_epoch, slots } => {
            slot_claims::updated(state, node, config_epoch, &slots, now, host);
        }
    }
}

/// The packet has a sender that its link does not allow. The link is closed.
struct Impostor;

/// Returns the known node that sent a packet. A link belongs to the node that spoke on it first.
fn sender_of(state: &mut ClusterState, link: LinkId, header: &Header) -> Result<Option<NodeId>, Impostor> {
    let Some(open) = state.links.get(link) else { return Err(Impostor) };
    let owner = open.node.and_then(|id| state.nodes.get(&id)).filter(|node| !node.is_in_handshake());
    let (owner, is_outgoing, is_unbound) = (owner.map(|node| node.id), open.is_outgoing, open.node.is_none());
    if owner.is_some_and(|owner| owner != header.sender) && !is_outgoing {
        state.log(LogLevel::Warning, format!("The sender changed from {owner:?} to {} on {link}", header.sender));
        members::close(state, link);
        return Err(Impostor);
    }
    let is_known = |node: &crate::node::Node| !node.is_in_handshake();
    let sender = state.nodes.get(&header.sender).filter(|node| is_known(node)).map(|node| node.id);
    if let Some(sender) = sender.filter(|sender| is_unbound && *sender != state.me) {
        members::bind(state, link, sender);
    }
    Ok(sender)
}

/// Takes over the facts of a header that do not depend on the body.
fn take_header(state: &mut ClusterState, sender: NodeId, header: &Header, now: Time, host: &mut dyn Host) {
    if sender == state.me {
        return;
    }
    if header.current_epoch > state.epochs.current {
        state.epochs.current = header.current_epoch;
        state.duties.save = state.duties.save.max(Some(Save::Lazy));
    }
    let Some(node) = state.nodes.get_mut(&sender) else { return };
    if header.reads_extensions {
        node.flags.set(NodeFlags::EXTENSIONS, true);
    }
    node.flags.set(NodeFlags::LIGHT_PUBLISH, header.flags.has(NodeFlags::LIGHT_PUBLISH));
    node.contact.data_ms = now.ms;
    node.offset = header.offset;
    node.contact.offset_ms = now.ms;
    if header.primary.is_none() && header.config_epoch > node.config_epoch {
        node.config_epoch = header.config_epoch;
        state.config_changed(Save::Synced);
    }
    campaign::saw_epoch(state, sender, header, now, host);
    manual::saw_offset(state, sender, header);
}
