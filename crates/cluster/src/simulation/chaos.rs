//! Random faults, and clusters that heal after the last of them.
//!
//! `cargo xtask soak cluster-simulation` lives through 10,000 worlds. Each has 3 to 9 servers with clocks of their own, of which
//! some vote as Redis does, and suffers cuts in one direction or two, splits, slow links, slow replicas, crashes with torn
//! files, new addresses, and moves of slots meanwhile. [`crate::simulation::watch`] has the promises that are checked.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::planted::{self, Fault};
use crate::simulation::World;
use crate::simulation::clients::Clients;
use crate::simulation::network::Place;
use crate::simulation::server::{Clocks, TIMEOUT_MS};
use crate::simulation::watch::SLOT_STEP;
use crate::slots::{SLOTS, Slot};
use crate::state::ClusterState;

/// The milliseconds within which a cluster works again after its last fault: the rejoin delay, two elections, and the time in
/// which a failed primary is taken back.
const HEAL_MS: u64 = 10 * TIMEOUT_MS;

/// The faults of a world, and the longest pause behind each in milliseconds.
const DISTURBANCES: usize = 18;
const PAUSE_MS: u64 = 2 * TIMEOUT_MS;

/// The first seed of a world, and the number of seeds in the short form.
const FIRST_SEED: u64 = 1_000;
const SHORT: u64 = 24;

/// The primaries and replicas of the worlds.
const SHAPES: [(usize, usize); 8] = [(3, 0), (3, 3), (3, 6), (5, 4), (3, 5), (4, 4), (3, 6), (5, 2)];

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// Does a random fault to the world, or a command of an operator.
fn disturb(world: &mut World) {
    let count = world.servers.len();
    let place = world.chance.below(count as u64) as Place;
    let other = world.chance.below(count as u64) as Place;
    match world.chance.below(26) {
        0 | 1 => crash(world, place),
        2 | 3 => crash_primary(world, place),
        4..=7 => restart(world, place),
        8 | 9 if place != other => _ = world.network.cuts.insert((place, other)),
        10 if place != other => world.network.isolate(place, [other]),
        11 => world.network.isolate(place, 0..count),
        12 | 13 => {
            let groups = world.chance.next();
            world.network.split(count, |place| groups >> place & 1 == 0);
        }
        14..=16 => world.network.cuts.clear(),
        17..=19 => move_slots(world, other),
        20 | 21 => crash_mover(world),
        22 | 23 if place != other && !world.servers.iter().any(|server| server.is_redis) => {
            let ms = world.chance.below(TIMEOUT_MS);
            world.network.lags.insert((place, other), ms);
        }
        24 => world.network.lags.clear(),
        25 if world.chance.once_in(4) => move_all(world),
        _ => {}
    }
}

/// Crashes a server, unless it is the last one.
fn crash(world: &mut World, place: Place) {
    if world.states().count() > 1 && world.servers[place].state.is_some() {
        world.crash(place);
    }
}

/// Crashes the first primary from this place on.
fn crash_primary(world: &mut World, from: Place) {
    let count = world.servers.len();
    let leads = |place: &Place| world.servers[*place].state.as_ref().is_some_and(|state| state.myself().is_voter());
    if let Some(place) = (from..from + count).map(|place| place % count).find(leads) {
        crash(world, place);
    }
}

/// Crashes the source or the target of a slot that moves. At times the source's shard hears nothing of the target any more.
fn crash_mover(world: &mut World) {
    let Some((source, target)) = world.moves.last().map(|one| (one.source, one.target)) else { return };
    if world.chance.once_in(3) {
        return crash(world, target);
    }
    if world.chance.once_in(2) {
        let shard = world.shard(source);
        let fellows = (0..world.servers.len()).filter(|place| world.shard(*place) == shard && *place != target);
        let cuts: Vec<(Place, Place)> = fellows.map(|fellow| (target, fellow)).collect();
        world.network.cuts.extend(cuts);
    }
    crash(world, source);
}

/// Gives a server that is down a new address.
fn give_address(world: &mut World, place: Place) {
    let number = world.chance.below(1 << 24);
    world.servers[place].ip = format!("10.{}.{}.{}", 1 + place, number >> 12 & 255, number & 255);
}

/// Starts a server that is down: from its last file, its last synced file, or a torn one, at times at a new address.
fn restart(world: &mut World, place: Place) {
    if world.servers[place].state.is_some() {
        return;
    }
    if world.chance.once_in(4) {
        give_address(world, place);
    }
    match world.chance.below(3) {
        0 => world.restart(place, true),
        1 => world.restart(place, false),
        _ => _ = world.restart_torn(place),
    }
}

/// Starts all servers anew at new addresses.
fn move_all(world: &mut World) {
    (0..world.servers.len())
        .filter(|place| world.servers[*place].state.is_some())
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|place| world.crash(place));
    for place in 0..world.servers.len() {
        give_address(world, place);
        world.restart(place, true);
    }
}

/// Begins to move some slots to a server, from one on.
fn move_slots(world: &mut World, target: Place) {
    let slots = usize::from(SLOTS).div_ceil(SLOT_STEP) as u64;
    let first = world.chance.below(slots);
    for number in first..(first + 1 + world.chance.below(6)).min(slots) {
        let slot = number as Slot * SLOT_STEP as Slot;
        if world.moves.iter().all(|one| one.slot != slot) {
            world.begin_move(slot, target);
        }
    }
}

