//! Slots change their owners.

use crate::admin::{self, Operation, SlotMove};
use crate::simulation::World;
use crate::slots::Slot;
use crate::state::cluster_state::Save;

/// Moves a slot from one server to another as redis-cli does: first the new owner, then the old one.
fn set_slot_node(world: &mut World, at: usize, slot: Slot, owner: usize) {
    let owner = world.id(owner);
    world.command(at, |state, _, _| {
        let is_import = state.id() == owner && state.slots.importing.remove(&slot).is_some();
        state.slots.migrating.remove(&slot);
        state.assign_slot(slot, Some(owner));
        if is_import {
            state.bump_epoch();
        }
        state.config_changed(Save::Synced);
        state.duties.announce = true;
    });
}

fn open_move(world: &mut World, slot: Slot, from: usize, to: usize) {
    let (source, target) = (world.id(from), world.id(to));
    world.command(to, |state, _, _| state.slots.importing.insert(slot, source));
    world.command(from, |state, _, _| state.slots.migrating.insert(slot, target));
}

#[test]
fn a_moved_slot_is_known_everywhere() {
    let mut world = World::cluster(3, 3, 80);
    open_move(&mut world, 7, 0, 1);
    world.run(500);
    set_slot_node(&mut world, 1, 7, 1);
    set_slot_node(&mut world, 0, 7, 1);
    let owner = world.id(1);
    let ms = world.run_until("all know the owner", 5_000, |world| {
        world.states().all(|state| state.slots.owner(7) == Some(owner))
    });
    assert!(ms <= 500, "{ms} ms");
    assert!(world.states().all(|state| state.slots.migrating.is_empty() && state.slots.importing.is_empty()));
}

#[test]
fn a_move_that_the_source_closes_first_ends_at_the_target() {
    let mut world = World::cluster(3, 3, 81);
    open_move(&mut world, 7, 0, 1);
    world.run(500);
    set_slot_node(&mut world, 0, 7, 1);
    let owner = world.id(1);
    world.run_until("the target owns the slot", 5_000, |world| {
        world.states().all(|state| state.slots.owner(7) == Some(owner)) && world.state(1).slots.importing.is_empty()
    });
}

#[test]
fn a_move_survives_a_failover_of_its_source() {
    let mut world = World::cluster(3, 3, 82);
    open_move(&mut world, 7, 0, 1);
    world.crash(0);
    world.run_until("the replica leads", 20_000, |world| world.state(3).myself().is_voter() && world.is_healed());
    assert_eq!(world.state(1).slots.importing.get(&7), Some(&world.id(3)), "the source is the new primary");
    set_slot_node(&mut world, 1, 7, 1);
    world.run_until("the slot has moved", 5_000, |world| {
        world.states().all(|state| state.slots.owner(7) == Some(world.id(1)))
    });
    world.restart(0, true);
    world.run_until("the cluster works", 20_000, World::is_healed);
    assert!(world.states().all(|state| state.slots.owner(7) == Some(world.id(1))));
}

#[test]
fn a_move_survives_a_failover_of_its_target() {
    let mut world = World::cluster(3, 3, 83);
    open_move(&mut world, 7, 0, 1);
    world.crash(1);
    world.run_until("the replica leads", 20_000, |world| world.state(4).myself().is_voter() && world.is_healed());
    assert_eq!(world.state(0).slots.migrating.get(&7), Some(&world.id(4)), "the target is the new primary");
}

/// Makes a replica take over a CLUSTER SETSLOT of slot 7 from its primary's stream, as that of a Valkey.
fn copy_set_slot(world: &mut World, replica: usize, to: SlotMove<'_>) {
    let copied = world.command(replica, |state, now, host| {
        admin::copy_set_slot(&mut Operation { state, now, host }, b"7", to).is_ok()
    });
    assert_eq!(copied, Some(true));
}

