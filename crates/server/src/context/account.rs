//! The accounts of each command: its time, for INFO, for LATENCY and for the slow log; the size of its request and of its
//! reply, for COMMANDLOG; both by key while HOTKEYS collects that; and its changes, which are counted and recorded when it
//! ends.
//!
//! Time is counted in the processor's ticks, which take no system call to read, and becomes nanoseconds where it is read. The
//! costs of commands go into the counters of the executing thread, which alone calls this.

use sleeve_wire::commands::Flags;

use super::Cx;
use crate::config::Opt;
use crate::engine::observe::slowlog::{self, Measure};
use crate::host::clock;
use crate::request::Request;

/// The clock is read where another command begins than the one before, so that a batch of equal ones reads it twice and each
/// row's sum is right all the same.
impl Cx<'_> {
    /// Begins a command: it has no changes and no record yet. Returns the time, if that of this very command is needed: for
    /// any that could take long by itself, and for every one if even short times are asked for. Its row says which could; one
    /// that is called fast could with many arguments.
    #[inline]
    pub(crate) fn begin(&mut self, request: &Request<'_>) -> Option<u64> {
        let row = request.row;
        if !self.is_within {
            if !self.timed.is_some_and(|timed| std::ptr::eq(timed, row)) {
                self.settle_time();
                self.timed = Some(row);
                self.state.is_news |= !row.is_of_data;
            }
            self.timed_calls += 1;
        }
        self.begin_unmeasured();
        let is_short = row.flags.contains(Flags::FAST) && request.len() <= ARGUMENTS_FEW;
        (self.slow_ticks == 0 || !is_short).then(clock::ticks)
    }

    /// Begins a command that has no time of its own to count.
    #[inline]
    pub(crate) fn begin_unmeasured(&mut self) {
        self.pending.changes = 0;
        self.is_recorded = false;
    }

    /// Ends a command that began then. If it was slow, enters it in the slow log and the latency monitor. Its changes are
    /// counted and, unless it has recorded them as another command, recorded as the request came. Always inline: it has one
    /// caller.
    #[inline(always)]
    pub(crate) fn end(&mut self, request: &Request<'_>, began_ticks: Option<u64>) {
        if let Some(began_ticks) = began_ticks {
            self.end_alone(request, began_ticks);
        }
        if self.pending.changes == 0 {
            // Keys that have expired as the command looked at them are recorded all the same.
            return self.locks.recorder.end_piece();
        }
        self.counters.changes.add(self.pending.changes);
        if self.engine.config.memory(Opt::Maxmemory) != 0 {
            self.locks.weigh(&self.engine.estimate);
        }
        if !self.is_recorded && self.is_recording() {
            self.record_request(request);
        }
        self.locks.recorder.end_piece();
        self.pending.changes = 0;
    }

    /// Runs a command within the running one, such as a script's. Its time is counted separately, and is part of the outer
    /// one's too, as in Redis.
    #[inline]
    pub(crate) fn call_within(&mut self, request: Request<'_>) -> u64 {
        let (outer, began_ticks) = (std::mem::replace(&mut self.is_within, true), clock::ticks());
        (self.call)(self, request);
        self.is_within = outer;
        let ticks = clock::ticks().wrapping_sub(began_ticks);
        self.counters.commands[request.row.id as usize].elapsed_ticks.add(ticks);
        if self.engine.config.flag(Opt::LatencyTracking) {
            self.counters.latencies.record(request.row.id as usize, self.engine.ticker.nanoseconds(ticks), 1);
        }
        ticks
    }

    /// Adds the time since the last look to the row that it belongs to.
    pub(crate) fn settle_time(&mut self) {
        let now = clock::ticks();
        if let Some(timed) = self.timed.take() {
            let (ticks, calls) = (now.wrapping_sub(self.ticks), std::mem::take(&mut self.timed_calls));
            self.counters.executing_ticks.add(ticks);
            self.counters.settled_ticks.set(now);
            self.counters.commands[timed.id as usize].elapsed_ticks.add(ticks);
            if self.engine.config.flag(Opt::LatencyTracking) {
                let each_ns = self.engine.ticker.nanoseconds(ticks / calls.max(1));
                self.counters.latencies.record(timed.id as usize, each_ns, calls);
            }
        }
        self.ticks = now;
    }

    /// Enters a command in the slow log and the latency monitor, if it was slow.
    #[inline]
    fn end_alone(&mut self, request: &Request<'_>, began_ticks: u64) {
        let ticks = clock::ticks().wrapping_sub(began_ticks);
        // The bound of now counts: the command may have taken long, or may itself have changed the bound.
        (self.slow_ticks, self.large_bytes) = self.engine.conspicuous();
        // A command that begins to wait is not over: it is looked at when it is served.
        if ticks >= self.slow_ticks && self.state.blocked.is_none() {
            self.enter_slow(request, ticks);
        }
    }

    #[cold]
    fn enter_slow(&mut self, request: &Request<'_>, ticks: u64) {
        let engine = self.engine;
        if self.state.is_unobserved {
            return;
        }
        let duration_us = engine.ticker.nanoseconds(ticks) / 1_000;
        let over = |option: Opt, least: i64, unit_us: u64| {
            let bound = engine.config.number(option);
            bound >= least && duration_us / unit_us >= bound as u64
        };
        if over(Opt::SlowlogLogSlowerThan, 0, 1) && !request.row.flags.contains(Flags::SKIP_SLOWLOG) {
            self.enter(Measure::Time, request, duration_us, Opt::SlowlogMaxLen);
        }
        if over(Opt::LatencyMonitorThreshold, 1, 1_000) {
            let event = if request.row.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
            engine.latency.add(event, self.now.wall_ms() / 1_000, duration_us / 1_000);
        }
    }
}

