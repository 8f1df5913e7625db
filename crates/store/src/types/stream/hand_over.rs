//! A stream that is handed over to a snapshot: its blocks in order, the pending entries of its groups in none.
//!
//! Everything else about it is small and captured at once. What exactly is owed is in `owed`, and `by_id` asks for it before
//! a change; here is how it begins and ends.
//! Under the shard's lock, or on the snapshot's thread when the store has let go of the stream.

use std::sync::Arc;

use super::Stream;
use super::block;
use super::by_id::ById;
use super::group::StreamGroup;
use crate::value::handover::open_value::{Capture, OpenValue};
use crate::value::handover::owing::{Budget, Owing};

/// What a snapshot captures of a stream at once.
pub struct StreamRest {
    /// All of it but its blocks and what is pending.
    pub rest: Stream,
    /// The number of its blocks.
    pub blocks: usize,
}

impl Stream {
    pub(super) fn capture_all(&self) -> Capture {
        let pending = || self.groups.values().map(StreamGroup::pending_len).filter(|&pending| pending > 0);
        let blocks = self.blocks.len();
        Capture {
            parts: blocks + pending().sum::<usize>(),
            walks: usize::from(blocks > 0) + pending().count(),
            extra: Some(Box::new(StreamRest { rest: self.without_blocks(), blocks })),
        }
    }

    fn without_blocks(&self) -> Self {
        let groups = self.groups.iter().map(|(name, group)| (name.clone(), group.without_pending())).collect();
        Self { blocks: ById::default(), blocks_bytes: 0, groups, producers: self.producers.clone(), ..*self }
    }

    pub(super) fn owe(&mut self, open_value: &Arc<OpenValue>) {
        self.blocks.owe(0, open_value);
        self.groups.values_mut().zip(0..).for_each(|(group, number)| group.owe(number, open_value));
    }

    pub(super) fn opened(&self) -> Option<&Arc<OpenValue>> {
        self.blocks.open_value().or_else(|| self.groups.values().find_map(StreamGroup::open_value))
    }
}

impl Owing for Stream {
    fn hand_over(&mut self, budget: &mut Budget) {
        self.blocks.hand_over(budget, |open_value, at| open_value.reach(block::place(at)));
        self.groups.values_mut().for_each(|group| group.hand_over(budget));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(open_value) = self.opened().map(Arc::clone) {
            open_value.end_of(self, |stream| stream.blocks.forget());
        }
    }
}
