//! Slots that no node serves: each is given to the node that has its keys, or to any node if there are none. The user is asked
//! even with `--cluster-yes`: a primary that is only away would lose these slots.

use super::super::console::Reported;
use super::super::manager::{Manager, chance};
use super::super::mover::{Manner, Move, SlotState};
use super::super::slots::SlotSet;
use super::with_most_keys;
use crate::output;

/// A slot and the nodes that have keys of it.
type Uncovered = (u16, Vec<usize>);

/// Covers the slots, as far as the user agrees, and returns the number of slots that were covered.
pub fn fix(manager: &mut Manager, missing: &[u16]) -> Result<usize, Reported> {
    manager.console.step(format_args!(">>> Fixing slots coverage..."));
    let mut holders: Vec<Uncovered> = missing.iter().map(|slot| (*slot, Vec::new())).collect();
    for number in manager.view.primaries() {
        let counts = manager.view.members[number].count_keys_of(missing)?;
        for ((_, nodes), count) in holders.iter_mut().zip(counts) {
            if count > 0 {
                nodes.push(number);
            }
        }
    }
    let (empty, held): (Vec<Uncovered>, Vec<Uncovered>) = holders.into_iter().partition(|(_, nodes)| nodes.is_empty());
    let (single, several): (Vec<Uncovered>, Vec<Uncovered>) = held.into_iter().partition(|(_, nodes)| nodes.len() == 1);
    let mut fixed = 0;
    let question = "Fix these slots by covering with a random node?";
    if agrees(manager, &empty, "no keys across the cluster", question) {
        let (mut chance, primaries) = (chance(), manager.view.primaries());
        for (slot, _) in empty {
            cover(manager, slot, primaries[chance(primaries.len())])?;
            fixed += 1;
        }
    }
    let question = "Fix these slots by covering with those nodes?";
    if agrees(manager, &single, "keys in just one node", question) {
        for (slot, nodes) in single {
            cover(manager, slot, nodes[0])?;
            fixed += 1;
        }
    }
    let question = "Fix these slots by moving keys into a single node?";
    if agrees(manager, &several, "keys in multiple nodes", question) {
        for (slot, nodes) in several {
            gather(manager, slot, &nodes)?;
            fixed += 1;
        }
    }
    Ok(fixed)
}

/// Shows some slots to the user, and returns whether they may be covered.
fn agrees(manager: &Manager, slots: &[Uncovered], title: &str, question: &str) -> bool {
    if slots.is_empty() {
        return false;
    }
    output::line(format_args!("The following uncovered slots have {title}:"));
    output::line(format_args!("{}", slots.iter().map(|(slot, _)| *slot).collect::<SlotSet>()));
    manager.console.confirm(question)
}

/// Gives a slot to a node.
fn cover(manager: &mut Manager, slot: u16, number: usize) -> Result<(), Reported> {
    let member = &mut manager.view.members[number];
    manager.console.step(format_args!(">>> Covering slot {slot} with {}", member.node.address));
    member.take_slot(slot, false)?;
    member.node.slots.insert(slot);
    Ok(())
}

/// Gives a slot to the node that has most of its keys, and moves the others there.
fn gather(manager: &mut Manager, slot: u16, nodes: &[usize]) -> Result<(), Reported> {
    let Some(target) = with_most_keys(manager, nodes, slot)? else { return Err(Reported) };
    let member = &mut manager.view.members[target];
    manager.console.step(format_args!(">>> Covering slot {slot} moving keys to {}", member.node.address));
    member.take_slot(slot, true)?;
    member.node.slots.insert(slot);
    let owner = member.node.id.clone();
    let mover = manager.mover();
    for source in nodes.iter().copied().filter(|number| *number != target) {
        let member = &mut manager.view.members[source];
        member.set_slot(slot, SlotState::Node, &owner)?;
        // The source gives keys away, but only a node that imports the slot may be asked for them.
        member.set_slot(slot, SlotState::Importing, &owner)?;
        mover.move_slot(&mut manager.view, Move { source, target, slot }, Manner { keys_only: true, quiet: false })?;
        manager.view.members[source].close_slot(slot)?;
    }
    Ok(())
}
