//! The times of the commands of one batch, by row of the command table.
//!
//! Time is counted in the processor's ticks, which take no system call to read, and becomes nanoseconds when statistics read
//! it. The ticks are read when a command of another row begins than the one before: so a batch of equal commands reads them
//! twice, and the sum of each row is right all the same. The times go into the counters of the executing thread.

use sleeve_wire::commands::{Flags, Row};

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::observe::stats::Counters;
use crate::host::clock;
use crate::request::Request;

/// The most arguments with which a command that has the flag FAST is taken to be fast.
const ARGUMENTS_FEW: usize = 64;

/// The most bytes that a multibulk has before its first argument and behind its last.
const ENDS_BYTES_MAX: usize = 64;

/// The timer of one batch of commands.
#[derive(Debug)]
pub struct CommandTimer {
    /// The row that is being timed, since `ticks`.
    row: Option<&'static Row>,
    /// The number of commands of that row since then.
    calls: u64,
    ticks: u64,
    is_nested: bool,
    /// The ticks from which on a command is slow; if 0, every command is timed by itself, and not as part of a batch.
    slow_ticks: u64,
    /// The number of bytes, of a request and its reply together, from which on one of them may be large.
    large_bytes: usize,
}

impl CommandTimer {
    /// Makes the timer of a batch that begins now.
    pub fn new(engine: &Engine) -> Self {
        let (slow_ticks, large_bytes) = bounds(engine);
        Self { row: None, calls: 0, ticks: 0, is_nested: false, slow_ticks, large_bytes }
    }

    /// Returns whether the running command is part of another command, which is being timed.
    pub fn is_nested(&self) -> bool {
        self.is_nested
    }

    /// Counts a command of this row, unless it is part of another; returns whether it begins the time of another row than the
    /// command before.
    #[inline]
    pub fn count(&mut self, row: &'static Row, engine: &Engine, counters: &Counters) -> bool {
        if self.is_nested {
            return false;
        }
        let is_other = !self.row.is_some_and(|timed| std::ptr::eq(timed, row));
        if is_other {
            self.settle(engine, counters);
            self.row = Some(row);
        }
        self.calls += 1;
        is_other
    }

    /// Returns the present ticks if this command has to be timed by itself: a command that may take long, or any command if
    /// the bound for slow ones is zero. Commands without the flag FAST may take long, and those with it if they have many
    /// arguments.
    #[inline]
    pub fn start(&self, request: &Request<'_>) -> Option<u64> {
        let is_short = request.row.flags.contains(Flags::FAST) && request.len() <= ARGUMENTS_FEW;
        (self.slow_ticks == 0 || !is_short).then(clock::ticks)
    }

    /// Returns how many ticks a command took that began at `began_ticks`, if it was slow. The bounds are read anew: the
    /// command may have taken long, or may itself have changed them.
    #[inline]
    pub fn slow(&mut self, engine: &Engine, began_ticks: u64) -> Option<u64> {
        let ticks = clock::ticks().wrapping_sub(began_ticks);
        (self.slow_ticks, self.large_bytes) = bounds(engine);
        (ticks >= self.slow_ticks).then_some(ticks)
    }

    /// Returns whether a request or its reply may be large, if they have so many bytes together.
    #[inline]
    pub fn may_be_large(&self, bytes: usize) -> bool {
        bytes + ENDS_BYTES_MAX >= self.large_bytes
    }

    /// Begins a command within the running one, such as a script's; returns the state to end it with.
    #[inline]
    pub fn begin_nested(&mut self) -> (bool, u64) {
        (std::mem::replace(&mut self.is_nested, true), clock::ticks())
    }

    /// Ends a command of this row within the running one, and returns its time. That is counted separately, and is part of the
    /// outer one's too, as in Redis.
    #[inline]
    pub fn end_nested(&mut self, begun: (bool, u64), row: &Row, (engine, counters): (&Engine, &Counters)) -> u64 {
        let (outer, began_ticks) = begun;
        self.is_nested = outer;
        let ticks = clock::ticks().wrapping_sub(began_ticks);
        counters.commands[row.id as usize].elapsed_ticks.add(ticks);
        if engine.config.flag(Opt::LatencyTracking) {
            counters.latencies.record(row.id as usize, engine.identity.ticker.nanoseconds(ticks), 1);
        }
        ticks
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
                let each_ns = engine.identity.ticker.nanoseconds(ticks / calls.max(1));
                counters.latencies.record(timed.id as usize, each_ns, calls);
            }
        }
        self.ticks = now;
    }
}

/// Returns the ticks from which on a command is slow, 0 for all commands, and the bytes of a request and its reply together
/// from which on either may be large. During a collection of HOTKEYS, and while the costs of slots are counted, both are 0, so
/// that all commands are examined.
#[inline]
fn bounds(engine: &Engine) -> (u64, usize) {
    if engine.observe.hot_keys.is_collecting() || engine.config.flag(Opt::ClusterSlotStatsEnabled) {
        return (0, 0);
    }
    (engine.config.slow_ticks(), engine.config.large_bytes())
}