/// Returns the cluster of a seed, before any fault.
fn build(seed: u64) -> World {
    let (primaries, replicas) = SHAPES[(seed % SHAPES.len() as u64) as usize];
    let mut world = World::new(primaries + replicas, seed);
    let has_redis = world.chance.once_in(2);
    for place in 0..world.servers.len() {
        world.servers[place].clocks = Clocks {
            skew_ms: world.chance.below(120_000) as i64 - 60_000,
            origin_ms: world.chance.below(1 << 32),
            speed_permille: 990 + world.chance.below(21),
        };
        world.servers[place].is_redis = has_redis && !world.chance.once_in(4);
        world.servers[place].copy_ms = if world.chance.once_in(4) { 50 * (1 + world.chance.below(40)) } else { 50 };
    }
    world.form(primaries, replicas);
    world
}

/// Lives through a world of this seed. Returns the number of writes that were acknowledged.
fn live_through(seed: u64) -> usize {
    let mut world = build(seed);
    world.clients = Some(Clients::default());
    world.network.delay_ms_max = 1 + world.chance.below(200);
    for _ in 0..DISTURBANCES {
        disturb(&mut world);
        let ms = world.chance.below(PAUSE_MS);
        world.run(ms);
    }
    end_faults(&mut world);
    let end = world.now + HEAL_MS;
    while world.now < end && !is_settled(&world) {
        world.run(100);
    }
    if !is_settled(&world) && world.repair_slots() {
        world.run_until("the repaired cluster heals", HEAL_MS, is_settled);
    }
    assert!(is_settled(&world), "the cluster does not heal\n{}", world.picture());
    world.clients.as_ref().map_or(0, Clients::acknowledged)
}

/// Ends all faults. An operator introduces the nodes again, because all may have moved at once.
fn end_faults(world: &mut World) {
    world.network.cuts.clear();
    world.network.lags.clear();
    world.moves.clear();
    world.network.delay_ms_max = 20;
    for place in 0..world.servers.len() {
        if world.servers[place].state.is_none() {
            world.restart(place, true);
        }
    }
    for place in 1..world.servers.len() {
        world.meet(0, place);
    }
}

/// Returns whether the cluster works, no two primaries have one epoch, and no replica moves slots.
fn is_settled(world: &World) -> bool {
    let has_no_moves = |state: &ClusterState| {
        state.myself().is_primary() || (state.slots.migrating.is_empty() && state.slots.importing.is_empty())
    };
    let mut epochs: Vec<u64> =
        world.states().map(ClusterState::myself).filter(|node| node.is_voter()).map(|node| node.config_epoch).collect();
    let voters = epochs.len();
    epochs.sort_unstable();
    epochs.dedup();
    epochs.len() == voters && world.states().all(has_no_moves) && world.is_healed()
}

/// Lives through the worlds of many seeds, on all processors if there are many. Returns the number of writes that were
/// acknowledged.
fn live_through_all(seeds: &std::ops::Range<u64>) -> usize {
    let are_many = seeds.end - seeds.start > 100;
    let threads = if are_many { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let live = |first: usize| seeds.clone().skip(first).step_by(threads).map(live_through).sum::<usize>();
    std::thread::scope(|scope| {
        let begin = |first| {
            let thread = std::thread::Builder::new().name(name.clone());
            thread.spawn_scoped(scope, move || live(first)).expect("a thread starts")
        };
        let threads: Vec<_> = (0..threads).map(begin).collect();
        threads.into_iter().map(|thread| thread.join().expect("no world fails")).sum()
    })
}

#[test]
fn clusters_heal_after_random_faults() {
    if let Some(seed) = number("SEED") {
        live_through(seed);
        return;
    }
    let (first, count) = (number("SLEEVE_SEED").unwrap_or(FIRST_SEED), number("SLEEVE_SOAK_COUNT").unwrap_or(SHORT));
    let acknowledged = live_through_all(&(first..first + count));
    assert!(acknowledged as u64 > 20 * count, "only {acknowledged} writes");
}

/// The faults that a few worlds find, and the number of worlds in the short form.
const COARSE: [Fault; 6] = [
    Fault::VotesBeforeSync,
    Fault::WinsByMinority,
    Fault::FailsAlone,
    Fault::BelievesOldClaims,
    Fault::KeepsAddress,
    Fault::KeepsMoves,
];
const COARSE_WORLDS: u64 = 24;

/// The faults that show when several things go wrong in a short time. [`crate::simulation::rare`] has schedules for others.
const FINE: [Fault; 1] = [Fault::VotesTwice];

/// Returns the first seed of a world that finds a planted fault.
fn find(fault: Fault, seeds: std::ops::Range<u64>) -> Option<u64> {
    planted::plant(Some(fault));
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| live_through(*seed))).is_err();
    let found = seeds.into_iter().find(fails);
    planted::plant(None);
    println!("{fault:?} is found by {found:?}");
    found
}

#[test]
fn planted_faults_are_found() {
    for fault in COARSE {
        assert!(find(fault, FIRST_SEED..FIRST_SEED + COARSE_WORLDS).is_some(), "{fault:?} is not found");
    }
}

#[test]
#[ignore = "takes minutes: cargo xtask soak cluster-simulation"]
fn planted_faults_of_rare_cases_are_found() {
    let count = number("SLEEVE_SOAK_COUNT").unwrap_or(1_000);
    let missing: Vec<Fault> =
        FINE.into_iter().filter(|fault| find(*fault, FIRST_SEED..FIRST_SEED + count).is_none()).collect();
    assert!(missing.is_empty(), "not found: {missing:?}");
}
