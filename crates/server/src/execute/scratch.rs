//! What a thread has at hand while it runs sessions.
//!
//! One for each worker and one for each embedded session: buffers that every batch reuses, the thread's counters and its
//! reading of the clock. Nothing here outlives a batch but memory, sums, and replies that have not been sent.

use std::sync::Arc;

use sleeve_wire::request::Batch;

use crate::context::ThreadContext;
use crate::context::key_change::Pending;
use crate::context::lookahead::Lookahead;
use crate::engine::Engine;
use crate::engine::journal::BatchBuffer;
use crate::host::clock::{Clock, Instant};
use crate::host::dice::Dice;
use crate::observe::key_samples::Sampler;
use crate::observe::stats::Counters;
use crate::request::output::Output;

/// Buffers and counters of a thread that runs sessions, reused from batch to batch.
#[derive(Debug)]
pub struct Scratch {
    /// The engine that is worked on.
    pub engine: Arc<Engine>,
    /// This thread's block of counters.
    pub counters: Arc<Counters>,
    /// The time of this wake-up.
    pub now: Instant,
    /// What tells how late it has become since then.
    pub clock: Clock,
    /// What this thread draws from.
    pub dice: Dice,
    /// The requests that are being executed.
    pub batch: Batch,
    /// What was found out about them ahead.
    pub lookahead: Lookahead,
    /// Says which of their keys are looked at, for what is used most.
    pub sampler: Sampler,
    /// Where their effects are put into words.
    pub batch_buffer: BatchBuffer,
    /// What they are answered.
    pub output: Output,
    /// What their changes leave to be done.
    pub pending: Pending,
}

impl Scratch {
    /// For one thread or embedded session, at this time.
    pub fn new(engine: &Arc<Engine>, now: Instant) -> Self {
        Self {
            engine: Arc::clone(engine),
            counters: engine.stats.open(),
            now,
            clock: Clock::Machine,
            dice: engine.dice(),
            batch: Batch::new(),
            lookahead: Lookahead::default(),
            sampler: Sampler::default(),
            batch_buffer: BatchBuffer::default(),
            output: Output::default(),
            pending: Pending::default(),
        }
    }
}

impl Scratch {
    /// What commands get of it.
    #[inline]
    pub fn thread_context(&self) -> ThreadContext<'_> {
        let Self { engine, counters, dice, now, clock, batch_buffer, .. } = self;
        ThreadContext { engine, counters, dice, now: *now, clock: *clock, batch_buffer }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.engine.stats.close(&self.counters);
    }
}
