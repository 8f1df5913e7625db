//! What a long list still owes to a snapshot: which of its packs, and where each of them stood.
//!
//! A pack's place at the instant stands beside the packs, in a deque that is changed as theirs is; a pack that was handed
//! over, and one that came later, has none. So a pack is handed over once, before it changes or goes, and whoever writes
//! the list down puts them in order. Only `nodes` speaks to it, under the shard's lock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::node::Node;
use crate::value::handover::open_value::OpenValue;
use crate::value::handover::owing::Budget;

/// Instead of the place of a pack that is not owed.
const NOT_OWED: u32 = u32::MAX;

/// What a list still owes.
pub(crate) struct Owed {
    open_value: Arc<OpenValue>,
    /// The place of each pack at the instant.
    places: VecDeque<u32>,
    /// Where the walk stands: no pack before this one is owed.
    at: usize,
    left: usize,
}

impl Owed {
    /// All of these packs are owed.
    pub fn new(open_value: Arc<OpenValue>, packs: usize) -> Self {
        let places = (0..packs).map(|place| u32::try_from(place).expect("a list has fewer packs")).collect();
        Self { open_value, places, at: 0, left: packs }
    }

    pub fn open_value(&self) -> &Arc<OpenValue> {
        &self.open_value
    }

    /// Whether nothing is owed any longer.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Hands a pack over if it is owed. Returns its place then, and its bytes.
    pub fn take(&mut self, node: usize, pack: &Node) -> Option<(u32, usize)> {
        let place = std::mem::replace(&mut self.places[node], NOT_OWED);
        if place == NOT_OWED {
            return None;
        }
        self.left -= 1;
        let part = if self.open_value.is_aborted() { None } else { Some(pack.to_part()) };
        let bytes = part.as_ref().map_or(0, |part| part.bytes.len());
        if let Some(part) = part {
            self.open_value.hand_part(u128::from(place), part);
        }
        Some((place, bytes))
    }

    /// A pack has come.
    pub fn insert(&mut self, node: usize) {
        self.places.insert(node, NOT_OWED);
        self.at += usize::from(node < self.at);
    }

    /// A pack has gone, which had been handed over.
    pub fn remove(&mut self, node: usize) {
        self.places.remove(node);
        self.at -= usize::from(node < self.at);
    }

    /// Only these packs have stayed; the others had been handed over.
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let (mut node, at, mut gone) = (0, self.at, 0);
        self.places.retain(|_| {
            let stays = stays(node);
            gone += usize::from(!stays && node < at);
            node += 1;
            stays
        });
        self.at -= gone;
    }

    /// Hands over what is owed of these packs, from the front on.
    pub fn hand_over(&mut self, packs: &VecDeque<Node>, budget: &mut Budget) {
        let mut reached = None;
        while !budget.is_spent() && self.at < packs.len() {
            if let Some((place, bytes)) = self.take(self.at, &packs[self.at]) {
                reached = Some(place);
                budget.spend(bytes);
            }
            self.at += 1;
        }
        if let Some(place) = reached {
            self.open_value.reach(u128::from(place));
        }
        if self.at == packs.len() {
            // All that stayed was met. What is missing now is missed when the parts are counted.
            self.left = 0;
        }
    }
}
