//! Replicas replace their primaries.

use crate::action::Action;
use crate::packet::{Body, Packet};
use crate::simulation::World;
use crate::simulation::server::TIMEOUT_MS;
use crate::slots::SLOTS;
use crate::state::failover::{failure, manual, vote};
use crate::state::manual_failover::FailoverKind;
use crate::state::send;

#[test]
fn a_replica_replaces_a_dead_primary() {
    let mut world = World::cluster(3, 3, 40);
    let shard = world.state(0).myself().shard;
    world.crash(0);
    let ms =
        world.run_until("the cluster works", 20_000, |world| world.state(3).myself().is_voter() && world.is_healed());
    assert!(ms <= TIMEOUT_MS * 3 / 2 + 2_500, "{ms} ms");
    assert_eq!(world.state(3).myself().shard, shard, "the shard stays the same");
    assert!(world.states().all(|state| state.node(world.id(3)).is_some_and(|node| node.shard == shard)));
}

#[test]
fn a_winner_does_not_vote_in_the_epoch_that_it_won() {
    let mut world = World::cluster(3, 3, 63);
    world.crash(0);
    world.run_until("the replica leads", 20_000, |world| world.state(3).myself().is_voter());
    let state = world.state(3);
    assert_eq!(state.epochs.last_vote, state.myself().config_epoch);
}

#[test]
fn a_replaced_primary_comes_back_as_a_replica() {
    let mut world = World::cluster(3, 3, 41);
    let old = world.id(0);
    world.crash(0);
    world.run_until("the replica leads", 20_000, |world| world.state(3).myself().is_voter());
    world.restart(0, true);
    let ms = world.run_until("the old primary follows", 10_000, |world| {
        world.state(0).own_primary() == Some(world.id(3)) && world.is_healed()
    });
    assert!(ms <= 5_000, "{ms} ms");
    assert_eq!(world.id(0), old);
}

#[test]
fn the_replica_with_more_data_wins() {
    for seed in 0..5 {
        let mut world = World::cluster(3, 6, 42 + seed);
        // Servers 3 and 6 are replicas of server 0. The data of 3 is older.
        world.servers[0].data.writes = (0..100).collect();
        world.network.cuts.insert((0, 3));
        world.run(1_000);
        world.crash(0);
        world.network.cuts.clear();
        world.run_until("a replica leads", 20_000, |world| {
            world.state(3).myself().is_voter() || world.state(6).myself().is_voter()
        });
        assert!(world.state(6).myself().is_voter());
        world.run_until("the cluster works", 10_000, World::is_healed);
        assert_eq!(world.state(3).own_primary(), Some(world.id(6)));
    }
}

#[test]
fn a_replica_with_old_data_does_not_stand() {
    let mut world = World::cluster(3, 3, 48);
    for server in &mut world.servers {
        server.options.replica_validity_factor = 1;
    }
    let options = world.servers[3].options.clone();
    world.command(3, |state, now, host| state.set_options(options, now, host));
    world.servers[3].follows = None;
    world.servers[3].data.copied_ms = Some(world.now);
    world.servers[3].data.is_linked = false;
    world.run(10_000);
    world.crash(0);
    world.run(20_000);
    assert!(world.state(3).myself().is_replica());
}

#[test]
fn a_replica_with_no_failover_does_not_stand() {
    let mut world = World::cluster(3, 3, 49);
    let mut options = world.servers[3].options.clone();
    options.is_no_failover = true;
    world.command(3, |state, now, host| state.set_options(options, now, host));
    world.run(1_000);
    world.crash(0);
    world.run(20_000);
    assert!(world.state(3).myself().is_replica());
}

#[test]
fn primaries_of_two_shards_are_replaced_at_the_same_time() {
    let mut world = World::cluster(5, 5, 50);
    world.crash(0);
    world.crash(1);
    let ms = world.run_until("the cluster works", 30_000, |world| {
        [5, 6].iter().all(|place| world.state(*place).myself().is_voter()) && world.is_healed()
    });
    assert!(ms <= TIMEOUT_MS * 3 / 2 + 4_000, "{ms} ms");
}

