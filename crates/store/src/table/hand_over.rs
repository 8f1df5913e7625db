//! A table that is walked for a snapshot: how that begins, how an entry is taken down, and how it ends.
//!
//! What is owed, and what happens to an entry, is in `owed`; here is the table's side of it. A table of keys is used under
//! its shard's lock; one that the store has let go of belongs to the snapshot, which then walks it without any.

use super::entry::EPOCH;
use super::entry::Entry;
use super::owed::{Owed, Recipient, hand_over_string};
use super::{SlotIndex, Table};
use crate::memory::prefetch::prefetch;
use crate::value::Kind;
use crate::value::collection::{Object, ObjectRef};
use crate::value::handover::open_value::OpenValue;
use crate::value::handover::owing::{Budget, Owing};
use std::fmt;
use std::sync::Arc;

/// Entries that are taken down together: a budget may be overdrawn by these.
const ENTRIES_AT_ONCE: usize = 16;

impl Table {
    /// From now on all entries are owed. False if there are none, and nothing is done then.
    ///
    /// # Panics
    /// If some are owed already.
    pub fn owe(&mut self, recipient: Recipient) -> bool {
        assert!(self.owed.is_none(), "a snapshot begins when the one before has ended");
        if self.len() == 0 {
            return false;
        }
        self.epoch ^= EPOCH;
        self.owed = Some(Box::new(Owed::new(self.len(), recipient)));
        true
    }

    /// Takes the entry at `place` down if it is owed.
    #[cold]
    #[inline(never)]
    pub(super) fn take_down(&mut self, place: SlotIndex) {
        let slot = self.directory[place.segment].slot(place.slot);
        // SAFETY: the entry of a filled slot lives.
        self.take_entry_down(unsafe { Entry::at(slot.address()) }, &mut Budget::unbounded());
        self.settle_owed();
    }

    fn take_entry_down(&mut self, entry: Entry, budget: &mut Budget) {
        match &mut self.owed {
            Some(owed) if entry.epoch() != self.epoch => {
                owed.take(entry, &mut self.heap, budget);
                entry.set_epoch(self.epoch);
            }
            // It costs a look.
            _ => budget.spend(0),
        }
    }

    /// Ends when nothing is owed any more.
    fn settle_owed(&mut self) {
        if let Some(owed) = self.owed.take_if(|owed| owed.is_done()) {
            owed.finish();
        }
    }

    /// Takes down what is owed from where the walk stands, and hands it over.
    pub fn hand_over(&mut self, budget: &mut Budget) {
        let mut batch = Vec::with_capacity(4 * ENTRIES_AT_ONCE);
        while let Some(owed) = self.owed.as_ref().filter(|_| !budget.is_spent()) {
            let step = self.walk(owed.position, ENTRIES_AT_ONCE, |entry| {
                let address = entry.entry().address();
                prefetch(address as *const u8);
                prefetch((address + 64) as *const u8);
                batch.push(entry.entry());
            });
            budget.spend(0);
            batch.drain(..).for_each(|entry| self.take_entry_down(entry, budget));
            match (step.next, &mut self.owed) {
                (Some(next), Some(owed)) => owed.position = next,
                // The walk has met all that stayed: what is left now was changed behind its back.
                (None, owed) => {
                    if let Some(owed) = owed.take() {
                        owed.finish();
                    }
                }
                (Some(_), None) => {}
            }
            self.settle_owed();
        }
        if let Some(owed) = &mut self.owed {
            owed.hand();
        }
    }

    /// What was opened of this table as a collection's, while it is.
    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        match self.owed.as_ref()?.recipient() {
            Recipient::Members(open_value) => Some(open_value),
            Recipient::Keys { .. } => None,
        }
    }

    /// Hands over more of the collection under a key, if it is the one that was opened; whether it is.
    pub fn hand_over_opened(
        &mut self,
        position: u64,
        key: &[u8],
        open_value: &Arc<OpenValue>,
        budget: &mut Budget,
    ) -> bool {
        let Some(entry) = self.find(position, key).map(|entry| entry.entry()) else { return false };
        if open_value.metadata().kind == Kind::String {
            return hand_over_string(entry, open_value, &mut self.heap, budget);
        }
        let is_it = |object: ObjectRef<'_>| object.open_value().is_some_and(|other| Arc::ptr_eq(other, open_value));
        if !entry.object().is_some_and(is_it) {
            return false;
        }
        // SAFETY: nothing else refers to the value of an entry of a table that is borrowed to be changed.
        unsafe { entry.change_object(&mut self.heap, |object: &mut Object| object.hand_over(budget)) };
        true
    }

    /// Gives the whole table to the snapshot to which it owes entries, because the store lets go of it. False if the
    /// snapshot does not want them any more.
    #[cold]
    pub(super) fn give_away(&mut self) -> bool {
        if let Some(owed) = self.owed.take_if(|owed| owed.is_aborted()) {
            owed.abandon();
            return false;
        }
        let empty = Self::new(self.placement);
        let table = Box::new(std::mem::replace(self, empty));
        match table.owed.as_ref().map(|owed| owed.recipient().clone()) {
            Some(Recipient::Keys { queue, .. }) => queue.adopt(table),
            Some(Recipient::Members(open_value)) => open_value.adopt(table),
            None => return false,
        }
        true
    }
}

impl fmt::Debug for Table {
    /// Says how large it is; what is in it may be millions of entries.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Table({})", self.len())
    }
}

impl Owing for Table {
    fn hand_over(&mut self, budget: &mut Budget) {
        self.hand_over(budget);
    }
}
