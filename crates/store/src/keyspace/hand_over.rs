//! What a shard has to do with a snapshot: all of its tables begin to owe, and are walked one after the other.
//!
//! Under the shard's lock. Databases may be exchanged, emptied and filled meanwhile: what is owed lies in the tables.

use std::sync::Arc;

use super::shard::Shard;
use crate::table::entry::body::Body;
use crate::table::owed::Recipient;
use crate::value::handover::open_value::OpenValue;
use crate::value::handover::owing::Budget;
use crate::value::handover::queue::SnapshotQueue;
use crate::value::key_hash::Key;

impl Shard {
    /// From now on every key is owed to the snapshot.
    pub(crate) fn owe(&mut self, queue: &Arc<SnapshotQueue>) {
        for (db, table) in self.tables.iter_mut().enumerate() {
            if table.owe(Recipient::Keys { queue: Arc::clone(queue), db }) {
                queue.add_table();
            }
        }
    }

    /// A value that is about to be put under a key. It may have been taken from under another while it was open.
    pub(super) fn followed<'a>(body: Body<'a>, key: &[u8]) -> Body<'a> {
        if let Body::Object(object) = &body
            && let Some(open_value) = object.view().open_value()
        {
            open_value.follow(key);
        }
        body
    }

    /// Whether any hash of a database has fields that expire.
    pub(crate) fn has_timed_fields(&self) -> bool {
        self.due.iter().any(|due| !due.is_empty())
    }

    /// Hands over more keys; false if none is owed.
    pub(crate) fn hand_over(&mut self, budget: &mut Budget) -> bool {
        let table = self.tables.iter_mut().find(|table| table.owes());
        table.is_some_and(|table| {
            table.hand_over(budget);
            true
        })
    }

    /// Hands over more of an opened value if it is under this key; whether it is.
    pub(crate) fn hand_over_opened(&mut self, key: Key<'_>, open_value: &Arc<OpenValue>, budget: &mut Budget) -> bool {
        let position = self.placement.position(key.hash);
        self.tables.iter_mut().any(|table| table.hand_over_opened(position, key.name, open_value, budget))
    }
}
