//! Random faults, and clusters that heal after the last of them.

use crate::simulation::World;
use crate::simulation::server::TIMEOUT_MS;

/// The milliseconds within which a cluster works again after its last fault.
const HEAL_MS: u64 = 20 * TIMEOUT_MS;

fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20)
}

/// Does a random fault to the world.
fn disturb(world: &mut World) {
    let count = world.servers.len() as u64;
    let place = world.chance.below(count) as usize;
    let other = world.chance.below(count) as usize;
    match world.chance.below(8) {
        0 if world.states().count() > 1 && world.servers[place].state.is_some() => world.crash(place),
        1 | 2 => {
            if world.servers[place].state.is_none() {
                let keeps = world.chance.once_in(2);
                world.restart(place, keeps);
            }
        }
        3 if place != other => _ = world.network.cuts.insert((place, other)),
        4 if place != other => world.network.isolate(place, [other]),
        5 => world.network.isolate(place, 0..count as usize),
        6 | 7 => world.network.cuts.clear(),
        _ => {}
    }
}

fn live_through(seed: u64) {
    let shape = [(3, 0), (3, 3), (3, 6), (5, 4)][(seed % 4) as usize];
    let mut world = World::cluster(shape.0, shape.1, 1_000 + seed);
    world.network.delay_ms_max = 1 + world.chance.below(200);
    for _ in 0..12 {
        disturb(&mut world);
        let ms = world.chance.below(2 * TIMEOUT_MS);
        world.run(ms);
    }
    world.network.cuts.clear();
    world.network.delay_ms_max = 20;
    for place in 0..world.servers.len() {
        if world.servers[place].state.is_none() {
            world.restart(place, true);
        }
    }
    world.run_until("the cluster heals", HEAL_MS, World::is_healed);
}

#[test]
fn clusters_heal_after_random_faults() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok()) {
        return live_through(seed - 1_000);
    }
    (0..seeds()).for_each(live_through);
}
