//! The accounts of each command: its time, for INFO, for LATENCY and for the slow log; the size of its request and of its
//! reply, for COMMANDLOG; both by key while HOTKEYS collects that; and its changes, which are counted and recorded when it
//! ends.
//!
//! One comparison a command detects large sizes: the bytes that came together with the request and its reply are nearly
//! always less than the lesser bound. The costs of commands go into the counters of the executing thread, which alone calls
//! this.

use sleeve_wire::commands::Flags;

use super::Cx;
use crate::config::Opt;
use crate::engine::observe::slowlog::{self, Measure};
use crate::host::clock;
use crate::request::Request;

/// The most bytes that a multibulk has before its first argument and behind its last.
const ENDS_BYTES_MAX: usize = 64;

/// Begins a command: it has no changes and no record yet. Returns the time, if that of this very command is needed.
#[inline]
pub(crate) fn begin(cx: &mut Cx<'_>, request: &Request<'_>) -> Option<u64> {
    if !cx.timer.is_nested && cx.timer.count(request.row, cx.engine, cx.counters) {
        cx.state.is_news |= !request.row.is_of_data;
    }
    begin_unmeasured(cx);
    cx.timer.start(request)
}

/// Begins a command that has no time of its own to count.
#[inline]
pub(crate) fn begin_unmeasured(cx: &mut Cx<'_>) {
    cx.pending.changes = 0;
    cx.locks.recorder.begin_command();
}

/// Ends a command that began then. If it was slow, enters it in the slow log and the latency monitor. Its changes are
/// counted and, unless it has recorded them as another command, recorded as the request came. Always inline: it has one
/// caller.
#[inline(always)]
pub(crate) fn end(cx: &mut Cx<'_>, request: &Request<'_>, began_ticks: Option<u64>) {
    if let Some(began_ticks) = began_ticks {
        end_alone(cx, request, began_ticks);
    }
    if cx.pending.changes == 0 {
        // Keys that have expired as the command looked at them are recorded all the same.
        return cx.locks.recorder.end_piece();
    }
    cx.counters.changes.add(cx.pending.changes);
    if cx.engine.config.memory(Opt::Maxmemory) != 0 {
        cx.locks.weigh(&cx.engine.estimate);
    }
    if cx.locks.recorder.needs_request() {
        cx.record_request(request);
    }
    cx.locks.recorder.end_piece();
    cx.pending.changes = 0;
}

/// Runs a command within the running one, such as a script's, and returns its time. That is counted separately, and is part
/// of the outer one's too, as in Redis.
#[inline]
pub(crate) fn call_within(cx: &mut Cx<'_>, request: Request<'_>) -> u64 {
    let (outer, began_ticks) = (std::mem::replace(&mut cx.timer.is_nested, true), clock::ticks());
    (cx.call)(cx, request);
    cx.timer.is_nested = outer;
    let ticks = clock::ticks().wrapping_sub(began_ticks);
    cx.counters.commands[request.row.id as usize].elapsed_ticks.add(ticks);
    if cx.engine.config.flag(Opt::LatencyTracking) {
        cx.counters.latencies.record(request.row.id as usize, cx.engine.ticker.nanoseconds(ticks), 1);
    }
    ticks
}

/// Enters a command in the slow log and the latency monitor, if it was slow.
#[inline]
fn end_alone(cx: &mut Cx<'_>, request: &Request<'_>, began_ticks: u64) {
    let ticks = clock::ticks().wrapping_sub(began_ticks);
    // The bound of now counts: the command may have taken long, or may itself have changed the bound.
    (cx.timer.slow_ticks, cx.timer.large_bytes) = cx.engine.conspicuous();
    // A command that begins to wait is not over: it is looked at when it is served.
    if ticks >= cx.timer.slow_ticks && cx.state.blocked.is_none() {
        enter_slow(cx, request, ticks);
    }
}

