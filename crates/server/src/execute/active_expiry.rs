//! Active expiry: removes expired keys although no command looks at them.
//!
//! Each worker walks its share of the shards in slices of a millisecond or two, holding one shard at a time for at most
//! [`BUCKETS_A_STEP`] buckets. The [`Effort`] is Redis's: while a tenth or more of the keys with a deadline that a walk meets
//! have expired, the next slice follows soon; else it waits for the next round. A removal is reported like any other change
//! (`key_change`), under the lock of its shard.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_store::{ExpireReport, Find, Garbage, Lookup, Shard};

use super::serve_blocked;
use crate::config::Opt;
use crate::context::key_change;
use crate::context::key_change::{Cause, ChangeSource, Pending};
use crate::context::{FIELDS_A_LOOK, ThreadContext};
use crate::engine::Engine;
use crate::engine::clients::blocking::DatabaseKey;
use crate::engine::keyspace::turns::TurnKind;
use crate::execute;
use crate::request::Key;

/// Buckets that are looked at while one lock is held.
const BUCKETS_A_STEP: usize = 256;
/// Hashes that are looked at while one lock is held.
const HASHES_A_STEP: usize = 16;
/// A value that takes at least so many bytes is freed only after the shard's lock was given back.
const LARGE_BYTES_MIN: usize = 64 << 10;
/// The pause between slices while many keys have expired, in milliseconds.
const BUSY_PAUSE_MS: u64 = 3;

/// The meaning of `active-expire-effort` (1 to 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Effort {
    /// The longest that a slice may take: with the pause after it, a quarter of the time at effort 1 and 43 % at 10.
    slice_us: u64,
    /// The share of expired keys, in percent of those met, from which on the next slice follows soon: 10 down to 1.
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

/// The position of one worker's walk.
#[derive(Debug)]
pub struct Expiry {
    /// The next shard; only those of this worker's share are visited.
    shard: usize,
    database: usize,
    stride: usize,
    first: usize,
}

impl Expiry {
    /// Makes the walk of worker `number` of `workers`.
    pub fn new(number: usize, workers: usize) -> Self {
        Self { shard: number, database: 0, stride: workers.max(1), first: number }
    }

    /// Sets the number of workers. If the number has changed, the walk of this worker's share begins anew.
    pub fn share_with(&mut self, workers: usize) {
        if self.stride != workers.max(1) {
            *self = Self::new(self.first, workers);
        }
    }

    /// Takes one slice; returns in how many milliseconds the next is due.
    pub fn step(&mut self, thread_context: ThreadContext<'_>) -> u64 {
        let ThreadContext { engine, now, clock, .. } = thread_context;
        let round_ms = 1_000 / u64::from(engine.rounds_a_second());
        if !engine.debug.active_expire.load(Ordering::Relaxed) {
            return round_ms;
        }
        let effort = Effort::of(engine.config.number(Opt::ActiveExpireEffort));
        let began_ns = clock.nanoseconds_after(now);
        let ends_ns = began_ns + effort.slice_us * 1_000;
        let (mut report, mut are_fields_left) = (ExpireReport::default(), false);
        if self.first == 0 && engine.replication.role.is_replica() {
            remove_own(thread_context, ends_ns);
        }
        let mut places_left = engine.keyspace.store.shards().div_ceil(self.stride) * engine.keyspace.store.databases();
        while places_left > 0 {
            // A script may hold shards for long, and the blocked clients that are served below would wait for them.
            let Some(_turn) = engine.keyspace.turns.take_within(TurnKind::Each, Duration::ZERO) else { break };
            let mut marked = VecDeque::new();
            let Some((step, fields_left)) = self.step_shard(thread_context, &mut marked) else {
                return round_ms;
            };
            if !marked.is_empty() {
                serve_blocked::gone(thread_context, execute::call, marked);
            }
            report.add(step);
            are_fields_left = fields_left;
            if step.wrapped && !fields_left {
                places_left -= 1;
                self.advance(engine);
            }
            if clock.nanoseconds_after(now) >= ends_ns {
                thread_context.counters.expiry_capped.add(1);
                break;
            }
        }
        let took_us = (clock.nanoseconds_after(now) - began_ns) / 1_000;
        thread_context.counters.expiry_us.add(took_us);
        engine.observe.rates.note_stale(report.expired, report.sampled);
        let slow_ms = engine.config.number(Opt::LatencyMonitorThreshold) as u64;
        if slow_ms > 0 && took_us / 1_000 >= slow_ms {
            engine.observe.latency.add("expire-cycle", now.wall_ms() / 1_000, took_us / 1_000);
        }
        let many_expired = report.expired * 100 >= report.sampled.max(1) * effort.busy_percent;
        let is_busy = places_left > 0 && (many_expired || are_fields_left);
        if is_busy { BUSY_PAUSE_MS } else { round_ms }
    }

