//! A shard's part in a snapshot: it begins the capture of all of its tables, and walks them one after the other.
//!
//! Under the shard's lock. Databases may be exchanged, emptied and filled during the capture: its state lies in the tables.

use std::sync::Arc;

use super::shard::Shard;
use crate::table::before_images::Recipient;
use crate::table::entry::body::Body;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::queue::SnapshotQueue;
use crate::value::capture::source::Budget;
use crate::value::key_hash::Key;

impl Shard {
    /// Begins the capture of every key.
    pub(crate) fn begin_capture(&mut self, queue: &Arc<SnapshotQueue>) {
        for (db, table) in self.tables.iter_mut().enumerate() {
            if table.begin_capture(Recipient::Keys { queue: Arc::clone(queue), db }) {
                queue.add_table();
            }
        }
    }

    /// Notes the present key of a value that a snapshot is capturing: the value may have been taken from another key since
    /// the capture began.
    pub(super) fn followed<'a>(body: Body<'a>, key: &[u8]) -> Body<'a> {
        if let Body::Object(object) = &body
            && let Some(open_value) = object.view().open_value()
        {
            open_value.follow(key);
        }
        body
    }

    /// Returns whether any hash of the shard has fields that expire.
    pub(crate) fn has_timed_fields(&self) -> bool {
        self.due.iter().any(|due| !due.is_empty())
    }

    /// Captures more keys; returns false if none is pending.
    pub(crate) fn capture_more(&mut self, budget: &mut Budget) -> bool {
        let table = self.tables.iter_mut().find(|table| table.is_captured_from());
        table.is_some_and(|table| {
            table.capture_more(budget);
            true
        })
    }

    /// Captures more of a value for `open_value`, the snapshot's unfinished copy of it, if the value is under this key.
    /// Returns whether it is.
    pub(crate) fn capture_opened(&mut self, key: Key<'_>, open_value: &Arc<OpenValue>, budget: &mut Budget) -> bool {
        let position = self.placement.position(key.hash);
        self.tables.iter_mut().any(|table| table.capture_opened(position, key.name, open_value, budget))
    }
}
