//! The near cache of a connection, if it has one: the callers' writes are reported to it here, and the progress of the
//! question to its server is kept.
//!
//! Any thread.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use sleeve_wire::commands::Flags;

use crate::pipe::near::Cache;
use crate::pipe::transaction_state::TransactionState;
use crate::request::EncodedRequest;

/// The cache of a link, if it has one, and how far its server was asked.
#[derive(Default)]
pub(super) struct Tracker {
    pub(super) cache: OnceLock<Arc<dyn Cache>>,
    /// The connection on which the server was asked last.
    pub(super) asked_on: AtomicU32,
    /// True if the connection that is there speaks RESP3.
    pub(super) speaks_resp3: AtomicBool,
}

impl Tracker {
    /// Notes that a connection was greeted.
    pub(super) fn greeted(&self, speaks_resp3: bool) {
        self.speaks_resp3.store(speaks_resp3, Ordering::Relaxed);
    }

    /// Tells the cache of a request that was sent by itself, as [`observed`](Tracker::observed).
    pub(super) fn observed_one(&self, request: EncodedRequest<'_>) {
        let only_reads = request.name.row().is_some_and(|row| row.flags.contains(Flags::READONLY));
        if !only_reads {
            self.observed(request.bytes);
        }
    }

    /// Tells the cache, behind the sending, which keys the sent requests may have changed.
    #[inline]
    pub(super) fn observed(&self, requests: &[u8]) {
        if let Some(cache) = self.cache.get() {
            cache.wrote(requests);
        }
    }

    /// Returns the commands that a transaction will execute, for the cache to be told; nothing if they go out at once, or if
    /// there is no cache to tell.
    pub(super) fn execution(&self, transaction: &TransactionState) -> Option<Vec<u8>> {
        self.cache.get().and(transaction.execution()).map(<[u8]>::to_vec)
    }
}
