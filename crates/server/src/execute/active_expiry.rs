//! Active expiry: removing keys whose time has come although nobody looks at them.
//!
//! Each worker walks its share of the shards in slices of a millisecond or two, holding one shard at a time for at most
//! [`BUCKETS_A_STEP`] buckets. The [`Effort`] is Redis's: while a tenth or more of the keys with a deadline that a walk
//! meets have expired, the next slice follows soon; else it waits for the next round. What is removed is recorded like
//! any other effect, under the lock of its shard.

use std::sync::atomic::Ordering;

use sleeve_store::ExpireReport;

use super::serve_blocked;
use crate::config::Opt;
use crate::context::field_expiry;
use crate::context::notifications;
use crate::context::notifications::Class;
use crate::engine::Engine;
use crate::engine::clients::blocking::Place;
use crate::execute;
use crate::host::clock::{Instant, monotonic_ns};
use crate::messaging::wakeups::Outbox;
use crate::observe::stats::Counters;
use crate::request::Key;

/// Buckets that are looked at while one lock is held.
const BUCKETS_A_STEP: usize = 256;
/// A value of so many bytes takes long to free.
const LARGE_BYTES_MIN: usize = 64 << 10;
/// The pause between slices while many keys have expired, in milliseconds.
const BUSY_PAUSE_MS: u64 = 3;

/// What `active-expire-effort` (1 to 10) stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Effort {
    /// The longest that a slice may take: with the pause after it, a quarter of the time at effort 1 and 43 % at 10.
    slice_us: u64,
    /// From which part of expired keys on, in percent of those met, the next slice follows soon: 10 down to 1.
    busy_percent: usize,
}

impl Effort {
    fn of(level: i64) -> Self {
        let above_least = level.clamp(1, 10) as u64 - 1;
        let share_percent = 25 + 2 * above_least;
        let slice_us = BUSY_PAUSE_MS * 1_000 * share_percent / (100 - share_percent);
        Self { slice_us, busy_percent: 10 - above_least as usize }
    }
}

/// Where one worker's walk stands.
#[derive(Debug)]
pub struct Expiry {
    /// The next shard; only those of this worker's share are visited.
    shard: usize,
    database: usize,
    stride: usize,
    first: usize,
}

impl Expiry {
    /// The walk of worker `number` of `workers`.
    pub fn new(number: usize, workers: usize) -> Self {
        Self { shard: number, database: 0, stride: workers.max(1), first: number }
    }

    /// Takes one slice; returns in how many milliseconds the next is due.
    pub fn step(&mut self, engine: &Engine, counters: &Counters, now: Instant) -> u64 {
        let round_ms = 1_000 / u64::from(engine.rounds_a_second());
        // Nothing changes during a pause, not even by time: that is what a failover relies on.
        let is_paused = engine.pause.held(now.monotonic_ms()).is_some();
        if is_paused || !engine.debug.active_expire.load(Ordering::Relaxed) {
            return round_ms;
        }
        let effort = Effort::of(engine.config.number(Opt::ActiveExpireEffort));
        let began_ns = monotonic_ns();
        let ends_ns = began_ns + effort.slice_us * 1_000;
        let (mut report, mut are_fields_left) = (ExpireReport::default(), false);
        let mut places_left = engine.store.shards().div_ceil(self.stride) * engine.store.databases();
        while places_left > 0 {
            // A script may have all shards for long, and who is served below would wait for them.
            let Some(_turn) = engine.all_or_each.try_read() else { break };
            let mut marked = Vec::new();
            let (step, fields_left) = self.step_shard(engine, now.wall_ms(), &mut marked);
            if !marked.is_empty() {
                serve_blocked::gone((engine, counters, now), execute::call, marked);
            }
            report.add(step);
            are_fields_left = fields_left;
            if step.wrapped && !fields_left {
                places_left -= 1;
                self.advance(engine);
            }
            if monotonic_ns() >= ends_ns {
                counters.expiry_capped.add(1);
                break;
            }
        }
        counters.expired.add(report.expired as u64);
        let took_us = (monotonic_ns() - began_ns) / 1_000;
        counters.expiry_us.add(took_us);
        engine.gauges.note_stale(report.expired, report.sampled);
        let slow_ms = engine.config.number(Opt::LatencyMonitorThreshold) as u64;
        if slow_ms > 0 && took_us / 1_000 >= slow_ms {
            engine.latency.add("expire-cycle", now.wall_ms() / 1_000, took_us / 1_000);
        }
        let many_expired = report.expired * 100 >= report.sampled.max(1) * effort.busy_percent;
        let is_busy = places_left > 0 && (many_expired || are_fields_left);
        if is_busy { BUSY_PAUSE_MS } else { round_ms }
    }

    /// Removes the keys that are due from a few buckets, and the fields that are from a few hashes: what it did about keys,
    /// and whether more fields are due. `marked` gets the keys that somebody waits for.
    fn step_shard(&self, engine: &Engine, now_ms: i64, marked: &mut Vec<Place>) -> (ExpireReport, bool) {
        if self.shard >= engine.store.shards() {
            return (ExpireReport { wrapped: true, ..ExpireReport::default() }, false);
        }
        let database = self.database;
        // Who has it may be a script that runs for long; nobody's clients wait for this.
        let free = engine.store.try_lock(self.shard).filter(|shard| shard.databases() > database);
        let Some(mut shard) = free else { return (ExpireReport { wrapped: true, ..ExpireReport::default() }, false) };
        let (mut outbox, mut large) = (Outbox::default(), Vec::new());
        let report = shard.expire_step(database, now_ms, BUCKETS_A_STEP, |key, garbage| {
            // What takes long to free is freed when nobody waits for the shard.
            if garbage.bytes() >= LARGE_BYTES_MIN {
                large.push(garbage);
            }
            engine.watches.raise_expired(database as u32, key);
            if !engine.blocking.is_empty() {
                let key = Key { name: key, hash: engine.store.hash(key) };
                marked.extend(engine.blocking.mark(database as u32, key));
            }
            if engine.tracking.is_used() {
                engine.tracking.changed(key, None, &mut outbox);
            }
            notifications::publish((engine, None, &mut outbox), database as u32, (Class::Expired, "expired"), key);
            if engine.journal.is_read() {
                engine.journal.append(database as u32, [b"DEL".as_slice(), key].into_iter());
            }
        });
        let fields_left = field_expiry::step(engine, &mut shard, database, now_ms, marked, &mut outbox);
        engine.estimate.note(self.shard, shard.memory());
        drop(shard);
        let is_later = engine.config.flag(Opt::LazyfreeLazyExpire);
        large.into_iter().for_each(|garbage| engine.lazy_free.now_or_later(garbage, is_later));
        engine.tracking.broadcast(&mut outbox);
        outbox.ring(None);
        (report, fields_left)
    }

    fn advance(&mut self, engine: &Engine) {
        self.database += 1;
        if self.database >= engine.store.databases() {
            self.database = 0;
            self.shard += self.stride;
            if self.shard >= engine.store.shards() {
                self.shard = self.first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_goes_from_a_quarter_of_the_time_to_nearly_half() {
        assert_eq!(Effort::of(1), Effort { slice_us: 1_000, busy_percent: 10 });
        assert_eq!(Effort::of(10), Effort { slice_us: 2_263, busy_percent: 1 });
    }
}
