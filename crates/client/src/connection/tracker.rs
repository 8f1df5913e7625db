//! The cache that a connection invalidates, if it has one: the server is asked to report changed keys, and the callers'
//! writes are reported to the cache.
//!
//! The receiving half is in the reply reader (`pipe/reply_reader`). Any thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use sleeve_wire::commands::Flags;

use crate::config::Endpoint;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::asker::Asker;
use crate::pipe::cached_read::Cache;
use crate::pipe::transaction_state::TransactionState;
use crate::resp::request::EncodedRequest;
use crate::sys::clock_ms;

/// The cache of a link, if it has one, and the last connection on which its server was asked.
#[derive(Default)]
pub(super) struct Tracker {
    pub(super) cache: OnceLock<Arc<dyn Cache>>,
    /// The number of the connection on which the server was asked last.
    asked_on: AtomicU32,
}

impl Tracker {
    /// Asks the server on this connection to report changed keys, if there is a cache and the server was not asked yet.
    pub(super) fn ask(&self, pipe: &mut Pipe, speaks_resp3: bool, endpoint: &Endpoint) {
        let Some(cache) = self.cache.get() else { return };
        let connection = pipe.connection();
        if self.asked_on.swap(connection, Ordering::Relaxed) == connection {
            return;
        }
        if speaks_resp3 {
            pipe.push_unasked(Asker::Tracking, cache.request(), clock_ms());
        } else {
            cache.refused(Error::usage(format!(
                "{endpoint} speaks RESP2 only, in which a server cannot say what changes, so nothing can be cached: the near cache \
                 needs Redis 6 or later, Valkey or Sleeve; read through the client itself",
            )));
        }
    }

    /// Reports one request to the cache after it was sent, as [`observed`](Tracker::observed) does.
    pub(super) fn observed_one(&self, request: EncodedRequest<'_>) {
        let only_reads = request.name.row().is_some_and(|row| row.flags.contains(Flags::READONLY));
        if !only_reads {
            self.observed(request.bytes);
        }
    }

    /// Reports sent requests to the cache, which drops the keys that they may have changed.
    #[inline]
    pub(super) fn observed(&self, requests: &[u8]) {
        if let Some(cache) = self.cache.get() {
            cache.wrote(requests);
        }
    }

    /// Returns the commands that a transaction will execute later, for the cache; none if they leave at once, or if there is
    /// no cache.
    pub(super) fn execution(&self, transaction: &TransactionState) -> Option<Vec<u8>> {
        self.cache.get().and(transaction.execution()).map(<[u8]>::to_vec)
    }
}
