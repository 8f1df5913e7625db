//! Nodes fail and come back.

use crate::node::NodeFlags;
use crate::simulation::World;
use crate::simulation::server::TIMEOUT_MS;
use crate::slots::Slot;
use crate::state::failover::failure;
use crate::state::members;

#[test]
fn a_dead_node_is_declared_failed_by_a_majority() {
    let mut world = World::cluster(5, 0, 20);
    let dead = world.id(4);
    world.crash(4);
    let ms = world.run_until("all see the failure", 10_000, |world| {
        world.states().all(|state| state.node(dead).is_some_and(|node| node.has_failed()))
    });
    assert!(ms <= TIMEOUT_MS * 3 / 2 + 1_000, "{ms} ms");
    assert!(world.states().all(|state| !state.health.is_ok), "slots without an owner stop the cluster");
}

#[test]
fn a_failed_primary_without_replicas_comes_back_with_its_slots() {
    let mut world = World::cluster(3, 0, 21);
    world.crash(2);
    world.run(10_000);
    world.restart(2, true);
    world.run_until("the cluster works", 15_000, World::is_healed);
}

#[test]
fn a_minority_stops_and_declares_no_failures() {
    let mut world = World::cluster(5, 0, 22);
    for place in [3, 4] {
        world.network.isolate(place, 0..3);
    }
    world.run(10_000);
    for place in [3, 4] {
        let state = world.state(place);
        assert!(!state.health.is_ok);
        assert!(state.nodes.values().all(|node| !node.has_failed()), "PFAIL only");
        assert_eq!(state.nodes.values().filter(|node| node.flags.has(NodeFlags::PFAIL)).count(), 3);
    }
    world.network.cuts.clear();
    world.run_until("the cluster works", 30_000, World::is_healed);
}

#[test]
fn a_node_timeout_below_the_pause_of_two_ticks_does_not_stop_a_node() {
    let mut world = World::cluster(1, 0, 30);
    world.command(0, |state, _, _| state.options.node_timeout_ms = 1);
    world.run(3_000);
    assert!(world.state(0).health.is_ok);
}

#[test]
fn a_primary_that_slept_serves_only_after_it_is_back_in_touch() {
    let mut world = World::cluster(3, 0, 27);
    let now = world.now;
    let mut state = world.servers[0].state.take().expect("up");
    world.run(TIMEOUT_MS + 100);
    let time = world.servers[0].time(world.now);
    assert!(state.health.is_ok);
    state.tick(time, &mut world.servers[0].data);
    assert!(!state.health.is_ok, "slept since {now}");
    world.servers[0].state = Some(state);
    let ms = world.run_until("the cluster works", 20_000, World::is_healed);
    assert!(ms >= TIMEOUT_MS);
}

#[test]
fn a_cut_in_one_direction_is_seen_and_heals() {
    let mut world = World::cluster(3, 3, 23);
    for other in 1..6 {
        world.network.cuts.insert((0, other));
    }
    world.run(15_000);
    world.network.cuts.clear();
    world.run_until("the cluster works", 30_000, World::is_healed);
}

#[test]
fn dead_nodes_are_connected_to_ever_more_rarely() {
    let mut world = World::cluster(3, 1, 24);
    world.crash(3);
    world.run(5_000);
    let before = world.connects;
    world.run(60_000);
    let per_node_second = (world.connects - before) as f64 / 60.0 / 3.0;
    assert!(per_node_second <= 2.5, "{per_node_second} attempts a second");
}

#[test]
fn a_node_that_comes_back_is_reached_at_once() {
    let mut world = World::cluster(3, 1, 25);
    let replica = world.id(3);
    world.crash(3);
    world.run(60_000);
    world.restart(3, true);
    let ms = world.run_until("all reach it", 5_000, |world| {
        world.states().all(|state| state.node(replica).is_some_and(|node| !node.has_failed()))
    });
    assert!(ms <= 2_000, "{ms} ms");
}

#[test]
fn reports_of_a_large_cluster_live_until_a_majority_has_spoken() {
    let mut world = World::cluster(3, 0, 26);
    let dead = world.id(2);
    // 200 primaries report within 6 seconds, which is longer than two node timeouts.
    let mut chance = world.chance.clone();
    world.command(0, |state, now, host| {
        for number in 0..198_u16 {
            let id = members::random_id(host);
            let mut node = crate::Node::new(id, NodeFlags::PRIMARY, now.ms);
            node.contact.pong_ms = now.ms + 100_000;
            node.slots.insert(number);
            members::add(state, node);
        }
        if let Some(node) = state.nodes.get_mut(&dead) {
            node.flags.set(NodeFlags::PFAIL, true);
        }
    });
    let reporters: Vec<_> = world.state(0).nodes.values().filter(|node| node.is_voter()).map(|node| node.id).collect();
    for (number, reporter) in reporters.iter().filter(|id| **id != dead).enumerate().take(150) {
        let at = world.now + number as u64 * 40;
        let now = crate::Time { ms: at, unix_ms: at };
        let state = world.servers[0].state.as_mut().expect("up");
        failure::report(state, dead, *reporter, true, now);
    }
    assert!(world.state(0).node(dead).is_some_and(|node| node.has_failed()));
    chance.next();
}

#[test]
fn a_report_of_a_replaced_primary_counts_no_more() {
    let mut world = World::cluster(3, 3, 31);
    let (silent, replaced, successor) = (world.id(0), world.id(1), world.id(4));
    let report = |world: &mut World, reporter| {
        world.command(2, |state, now, _| failure::report(state, silent, reporter, true, now));
    };
    let count = |world: &mut World| world.command(2, |state, now, _| failure::reports(state, silent, now));
    report(&mut world, replaced);
    assert_eq!(count(&mut world), Some(1));
    world.command(2, |state, _, _| {
        let slots: Vec<Slot> = state.node(replaced).expect("known").slots.iter().collect();
        members::make_primary(state, successor);
        slots.into_iter().for_each(|slot| state.assign_slot(slot, Some(successor)));
        members::make_replica(state, replaced, Some(successor));
    });
    assert_eq!(count(&mut world), Some(0));
    report(&mut world, successor);
    assert_eq!(count(&mut world), Some(1), "a shard has one voice");
}
