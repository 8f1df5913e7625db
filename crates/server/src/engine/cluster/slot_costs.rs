//! The time and the bytes of the requests for each slot, for CLUSTER SLOT-STATS with `cluster-slot-stats-enabled yes`.
//!
//! The executing thread adds the cost of a command when it ends (`context/command_log`). Any thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sleeve_cluster::{SLOTS, Slot};

/// The cost of some requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The time in which they ran, in ticks of the processor.
    pub ticks: u64,
    /// The bytes of the requests.
    pub input_bytes: u64,
    /// The bytes of the replies.
    pub output_bytes: u64,
}

#[derive(Debug, Default)]
struct Cell {
    ticks: AtomicU64,
    input_bytes: AtomicU64,
    output_bytes: AtomicU64,
}

impl Cell {
    fn clear(&self) {
        for count in [&self.ticks, &self.input_bytes, &self.output_bytes] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// The costs of all slots since the start, since CONFIG RESETSTAT, or since the slot came. They take 384 KiB from the first
/// request that is counted.
#[derive(Debug, Default)]
pub struct SlotCosts(OnceLock<Box<[Cell]>>);

impl SlotCosts {
    /// Adds the cost of a request for a slot.
    pub fn add(&self, slot: Slot, cost: Cost) {
        let cells = self.0.get_or_init(|| (0..SLOTS).map(|_| Cell::default()).collect());
        let Some(cell) = cells.get(usize::from(slot)) else { return };
        cell.ticks.fetch_add(cost.ticks, Ordering::Relaxed);
        cell.input_bytes.fetch_add(cost.input_bytes, Ordering::Relaxed);
        cell.output_bytes.fetch_add(cost.output_bytes, Ordering::Relaxed);
    }

    /// Returns the cost of the requests for a slot.
    pub fn of(&self, slot: Slot) -> Cost {
        let Some(cell) = self.0.get().and_then(|cells| cells.get(usize::from(slot))) else { return Cost::default() };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Cost { ticks: read(&cell.ticks), input_bytes: read(&cell.input_bytes), output_bytes: read(&cell.output_bytes) }
    }

    /// Forgets the costs of all slots but those for which `is_kept` returns true.
    pub fn retain(&self, is_kept: impl Fn(Slot) -> bool) {
        let cells = (0..SLOTS).zip(self.0.get().into_iter().flatten());
        cells.filter(|(slot, _)| !is_kept(*slot)).for_each(|(_, cell)| cell.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_by_slot_until_the_slot_leaves() {
        let costs = SlotCosts::default();
        costs.retain(|_| false);
        assert_eq!(costs.of(7), Cost::default());
        let cost = Cost { ticks: 3, input_bytes: 40, output_bytes: 5 };
        [7, 7, 9, SLOTS].iter().for_each(|slot| costs.add(*slot, cost));
        assert_eq!(costs.of(7), Cost { ticks: 6, input_bytes: 80, output_bytes: 10 });
        costs.retain(|slot| slot != 7);
        assert_eq!((costs.of(7), costs.of(8), costs.of(9)), (Cost::default(), Cost::default(), cost));
    }
}
