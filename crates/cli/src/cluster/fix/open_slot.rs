//! A slot that is open: a move that was interrupted, or several nodes that claim it.
//!
//! First the slot gets one owner. Then, by the number of nodes that migrate and import it, the move is completed, all keys go to
//! the owner, or the slot is closed where nothing is to be moved. The four cases and their order are redis-cli's.

use super::super::console::Reported;
use super::super::manager::Manager;
use super::super::mover::{Manner, Move, SlotState};
use super::super::node::OpenSlot;
use super::with_most_keys;
use crate::output;

/// The nodes that have to do with an open slot, by their numbers.
#[derive(Debug, Default)]
struct Claims {
    /// The nodes that serve the slot or have keys of it.
    owners: Vec<usize>,
    /// The nodes that the slot leaves.
    migrating: Vec<usize>,
    /// The nodes that the slot comes to, or that have keys of it without being its owner.
    importing: Vec<usize>,
}

impl Claims {
    /// Asks all primaries.
    fn gather(manager: &mut Manager, slot: u16) -> Result<Self, Reported> {
        let console = manager.console;
        let mut claims = Self::default();
        for number in manager.view.primaries() {
            let member = &mut manager.view.members[number];
            if member.node.slots.contains(slot) {
                claims.owners.push(number);
            } else if member.count_keys(slot)? > 0 {
                let address = &member.node.address;
                console.warn(format_args!("*** Found keys about slot {slot} in non-owner node {address}!"));
                claims.owners.push(number);
            }
        }
        let owner = claims.single_owner();
        for number in manager.view.primaries() {
            let member = &mut manager.view.members[number];
            let is_open = |open: &[OpenSlot]| open.iter().any(|open| open.slot == slot);
            if is_open(&member.node.migrating) {
                claims.migrating.push(number);
            } else if is_open(&member.node.importing) {
                claims.importing.push(number);
            } else if Some(number) != owner && member.count_keys(slot)? > 0 {
                console.warn(format_args!("*** Found keys about slot {slot} in node {}!", member.node.address));
                claims.importing.push(number);
            }
        }
        Ok(claims)
    }

    fn single_owner(&self) -> Option<usize> {
        if let [owner] = self.owners.as_slice() { Some(*owner) } else { None }
    }
}

/// Returns the addresses of nodes in one word.
fn names(manager: &Manager, nodes: &[usize]) -> String {
    let names = nodes.iter().map(|number| manager.view.members[*number].node.address.to_string());
    names.collect::<Vec<_>>().join(",")
}

/// Closes the slot, with its keys on one node.
pub fn fix(manager: &mut Manager, slot: u16) -> Result<(), Reported> {
    manager.console.step(format_args!(">>> Fixing open slot {slot}"));
    let mut claims = Claims::gather(manager, slot)?;
    let (migrating, importing) = (names(manager, &claims.migrating), names(manager, &claims.importing));
    if !migrating.is_empty() {
        output::line(format_args!("Set as migrating in: {migrating}"));
    }
    if !importing.is_empty() {
        output::line(format_args!("Set as importing in: {importing}"));
    }
    let owner = match claims.single_owner() {
        Some(owner) => owner,
        None => choose_owner(manager, slot, &mut claims)?,
    };
    if claims.owners.len() > 1 {
        dispossess(manager, slot, owner, &mut claims)?;
    }
    let (migrates, imports) = (claims.migrating.as_slice(), claims.importing.as_slice());
    let ended = match (migrates, imports) {
        ([source], [target]) => complete(manager, slot, *source, *target).map(|()| true),
        ([], [_, ..]) => collect(manager, slot, owner, imports).map(|()| true),
        ([source], [_, _, ..]) => move_or_close(manager, slot, *source, imports),
        ([source], []) => close(manager, slot, *source, owner),
        _ => Ok(false),
    };
    if ended? {
        return Ok(());
    }
    let owner = &manager.view.members[owner].node.address;
    manager.console.fail(format_args!(
        "[ERR] Sorry, sleeve cli can't fix this slot yet (work in progress). Slot is set as migrating in {migrating}, as importing \
         in {importing}, owner is {owner}"
    ))
}

/// Gives a slot without a single owner to the node that has most of its keys.
fn choose_owner(manager: &mut Manager, slot: u16, claims: &mut Claims) -> Result<usize, Reported> {
    let console = manager.console;
    console.step(format_args!(">>> No single clear owner for the slot, selecting an owner by # of keys..."));
    let all: Vec<usize> = (0..manager.view.members.len()).collect();
    let Some(owner) = with_most_keys(manager, &all, slot)? else {
        return console.fail(format_args!("[ERR] Can't select a slot owner. Impossible to fix."));
    };
    let member = &mut manager.view.members[owner];
    console.warn(format_args!("*** Configuring {} as the slot owner", member.node.address));
    member.close_slot(slot)?;
    member.take_slot(slot, false)?;
    member.node.slots.insert(slot);
    claims.migrating.retain(|number| *number != owner);
    claims.importing.retain(|number| *number != owner);
    Ok(owner)
}

