//! Values under ids: the blocks of a stream, and the pending entries of a group. All changes of a value go through this file.
//!
//! A value is added, changed and removed here only, so that a snapshot that lacks it captures it before the change. Reading
//! needs no such care. Under the shard's lock, or on the snapshot's thread when the store has released the stream.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::before_images::{BeforeImage, BeforeImages};
use super::id::StreamId;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::Budget;

/// Values in the order of their ids.
#[derive(Debug)]
pub(super) struct ById<V> {
    all: BTreeMap<StreamId, V>,
    /// The before-images that a snapshot still lacks, while it does.
    before_images: Option<Box<BeforeImages>>,
}

impl<V> Default for ById<V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), before_images: None }
    }
}

impl<V: Clone> Clone for ById<V> {
    /// Copies the values only; no snapshot lacks any of the copy.
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), before_images: None }
    }
}

impl<V> Deref for ById<V> {
    type Target = BTreeMap<StreamId, V>;

    #[inline]
    fn deref(&self) -> &BTreeMap<StreamId, V> {
        &self.all
    }
}

impl<V: BeforeImage> ById<V> {
    /// Returns the last value, to be changed, with its id.
    #[inline]
    pub fn last_mut(&mut self) -> Option<(StreamId, &mut V)> {
        if self.before_images.is_some()
            && let Some((&last, _)) = self.all.last_key_value()
        {
            self.capture(last);
        }
        let last = self.all.last_entry()?;
        Some((*last.key(), last.into_mut()))
    }

    /// Returns a value, to be changed.
    pub fn get_mut(&mut self, id: StreamId) -> Option<&mut V> {
        if self.before_images.is_some() {
            self.capture(id);
        }
        self.all.get_mut(&id)
    }

    /// Puts a value under an id, and returns the former one.
    pub fn insert(&mut self, id: StreamId, value: V) -> Option<V> {
        if self.before_images.is_some() {
            self.capture(id);
        }
        self.all.insert(id, value)
    }

    /// Takes a value out.
    pub fn remove(&mut self, id: StreamId) -> Option<V> {
        if self.before_images.is_some() {
            self.capture(id);
        }
        self.all.remove(&id)
    }

    /// Captures the value under an id that is about to change or to go, if it is pending. If there is none, notes the id for
    /// the value that is about to come.
    #[cold]
    fn capture(&mut self, id: StreamId) {
        if let Some(before_images) = &mut self.before_images {
            match self.all.get(&id) {
                Some(value) => before_images.capture(id, value),
                None => before_images.insert(id),
            }
        }
        self.finish_capture();
    }
}

/// The capture for a snapshot.
impl<V: BeforeImage> ById<V> {
    /// Begins the capture: marks all values as pending for `open_value`, the snapshot's unfinished copy of this stream.
    /// `group` is the number of the consumer group that has the values there; it is 0 for the stream's blocks.
    pub fn begin_capture(&mut self, group: u32, open_value: &Arc<OpenValue>) {
        self.before_images = BeforeImages::of(&self.all, group, open_value);
    }

    /// Returns the snapshot's unfinished copy of this stream, while values are pending capture.
    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.before_images.as_ref().map(|before_images| before_images.open_value())
    }

    /// Captures pending values, in the order of their ids, and reports the last id to `reached`.
    pub fn capture_more(&mut self, budget: &mut Budget, reached: impl FnOnce(&OpenValue, StreamId)) {
        if let Some(before_images) = &mut self.before_images {
            before_images.capture_more(&self.all, budget);
            if let Some(at) = before_images.at() {
                reached(before_images.open_value(), at);
            }
        }
        self.finish_capture();
    }

    /// Forgets which values are pending, and returns whether any were.
    pub fn forget(&mut self) -> bool {
        self.before_images.take().is_some()
    }

    fn finish_capture(&mut self) {
        if let Some(before_images) = self.before_images.take_if(|before_images| before_images.is_done()) {
            before_images.open_value().finish();
        }
    }
}
