//! The packs of a long list that a snapshot still lacks, and the place of each at the instant.
//!
//! The places stand beside the packs, in a deque that is changed as theirs is; a captured pack, and a later one, has none. So
//! a pack is captured once, before it changes or goes, and the writer of the snapshot puts the packs in order. Only `nodes`
//! uses it, under the shard's lock.

use std::collections::VecDeque;
use std::sync::Arc;

use super::node::Node;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::Budget;

/// The mark that stands in the place of a pack that is not pending.
const CAPTURED: u32 = u32::MAX;

/// The state of the capture of one list.
pub(crate) struct BeforeImages {
    open_value: Arc<OpenValue>,
    /// The place of each pack at the instant.
    places: VecDeque<u32>,
    /// The first pack that may be pending: the position of the walk.
    at: usize,
    left: usize,
}

impl BeforeImages {
    /// Returns a state in which all of these packs are pending.
    pub fn new(open_value: Arc<OpenValue>, packs: usize) -> Self {
        let places = (0..packs).map(|place| u32::try_from(place).expect("a list has fewer packs")).collect();
        Self { open_value, places, at: 0, left: packs }
    }

    pub fn open_value(&self) -> &Arc<OpenValue> {
        &self.open_value
    }

    /// Returns whether every pack has been captured.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Captures a pack if it is pending, and returns its place at the instant and its bytes.
    pub fn capture(&mut self, node: usize, pack: &Node) -> Option<(u32, usize)> {
        let place = std::mem::replace(&mut self.places[node], CAPTURED);
        if place == CAPTURED {
            return None;
        }
        self.left -= 1;
        let part = if self.open_value.is_aborted() { None } else { Some(pack.to_part()) };
        let bytes = part.as_ref().map_or(0, |part| part.bytes.len());
        if let Some(part) = part {
            self.open_value.deliver_part(u128::from(place), part);
        }
        Some((place, bytes))
    }

    /// Notes a new pack, which is not pending.
    pub fn insert(&mut self, node: usize) {
        self.places.insert(node, CAPTURED);
        self.at += usize::from(node < self.at);
    }

    /// Forgets a pack that was captured and has gone.
    pub fn remove(&mut self, node: usize) {
        self.places.remove(node);
        self.at -= usize::from(node < self.at);
    }

    /// Keeps only these packs; the others were captured before.
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

    /// Captures pending packs, from the front on.
    pub fn capture_more(&mut self, packs: &VecDeque<Node>, budget: &mut Budget) {
        let mut reached = None;
        while !budget.is_spent() && self.at < packs.len() {
            if let Some((place, bytes)) = self.capture(self.at, &packs[self.at]) {
                reached = Some(place);
                budget.spend(bytes);
            }
            self.at += 1;
        }
        if let Some(place) = reached {
            self.open_value.reach(u128::from(place));
        }
        if self.at == packs.len() {
            // Every pack that stayed was met. A missing one is noticed when the parts are counted.
            self.left = 0;
        }
    }
}
