//! What a stream still owes to a snapshot: which of its blocks, and which of the pending entries of a group, by their ids.
//!
//! The walk goes up the ids; what is ahead of it and was handed over early, or has come since, is noted until the walk has
//! passed. Only `by_id` speaks to it, under the shard's lock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::id::StreamId;
use crate::value::handover::open_value::OpenValue;
use crate::value::handover::owing::Budget;

/// What is owed under an id.
pub(crate) trait Owes {
    /// Hands itself over; says how many bytes that were.
    fn hand(&self, id: StreamId, group: u32, open_value: &OpenValue) -> usize;
}

/// What a stream, or one of its groups, still owes.
#[derive(Debug)]
pub(crate) struct Owed {
    open_value: Arc<OpenValue>,
    /// The number of the group, where it is one that owes.
    group: u32,
    /// The last id there was.
    last: StreamId,
    /// Where the walk stands: nothing up to this id is owed.
    at: Option<StreamId>,
    /// Ids behind that, up to the last, under which nothing is owed.
    exempt: BTreeSet<StreamId>,
    left: usize,
}

impl Owed {
    /// Everything there is, is owed. None if that is nothing.
    pub fn of<V>(all: &BTreeMap<StreamId, V>, group: u32, open_value: &Arc<OpenValue>) -> Option<Box<Self>> {
        let (&last, _) = all.last_key_value()?;
        let open_value = Arc::clone(open_value);
        Some(Box::new(Self { open_value, group, last, at: None, exempt: BTreeSet::new(), left: all.len() }))
    }

    pub fn open_value(&self) -> &Arc<OpenValue> {
        &self.open_value
    }

    /// Whether nothing is owed any longer.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Where the walk stands.
    pub fn at(&self) -> Option<StreamId> {
        self.at
    }

    fn lies_ahead(&self, id: StreamId) -> bool {
        id <= self.last && self.at.is_none_or(|at| id > at)
    }

    /// Hands over what is about to change or to go, if it is owed.
    pub fn take(&mut self, id: StreamId, owing: &impl Owes) {
        if self.lies_ahead(id) && self.exempt.insert(id) {
            self.hand(id, owing);
        }
    }

    fn hand(&mut self, id: StreamId, owing: &impl Owes) -> usize {
        self.left -= 1;
        if self.open_value.is_aborted() { 0 } else { owing.hand(id, self.group, &self.open_value) }
    }

    /// Something has come under an id under which there was nothing.
    pub fn insert(&mut self, id: StreamId) {
        if self.lies_ahead(id) {
            self.exempt.insert(id);
        }
    }

    /// Hands over what is owed, up the ids.
    pub fn hand_over(&mut self, all: &BTreeMap<StreamId, impl Owes>, budget: &mut Budget) {
        let start = self.at.map_or(Bound::Unbounded, Bound::Excluded);
        let mut is_at_end = true;
        for (&id, owing) in all.range((start, Bound::Included(self.last))) {
            if budget.is_spent() {
                is_at_end = false;
                break;
            }
            let bytes = if self.exempt.remove(&id) { 0 } else { self.hand(id, owing) };
            self.at = Some(id);
            budget.spend(bytes);
        }
        if let Some(at) = self.at {
            // What went early stands before this one too.
            self.exempt = self.exempt.split_off(&at);
        }
        if is_at_end {
            // All that stayed was met. What is missing now is missed when the parts are counted.
            self.left = 0;
        }
    }
}
