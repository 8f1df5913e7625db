//! A stranger sends packets of all types, without a MEET.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::id::NodeId;
use crate::node::NodeFlags;
use crate::packet::{Body, Extension, Gossip, Header, Heartbeat, HeartbeatKind, Message, Packet, PacketType};
use crate::simulation::World;
use crate::slots::{SLOTS, SlotSet};
use crate::state::ClusterState;

/// Returns the header of a node that is not known, which claims all slots at the greatest epoch.
fn header() -> Header {
    Header {
        sender: NodeId::new([7; 20]),
        flags: NodeFlags::PRIMARY,
        current_epoch: u64::MAX,
        config_epoch: u64::MAX,
        offset: u64::MAX,
        slots: (0..SLOTS).collect(),
        primary: None,
        ip: "10.9.9.9".into(),
        port: 1,
        other_port: 0,
        bus_port: 2,
        is_cluster_ok: true,
        is_paused: true,
        is_forced: true,
        reads_extensions: true,
    }
}

/// Returns a heartbeat that says ill things of a known node, and asks to forget another.
fn heartbeat(kind: HeartbeatKind, known: NodeId, forgotten: NodeId) -> Body {
    let flags = NodeFlags::FAIL.with(NodeFlags::PRIMARY);
    let entry = |node| Gossip {
        node,
        ping_sent_s: 0,
        pong_s: 0,
        ip: "10.9.9.9".into(),
        port: 1,
        bus_port: 2,
        flags,
        other_port: 0,
    };
    let gossip = vec![entry(known), entry(NodeId::new([8; 20]))];
    let extensions = vec![
        Extension::Hostname("stranger".into()),
        Extension::Shard(known),
        Extension::Forgotten { node: forgotten, ttl_s: 60 },
    ];
    Body::Heartbeat(Heartbeat { kind, gossip, extensions })
}

/// Returns packets of all types but MEET, with full and light headers, about two nodes that the receiver knows.
fn packets(known: NodeId, other: NodeId) -> Vec<Packet> {
    let message = |is_sharded| Message { channel: b"news".to_vec(), message: b"false".to_vec(), is_sharded };
    let bodies = [
        heartbeat(HeartbeatKind::Ping, known, other),
        heartbeat(HeartbeatKind::Pong, known, other),
        Body::Fail(known),
        Body::Publish(message(false)),
        Body::Publish(message(true)),
        Body::VoteRequest,
        Body::Vote,
        Body::Update { node: known, config_epoch: u64::MAX, slots: SlotSet::default() },
        Body::ManualFailover,
        Body::Module,
        Body::Unknown(99),
    ];
    let full = |body| Packet::Full { header: Box::new(header()), body };
    let light = [Packet::Light(message(false)), Packet::Light(message(true))];
    bodies.into_iter().map(full).chain(light).collect()
}

/// Returns all that a node knows, without the times at which it has heard of others.
fn knowledge(state: &ClusterState) -> String {
    let mut nodes = state.nodes.clone();
    for node in nodes.values_mut() {
        node.contact = crate::node::Contact::default();
        node.links = crate::node::NodeLinks::default();
    }
    let ClusterState { slots, epochs, health, forgotten, election, manual_failover, version, .. } = state;
    format!("{nodes:?}{slots:?}{epochs:?}{health:?}{forgotten:?}{election:?}{manual_failover:?}{version}")
}

#[test]
fn a_stranger_without_a_meet_changes_nothing() {
    let mut world = World::cluster(3, 3, 4);
    let packets = packets(world.id(1), world.id(2));
    let kinds: BTreeSet<PacketType> = packets.iter().filter_map(Packet::kind).collect();
    assert_eq!(kinds.len() + 1, PacketType::ALL.len(), "all types but MEET");
    // A primary and a replica, which would take an election and a manual failover to heart.
    for place in [0, 3] {
        for packet in &packets {
            let server = &mut world.servers[place];
            let (link, now, ip) = (server.accept_number(), server.time(world.now), server.ip.clone());
            let state = server.state.as_mut().expect("up");
            let before = knowledge(state);
            state.accept(link, "10.9.9.9".into(), ip);
            state.receive_packet(link, packet.clone(), now, &mut server.data);
            assert_eq!(knowledge(state), before, "{packet:?}");
            let is_harmless = |action: &Action| match action {
                // A PING of a stranger is answered, as by Redis.
                Action::Send { link: to, .. } | Action::Close(to) => *to == link,
                Action::Log(..) => true,
                _ => false,
            };
            let actions = state.take_actions();
            assert!(actions.iter().all(is_harmless), "{packet:?}: {actions:?}");
            crate::state::members::close(state, link);
            _ = state.take_actions();
        }
    }
}
