//! The capture of a table for a snapshot: its beginning, the capture of an entry, and its end.
//!
//! `before_images` has the state of the capture and the copying of an entry; this file is the table's side of it. A table of
//! keys is used under its shard's lock; a table that the store has released belongs to the snapshot, which then walks it
//! without a lock.

use super::before_images::{BeforeImages, Recipient, capture_string};
use super::entry::EPOCH;
use super::entry::Entry;
use super::{SlotIndex, Table};
use crate::memory::prefetch::prefetch;
use crate::value::Kind;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::{Budget, CaptureSource};
use crate::value::collection::{Object, ObjectRef};
use std::fmt;
use std::sync::Arc;

/// The number of entries that are captured together: a budget may be overdrawn by these.
const ENTRIES_AT_ONCE: usize = 16;

impl Table {
    /// Begins the capture: all entries become pending. Returns false, and does nothing, if there are none.
    ///
    /// # Panics
    /// If a capture is under way.
    pub fn begin_capture(&mut self, recipient: Recipient) -> bool {
        assert!(self.before_images.is_none(), "a snapshot begins when the one before has ended");
        if self.len() == 0 {
            return false;
        }
        self.epoch ^= EPOCH;
        self.before_images = Some(Box::new(BeforeImages::new(self.len(), recipient)));
        true
    }

    /// Captures the entry at `place` if it is pending.
    #[cold]
    #[inline(never)]
    pub(super) fn capture(&mut self, place: SlotIndex) {
        let slot = self.directory[place.segment].slot(place.slot);
        // SAFETY: the entry of a filled slot lives.
        self.capture_entry(unsafe { Entry::at(slot.address()) }, &mut Budget::unbounded());
        self.finish_capture();
    }

    fn capture_entry(&mut self, entry: Entry, budget: &mut Budget) {
        match &mut self.before_images {
            Some(before_images) if entry.epoch() != self.epoch => {
                before_images.capture(entry, &mut self.heap, budget);
                entry.set_epoch(self.epoch);
            }
            // Looking at the entry costs a piece of the budget.
            _ => budget.spend(0),
        }
    }

    /// Ends the capture if no entry is pending any more.
    fn finish_capture(&mut self) {
        if let Some(before_images) = self.before_images.take_if(|before_images| before_images.is_done()) {
            before_images.finish();
        }
    }

    /// Captures pending entries from the walk's position on, and delivers them.
    pub fn capture_more(&mut self, budget: &mut Budget) {
        let mut batch = Vec::with_capacity(4 * ENTRIES_AT_ONCE);
        while let Some(before_images) = self.before_images.as_ref().filter(|_| !budget.is_spent()) {
            let step = self.walk(before_images.position, ENTRIES_AT_ONCE, |entry| {
                let address = entry.entry().address();
                prefetch(address as *const u8);
                prefetch((address + 64) as *const u8);
                batch.push(entry.entry());
            });
            budget.spend(0);
            batch.drain(..).for_each(|entry| self.capture_entry(entry, budget));
            match (step.next, &mut self.before_images) {
                (Some(next), Some(before_images)) => before_images.position = next,
                // The walk has met every entry that stayed: one that is still pending was changed without being captured.
                (None, before_images) => {
                    if let Some(before_images) = before_images.take() {
                        before_images.finish();
                    }
                }
                (Some(_), None) => {}
            }
            self.finish_capture();
        }
        if let Some(before_images) = &mut self.before_images {
            before_images.deliver();
        }
    }

    /// Returns the snapshot's unfinished copy of the collection that this table belongs to, during its capture.
    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        match self.before_images.as_ref()?.recipient() {
            Recipient::Members(open_value) => Some(open_value),
            Recipient::Keys { .. } => None,
        }
    }

    /// Captures more of the collection under a key, if it is the one that was opened, and returns whether it is.
    pub fn capture_opened(
        &mut self,
        position: u64,
        key: &[u8],
        open_value: &Arc<OpenValue>,
        budget: &mut Budget,
    ) -> bool {
        let Some(entry) = self.find(position, key).map(|entry| entry.entry()) else { return false };
        if open_value.metadata().kind == Kind::String {
            return capture_string(entry, open_value, &mut self.heap, budget);
        }
        let is_it = |object: ObjectRef<'_>| object.open_value().is_some_and(|other| Arc::ptr_eq(other, open_value));
        if !entry.object().is_some_and(is_it) {
            return false;
        }
        // SAFETY: nothing else refers to the value of an entry of a table that is borrowed to be changed.
        unsafe { entry.change_object(&mut self.heap, |object: &mut Object| object.capture_more(budget)) };
        true
    }

    /// Gives the whole table to the snapshot that lacks entries of it, because the store releases it. Returns false if the
    /// snapshot does not want them any more.
    #[cold]
    pub(super) fn give_away(&mut self) -> bool {
        if let Some(before_images) = self.before_images.take_if(|before_images| before_images.is_aborted()) {
            before_images.abandon();
            return false;
        }
        let empty = Self::new(self.placement);
        let table = Box::new(std::mem::replace(self, empty));
        match table.before_images.as_ref().map(|before_images| before_images.recipient().clone()) {
            Some(Recipient::Keys { queue, .. }) => queue.adopt(table),
            Some(Recipient::Members(open_value)) => open_value.adopt(table),
            None => return false,
        }
        true
    }
}

impl fmt::Debug for Table {
    /// Prints the number of entries only; there may be millions.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Table({})", self.len())
    }
}

impl CaptureSource for Table {
    fn capture_more(&mut self, budget: &mut Budget) {
        self.capture_more(budget);
    }
}
