//! The owners of the slots.

use std::collections::BTreeMap;

use crate::id::NodeId;
use crate::slots::{SLOTS, Slot, SlotSet};

/// The owner of each slot, and the slots that are moved by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotTable {
    owners: Box<[Option<NodeId>]>,
    /// The slots that leave this node, and where they go.
    pub migrating: BTreeMap<Slot, NodeId>,
    /// The slots that come to this node, and where they come from.
    pub importing: BTreeMap<Slot, NodeId>,
    /// The slots that their owner has ceased to claim, although no other node claims them yet. Until then requests still go
    /// to the owner, but no UPDATE names it, for the new owner may only be unknown here.
    pub released: SlotSet,
}

impl SlotTable {
    /// Returns the owner of a slot. None if it has none.
    pub fn owner(&self, slot: Slot) -> Option<NodeId> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    /// Sets the owner of a slot. The caller keeps [`crate::Node::slots`] of both nodes the same.
    pub fn set_owner(&mut self, slot: Slot, owner: Option<NodeId>) {
        if let Some(entry) = self.owners.get_mut(usize::from(slot)) {
            *entry = owner;
        }
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        Self {
            owners: vec![None; usize::from(SLOTS)].into(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            released: SlotSet::default(),
        }
    }
}
