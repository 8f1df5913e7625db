//! The use of memory, and eviction: making room when `maxmemory` is reached.
//!
//! As in Redis, keys are sampled, the best candidates are remembered between two evictions, and the best of those is evicted.
//! For each sample and for each eviction, one shard's lock is held for a moment. A command that needs much room gives up
//! after the time that `maxmemory-eviction-tenacity` stands for, and leaves the rest to the commands after it.

use std::time::Duration;

use sleeve_store::EntryRef;

use super::Cx;
use super::key_change;
use super::key_change::Cause;
use crate::config::{Config, MaxmemoryPolicy, Opt};
use crate::engine::Engine;
use crate::engine::keyspace::eviction_pool::Candidate;
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::memory_accounting::MemoryUse;
use crate::host::clock::Instant;

/// The outcome of making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The use of memory is below the limit.
    Enough,
    /// Memory is above the limit, but there are more keys that may be evicted.
    Later,
    /// Memory is above the limit, and no more keys may be evicted.
    Nothing,
}

/// The outcome for a key that was to be evicted.
enum EvictionOutcome {
    /// The key was evicted.
    Evicted,
    /// The key had gone before, or may not be evicted any more.
    Stayed,
    /// Eviction is not allowed now: during a pause, on a replica, or while an AOF is applied.
    Forbidden,
}

/// The number of draws in vain after which no shard is believed to have a key that may be evicted.
const TRIES_MAX: usize = 64;

/// Returns the use of memory, seen through the locks that the command holds.
pub fn memory_use(cx: &mut Cx<'_>) -> MemoryUse {
    let mut data_bytes = 0;
    cx.locks.for_each(|shard| data_bytes += shard.memory() as u64);
    cx.engine.memory_use(data_bytes)
}

/// Weighs anew the parts of memory that are weighed only while `maxmemory` is set: the estimate of them may be out of date.
pub fn weigh_all(cx: &mut Cx<'_>) {
    let engine = cx.engine;
    (0..engine.keyspace.store.shards())
        .for_each(|index| cx.locks.with(index, |shard| engine.keyspace.estimate.note(index, shard.memory())));
    engine.clients.list.all().iter().for_each(|client| engine.clients.memory.weigh(client));
}

/// Returns whether more memory is used than `maxmemory` allows.
pub(crate) fn is_over_limit(engine: &Engine) -> bool {
    let bytes_max = engine.config.memory(Opt::Maxmemory);
    bytes_max != 0 && engine.estimated_bytes() > bytes_max
}

/// Evicts as [`evict_down_to`] does, and keeps account of how long the limit is exceeded.
#[cold]
pub(crate) fn make_room(cx: &mut Cx<'_>, bytes_max: u64) -> Room {
    let estimate = &cx.engine.keyspace.estimate;
    estimate.note_excess(true, now_ns(cx));
    let room = evict_down_to(cx, bytes_max);
    estimate.note_excess(room != Room::Enough, now_ns(cx));
    room
}

/// Evicts keys by the policy until the use of memory is at most `bytes_max`. It gives back the locks of the last command, so
/// it may be called only between two commands.
fn evict_down_to(cx: &mut Cx<'_>, bytes_max: u64) -> Room {
    let engine = cx.engine;
    let policy = engine.config.maxmemory_policy();
    if engine.estimated_bytes() <= bytes_max {
        return Room::Enough;
    }
    if policy == MaxmemoryPolicy::NoEviction {
        return Room::Nothing;
    }
    if !cx.locks.begin_each_within(Duration::ZERO) {
        // A script holds shards, or is about to, and no thread waits for them only to evict.
        return Room::Later;
    }
    let began_ns = now_ns(cx);
    let limit_us = time_limit_us(engine.config.number(Opt::MaxmemoryEvictionTenacity));
    let (clock, now) = (cx.clock, cx.now);
    let elapsed_us = || (clock.nanoseconds_after(now) - began_ns) / 1_000;
    let mut room = Room::Enough;
    while engine.estimated_bytes() > bytes_max {
        if !evict_one(cx, policy) {
            room = Room::Nothing;
            break;
        }
        if elapsed_us() > limit_us {
            room = Room::Later;
            break;
        }
    }
    cx.locks.clear();
    report(cx, "eviction-cycle", elapsed_us());
    room
}

fn now_ns(cx: &Cx<'_>) -> u64 {
    cx.clock.nanoseconds_after(cx.now)
}

/// Enters an event in the latency monitor, if it took long enough for it.
fn report(cx: &Cx<'_>, event: &'static str, took_us: u64) {
    let slow_ms = cx.engine.config.number(Opt::LatencyMonitorThreshold) as u64;
    if slow_ms > 0 && took_us / 1_000 >= slow_ms {
        cx.engine.observe.latency.add(event, cx.now.wall_ms() / 1_000, took_us / 1_000);
    }
}

