//! The repairs of `fix`: slots without an owner, slots that are open, slots with several owners.
//!
//! Each asks the nodes for keys before it decides, so that no key is left on a node that does not serve it.

pub mod coverage;
pub mod open_slot;
pub mod owners;

use super::console::Reported;
use super::manager::Manager;

/// Returns the node, of those given, that has the most keys of a slot; replicas are passed over.
fn with_most_keys(manager: &mut Manager, nodes: &[usize], slot: u16) -> Result<Option<usize>, Reported> {
    let mut best: Option<(usize, i64)> = None;
    for number in nodes {
        let member = &mut manager.view.members[*number];
        if member.node.is_replica() {
            continue;
        }
        let count = member.count_keys(slot)?;
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((*number, count));
        }
    }
    Ok(best.map(|(number, _)| number))
}
