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
    /// The beginning of the wake-up: its time in microseconds of the monotonic clock and in ticks, and the ticks of execution
    /// and the number of commands that were counted before it.
    woke: (u64, u64, u64, u64),
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
            woke: (now.monotonic_us, 0, 0, 0),
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

/// The time of a worker by phase: receiving and parsing, executing, answering; and how long requests wait for others that
/// came with them. For that, the ticks are read when the worker wakes and before it waits again; all other numbers are
/// counted anyway.
impl Scratch {
    /// Begins a wake-up at this time and with so many ticks.
    #[inline]
    pub fn wake(&mut self, now: Instant, ticks: u64) {
        self.now = now;
        self.woke = (now.monotonic_us, ticks, self.counters.executing_ticks.get(), self.counters.executed.get());
    }

    /// Sets the time at which another part of the wake-up begins, and counts how long its requests have waited.
    #[inline]
    pub fn wake_later(&mut self, now: Instant) {
        self.now = now;
        self.counters.waiting_us.add(self.now.monotonic_us.saturating_sub(self.woke.0));
    }

    /// Counts how long a wake-up took that ends at `ticks` and, if commands ran in it, the time of each phase.
    #[inline]
    pub fn note_phases(&self, ticks: u64) {
        let (_, woke_ticks, executing_ticks, executed) = self.woke;
        let counters = &self.counters;
        let cycle_ticks = ticks.saturating_sub(woke_ticks);
        counters.cycles.add(1);
        counters.cycle_ticks.add(cycle_ticks);
        self.engine.observe.stats.note_cycle(cycle_ticks, counters.executed.get() - executed);
        let settled_ticks = counters.settled_ticks.get();
        if settled_ticks > woke_ticks {
            let executed_ticks = counters.executing_ticks.get() - executing_ticks;
            counters.reading_ticks.add((settled_ticks - woke_ticks).saturating_sub(executed_ticks));
            counters.writing_ticks.add(ticks.saturating_sub(settled_ticks));
        }
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