/// Evicts one key; returns false if there is no key that may be evicted.
fn evict_one(cx: &mut Cx<'_>, policy: MaxmemoryPolicy) -> bool {
    for _ in 0..TRIES_MAX {
        let candidate = match policy {
            MaxmemoryPolicy::AllkeysRandom | MaxmemoryPolicy::VolatileRandom => match draw(cx, policy) {
                Some(mut drawn) => drawn.pop(),
                None => return false,
            },
            _ => match gather(cx, policy) {
                true => cx.engine.keyspace.candidates.take_best(),
                false => return false,
            },
        };
        // A remembered candidate may be gone, or may have lost its deadline; then the next best is taken.
        match candidate.map(|candidate| evict(cx, &candidate, policy)) {
            Some(EvictionOutcome::Evicted) => return true,
            Some(EvictionOutcome::Forbidden) => return false,
            Some(EvictionOutcome::Stayed) | None => {}
        }
    }
    false
}

/// Samples some keys of each database and remembers the best candidates; returns false if there are no keys that may be
/// evicted.
fn gather(cx: &mut Cx<'_>, policy: MaxmemoryPolicy) -> bool {
    for _ in 0..cx.engine.config.number(Opt::MaxmemorySamples) {
        let Some(drawn) = draw(cx, policy) else { return false };
        cx.engine.keyspace.candidates.remember(drawn);
    }
    true
}

/// Returns a random key of each database, from a random shard that has keys which may be evicted; by chance the draw may be
/// empty. Returns None if no shard has such keys.
fn draw(cx: &mut Cx<'_>, policy: MaxmemoryPolicy) -> Option<Vec<Candidate>> {
    let (engine, now, shards) = (cx.engine, cx.now, cx.engine.keyspace.store.shards());
    let first = match engine.keyspace.store.is_by_slot() {
        // One slot is in one shard, so shards may differ much: with equal chances the keys of small ones would go first.
        true => engine.keyspace.estimate.draw_shard(cx.dice.number()),
        false => cx.dice.below(shards),
    };
    let random = cx.dice.number();
    let (mut drawn, mut are_any) = (Vec::new(), false);
    for step in 0..shards {
        cx.locks.with((first + step) % shards, |shard| {
            drawn.extend((0..shard.databases()).filter_map(|database| {
                let entry = match policy.is_volatile() {
                    true if shard.volatile_len(database) == 0 => return None,
                    true => shard.random_volatile(database, random),
                    false if shard.len(database) == 0 => return None,
                    false => shard.random(database, random),
                };
                are_any = true;
                let entry = entry?;
                let score = score(&engine.config, policy, &entry, now);
                Some(Candidate { score, database, name: entry.key().into() })
            }));
        });
        if !drawn.is_empty() {
            break;
        }
    }
    are_any.then_some(drawn)
}

/// Evicts a key, if it is still there and may be evicted. Its value is freed when the shard's lock has been given back.
fn evict(cx: &mut Cx<'_>, candidate: &Candidate, policy: MaxmemoryPolicy) -> EvictionOutcome {
    let (engine, database) = (cx.engine, candidate.database);
    let key = engine.keyspace.store.key(&candidate.name);
    cx.locks.take_one(key.hash);
    if !key_change::may_vanish(engine, cx.now) {
        cx.locks.unlock();
        return EvictionOutcome::Forbidden;
    }
    let shard = cx.locks.shard(key.hash);
    let is_meant =
        shard.get(database, key, i64::MIN).is_some_and(|entry| !policy.is_volatile() || entry.deadline().is_some());
    let garbage = if is_meant { shard.remove(database, key) } else { None };
    if garbage.is_some() && shard.len(database) == 0 {
        shard.trim();
    }
    let Some(garbage) = garbage else {
        cx.locks.unlock();
        return EvictionOutcome::Stayed;
    };
    let began_ns = now_ns(cx);
    cx.tell(Cause::Evicted, database as u32, key);
    cx.locks.weigh(&engine.keyspace.estimate);
    cx.locks.unlock();
    engine.keyspace.lazy_free.now_or_later(garbage, engine.config.flag(Opt::LazyfreeLazyEviction));
    report(cx, "eviction-del", (now_ns(cx) - began_ns) / 1_000);
    EvictionOutcome::Evicted
}

/// Returns how much sooner than others a key is evicted: by how long it has not been used, how seldom, or how soon it
/// expires.
fn score(config: &Config, policy: MaxmemoryPolicy, entry: &EntryRef<'_>, now: Instant) -> u64 {
    match policy {
        MaxmemoryPolicy::VolatileTtl => u64::MAX - entry.deadline().unwrap_or(i64::MAX).max(0) as u64,
        policy if policy.is_lfu() => u64::from(255 - key_clock::frequency(config, entry.clock(), now)),
        _ => u64::from(key_clock::idle_s(entry.clock(), now)),
    }
}

/// Returns how long one command may evict: half a millisecond by default, Redis's steps below and above.
fn time_limit_us(tenacity: i64) -> u64 {
    match tenacity {
        0..=10 => 50 * tenacity as u64,
        11..100 => (500.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenacity_goes_from_no_time_to_no_limit() {
        assert_eq!([0, 10, 11, 100].map(time_limit_us), [0, 500, 575, u64::MAX]);
        assert!((99..100).all(|tenacity| time_limit_us(tenacity) > 60_000_000));
    }
}