/// Makes all other owners import the slot, so that one of the cases below applies.
fn dispossess(manager: &mut Manager, slot: u16, owner: usize, claims: &mut Claims) -> Result<(), Reported> {
    let id = manager.view.members[owner].node.id.clone();
    for number in claims.owners.iter().copied().filter(|number| *number != owner) {
        let member = &mut manager.view.members[number];
        member.delete_slot(slot)?;
        member.node.slots.remove(slot);
        member.set_slot(slot, SlotState::Node, &id)?;
        member.set_slot(slot, SlotState::Importing, &id)?;
        claims.importing.retain(|importing| *importing != number);
        claims.importing.push(number);
        claims.migrating.retain(|migrating| *migrating != number);
    }
    Ok(())
}

/// Completes a move.
fn complete(manager: &mut Manager, slot: u16, source: usize, target: usize) -> Result<(), Reported> {
    let (from, to) = (&manager.view.members[source].node.address, &manager.view.members[target].node.address);
    manager.console.step(format_args!(">>> Case 1: Moving slot {slot} from {from} to {to}"));
    manager.mover().move_slot(&mut manager.view, Move { source, target, slot }, Manner::default())
}

/// Moves all keys to the owner: nodes that only import have opened the slot because they have keys of it.
fn collect(manager: &mut Manager, slot: u16, owner: usize, importing: &[usize]) -> Result<(), Reported> {
    let (console, mover) = (manager.console, manager.mover());
    let address = &manager.view.members[owner].node.address;
    console.step(format_args!(">>> Case 2: Moving all the {slot} slot keys to its owner {address}"));
    for source in importing.iter().copied().filter(|number| *number != owner) {
        let step = Move { source, target: owner, slot };
        mover.move_slot(&mut manager.view, step, Manner { keys_only: true, quiet: false })?;
        let member = &mut manager.view.members[source];
        console.step(format_args!(">>> Setting {slot} as STABLE in {}", member.node.address));
        member.close_slot(slot)?;
    }
    // Only keys were moved: the other nodes may still know another owner.
    let id = manager.view.members[owner].node.id.clone();
    for number in manager.view.primaries().into_iter().filter(|number| *number != owner) {
        manager.view.members[number].set_slot(slot, SlotState::Node, &id)?;
    }
    Ok(())
}

/// Moves the slot to the node that its source sends it to, or closes it if no importing node is that one. Returns false if an
/// importing node has keys: then this program cannot know which of them count.
fn move_or_close(manager: &mut Manager, slot: u16, source: usize, importing: &[usize]) -> Result<bool, Reported> {
    let open = manager.view.members[source].node.migrating.iter().find(|open| open.slot == slot);
    let wanted = open.map(|open| open.peer.clone()).unwrap_or_default();
    for number in importing {
        if manager.view.members[*number].count_keys(slot)? > 0 {
            return Ok(false);
        }
    }
    let target = importing.iter().copied().find(|number| manager.view.members[*number].node.id == wanted);
    let members = &manager.view.members;
    match target {
        Some(target) => {
            manager.console.step(format_args!(
                ">>> Case 3: Moving slot {slot} from {} to {} and closing it on all the other importing nodes.",
                members[source].node.address, members[target].node.address
            ));
            manager.mover().move_slot(&mut manager.view, Move { source, target, slot }, Manner::default())?;
        }
        None => {
            manager
                .console
                .step(format_args!(">>> Case 3: Closing slot {slot} on both migrating and importing nodes."));
            manager.view.members[source].close_slot(slot)?;
        }
    }
    for number in importing.iter().copied().filter(|number| Some(*number) != target) {
        manager.view.members[number].close_slot(slot)?;
    }
    Ok(true)
}

/// Closes a slot that no node imports. Returns false if the node is not its owner and has keys of it.
fn close(manager: &mut Manager, slot: u16, number: usize, owner: usize) -> Result<bool, Reported> {
    let member = &mut manager.view.members[number];
    if number != owner && member.count_keys(slot)? > 0 {
        return Ok(false);
    }
    manager.console.step(format_args!(">>> Case 4: Closing slot {slot} on {}", member.node.address));
    member.close_slot(slot).map(|()| true)
}
