//! Nodes change their addresses.

use crate::simulation::World;

#[test]
fn a_node_that_comes_back_at_another_address_is_taken_by_its_id() {
    let mut world = World::cluster(3, 3, 100);
    world.crash(3);
    world.run(1_000);
    world.servers[3].ip = "10.0.7.7".into();
    world.restart(3, true);
    let id = world.id(3);
    let ms = world.run_until("all know the address", 10_000, |world| {
        world.states().all(|state| state.node(id).is_some_and(|node| node.address.ip == "10.0.7.7"))
    });
    assert!(ms <= 5_000, "{ms} ms");
    world.run_until("the cluster works", 10_000, World::is_healed);
}

#[test]
fn a_replica_follows_its_primary_to_another_address() {
    let mut world = World::cluster(3, 3, 101);
    world.crash(0);
    world.servers[0].ip = "10.0.7.7".into();
    world.restart(0, true);
    world.run_until("the replica follows", 10_000, |world| {
        world.servers[3].follows.as_ref().is_some_and(|(_, ip)| ip == "10.0.7.7")
    });
}

#[test]
fn nodes_that_exchange_their_addresses_find_each_other() {
    for seed in 0..4 {
        let mut world = World::cluster(3, 3, 102 + seed);
        for place in 0..6 {
            world.crash(place);
        }
        let ips: Vec<String> = world.servers.iter().map(|server| server.ip.clone()).collect();
        for place in 0..6 {
            world.servers[place].ip = ips[(place + 1) % 6].clone();
        }
        for place in 0..6 {
            world.restart(place, true);
        }
        world.run_until("the cluster works", 30_000, World::is_healed);
    }
}

#[test]
fn a_cluster_with_all_addresses_new_heals_by_one_meet_a_node() {
    let mut world = World::cluster(3, 3, 110);
    for place in 0..6 {
        world.crash(place);
        world.servers[place].ip = format!("10.0.8.{place}");
    }
    for place in 0..6 {
        world.restart(place, true);
    }
    world.run(5_000);
    for place in 1..6 {
        world.meet(0, place);
    }
    world.run_until("the cluster works", 30_000, World::is_healed);
    assert!(world.states().all(|state| state.nodes.len() == 6));
}

#[test]
fn a_node_that_is_met_shows_host_names_with_the_slots() {
    for seed in 0..10 {
        let mut world = World::new(4, 117 + seed);
        for place in 1..3 {
            world.meet(0, place);
        }
        world.run(5_000);
        for (place, slot) in [(0, 0), (1, 100), (2, 200)] {
            let mut options = world.servers[place].options.clone();
            options.address.hostname = format!("{place}.example");
            world.command(place, |state, now, host| {
                state.set_options(options, now, host);
                let me = state.id();
                state.assign_slot(slot, Some(me));
            });
        }
        world.run(5_000);
        world.meet(2, 3);
        let mut shown = 0;
        for _ in 0..500 {
            world.run(10);
            let owners: Vec<_> = world.state(3).nodes().filter(|node| !node.slots.is_empty()).collect();
            assert!(owners.iter().all(|node| !node.address.hostname.is_empty()), "seed {seed}: {owners:?}");
            shown = owners.len();
        }
        assert_eq!(shown, 3);
    }
}

#[test]
fn an_announced_address_is_told_to_all() {
    let mut world = World::cluster(3, 0, 111);
    let mut options = world.servers[1].options.clone();
    options.address.hostname = "one.example".into();
    options.address.human_name = "one".into();
    options.address.client_ipv4 = "192.0.2.1".into();
    options.address.port = 7_000;
    world.command(1, |state, now, host| state.set_options(options, now, host));
    let id = world.id(1);
    let ms = world.run_until("all know the names", 5_000, |world| {
        world.states().all(|state| {
            let address = &state.node(id).expect("known").address;
            address.hostname == "one.example" && address.port == 7_000 && address.client_ipv4 == "192.0.2.1"
        })
    });
    assert!(ms <= 500, "{ms} ms");
}
