//! Published messages.

use crate::action::{Action, Priority};
use crate::node::NodeFlags;
use crate::packet::{self, Packet};
use crate::simulation::World;

#[test]
fn a_message_reaches_all_nodes_and_one_of_a_shard_its_shard() {
    let mut world = World::cluster(3, 3, 120);
    world.publish(0, "all", false);
    world.publish(0, "shard", true);
    world.run(100);
    for place in 1..6 {
        let messages: Vec<&[u8]> = world.servers[place].messages.iter().map(|it| it.message.as_slice()).collect();
        let expected: &[&[u8]] = if place == 3 { &[b"all", b"shard"] } else { &[b"all"] };
        assert_eq!(messages, expected, "server {place}");
    }
}

#[test]
fn light_headers_go_to_nodes_that_offer_them_over_links_up_both_ways() {
    let mut world = World::cluster(3, 0, 121);
    let (one, two) = (world.id(1), world.id(2));
    let state = world.servers[0].state.as_mut().expect("up");
    if let Some(node) = state.nodes.get_mut(&one) {
        node.flags.set(NodeFlags::LIGHT_PUBLISH, false);
    }
    let message = packet::Message { channel: b"a".to_vec(), message: b"b".to_vec(), is_sharded: false };
    let kinds = |state: &mut crate::ClusterState| {
        state.publish(message.clone());
        let mut kinds = Vec::new();
        for action in state.take_actions() {
            let Action::Send { link, bytes, priority } = action else { continue };
            assert_eq!(priority, Priority::Message);
            let is_light = matches!(packet::decode(&bytes), Ok(Packet::Light(_)));
            kinds.push((state.links.get(link).and_then(|link| link.node), is_light));
        }
        kinds.sort();
        kinds
    };
    let mut expected = vec![(Some(one), false), (Some(two), true)];
    expected.sort();
    assert_eq!(kinds(state), expected);
    if let Some(node) = state.nodes.get_mut(&two) {
        node.links.incoming = None;
    }
    assert!(kinds(state).iter().all(|(_, is_light)| !is_light));
}
