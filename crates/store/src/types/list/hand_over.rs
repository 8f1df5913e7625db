//! A long list that is handed over to a snapshot, pack by pack.
//!
//! What exactly is owed is in `owed`; here is when that is asked. Under the shard's lock, or on the snapshot's thread when
//! the store has let go of the list.

use std::fmt;
use std::sync::Arc;

use super::chain::Chain;
use super::owed::Owed;
use crate::value::handover::opening::Opening;
use crate::value::handover::owing::{Budget, Owing};

/// What a snapshot is owed.
impl Chain {
    /// From now on all packs are owed to what was opened.
    pub(crate) fn owe(&mut self, opening: &Arc<Opening>) {
        self.owed = Some(Box::new(Owed::new(Arc::clone(opening), self.nodes.len())));
    }

    pub(crate) fn opening(&self) -> Option<&Arc<Opening>> {
        self.owed.as_ref().map(|owed| owed.opening())
    }

    /// Hands a pack over that is about to change, if it is owed.
    #[inline]
    pub(super) fn take_down(&mut self, node: usize) {
        if self.owed.is_some() {
            self.take_owed_down(node);
        }
    }

    #[cold]
    fn take_owed_down(&mut self, node: usize) {
        if let Some(owed) = &mut self.owed {
            owed.take(node, &self.nodes[node]);
        }
        self.settle_owed();
    }

    /// Notes that packs have come or gone.
    #[inline]
    pub(super) fn note(&mut self, note: impl FnOnce(&mut Owed)) {
        if let Some(owed) = &mut self.owed {
            note(owed);
        }
    }

    fn settle_owed(&mut self) {
        if let Some(owed) = self.owed.take_if(|owed| owed.is_done()) {
            owed.opening().finish();
        }
    }

    /// Hands over what is owed, from the front on.
    pub(crate) fn hand_over(&mut self, budget: &mut Budget) {
        if let Some(owed) = &mut self.owed {
            owed.hand_over(&self.nodes, budget);
        }
        self.settle_owed();
    }
}

impl fmt::Debug for Chain {
    /// Says how long it is; what is in it may be millions of elements.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Chain({})", self.len)
    }
}

impl Owing for Chain {
    fn hand_over(&mut self, budget: &mut Budget) {
        self.hand_over(budget);
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(opening) = self.opening().map(Arc::clone) {
            opening.end_of(self, |chain| chain.owed.take().is_some());
        }
    }
}
