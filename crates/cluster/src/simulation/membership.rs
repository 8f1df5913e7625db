//! Nodes meet, and are forgotten.

use crate::id::NodeId;
use crate::simulation::World;
use crate::state::forgotten::Forgotten;
use crate::state::{ClusterState, members};

#[test]
fn nodes_that_meet_one_node_come_to_know_each_other() {
    let mut world = World::new(6, 1);
    for place in 1..6 {
        world.meet(0, place);
    }
    let ms = world.run_until("all know all", 5_000, |world| {
        world.states().all(|state| state.nodes.len() == 6 && state.nodes.values().all(|node| !node.is_in_handshake()))
    });
    assert!(ms <= 5_000, "{ms} ms");
    let ips: Vec<String> = (0..6).map(|place| world.state(place).myself().address.ip.clone()).collect();
    assert_eq!(ips[1], "10.0.0.2", "a node learns its address from the MEET");
}

#[test]
fn nodes_that_meet_each_other_at_once_and_twice_know_each_other() {
    for seed in 0..10 {
        let mut world = World::new(3, 200 + seed);
        for (place, other) in [(0, 1), (1, 0), (0, 2), (1, 2), (2, 0)] {
            world.meet(place, other);
        }
        world.run(20 * seed);
        for (place, other) in [(0, 1), (1, 0), (0, 2), (1, 2), (2, 0)] {
            world.meet(place, other);
        }
        world.run(5_000);
        for state in world.states() {
            assert_eq!(state.nodes.len(), 3);
            assert!(
                state.nodes().all(|node| !node.is_in_handshake() && (node.id == state.id() || node.links.is_connected))
            );
            assert_eq!(state.links.iter().count(), 4, "two links to each other node");
        }
    }
}

#[test]
fn a_handshake_with_a_silent_address_ends() {
    let mut world = World::new(2, 2);
    world.crash(1);
    world.meet(0, 1);
    assert_eq!(world.state(0).nodes.len(), 2);
    world.run(3_000);
    assert_eq!(world.state(0).nodes.len(), 1);
}

#[test]
fn a_node_that_meets_itself_changes_nothing() {
    let mut world = World::new(1, 3);
    world.meet(0, 0);
    world.run(3_000);
    assert_eq!(world.state(0).nodes.len(), 1);
    assert_eq!(world.state(0).links.iter().count(), 0);
}

#[test]
fn forgetting_a_node_spreads_by_the_extension() {
    let mut world = World::cluster(3, 1, 6);
    let gone = world.id(3);
    world.command(0, |state, now, _| {
        members::remove(state, gone);
        state.forgotten.add(gone, now, Forgotten::BAN_MS);
    });
    world.crash(3);
    world.run_until("all have forgotten the node", 5_000, |world| {
        world.states().all(|state| !state.nodes.contains_key(&gone))
    });
    world.run(70_000);
    assert!(world.states().all(|state| state.nodes.len() == 3));
}

#[test]
fn a_request_to_forget_its_own_sender_is_not_followed() {
    let mut world = World::cluster(3, 0, 7);
    let (zero, one) = (world.id(0), world.id(1));
    world.command(1, |state, now, _| state.forgotten.add(one, now, 60_000));
    world.run(5_000);
    assert!(world.state(0).nodes.contains_key(&one) || world.state(0).id() != zero);
    world.command(1, |state, now, _| state.forgotten.add(zero, now, 60_000));
    world.run(5_000);
    assert!(world.state(0).nodes.contains_key(&zero));
}

#[test]
fn a_node_that_knows_a_peer_that_forgot_it_is_met_again() {
    let mut world = World::cluster(3, 0, 8);
    let two = world.id(2);
    world.command(0, |state, _, _| members::remove(state, two));
    world.run_until("the node is back", 20_000, |world| world.state(0).nodes.contains_key(&two));
}

#[test]
fn idle_nodes_send_few_packets() {
    let mut world = World::cluster(3, 3, 9);
    let before = world.sent;
    world.run(60_000);
    let per_node_second = (world.sent - before) / 60 / 6;
    assert!(per_node_second <= 15, "{per_node_second} packets a second");
}

/// Returns whether all servers see a primary and its replicas in this shard.
fn is_one_shard(world: &World, places: &[usize], shard: NodeId) -> bool {
    let is_in =
        |state: &ClusterState, place: &usize| state.node(world.id(*place)).is_some_and(|node| node.shard == shard);
    world.states().all(|state| places.iter().all(|place| is_in(state, place)))
}

#[test]
fn a_shard_has_one_id_in_all_views_and_through_a_failover() {
    let mut world = World::cluster(3, 6, 11);
    let shard = members::random_id(&mut world.servers[0].data);
    world.command(0, |state, _, _| {
        let me = state.id();
        members::set_shard(state, me, shard);
    });
    world.run_until("all know the shard", 5_000, |world| is_one_shard(world, &[0, 3, 6], shard));
    world.crash(0);
    world.run_until("the cluster works", 20_000, World::is_healed);
    assert!(is_one_shard(&world, &[3, 6], shard));
    world.restart(0, true);
    world.run_until("all are of the shard", 20_000, |world| is_one_shard(world, &[0, 3, 6], shard));
}

#[test]
fn a_replica_that_is_met_before_its_primary_comes_into_its_shard() {
    let mut world = World::new(3, 13);
    let shard = members::random_id(&mut world.servers[0].data);
    world.command(0, |state, _, _| {
        let me = state.id();
        members::set_shard(state, me, shard);
    });
    world.meet(1, 0);
    world.run(2_000);
    let primary = world.id(0);
    world.command(1, |state, _, _| members::follow(state, primary));
    world.run(1_000);
    // Server 2 hears of the replica first, and of its primary only later.
    world.network.isolate(0, [2]);
    world.meet(2, 1);
    world.run(3_000);
    world.network.cuts.clear();
    world.run_until("all are of the shard", 10_000, |world| is_one_shard(world, &[0, 1], shard));
}

#[test]
fn a_replica_with_another_shard_in_its_file_starts_and_takes_its_primarys() {
    let mut world = World::cluster(3, 3, 12);
    let (shard, other) = (world.state(0).myself().shard, world.state(1).myself().shard);
    world.run(1_000);
    world.crash(3);
    let lines = world.servers[3].disk.lines().map(|line| {
        let is_own = line.contains("myself");
        if is_own { line.replace(&shard.to_string(), &other.to_string()) } else { line.to_owned() }
    });
    // The primary is named by the same id, so that is put back.
    let text: Vec<String> = lines.map(|line| line.replace(&format!(" {other} "), &format!(" {shard} "))).collect();
    world.servers[3].disk = text.join("\n") + "\n";
    world.restart(3, true);
    world.run_until("all are of the shard", 10_000, |world| world.is_healed() && is_one_shard(world, &[0, 3], shard));
}
