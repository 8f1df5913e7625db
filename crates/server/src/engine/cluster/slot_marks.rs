//! The service of each slot by this node, as a byte that a worker reads for each request.
//!
//! A mark that a worker may act on without a further look leaves its slot only while all shards are locked. So a worker that
//! finds it behind the lock of its shard can rely on it until it gives the lock back. Any thread may read; one at a time
//! changes.

use std::sync::atomic::{AtomicU8, Ordering};

use sleeve_cluster::state::View;
use sleeve_cluster::{SLOTS, Slot, SlotSet};

use super::judgement::is_of_shard;

/// The service of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// This node serves all requests for the slot.
    Own = 0,
    /// The primary of this node, a replica, serves the slot. This node may serve reads of clients that sent READONLY.
    OfPrimary = 1,
    /// The view has to be asked: the slot is on the move, another node serves it, or the cluster is down.
    Other = 2,
}

/// The marks of all slots.
#[derive(Debug)]
pub struct SlotMarks(Box<[AtomicU8]>);

impl Default for SlotMarks {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU8::new(Mark::Other as u8)).collect())
    }
}

impl SlotMarks {
    /// Returns whether the slot has this mark. A number that is no slot has none but `Other`.
    #[inline]
    pub fn is(&self, slot: Slot, mark: Mark) -> bool {
        self.0.get(usize::from(slot)).map_or(Mark::Other as u8, |own| own.load(Ordering::Relaxed)) == mark as u8
    }

    /// Sets the marks that follow from a view. All shards are locked.
    pub fn follow(&self, view: &View) {
        let moving: SlotSet = view.migrating.keys().chain(view.importing.keys()).copied().collect();
        let served = if view.is_replica { Mark::OfPrimary } else { Mark::Own };
        for (slot, mark) in (0..SLOTS).zip(&*self.0) {
            let is_served = view.is_ok && is_of_shard(view, slot) && !moving.contains(slot);
            mark.store(if is_served { served } else { Mark::Other } as u8, Ordering::Relaxed);
        }
    }
}
