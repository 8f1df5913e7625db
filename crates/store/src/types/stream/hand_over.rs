//! A stream that is handed over to a snapshot: its blocks in order, the pending entries of its groups in none.
//!
//! Everything else about it is small and captured at once. What exactly is owed is in `owed`; here is when that is asked.
//! Under the shard's lock, or on the snapshot's thread when the store has let go of the stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stream;
use super::block;
use super::group::StreamGroup;
use super::owed::Owed;
use crate::value::handover::opening::{Frame, Opening};
use crate::value::handover::owing::{Budget, Owing};

/// What a snapshot captures of a stream at once.
pub struct Beside {
    /// All of it but its blocks and what is pending.
    pub rest: Stream,
    /// The number of its blocks.
    pub blocks: usize,
}

impl Stream {
    pub(super) fn frame_of_all(&self) -> Frame {
        let pending = || self.groups.values().map(StreamGroup::pending_len).filter(|&pending| pending > 0);
        let blocks = self.blocks.len();
        Frame {
            parts: blocks + pending().sum::<usize>(),
            walks: usize::from(blocks > 0) + pending().count(),
            beside: Some(Box::new(Beside { rest: self.without_blocks(), blocks })),
        }
    }

    fn without_blocks(&self) -> Self {
        let groups = self.groups.iter().map(|(name, group)| (name.clone(), group.without_pending())).collect();
        Self { blocks: BTreeMap::new(), blocks_bytes: 0, groups, owed: None, ..*self }
    }

    pub(super) fn owe(&mut self, opening: &Arc<Opening>) {
        self.owed = Owed::of(&self.blocks, 0, opening);
        self.groups.values_mut().zip(0..).for_each(|(group, number)| group.owe(number, opening));
    }

    pub(super) fn opened(&self) -> Option<&Arc<Opening>> {
        let of_blocks = self.owed.as_ref().map(|owed| owed.opening());
        of_blocks.or_else(|| self.groups.values().find_map(StreamGroup::opening))
    }

    /// Hands the last block over, which is about to grow, if it is owed.
    #[cold]
    pub(super) fn take_last_down(&mut self) {
        if let (Some(owed), Some((&first, block))) = (&mut self.owed, self.blocks.last_key_value()) {
            owed.take(first, block);
        }
        self.settle_owed();
    }

    pub(super) fn settle_owed(&mut self) {
        if let Some(owed) = self.owed.take_if(|owed| owed.is_done()) {
            owed.opening().finish();
        }
    }
}

impl Owing for Stream {
    fn hand_over(&mut self, budget: &mut Budget) {
        if let Some(owed) = &mut self.owed {
            owed.hand_over(&self.blocks, budget);
            if let Some(at) = owed.at() {
                owed.opening().reach(block::place(at));
            }
        }
        self.settle_owed();
        self.groups.values_mut().for_each(|group| group.hand_over(budget));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(opening) = self.opened().map(Arc::clone) {
            opening.end_of(self, |stream| stream.owed.take().is_some());
        }
    }
}
