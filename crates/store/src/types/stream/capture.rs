//! The capture of a stream for a snapshot: its blocks in order, the pending entries of its groups in none.
//!
//! Everything else about it is small and captured at once. `before_images` has the state of the capture, and `by_id` consults
//! it before a change; this file begins and ends it. Under the shard's lock, or on the snapshot's thread when the store has
//! released the stream.

use std::sync::Arc;

use super::Stream;
use super::block;
use super::by_id::ById;
use super::group::StreamGroup;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::{Budget, CaptureSource};

/// The part of a stream that a snapshot captures at once.
pub struct StreamRest {
    /// The stream without its blocks and pending entries.
    pub rest: Stream,
    /// The number of the stream's blocks.
    pub blocks: usize,
}

impl Stream {
    pub(super) fn outline_all(&self) -> Outline {
        let pending = || self.groups.values().map(StreamGroup::pending_len).filter(|&pending| pending > 0);
        let blocks = self.blocks.len();
        Outline {
            parts: blocks + pending().sum::<usize>(),
            walks: usize::from(blocks > 0) + pending().count(),
            extra: Some(Box::new(StreamRest { rest: self.without_blocks(), blocks })),
        }
    }

    fn without_blocks(&self) -> Self {
        let groups = self.groups.iter().map(|(name, group)| (name.clone(), group.without_pending())).collect();
        Self { blocks: ById::default(), blocks_bytes: 0, groups, producers: self.producers.clone(), ..*self }
    }

    pub(super) fn begin_capture(&mut self, open_value: &Arc<OpenValue>) {
        self.blocks.begin_capture(0, open_value);
        self.groups.values_mut().zip(0..).for_each(|(group, number)| group.begin_capture(number, open_value));
    }

    pub(super) fn opened(&self) -> Option<&Arc<OpenValue>> {
        self.blocks.open_value().or_else(|| self.groups.values().find_map(StreamGroup::open_value))
    }
}

impl CaptureSource for Stream {
    fn capture_more(&mut self, budget: &mut Budget) {
        self.blocks.capture_more(budget, |open_value, at| open_value.reach(block::place(at)));
        self.groups.values_mut().for_each(|group| group.capture_more(budget));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(open_value) = self.opened().map(Arc::clone) {
            open_value.end_of(self, |stream| stream.blocks.forget());
        }
    }
}
