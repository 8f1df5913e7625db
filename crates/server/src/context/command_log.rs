//! The logs of conspicuous commands: the slow log and the latency monitor of those that took long, COMMANDLOG of large requests
//! and replies, the keys that HOTKEYS collects, and the costs of slots.
//!
//! [`super::command_timer`] detects such a command with one comparison. The executing thread.

use sleeve_wire::commands::Flags;

use super::Cx;
use crate::config::Opt;
use crate::engine::cluster::slot_costs::Cost;
use crate::engine::observe::slowlog::{self, Measure};
use crate::host::clock;
use crate::request::Request;

/// Enters a slow command in the slow log and the latency monitor.
#[cold]
pub fn enter_slow(cx: &mut Cx<'_>, request: &Request<'_>, ticks: u64) {
    let engine = cx.engine;
    if cx.state.origin.is_unobserved {
        return;
    }
    let duration_us = engine.identity.ticker.nanoseconds(ticks) / 1_000;
    let over = |option: Opt, least: i64, unit_us: u64| {
        let bound = engine.config.number(option);
        bound >= least && duration_us / unit_us >= bound as u64
    };
    if over(Opt::SlowlogLogSlowerThan, 0, 1) && !request.row.flags.contains(Flags::SKIP_SLOWLOG) {
        enter(cx, Measure::Time, request, duration_us, Opt::SlowlogMaxLen);
    }
    if over(Opt::LatencyMonitorThreshold, 1, 1_000) {
        let event = if request.row.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
        engine.observe.latency.add(event, cx.now.wall_ms() / 1_000, duration_us / 1_000);
    }
}

/// Enters a command that began at `began_ticks` in the log of large requests or that of large replies, if its request or
/// reply is large. The caller has only compared the sum of the reply and of the buffer that holds the request, so the request
/// itself may be small.
#[cold]
pub fn note_size(cx: &mut Cx<'_>, request: &Request<'_>, reply_bytes: usize, began_ticks: Option<u64>) {
    if !cx.timer.may_be_large(request.args.extent() + reply_bytes) {
        return;
    }
    if let Some(began_ticks) = began_ticks {
        let ticks = clock::ticks().wrapping_sub(began_ticks);
        if cx.engine.observe.hot_keys.wants(cx.now) {
            tally(cx, request, reply_bytes, ticks);
        }
        if cx.engine.config.flag(Opt::ClusterSlotStatsEnabled) {
            note_slot_cost(cx, request, reply_bytes, ticks);
        }
    }
    // A command that blocks is noted when it runs again.
    if cx.state.origin.is_unobserved || cx.state.blocked.is_some() || request.row.flags.contains(Flags::SKIP_SLOWLOG) {
        return;
    }
    let sizes = [
        (Measure::Request, request.args.multibulk_len(), Opt::LargeRequestBytes, Opt::LargeRequestMaxLen),
        (Measure::Reply, reply_bytes, Opt::LargeReplyBytes, Opt::LargeReplyMaxLen),
    ];
    // A command that a script runs came in no request, so only its reply is measured.
    for (measure, bytes, bound, entries_max) in sizes.into_iter().skip(usize::from(cx.timer.is_nested())) {
        if usize::try_from(cx.engine.config.number(bound)).is_ok_and(|bound| bytes >= bound) {
            enter(cx, measure, request, bytes as u64, entries_max);
        }
    }
}

/// Counts a command for the keys that it names (HOTKEYS). The calls of a script count as the script's. A command that waits
/// for a key is counted when its request is served.
fn tally(cx: &mut Cx<'_>, request: &Request<'_>, reply_bytes: usize, ticks: u64) {
    let state = &cx.state;
    let is_another_s =
        cx.timer.is_nested() || state.origin.is_replaying || state.blocked.is_some() || state.origin.serving.is_some();
    if is_another_s || request.key_places.is_empty() {
        return;
    }
    let bytes = request.args.multibulk_len() + reply_bytes;
    let is_sampled = cx.dice.below(cx.engine.observe.hot_keys.sample_ratio() as usize) == 0;
    cx.counters.hot_keys.lock().add(request.keys(), (ticks, bytes as u64), is_sampled);
}

/// Counts a command for the slot of its keys (CLUSTER SLOT-STATS). The calls of a script count as the script's. A command that
/// waits for a key is counted when its request is served.
fn note_slot_cost(cx: &Cx<'_>, request: &Request<'_>, reply_bytes: usize, ticks: u64) {
    let is_another_s = cx.timer.is_nested() || cx.state.origin.is_replaying || cx.state.blocked.is_some();
    let (Some(cluster), [key, ..]) = (cx.engine.cluster.get(), request.key_places) else { return };
    if !is_another_s {
        let (input_bytes, output_bytes) = (request.args.multibulk_len() as u64, reply_bytes as u64);
        cluster.costs.add(key.hash.slot(), Cost { ticks, input_bytes, output_bytes });
    }
}

fn enter(cx: &Cx<'_>, measure: Measure, request: &Request<'_>, amount: u64, entries_max: Opt) {
    let client = &cx.state.client;
    let entry = slowlog::Entry {
        id: 0,
        time_s: cx.now.wall_ms() / 1_000,
        amount,
        arguments: slowlog::shortened(request),
        address: client.socket.address.clone(),
        name: client.names.lock().client.clone(),
    };
    cx.engine.observe.slowlog.add(measure, entry, cx.engine.config.number(entries_max) as usize);
}
