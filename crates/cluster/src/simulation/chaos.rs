//! Random faults, and clusters that heal after the last of them.
//!
//! `cargo xtask soak cluster-simulation` lives through 10,000 worlds, from a seed of its own on.

use crate::admin::{self, SlotMove};
use crate::simulation::World;
use crate::simulation::clients::Clients;
use crate::simulation::server::TIMEOUT_MS;
use crate::slots::Slot;

/// The milliseconds within which a cluster works again after its last fault: the rejoin delay, two elections, and the time in
/// which a failed primary is taken back.
const HEAL_MS: u64 = 10 * TIMEOUT_MS;

/// The first seed of a world, and the number of worlds in the short form.
const FIRST_SEED: u64 = 1_000;
const SHORT: u64 = 12;

/// Returns the number that a variable holds, if it is set.
fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// Does a random fault to the world, or a command of an operator.
fn disturb(world: &mut World) {
    let count = world.servers.len();
    let place = world.chance.below(count as u64) as usize;
    let other = world.chance.below(count as u64) as usize;
    match world.chance.below(12) {
        0 | 1 if world.states().count() > 1 && world.servers[place].state.is_some() => world.crash(place),
        2..=4 => restart(world, place),
        5 if place != other => _ = world.network.cuts.insert((place, other)),
        6 if place != other => world.network.isolate(place, [other]),
        7 => world.network.isolate(place, 0..count),
        8 | 9 => world.network.cuts.clear(),
        10 | 11 if world.has_moves => move_slot(world, other),
        _ => {}
    }
}

/// Starts a server that is down: from its last file, its last synced file, or a torn one, at times at a new address.
fn restart(world: &mut World, place: usize) {
    if world.servers[place].state.is_some() {
        return;
    }
    if world.chance.once_in(4) {
        let number = world.chance.below(1 << 24);
        world.servers[place].ip = format!("10.1.{}.{}", number >> 12, number & 4_095);
    }
    match world.chance.below(3) {
        0 => world.restart(place, true),
        1 => world.restart(place, false),
        _ => _ = world.restart_torn(place),
    }
}

/// Moves a slot as redis-cli does, if all nodes can be reached. The operator may give up after each step.
fn move_slot(world: &mut World, target: usize) {
    if !world.network.cuts.is_empty() || world.states().count() < world.servers.len() {
        return;
    }
    let slot = (world.chance.below(50) * 300) as Slot;
    let Some(state) = &world.servers[target].state else { return };
    let Some(source) = state.slots.owner(slot).and_then(|owner| world.place(owner)) else { return };
    let (from, to) = (world.id(source).to_string(), world.id(target).to_string());
    let slot = slot.to_string();
    let steps = [
        (target, SlotMove::Importing(from.as_bytes())),
        (source, SlotMove::Migrating(to.as_bytes())),
        (target, SlotMove::Node(to.as_bytes())),
        (source, SlotMove::Node(to.as_bytes())),
    ];
    for (place, step) in steps {
        if world.chance.once_in(8) {
            return;
        }
        world.command(place, |state, now, host| {
            let mut operation = admin::Operation { state, now, host };
            _ = admin::set_slot(&mut operation, slot.as_bytes(), Some(step));
        });
        let ms = world.chance.below(200);
        world.run(ms);
    }
}

/// Lives through a world of this seed.
fn live_through(seed: u64) {
    let shape = [(3, 0), (3, 3), (3, 6), (5, 4)][(seed % 4) as usize];
    let mut world = World::cluster(shape.0, shape.1, seed);
    world.has_moves = seed % 8 < 4;
    world.clients = Some(Clients::default());
    world.network.delay_ms_max = 1 + world.chance.below(200);
    for place in 0..world.servers.len() {
        world.servers[place].skew_ms = world.chance.below(120_000) as i64 - 60_000;
    }
    for _ in 0..15 {
        disturb(&mut world);
        let ms = world.chance.below(2 * TIMEOUT_MS);
        world.run(ms);
    }
    end_faults(&mut world);
    world.run_until("the cluster heals", HEAL_MS, World::is_healed);
    assert!(shape.1 == 0 || world.clients.as_ref().is_some_and(|clients| clients.acknowledged() > 0));
}

/// Ends all faults. An operator introduces the nodes again, because all may have moved at once.
fn end_faults(world: &mut World) {
    world.network.cuts.clear();
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

#[test]
fn clusters_heal_after_random_faults() {
    if let Some(seed) = number("SEED") {
        return live_through(seed);
    }
    let (first, count) = (number("SLEEVE_SEED").unwrap_or(FIRST_SEED), number("SLEEVE_SOAK_COUNT").unwrap_or(SHORT));
    (first..first + count).for_each(live_through);
}
