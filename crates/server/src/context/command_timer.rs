//! The times of the commands of one batch, by row of the command table.
//!
//! Time is counted in the processor's ticks, which take no system call to read, and becomes nanoseconds where it is read. The
//! clock is read where another command begins than the one before: so a batch of equal commands reads it twice, and the sum
//! of each row is right all the same. The times go into the counters of the executing thread.

use sleeve_wire::commands::{Flags, Row};

use crate::config::Opt;
use crate::engine::Engine;
use crate::host::clock;
use crate::observe::stats::Counters;
use crate::request::Request;

/// A command with at most so many arguments that is called fast is so.
const ARGUMENTS_FEW: usize = 64;

/// The timer of one batch of commands.
#[derive(Debug)]
pub struct CommandTimer {
    /// The row that is being timed, since `ticks`.
    row: Option<&'static Row>,
    /// The number of its runs since then.
    calls: u64,
    ticks: u64,
    /// The running command is part of another command, which is being timed.
    pub is_nested: bool,
    /// Ticks from which on a command may have been slow; 0 has every command looked at.
    pub slow_ticks: u64,
    /// Bytes of a request and its reply from which on either may be large.
    pub large_bytes: usize,
}

impl CommandTimer {
    /// Makes the timer of a batch that begins now.
    pub fn new(engine: &Engine) -> Self {
        let (slow_ticks, large_bytes) = engine.conspicuous();
        Self { row: None, calls: 0, ticks: 0, is_nested: false, slow_ticks, large_bytes }
    }

    /// Counts a command of this row; returns whether it begins the time of another row than the command before.
    #[inline]
    pub fn count(&mut self, row: &'static Row, engine: &Engine, counters: &Counters) -> bool {
        let is_other = !self.row.is_some_and(|timed| std::ptr::eq(timed, row));
        if is_other {
            self.settle(engine, counters);
            self.row = Some(row);
        }
        self.calls += 1;
        is_other
    }

    /// Returns the time, if that of this very command is needed: for any that could take long by itself, and for every one if
    /// even short times are asked for. Its row says which could; one that is called fast could with many arguments.
    #[inline]
    pub fn start(&self, request: &Request<'_>) -> Option<u64> {
        let is_short = request.row.flags.contains(Flags::FAST) && request.len() <= ARGUMENTS_FEW;
        (self.slow_ticks == 0 || !is_short).then(clock::ticks)
    }

    /// Adds the time since the clock was read to the row that it belongs to.
    pub fn settle(&mut self, engine: &Engine, counters: &Counters) {
        let now = clock::ticks();
        if let Some(timed) = self.row.take() {
            let (ticks, calls) = (now.wrapping_sub(self.ticks), std::mem::take(&mut self.calls));
            counters.executing_ticks.add(ticks);
            counters.settled_ticks.set(now);
            counters.commands[timed.id as usize].elapsed_ticks.add(ticks);
            if engine.config.flag(Opt::LatencyTracking) {
                let each_ns = engine.ticker.nanoseconds(ticks / calls.max(1));
                counters.latencies.record(timed.id as usize, each_ns, calls);
            }
        }
        self.ticks = now;
    }
}
