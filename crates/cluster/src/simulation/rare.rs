//! Schedules that lead to a planted fault straight, because random faults seldom do. Each passes without its fault.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::planted::{self, Fault};
use crate::simulation::World;
use crate::simulation::clients::Clients;
use crate::simulation::server::TIMEOUT_MS;

/// The worlds of each schedule: the delay of an election is random, so one world does not suffice.
const SEEDS: std::ops::Range<u64> = 0..4;

/// A schedule, by the seed of its world.
type Schedule = fn(u64);

/// The schedules, each with the fault that it finds.
const SCHEDULES: [(Fault, Schedule); 4] = [
    (Fault::CountsOldVotes, votes_arrive_after_the_next_election_has_begun),
    (Fault::HasNoRank, primary_crashes_before_the_slower_copy),
    (Fault::NeverCorrects, primary_returns_without_a_way_to_its_successor),
    (Fault::KeepsCollision, two_primaries_have_one_epoch),
];

/// Two primaries crash. The votes for one of their replicas are late, and its next request for votes is lost: the replica of
/// the other primary has moved the epoch on meanwhile.
fn votes_arrive_after_the_next_election_has_begun(seed: u64) {
    let mut world = World::cluster(5, 5, seed);
    world.crash(0);
    world.crash(1);
    world.run_until("a replica asks", 5 * TIMEOUT_MS, |world| world.state(5).election.is_asked());
    for voter in 2..5 {
        world.network.lags.insert((voter, 5), 1_500);
    }
    world.run(30);
    world.network.cuts.extend((2..5).map(|voter| (5, voter)));
    world.run(2 * TIMEOUT_MS);
    world.network.cuts.clear();
    world.network.lags.clear();
    world.run_until("both replicas lead", 12 * TIMEOUT_MS, |world| {
        [5, 6].iter().all(|place| world.state(*place).myself().is_voter())
    });
}

/// A primary crashes while one replica has copied more than another, and the voters do not compare the two, as those of
/// Redis do not.
fn primary_crashes_before_the_slower_copy(seed: u64) {
    let mut world = World::new(9, seed);
    for server in &mut world.servers {
        server.is_redis = true;
    }
    world.form(3, 6);
    world.servers[6].copy_ms = 1_000;
    world.clients = Some(Clients::default());
    let ms = 6 * TIMEOUT_MS;
    world.run(ms + 700 - world.now % 1_000);
    world.crash(0);
    world.run_until("a replica leads", 5 * TIMEOUT_MS, |world| {
        [3, 6].iter().any(|place| world.state(*place).myself().is_voter())
    });
}

/// A replaced primary comes back and cannot reach its successor: the others tell it.
fn primary_returns_without_a_way_to_its_successor(seed: u64) {
    let mut world = World::cluster(3, 3, seed);
    world.crash(0);
    world.run_until("the replica leads", 5 * TIMEOUT_MS, |world| world.state(3).myself().is_voter());
    world.network.isolate(3, [0]);
    world.restart(0, true);
    world.run_until("the old primary follows", 5 * TIMEOUT_MS, |world| world.state(0).myself().is_replica());
}

/// Two primaries take the same epoch, as two do that are cut off from each other when they import a slot.
fn two_primaries_have_one_epoch(seed: u64) {
    let mut world = World::cluster(3, 0, seed);
    let epoch = world.state(2).myself().config_epoch;
    world.command(1, |state, _, _| state.myself_mut().config_epoch = epoch);
    world.run_until("their epochs differ", 5 * TIMEOUT_MS, |world| {
        world.state(1).myself().config_epoch != world.state(2).myself().config_epoch
    });
}

#[test]
fn schedules_find_their_planted_faults() {
    for (fault, schedule) in SCHEDULES {
        SEEDS.for_each(schedule);
        planted::plant(Some(fault));
        let found = SEEDS.into_iter().find(|seed| catch_unwind(AssertUnwindSafe(|| schedule(*seed))).is_err());
        planted::plant(None);
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