#[test]
fn no_vote_goes_to_an_outdated_claim_of_slots() {
    let mut world = World::cluster(3, 3, 64);
    let (primary, candidate) = (world.id(0), world.id(3));
    let mut request = send::header(world.state(3));
    request.current_epoch += 100;
    let epoch = request.current_epoch;
    world.command(1, |state, now, host| {
        failure::fail(state, primary, now);
        state.epochs.current = epoch;
        request.config_epoch -= 1;
        vote::answer(state, candidate, &request, now, host);
        assert!(state.epochs.last_vote < epoch);
        request.config_epoch += 1;
        vote::answer(state, candidate, &request, now, host);
        assert_eq!(state.epochs.last_vote, epoch);
    });
}

#[test]
fn a_refused_vote_teaches_and_is_asked_again_at_once() {
    let mut world = World::cluster(3, 3, 51);
    // The replica misses that its primary has got a new epoch.
    for other in 0..6 {
        if other != 3 {
            world.network.cuts.insert((other, 3));
        }
    }
    world.command(0, |state, _, _| {
        state.epochs.current = 20;
        state.bump_epoch();
    });
    world.run(500);
    world.crash(0);
    world.network.cuts.clear();
    let ms = world.run_until("the replica leads", 20_000, |world| world.state(3).myself().is_voter());
    assert!(ms <= TIMEOUT_MS * 3 / 2 + 3_500, "{ms} ms");
}

#[test]
fn a_manual_failover_loses_no_write_and_takes_under_a_second() {
    let mut world = World::cluster(3, 3, 52);
    world.servers[0].data.writes = (0..50).collect();
    world.command(3, |state, now, host| manual::start(state, FailoverKind::Agreed, now, host));
    let mut number = 50;
    let begin = world.now;
    while !world.state(3).myself().is_voter() {
        assert!(world.now - begin < 5_000, "{}", world.picture());
        if world.servers[0].serves(0, world.now) {
            world.servers[0].data.writes.push(number);
            number += 1;
        }
        world.run(5);
    }
    assert!(world.now - begin <= 1_000, "{} ms", world.now - begin);
    assert_eq!(world.servers[3].data.writes, (0..number).collect::<Vec<u64>>());
    world.run_until("the cluster works", 5_000, World::is_healed);
    assert_eq!(world.state(0).own_primary(), Some(world.id(3)));
    assert_eq!(world.servers[0].paused_until_ms, 0, "the pause ends");
}

#[test]
fn a_manual_failover_without_its_primary_is_given_up() {
    let mut world = World::cluster(3, 3, 53);
    world.network.isolate(0, [3]);
    world.command(3, |state, now, host| manual::start(state, FailoverKind::Agreed, now, host));
    world.run(6_000);
    assert!(world.state(3).myself().is_replica());
    assert!(!world.state(3).manual_failover.is_active());
}

#[test]
fn a_forced_failover_needs_no_primary() {
    let mut world = World::cluster(3, 3, 54);
    world.network.isolate(0, [3]);
    world.command(3, |state, now, host| manual::start(state, FailoverKind::Forced, now, host));
    let ms = world.run_until("the replica leads", 5_000, |world| world.state(3).myself().is_voter());
    assert!(ms <= 1_000, "{ms} ms");
    world.network.cuts.clear();
    world.run_until("the cluster works", 10_000, World::is_healed);
}

#[test]
fn a_takeover_needs_no_vote() {
    let mut world = World::cluster(3, 3, 55);
    world.network.isolate(3, 0..6);
    world.command(3, |state, now, host| manual::start(state, FailoverKind::Takeover, now, host));
    assert!(world.state(3).myself().is_voter());
    world.network.cuts.clear();
    world.run_until("the cluster works", 20_000, |world| {
        world.is_healed() && world.state(0).own_primary() == Some(world.id(3))
    });
}

