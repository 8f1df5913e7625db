//! The working memory of a thread that runs sessions.
//!
//! There is one for each worker and one for each embedded session: buffers that every batch reuses, the thread's counters and
//! its reading of the clock. After a batch only the buffers' memory, the counters and unsent replies remain.

use std::sync::Arc;

use sleeve_wire::request::Batch;

use crate::context::ThreadContext;
use crate::context::key_change::Pending;
use crate::context::lookahead::Lookahead;
use crate::engine::Engine;
use crate::engine::journal::BatchBuffer;
use crate::engine::observe::stats::Counters;
use crate::host::clock::{Clock, Instant};
use crate::host::dice::Dice;
use crate::request::output::Output;

/// Buffers and counters of a thread that runs sessions, reused from batch to batch.
#[derive(Debug)]
pub struct Scratch {
    /// The engine that the thread works on.
    pub engine: Arc<Engine>,
    /// This thread's block of counters.
    pub counters: Arc<Counters>,
    /// The time of this wake-up.
    pub now: Instant,
    /// The clock that tells how much time has passed since `now`.
    pub clock: Clock,
    /// This thread's source of random numbers.
    pub dice: Dice,
    /// The requests that are being executed.
    pub batch: Batch,
    /// The facts about these requests that were found out before they run.
    pub lookahead: Lookahead,
    /// The buffer in which the requests' effects are written.
    pub batch_buffer: BatchBuffer,
    /// The replies to the requests.
    pub output: Output,
    /// The work that the requests' changes leave for later.
    pub pending: Pending,
    /// The counts of this thread show in the engine's statistics.
    is_observed: bool,
}

impl Scratch {
    /// Makes the working memory of one thread or one embedded session; `now` is the present time.
    pub fn new(engine: &Arc<Engine>, now: Instant) -> Self {
        Self::with_counters(engine, now, engine.observe.stats.open(), true)
    }

    /// Makes the working memory of a session that no statistic shows.
    pub fn unobserved(engine: &Arc<Engine>, now: Instant) -> Self {
        Self::with_counters(engine, now, Arc::default(), false)
    }

    fn with_counters(engine: &Arc<Engine>, now: Instant, counters: Arc<Counters>, is_observed: bool) -> Self {
        Self {
            engine: Arc::clone(engine),
            counters,
            now,
            clock: Clock::Machine,
            dice: engine.identity.dice(),
            batch: Batch::new(),
            lookahead: Lookahead::default(),
            batch_buffer: BatchBuffer::default(),
            output: Output::default(),
            pending: Pending::default(),
            is_observed,
        }
    }
}

impl Scratch {
    /// Returns the part of the working memory that commands get.
    #[inline]
    pub fn thread_context(&self) -> ThreadContext<'_> {
        let Self { engine, counters, dice, now, clock, batch_buffer, .. } = self;
        ThreadContext { engine, counters, dice, now: *now, clock: *clock, batch_buffer }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_observed {
            self.engine.observe.stats.close(&self.counters);
        } else {
            self.engine.observe.stats.close_unobserved(&self.counters);
        }
    }
}
