//! Whether a reply may leave: what it shows has to outlive the process.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::clients::blocking::{OnTimeout, Waiter};

impl Engine {
    /// Whether a reply may leave that shows the journal up to this offset. What is not written yet is written here, if
    /// nobody else does.
    pub fn passes(&self, shown: u64) -> bool {
        let durability = &self.durability;
        if shown > durability.passed() {
            self.write_log_if_idle();
        }
        shown <= durability.passed()
    }

    /// Waits until the journal has passed this offset; false when the log cannot be written.
    pub fn wait_to_pass(&self, shown: u64) -> bool {
        self.passes(shown) || self.durability.wait(shown)
    }

    /// The offset of the journal up to which the disk has it; none where there is no log.
    pub fn synced_offset(&self) -> Option<u64> {
        self.durability.log.is_open().then(|| self.journal.synced())
    }

    /// Answers a client of WAITAOF when the disk has the journal up to this offset.
    pub fn answer_when_synced(&self, waiter: &Arc<Waiter>, offset: u64) {
        self.durability.log.wait_for_sync(offset, waiter);
        // It may have come about since it was looked for.
        self.answer_synced();
    }

    /// Answers those who wait for the disk and have waited long enough.
    pub(super) fn answer_synced(&self) {
        let Some(synced) = self.synced_offset() else { return };
        for (offset, waiter) in self.durability.log.take_synced(synced) {
            let disks = OnTimeout::Disks(offset);
            self.answer(&waiter, |reply| disks.put(reply, Some(synced)));
        }
    }
}