#[test]
fn of_two_primaries_of_one_shard_and_epoch_the_one_with_more_data_wins() {
    for seed in 0..4 {
        let mut world = World::cluster(3, 3, 56 + seed);
        world.servers[0].data.writes = (0..10).collect();
        world.run(1_000);
        // The replica takes over at the epoch of its primary, with more data.
        world.command(3, |state, _, _| {
            let (me, epoch) =
                (state.id(), state.node(state.own_primary().expect("known")).expect("known").config_epoch);
            crate::state::members::make_primary(state, me);
            state.myself_mut().config_epoch = epoch;
            state.config_changed(crate::state::cluster_state::Save::Synced);
        });
        world.servers[3].data.writes.push(99);
        world.run(3_000);
        let (old, new) = (world.state(0).myself().config_epoch, world.state(3).myself().config_epoch);
        assert!(new > old, "{new} {old}");
    }
}

#[test]
fn a_replica_moves_to_a_primary_without_any() {
    let mut world = World::cluster(3, 4, 60);
    for place in 0..7 {
        let mut options = world.servers[place].options.clone();
        options.allows_replica_migration = true;
        world.servers[place].options = options.clone();
        world.command(place, |state, now, host| state.set_options(options, now, host));
    }
    // Server 0 has the replicas 3 and 6, server 1 has 4.
    world.crash(4);
    world.run_until("a replica moves", 30_000, |world| {
        [3, 6].iter().any(|place| world.state(*place).own_primary() == Some(world.id(1)))
    });
    world.run_until("the cluster works", 10_000, World::is_healed);
    let moved = if world.state(3).own_primary() == Some(world.id(1)) { 3 } else { 6 };
    let shard = world.state(1).myself().shard;
    world.run_until("all know its shard", 5_000, |world| {
        world.states().all(|state| state.node(world.id(moved)).is_some_and(|node| node.shard == shard))
    });
}

#[test]
fn a_vote_is_saved_before_it_leaves() {
    let mut world = World::cluster(3, 3, 61);
    let request = {
        let state = world.state(3);
        let mut header = crate::packet::Header {
            sender: state.id(),
            flags: state.myself().flags,
            current_epoch: 50,
            config_epoch: 50,
            offset: 0,
            slots: state.node(world.id(0)).expect("known").slots.clone(),
            primary: Some(world.id(0)),
            ip: String::new(),
            port: 6_379,
            other_port: 0,
            bus_port: 16_379,
            is_cluster_ok: true,
            is_paused: false,
            is_forced: true,
            reads_extensions: true,
        };
        header.config_epoch = 1;
        Packet::Full { header: Box::new(header), body: Body::VoteRequest }
    };
    let link = world.state(1).node(world.id(3)).and_then(|node| node.links.incoming).expect("linked");
    let now = world.servers[1].time(world.now);
    let server = &mut world.servers[1];
    let state = server.state.as_mut().expect("up");
    state.receive_packet(link, request.clone(), now, &mut server.data);
    let actions = state.take_actions();
    assert!(matches!(&actions[0], Action::Save { sync: true, text } if text.contains("lastVoteEpoch 50")));
    let sends = |actions: &[Action]| actions.iter().filter(|action| matches!(action, Action::Send { .. })).count();
    assert_eq!(sends(&actions), 1);
    state.receive_packet(link, request, now, &mut server.data);
    assert_eq!(sends(&state.take_actions()), 0, "one vote an epoch");
}

#[test]
fn all_slots_keep_an_owner_through_failovers_in_turn() {
    let mut world = World::cluster(3, 3, 62);
    for round in 0..4 {
        let primary = (0..6).find(|place| world.state(*place).myself().is_voter()).expect("one leads");
        world.crash(primary);
        world.run_until("the cluster works", 30_000, World::is_healed);
        world.restart(primary, round % 2 == 0);
        world.run_until("the cluster works with all", 30_000, World::is_healed);
    }
    let owned: usize = world.states().map(|state| state.myself().slots.len()).sum();
    assert_eq!(owned, usize::from(SLOTS));
}