    /// Removes the expired keys of a few buckets, and the expired fields of a few hashes. Returns the report about keys, and
    /// whether more expired fields are known. `marked` gets the keys that clients wait for. Returns None if no key may vanish
    /// now.
    fn step_shard(
        &self,
        thread_context: ThreadContext<'_>,
        marked: &mut VecDeque<DatabaseKey>,
    ) -> Option<(ExpireReport, bool)> {
        let ThreadContext { engine, counters, now, .. } = thread_context;
        let nothing = (ExpireReport { wrapped: true, ..ExpireReport::default() }, false);
        if self.shard >= engine.keyspace.store.shards() {
            return Some(nothing);
        }
        let (database, now_ms) = (self.database, now.wall_ms());
        // A long script may hold the shard's lock. No worker lets its clients wait for the sake of active expiry.
        let free = engine.keyspace.store.try_lock(self.shard).filter(|shard| shard.databases() > database);
        let Some(mut shard) = free else { return Some(nothing) };
        if !key_change::may_vanish(engine, now) {
            return None;
        }
        let (mut pending, mut recorder, mut large) = (Pending::default(), thread_context.recorder(), Vec::new());
        // Garbage that takes long to free is freed when the shard has been given back.
        let mut free = |garbage: Garbage| {
            if garbage.bytes() >= LARGE_BYTES_MIN {
                large.push(garbage);
            }
        };
        let report = shard.expire_step(database, now_ms, BUCKETS_A_STEP, |name, garbage| {
            free(garbage);
            let source = ChangeSource { engine, counters, state: None, pending: &mut pending, recorder: &mut recorder };
            key_change::tell(source, Cause::Expired, database as u32, engine.keyspace.store.key(name));
            recorder.end_piece();
        });
        let source = ChangeSource { engine, counters, state: None, pending: &mut pending, recorder: &mut recorder };
        let fields_left = step_fields(source, &mut shard, (database, now_ms), free);
        engine.keyspace.estimate.note(self.shard, shard.memory());
        recorder.settle(std::iter::once(self.shard));
        drop(shard);
        recorder.ring();
        let is_later = engine.config.flag(Opt::LazyfreeLazyExpire);
        large.into_iter().for_each(|garbage| engine.keyspace.lazy_free.now_or_later(garbage, is_later));
        engine.clients.tracking.broadcast(&mut pending.wakeups);
        pending.wakeups.ring(None);
        marked.append(&mut pending.marked);
        Some((report, fields_left))
    }

    fn advance(&mut self, engine: &Engine) {
        self.database += 1;
        if self.database >= engine.keyspace.store.databases() {
            self.database = 0;
            self.shard += self.stride;
            if self.shard >= engine.keyspace.store.shards() {
                self.shard = self.first;
            }
        }
    }
}

/// Removes expired fields of some hashes of a database, a bounded part of each; returns whether more fields have expired. A
/// large hash is visited again until all its expired fields are removed; the key is removed with its last field. If the key
/// of a hash has expired too, the whole hash is removed at once, because the shard would not name it again. `free` gets the
/// memory of the hashes, to be freed.
fn step_fields(
    source: ChangeSource<'_, '_>,
    shard: &mut Shard,
    (database, now_ms): (usize, i64),
    mut free: impl FnMut(Garbage),
) -> bool {
    let ChangeSource { engine, counters, state, pending, recorder } = source;
    for _ in 0..HASHES_A_STEP {
        let Some((hash, name)) = shard.pop_due(database, now_ms) else { return false };
        let key = Key { name: &name, hash };
        let source = ChangeSource { engine, counters, state, pending: &mut *pending, recorder: &mut *recorder };
        if let Find::Expired(_) = shard.find(database, key, now_ms) {
            shard.remove(database, key).into_iter().for_each(&mut free);
            key_change::tell(source, Cause::Expired, database as u32, key);
        } else if let Some(expired) = shard.expire_fields(database, key, now_ms, FIELDS_A_LOOK) {
            key_change::tell(source, Cause::FieldsExpired(&expired), database as u32, key);
        }
        recorder.end_piece();
    }
    shard.has_due_fields(database, now_ms)
}

