//! A slot that several nodes serve or have keys of: the node with the most keys becomes its owner and gets the others' keys.

use super::super::console::Reported;
use super::super::manager::Manager;
use super::super::mover::{Manner, Move, SlotState};
use super::with_most_keys;

/// Gives a slot one owner.
pub fn fix(manager: &mut Manager, slot: u16, nodes: &[usize]) -> Result<(), Reported> {
    let console = manager.console;
    console.step(format_args!(">>> Fixing multiple owners for slot {slot}..."));
    let best = with_most_keys(manager, nodes, slot).ok().flatten();
    let Some(target) = best.or(nodes.first().copied()) else { return Err(Reported) };
    let owner = &mut manager.view.members[target];
    console.step(format_args!(">>> Setting slot {slot} owner: {}", owner.node.address));
    owner.take_slot(slot, false)?;
    owner.node.slots.insert(slot);
    let owner = owner.node.id.clone();
    let mover = manager.mover();
    for source in manager.view.primaries().into_iter().filter(|number| *number != target) {
        let member = &mut manager.view.members[source];
        let count = member.count_keys(slot)?;
        // A refusal is printed; the next command then fails too.
        _ = member.delete_slot(slot);
        member.set_slot(slot, SlotState::Node, &owner)?;
        member.node.slots.remove(slot);
        if count > 0 {
            mover.move_slot(
                &mut manager.view,
                Move { source, target, slot },
                Manner { keys_only: true, quiet: false },
            )?;
        }
    }
    Ok(())
}
