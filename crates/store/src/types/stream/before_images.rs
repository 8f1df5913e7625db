//! The blocks of a stream, or pending entries of a group, that a snapshot still lacks, by their ids.
//!
//! The walk goes up the ids; an id ahead of it that was captured early, or was added since, is noted until the walk has
//! passed. Only `by_id` uses it, under the shard's lock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::id::StreamId;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::Budget;

/// A value under an id that a snapshot can lack.
pub(crate) trait BeforeImage {
    /// Delivers the value to the snapshot; returns the number of bytes delivered.
    fn deliver(&self, id: StreamId, group: u32, open_value: &OpenValue) -> usize;
}

/// The state of the capture of a stream, or of one of its groups.
#[derive(Debug)]
pub(crate) struct BeforeImages {
    open_value: Arc<OpenValue>,
    /// The number of the group, if a group is captured.
    group: u32,
    /// The last id at the instant of the snapshot.
    last: StreamId,
    /// The position of the walk: no id up to this one is pending.
    at: Option<StreamId>,
    /// The ids from the walk's position up to the last that are not pending.
    exempt: BTreeSet<StreamId>,
    left: usize,
}

impl BeforeImages {
    /// Returns a state in which all values are pending; None if there are none.
    pub fn of<V>(all: &BTreeMap<StreamId, V>, group: u32, open_value: &Arc<OpenValue>) -> Option<Box<Self>> {
        let (&last, _) = all.last_key_value()?;
        let open_value = Arc::clone(open_value);
        Some(Box::new(Self { open_value, group, last, at: None, exempt: BTreeSet::new(), left: all.len() }))
    }

    pub fn open_value(&self) -> &Arc<OpenValue> {
        &self.open_value
    }

    /// Returns whether every value has been captured.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Returns the id that the walk has reached.
    pub fn at(&self) -> Option<StreamId> {
        self.at
    }

    fn lies_ahead(&self, id: StreamId) -> bool {
        id <= self.last && self.at.is_none_or(|at| id > at)
    }

    /// Captures a value that is about to change or to go, if it is pending.
    pub fn capture(&mut self, id: StreamId, image: &impl BeforeImage) {
        if self.lies_ahead(id) && self.exempt.insert(id) {
            self.deliver(id, image);
        }
    }

    fn deliver(&mut self, id: StreamId, image: &impl BeforeImage) -> usize {
        self.left -= 1;
        if self.open_value.is_aborted() { 0 } else { image.deliver(id, self.group, &self.open_value) }
    }

    /// Notes that a value was added under an id that had none.
    pub fn insert(&mut self, id: StreamId) {
        if self.lies_ahead(id) {
            self.exempt.insert(id);
        }
    }

    /// Captures pending values, in the order of their ids.
    pub fn capture_more(&mut self, all: &BTreeMap<StreamId, impl BeforeImage>, budget: &mut Budget) {
        let start = self.at.map_or(Bound::Unbounded, Bound::Excluded);
        let mut is_at_end = true;
        for (&id, image) in all.range((start, Bound::Included(self.last))) {
            if budget.is_spent() {
                is_at_end = false;
                break;
            }
            let bytes = if self.exempt.remove(&id) { 0 } else { self.deliver(id, image) };
            self.at = Some(id);
            budget.spend(bytes);
        }
        if let Some(at) = self.at {
            // Ids before this one that were captured early are not needed any more.
            self.exempt = self.exempt.split_off(&at);
        }
        if is_at_end {
            // Every value that stayed was met. A missing one is noticed when the parts are counted.
            self.left = 0;
        }
    }
}