/// Removes, on a replica, the keys to which the replica's own clients have given a deadline that is past. Keys that came from
/// the primary are removed when the primary's stream removes them.
fn remove_own(thread_context: ThreadContext<'_>, ends_ns: u64) {
    let ThreadContext { engine, counters, now, clock, .. } = thread_context;
    let own_deadlines = &engine.replication.own_deadlines;
    while let Some(own) = own_deadlines.first_due(now.wall_ms()) {
        let key = engine.keyspace.store.key(&own.name);
        let number = engine.keyspace.store.shard_of(key.hash);
        let (Some(_turn), Some(mut shard)) =
            (engine.keyspace.turns.take_within(TurnKind::Each, Duration::ZERO), engine.keyspace.store.try_lock(number))
        else {
            break;
        };
        // No key vanishes while an AOF is loaded or during a pause, as elsewhere; and a primary keeps no separate list of
        // deadlines.
        let is_still = engine.persistence.is_replaying.load(Ordering::Relaxed)
            || engine.clients.pause.held(now.monotonic_ms()).is_some();
        if is_still || !engine.replication.role.is_replica() {
            break;
        }
        let (mut pending, mut recorder) = (Pending::default(), thread_context.recorder());
        let database = own.database as usize;
        let is_as_given = match shard.find(database, key, now.wall_ms()) {
            Find::Expired(entry) => entry.deadline() == Some(own.at_ms),
            Find::Live(_) | Find::Missing => false,
        };
        let mut garbage = None;
        if is_as_given && let Lookup::Expired(expired) = shard.remove_live(database, key, now.wall_ms(), || true) {
            garbage = expired;
            let source = ChangeSource { engine, counters, state: None, pending: &mut pending, recorder: &mut recorder };
            key_change::tell(source, Cause::Expired, own.database, key);
            engine.keyspace.estimate.note(number, shard.memory());
        }
        own_deadlines.done(&own);
        drop(shard);
        if let Some(garbage) = garbage {
            engine.keyspace.lazy_free.now_or_later(garbage, engine.config.flag(Opt::LazyfreeLazyExpire));
        }
        engine.clients.tracking.broadcast(&mut pending.wakeups);
        pending.wakeups.ring(None);
        if !pending.marked.is_empty() {
            serve_blocked::gone(thread_context, execute::call, pending.marked);
        }
        if clock.nanoseconds_after(now) >= ends_ns {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use sleeve_store::{Deadline, Map, MapLimits, Moment, Value};

    use super::*;
    use crate::config::Config;
    use crate::engine::readiness::PauseScope;
    use crate::execute::scratch::Scratch;
    use crate::host::clock::Instant;

    #[test]
    fn a_pause_that_begins_during_a_slice_ends_it() {
        let engine = Engine::new(Config::default());
        let (key, moment) = (engine.keyspace.store.key(b"k"), Moment { now_ms: 0, clock: 0 });
        let shard = engine.keyspace.store.shard_of(key.hash);
        drop(engine.keyspace.store.lock(shard).set(0, key, &Value::Bytes(b"1"), Deadline::At(1), moment));
        let expiry = Expiry::new(shard, 1);
        let scratch = Scratch::new(&engine, Instant { wall_us: 1_000_000, monotonic_us: 0 });
        // The slice has begun; for each shard it asks again whether keys may vanish.
        engine.clients.pause.begin(PauseScope::Writes, 1_000);
        assert!(expiry.step_shard(scratch.thread_context(), &mut VecDeque::new()).is_none());
        assert_eq!(engine.keyspace.store.len(0), 1, "nothing changes during a pause");
        engine.clients.pause.end();
        let step = expiry.step_shard(scratch.thread_context(), &mut VecDeque::new());
        assert_eq!(step.map(|(report, _)| report.expired), Some(1));
        assert_eq!((engine.keyspace.store.len(0), scratch.counters.expired.get()), (0, 1));
    }

    #[test]
    fn a_hash_whose_key_and_fields_are_over_goes_whole() {
        let engine = Engine::new(Config::default());
        let (key, moment) = (engine.keyspace.store.key(b"h"), Moment { now_ms: 0, clock: 0 });
        let shard = engine.keyspace.store.shard_of(key.hash);
        let limits = MapLimits { entries_max: 10, value_bytes_max: 10 };
        {
            let mut shard = engine.keyspace.store.lock(shard);
            for number in 0..100_000_u32 {
                // There are so many other keys that a walk needs many steps before it meets the hash.
                let name = number.to_be_bytes();
                drop(shard.set(
                    0,
                    engine.keyspace.store.key(&name),
                    &Value::Bytes(b"1"),
                    Deadline::At(i64::MAX),
                    moment,
                ));
            }
            let change = |map: &mut Map| map.set(b"f", b"v", Deadline::At(1_000), limits, 0);
            shard.update(0, key, moment, || false, |_| (), change).expect("a hash");
            let Lookup::Live(mut entry) = shard.lookup_mut(0, key, 0, || false) else { panic!("it is there") };
            entry.set_deadline(Some(1_000));
        }
        let scratch = Scratch::new(&engine, Instant { wall_us: 5_000_000, monotonic_us: 0 });
        Expiry::new(shard, 1).step_shard(scratch.thread_context(), &mut VecDeque::new()).expect("nothing hinders it");
        // The hash has to be gone: a snapshot uses the form with deadlines of fields as long as the shard names such a hash.
        assert!(matches!(engine.keyspace.store.lock(shard).find(0, key, 0), Find::Missing));
        assert_eq!(scratch.counters.expired.get(), 1);
    }

    #[test]
    fn effort_goes_from_a_quarter_of_the_time_to_nearly_half() {
        assert_eq!(Effort::of(1), Effort { slice_us: 1_000, busy_percent: 10 });
        assert_eq!(Effort::of(10), Effort { slice_us: 2_263, busy_percent: 1 });
    }
}
