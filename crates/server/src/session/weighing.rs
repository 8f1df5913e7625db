//! The effect of `maxmemory-clients` on a request that comes in parts: it is weighed before it runs, as in Redis.
//!
//! The worker weighs its clients behind their replies (`worker/limits`), which is too late where one request alone is too
//! much. Not for requests that come at once, which are no larger than the worker's buffer. The thread that owns the session.

use std::sync::atomic::Ordering;

use super::Session;
use crate::context::worker_handoff::WorkerHandoff;
use crate::execute::scratch::Scratch;

impl Session {
    /// Executes the complete requests of those that came in parts, unless the client has to be closed before.
    pub(super) fn run_complete(&mut self, scratch: &mut Scratch, others: &mut dyn WorkerHandoff) {
        let is_complete = !self.is_held() && self.pending.len() >= self.parser.wanted();
        if is_complete && !self.is_evicted(scratch) {
            self.run_pending(scratch, others);
        }
    }

    /// Weighs the client with a request that came in parts, before that runs. True where `maxmemory-clients` has it closed: then
    /// nothing of the request is left.
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
