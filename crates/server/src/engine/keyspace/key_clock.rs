//! The access clock of a key: when it was last used, or how often.
//!
//! A key carries 24 bits. Under an LRU policy (and under none) they are the second of the last access; under an LFU policy
//! the upper 16 are the minute of the last decay and the lower 8 a logarithmic counter, as Redis keeps them (Morris's
//! approximate counting: the larger the counter, the less likely another access raises it).

use sleeve_store::EntryRef;

use crate::config::{Config, Opt};
use crate::host::clock::Instant;
use crate::host::dice::Dice;

/// The initial value of a counter, so that a new key is not the first to be evicted.
const FRESH_COUNT: u32 = 5;
const CLOCK_MASK: u32 = 0xff_ffff;

/// Returns the access clock of a key that is written now.
#[inline]
pub fn fresh(config: &Config, now: Instant) -> u32 {
    if config.counts_uses() { minute(now) << 8 | FRESH_COUNT } else { second(now) }
}

/// Renews the access clock of a key that is read now. The dice decide whether a counter rises.
#[inline]
pub fn touch((config, dice): (&Config, &Dice), entry: &EntryRef<'_>, now: Instant) {
    let old = entry.clock();
    let new = if config.counts_uses() { count_one_more((config, dice), old, now) } else { second(now) };
    // An access time changes once a second only, so a key that is read often seldom dirties its cache line.
    if new != old {
        entry.touch(new);
    }
}

/// Returns the access clock of a key with a value that is being replaced: a counter is kept and counts one use more, and an
/// access time becomes `fresh`. If the use `is_silent`, the clock stays as it was.
#[inline]
pub fn replaced((config, dice): (&Config, &Dice), old: u32, fresh: u32, now: Instant, is_silent: bool) -> u32 {
    match config.counts_uses() {
        _ if is_silent => old,
        false => fresh,
        true => count_one_more((config, dice), old, now),
    }
}

/// Returns the seconds since the last access, under an LRU policy.
pub fn idle_s(clock: u32, now: Instant) -> u32 {
    second(now).wrapping_sub(clock) & CLOCK_MASK
}

/// Returns the present value of the counter, under an LFU policy.
pub fn frequency(config: &Config, clock: u32, now: Instant) -> u32 {
    let period = config.number(Opt::LfuDecayTime) as u32;
    let elapsed = minute(now).wrapping_sub(clock >> 8) & 0xffff;
    (clock & 0xff).saturating_sub(elapsed.checked_div(period).unwrap_or(0))
}

/// Returns the access clock of a key that was last used `idle_s` seconds ago, under an LRU policy; under another policy, that
/// of a fresh key.
pub fn idle_for(config: &Config, idle_s: i64, now: Instant) -> u32 {
    let is_lfu = config.counts_uses();
    if is_lfu { fresh(config, now) } else { second(now).wrapping_sub(idle_s as u32) & CLOCK_MASK }
}

/// Returns the access clock of a key with this counter, under an LFU policy; under another policy, that of a fresh key.
pub fn used(config: &Config, count: u32, now: Instant) -> u32 {
    if config.counts_uses() { minute(now) << 8 | count } else { fresh(config, now) }
}

#[cold]
fn count_one_more((config, dice): (&Config, &Dice), clock: u32, now: Instant) -> u32 {
    let count = frequency(config, clock, now);
    let above_fresh = f64::from(count.saturating_sub(FRESH_COUNT));
    let chance = 1.0 / (above_fresh * config.number(Opt::LfuLogFactor) as f64 + 1.0);
    let raised = if count < 255 && dice.share() < chance { count + 1 } else { count };
    minute(now) << 8 | raised
}

fn second(now: Instant) -> u32 {
    (now.wall_ms() / 1_000) as u32 & CLOCK_MASK
}

fn minute(now: Instant) -> u32 {
    (now.wall_ms() / 60_000) as u32 & 0xffff
}