/// One comparison a command detects large sizes: the bytes that came together with the request and its reply are nearly
/// always less than the lesser bound.
impl Cx<'_> {
    /// Enters a command that began then in the log of large requests or replies, if it was; `owed_bytes` were owed to the client
    /// before it.
    #[inline]
    pub(crate) fn note_size(&mut self, request: &Request<'_>, owed_bytes: usize, began_ticks: Option<u64>) {
        let reply_bytes = self.out.len().saturating_sub(owed_bytes);
        if request.args.buffer_len() + ENDS_BYTES_MAX + reply_bytes >= self.large_bytes {
            self.look_at_size(request, reply_bytes, began_ticks);
        }
    }

    /// Looks at the request's own bytes: the buffer that it lies in and its reply may be large together, though the request
    /// is small.
    #[cold]
    fn look_at_size(&mut self, request: &Request<'_>, reply_bytes: usize, began_ticks: Option<u64>) {
        if request.args.extent() + ENDS_BYTES_MAX + reply_bytes >= self.large_bytes {
            self.enter_large(request, reply_bytes, began_ticks);
        }
    }

    fn enter_large(&mut self, request: &Request<'_>, reply_bytes: usize, began_ticks: Option<u64>) {
        if let Some(began_ticks) = began_ticks.filter(|_| self.engine.hot_keys.wants(self.now)) {
            self.tally(request, reply_bytes, clock::ticks().wrapping_sub(began_ticks));
        }
        // A command that blocks is noted when it runs again.
        if self.state.is_unobserved || self.state.blocked.is_some() || request.row.flags.contains(Flags::SKIP_SLOWLOG) {
            return;
        }
        let sizes = [
            (Measure::Request, request.args.multibulk_len(), Opt::LargeRequestBytes, Opt::LargeRequestMaxLen),
            (Measure::Reply, reply_bytes, Opt::LargeReplyBytes, Opt::LargeReplyMaxLen),
        ];
        // A command that a script runs came in no request.
        for (measure, bytes, bound, entries_max) in sizes.into_iter().skip(usize::from(self.is_within)) {
            if usize::try_from(self.engine.config.number(bound)).is_ok_and(|bound| bytes >= bound) {
                self.enter(measure, request, bytes as u64, entries_max);
            }
        }
    }

    /// Counts a command for the keys that it names. The calls of a script count as the script's; a command that waits for a
    /// key is counted for the command that serves it.
    fn tally(&mut self, request: &Request<'_>, reply_bytes: usize, ticks: u64) {
        let state = &self.state;
        let is_another_s = self.is_within || state.is_replaying || state.blocked.is_some() || state.serving.is_some();
        if is_another_s || request.key_places.is_empty() {
            return;
        }
        let bytes = request.args.multibulk_len() + reply_bytes;
        let is_sampled = self.dice.below(self.engine.hot_keys.sample_ratio() as usize) == 0;
        self.counters.hot_keys.lock().add(request.keys(), (ticks, bytes as u64), is_sampled);
    }

    fn enter(&self, measure: Measure, request: &Request<'_>, amount: u64, entries_max: Opt) {
        let client = &self.state.client;
        let entry = slowlog::Entry {
            id: 0,
            time_s: self.now.wall_ms() / 1_000,
            amount,
            arguments: slowlog::shortened(request),
            address: client.address.clone(),
            name: client.names.lock().client.clone(),
        };
        self.engine.slowlog.add(measure, entry, self.engine.config.number(entries_max) as usize);
    }
}

/// The most bytes that a multibulk has before its first argument and behind its last.
const ENDS_BYTES_MAX: usize = 64;

/// A command with at most so many arguments that is called fast is so.
const ARGUMENTS_FEW: usize = 64;
