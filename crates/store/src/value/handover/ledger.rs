//! What all that belongs to one snapshot has in common: the bytes that wait, and whether anybody still wants them.
//!
//! Plain atomic values, used from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The common account of one snapshot.
#[derive(Debug)]
pub struct Ledger {
    /// The bytes that were handed over and not written yet; whoever holds back writers reads it too.
    waiting_bytes: Arc<AtomicUsize>,
    is_aborted: AtomicBool,
}

impl Ledger {
    /// An account that adds to `waiting_bytes`.
    pub fn new(waiting_bytes: Arc<AtomicUsize>) -> Self {
        Self { waiting_bytes, is_aborted: AtomicBool::new(false) }
    }

    /// So many bytes have been handed over.
    pub fn add(&self, bytes: usize) {
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes do not wait any longer.
    pub fn release(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether nothing is to be copied any more; what is owed is only marked as done.
    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    /// Nobody wants the snapshot any longer.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::Release);
    }
}
