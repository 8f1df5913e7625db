//! What stands under ids, behind one door: the blocks of a stream, and the pending entries of a group.
//!
//! A value comes, changes and goes here alone, so that a snapshot that is owed it gets it before the change. To look at them
//! is free to all. Under the shard's lock, or on the snapshot's thread when the store has let go of the stream.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::id::StreamId;
use super::owed::{Owed, Owes};
use crate::value::handover::open_value::OpenValue;
use crate::value::handover::owing::Budget;

/// Values in the order of their ids.
#[derive(Debug)]
pub(super) struct ById<V> {
    all: BTreeMap<StreamId, V>,
    /// What is owed to a snapshot, while anything is.
    owed: Option<Box<Owed>>,
}

impl<V> Default for ById<V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), owed: None }
    }
}

impl<V: Clone> Clone for ById<V> {
    /// The copy owes nothing.
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), owed: None }
    }
}

impl<V> Deref for ById<V> {
    type Target = BTreeMap<StreamId, V>;

    #[inline]
    fn deref(&self) -> &BTreeMap<StreamId, V> {
        &self.all
    }
}

impl<V: Owes> ById<V> {
    /// The last value, to be changed, with its id.
    #[inline]
    pub fn last_mut(&mut self) -> Option<(StreamId, &mut V)> {
        if self.owed.is_some()
            && let Some((&last, _)) = self.all.last_key_value()
        {
            self.take_down(last);
        }
        let last = self.all.last_entry()?;
        Some((*last.key(), last.into_mut()))
    }

    /// A value, to be changed.
    pub fn get_mut(&mut self, id: StreamId) -> Option<&mut V> {
        if self.owed.is_some() {
            self.take_down(id);
        }
        self.all.get_mut(&id)
    }

    /// Puts a value under an id; what was there before.
    pub fn insert(&mut self, id: StreamId, value: V) -> Option<V> {
        if self.owed.is_some() {
            self.take_down(id);
        }
        self.all.insert(id, value)
    }

    /// Takes a value out.
    pub fn remove(&mut self, id: StreamId) -> Option<V> {
        if self.owed.is_some() {
            self.take_down(id);
        }
        self.all.remove(&id)
    }

    /// Hands over what is about to change or to go under an id, if it is owed. If there is nothing, something is about to come.
    #[cold]
    fn take_down(&mut self, id: StreamId) {
        if let Some(owed) = &mut self.owed {
            match self.all.get(&id) {
                Some(value) => owed.take(id, value),
                None => owed.insert(id),
            }
        }
        self.settle_owed();
    }
}

/// What a snapshot is owed.
impl<V: Owes> ById<V> {
    /// From now on all there is, is owed to what was opened, in which a group has this number.
    pub fn owe(&mut self, group: u32, open_value: &Arc<OpenValue>) {
        self.owed = Owed::of(&self.all, group, open_value);
    }

    /// What was opened, while anything is owed.
    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.owed.as_ref().map(|owed| owed.open_value())
    }

    /// Hands over what is owed, up the ids, and says with `reached` how far that went.
    pub fn hand_over(&mut self, budget: &mut Budget, reached: impl FnOnce(&OpenValue, StreamId)) {
        if let Some(owed) = &mut self.owed {
            owed.hand_over(&self.all, budget);
            if let Some(at) = owed.at() {
                reached(owed.open_value(), at);
            }
        }
        self.settle_owed();
    }

    /// Owes nothing any longer; whether it did.
    pub fn forget(&mut self) -> bool {
        self.owed.take().is_some()
    }

    fn settle_owed(&mut self) {
        if let Some(owed) = self.owed.take_if(|owed| owed.is_done()) {
            owed.open_value().finish();
        }
    }
}
