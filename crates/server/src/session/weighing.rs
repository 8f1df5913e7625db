//! The effect of `maxmemory-clients` on a request that arrives in parts: it is weighed before it runs, as in Redis.
//!
//! The worker weighs its clients after their replies (`worker/limits`). That is too late if one request alone is too large. A
//! request that arrives at once is no larger than the worker's buffer and is not weighed here. Runs on the thread that owns
//! the session.

use std::sync::atomic::Ordering;

use super::Session;
use crate::context::worker_handoff::WorkerHandoff;
use crate::execute::scratch::Scratch;

impl Session {
    /// Executes the complete requests among the bytes that arrived in parts, unless the client has to be closed before.
    pub(super) fn run_complete(&mut self, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        let is_complete = !self.is_held() && self.pending.len() >= self.parser.wanted();
        if is_complete && !self.is_evicted(scratch) {
            self.run_pending(scratch, others);
        }
    }

    /// Weighs the client with a request that arrived in parts, before that runs. Returns true if `maxmemory-clients` has the
    /// client closed: then the request was dropped.
    fn is_evicted(&mut self, scratch: &Scratch) -> bool {
        let (engine, client) = (&self.engine, &self.state.client);
        let bytes_max = engine.config.client_bytes_max();
        if bytes_max == 0 || client.socket.descriptor < 0 {
            return false;
        }
        client.memory.input.store(self.pending.len(), Ordering::Relaxed);
        client.memory.input_spare.store(self.pending.capacity() - self.pending.len(), Ordering::Relaxed);
        engine.clients.memory.weigh(client);
        engine.clients.memory.evict(&engine.clients.list, bytes_max, (scratch.now.wall_ms(), &scratch.counters));
        let is_evicted = engine.clients.memory.has_forgotten(client);
        if is_evicted {
            self.pending = Vec::new();
            self.state.closing = true;
        }
        is_evicted
    }
}