#[cold]
fn enter_slow(cx: &mut Cx<'_>, request: &Request<'_>, ticks: u64) {
    let engine = cx.engine;
    if cx.state.is_unobserved {
        return;
    }
    let duration_us = engine.ticker.nanoseconds(ticks) / 1_000;
    let over = |option: Opt, least: i64, unit_us: u64| {
        let bound = engine.config.number(option);
        bound >= least && duration_us / unit_us >= bound as u64
    };
    if over(Opt::SlowlogLogSlowerThan, 0, 1) && !request.row.flags.contains(Flags::SKIP_SLOWLOG) {
        enter(cx, Measure::Time, request, duration_us, Opt::SlowlogMaxLen);
    }
    if over(Opt::LatencyMonitorThreshold, 1, 1_000) {
        let event = if request.row.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
        engine.latency.add(event, cx.now.wall_ms() / 1_000, duration_us / 1_000);
    }
}

/// Enters a command that began then in the log of large requests or replies, if it was; `owed_bytes` were owed to the client
/// before it.
#[inline]
pub(crate) fn note_size(cx: &mut Cx<'_>, request: &Request<'_>, owed_bytes: usize, began_ticks: Option<u64>) {
    let reply_bytes = cx.out.len().saturating_sub(owed_bytes);
    if request.args.buffer_len() + ENDS_BYTES_MAX + reply_bytes >= cx.timer.large_bytes {
        look_at_size(cx, request, reply_bytes, began_ticks);
    }
}

/// Looks at the request's own bytes: the buffer that it lies in and its reply may be large together, though the request
/// is small.
#[cold]
fn look_at_size(cx: &mut Cx<'_>, request: &Request<'_>, reply_bytes: usize, began_ticks: Option<u64>) {
    if request.args.extent() + ENDS_BYTES_MAX + reply_bytes >= cx.timer.large_bytes {
        enter_large(cx, request, reply_bytes, began_ticks);
    }
}

fn enter_large(cx: &mut Cx<'_>, request: &Request<'_>, reply_bytes: usize, began_ticks: Option<u64>) {
    if let Some(began_ticks) = began_ticks.filter(|_| cx.engine.hot_keys.wants(cx.now)) {
        tally(cx, request, reply_bytes, clock::ticks().wrapping_sub(began_ticks));
    }
    // A command that blocks is noted when it runs again.
    if cx.state.is_unobserved || cx.state.blocked.is_some() || request.row.flags.contains(Flags::SKIP_SLOWLOG) {
        return;
    }
    let sizes = [
        (Measure::Request, request.args.multibulk_len(), Opt::LargeRequestBytes, Opt::LargeRequestMaxLen),
        (Measure::Reply, reply_bytes, Opt::LargeReplyBytes, Opt::LargeReplyMaxLen),
    ];
    // A command that a script runs came in no request.
    for (measure, bytes, bound, entries_max) in sizes.into_iter().skip(usize::from(cx.timer.is_nested)) {
        if usize::try_from(cx.engine.config.number(bound)).is_ok_and(|bound| bytes >= bound) {
            enter(cx, measure, request, bytes as u64, entries_max);
        }
    }
}

/// Counts a command for the keys that it names. The calls of a script count as the script's; a command that waits for a
/// key is counted for the command that serves it.
fn tally(cx: &mut Cx<'_>, request: &Request<'_>, reply_bytes: usize, ticks: u64) {
    let state = &cx.state;
    let is_another_s = cx.timer.is_nested || state.is_replaying || state.blocked.is_some() || state.serving.is_some();
    if is_another_s || request.key_places.is_empty() {
        return;
    }
    let bytes = request.args.multibulk_len() + reply_bytes;
    let is_sampled = cx.dice.below(cx.engine.hot_keys.sample_ratio() as usize) == 0;
    cx.counters.hot_keys.lock().add(request.keys(), (ticks, bytes as u64), is_sampled);
}

fn enter(cx: &Cx<'_>, measure: Measure, request: &Request<'_>, amount: u64, entries_max: Opt) {
    let client = &cx.state.client;
    let entry = slowlog::Entry {
        id: 0,
        time_s: cx.now.wall_ms() / 1_000,
        amount,
        arguments: slowlog::shortened(request),
        address: client.address.clone(),
        name: client.names.lock().client.clone(),
    };
    cx.engine.slowlog.add(measure, entry, cx.engine.config.number(entries_max) as usize);
}