#[test]
fn a_replica_that_copies_its_primarys_moves_goes_on_with_them() {
    let mut world = World::cluster(3, 3, 86);
    open_move(&mut world, 7, 0, 1);
    let [source, target] = [0, 1].map(|place| world.id(place).to_string());
    copy_set_slot(&mut world, 3, SlotMove::Migrating(target.as_bytes()));
    copy_set_slot(&mut world, 4, SlotMove::Importing(source.as_bytes()));
    world.crash(0);
    world.run_until("the replica leads", 20_000, |world| world.state(3).myself().is_voter() && world.is_healed());
    assert_eq!(world.state(3).slots.migrating.get(&7), Some(&world.id(1)));
    assert_eq!(world.state(4).slots.importing.get(&7), Some(&world.id(3)), "the source is the new primary");
    // The target dies before it has told any other node that it owns the slot.
    copy_set_slot(&mut world, 4, SlotMove::Node(target.as_bytes()));
    set_slot_node(&mut world, 3, 7, 1);
    world.crash(1);
    world.run_until("the target's replica leads", 20_000, |world| world.state(4).myself().is_voter());
    world.run_until("the cluster works", 20_000, World::is_healed);
    assert_eq!(world.state(2).slots.owner(7), Some(world.id(4)));
}

#[test]
fn a_primary_that_becomes_a_replica_moves_no_slots() {
    let mut world = World::cluster(3, 3, 84);
    open_move(&mut world, 7, 0, 1);
    world.network.isolate(0, 1..6);
    world.run_until("the replica leads", 20_000, |world| world.state(3).myself().is_voter());
    world.network.cuts.clear();
    world.run_until("the cluster works", 20_000, World::is_healed);
    assert!(world.state(0).myself().is_replica());
    assert!(world.state(0).slots.migrating.is_empty());
    world.restart_all_from_disk();
    world.run_until("the cluster works", 30_000, World::is_healed);
    assert!(world.state(0).slots.migrating.is_empty());
}

#[test]
fn keys_of_lost_slots_are_deleted() {
    let mut world = World::cluster(3, 0, 85);
    world.servers[0].data.keys.insert(7, 3);
    open_move(&mut world, 7, 0, 1);
    set_slot_node(&mut world, 1, 7, 1);
    world.run_until("the keys are deleted", 5_000, |world| !world.servers[0].deleted.is_empty());
    assert!(world.servers[0].deleted[0].contains(7) && world.servers[0].deleted[0].len() == 1);
}

#[test]
fn a_new_node_at_epoch_0_keeps_its_slots_against_the_dead() {
    let mut world = World::cluster(3, 0, 86);
    world.crash(2);
    let dead = world.servers[2].disk.clone();
    assert!(!dead.is_empty());
    world.run(5_000);
    // An operator gives the slots of the dead node to a new one.
    let slots: Vec<Slot> =
        world.state(0).nodes.values().find(|node| node.has_failed()).expect("failed").slots.iter().collect();
    world.servers.push(crate::simulation::server::Server::new(3, crate::simulation::server::Chance(5)));
    world.command(3, |state, _, _| {
        let me = state.id();
        slots.iter().for_each(|slot| state.assign_slot(*slot, Some(me)));
        state.config_changed(Save::Lazy);
    });
    world.meet(3, 0);
    world.run_until("the new node owns the slots", 20_000, |world| {
        let new = world.id(3);
        world.states().all(|state| slots.iter().all(|slot| state.slots.owner(*slot) == Some(new)))
    });
}

#[test]
fn a_primary_that_has_lost_its_slots_and_epoch_is_reminded() {
    let mut world = World::cluster(3, 0, 88);
    let (id, slots) = (world.id(2), world.state(2).myself().slots.clone());
    world.crash(2);
    let options = world.servers[2].options.clone();
    world.servers[2].state = Some(crate::ClusterState::new(id, options));
    world.run_until("the cluster works", 20_000, World::is_healed);
    assert_eq!(world.state(2).myself().slots, slots);
    assert_eq!(world.state(2).myself().config_epoch, 3);
}

#[test]
fn primaries_with_equal_epochs_come_to_differ() {
    let mut world = World::new(4, 87);
    for place in 1..4 {
        world.meet(0, place);
    }
    world.run_until("all epochs differ", 30_000, |world| {
        let mut epochs: Vec<u64> = world.states().map(|state| state.myself().config_epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        epochs.len() == 4
    });
}
