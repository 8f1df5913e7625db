//! Taking the locks of a command, and how long it waits for them.
//!
//! A script holds all shards, or, in a cluster, that of its slot. Once it has run for `busy-reply-threshold`, it counts as
//! long-running, and a command that needs a shard gets an error instead of waiting. So every thread goes on serving its
//! clients, among them the one that sends SCRIPT KILL.

use std::time::Duration;

use sleeve_store::Hash;

use super::Cx;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::keyspace::locks::Locks;
use crate::host::clock;
use crate::request::Request;
use crate::request::error::Error;

/// The time after which a thread that waits for a lock checks whether a long script holds it.
const LOCK_TIMEOUT: Duration = Duration::from_millis(10);

/// Checks whether a long script runs, for which no command waits.
///
/// # Errors
/// BUSY, if so.
#[cold]
pub fn check(engine: &Engine) -> Result<(), Error> {
    let running = &engine.scripts.running;
    let Some(elapsed_ms) = running.elapsed_ms(clock::monotonic_ms) else { return Ok(()) };
    let threshold_ms = engine.config.number(Opt::BusyReplyThreshold);
    if threshold_ms > 0 && elapsed_ms as i64 >= threshold_ms { Err(running.busy()) } else { Ok(()) }
}

/// Tries to take locks until that succeeds.
#[inline]
fn lock_by<'a>(cx: &mut Cx<'a>, mut take: impl FnMut(&mut Locks<'a>, Duration) -> bool) -> Result<(), Error> {
    if take(&mut cx.locks, LOCK_TIMEOUT) { Ok(()) } else { lock_late(cx, take) }
}

/// Goes on trying to take locks that were not free at once. When it has them, it reads the clock again for the command that
/// runs then.
#[cold]
fn lock_late<'a>(cx: &mut Cx<'a>, mut take: impl FnMut(&mut Locks<'a>, Duration) -> bool) -> Result<(), Error> {
    loop {
        check(cx.engine)?;
        if take(&mut cx.locks, LOCK_TIMEOUT) {
            cx.look_at_clock();
            return Ok(());
        }
    }
}

/// Takes the shard of a key instead of the held ones, unless it is the only one held.
///
/// # Errors
/// BUSY, if a long script holds it; so also for the functions below.
#[inline]
pub fn lock_key(cx: &mut Cx<'_>, hash: Hash) -> Result<(), Error> {
    lock_by(cx, |locks, timeout| locks.take_one_within(hash, timeout))
}

/// Takes the shards of these keys instead of the held ones.
///
/// # Errors
/// BUSY.
pub fn lock_keys(cx: &mut Cx<'_>, hashes: impl Iterator<Item = Hash> + Clone) -> Result<(), Error> {
    lock_by(cx, |locks, timeout| locks.take_within(hashes.clone(), timeout))
}

/// Takes the shard of a script's slot, or all shards if this is no node of a cluster, or if the script is known to need
/// others.
///
/// # Errors
/// BUSY.
pub fn lock_script(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    match own_shard(cx, request) {
        Some(hash) => lock_by(cx, |locks, timeout| locks.take_for_script_within(hash, timeout)),
        None => lock_all(cx),
    }
}

/// Returns the hash of one of a script's keys, if the script can be expected to need their shard alone.
fn own_shard(cx: &Cx<'_>, request: &Request<'_>) -> Option<Hash> {
    let store = &cx.engine.keyspace.store;
    if cx.engine.cluster.get().is_none() || store.shards() == 1 || cx.state.origin.is_replaying {
        return None;
    }
    let (first, others) = request.key_places.split_first()?;
    let shard = store.shard_of(first.hash);
    let is_one = others.iter().all(|key| store.shard_of(key.hash) == shard);
    (is_one && !cx.engine.scripts.is_wide(request.row.id, request.arg(1))).then_some(first.hash)
}

/// Begins to take single shards one after the other.
///
/// # Errors
/// BUSY.
pub fn lock_each(cx: &mut Cx<'_>) -> Result<(), Error> {
    lock_by(cx, Locks::begin_each_within)
}

/// Takes all shards.
///
/// # Errors
/// BUSY.
pub fn lock_all(cx: &mut Cx<'_>) -> Result<(), Error> {
    lock_by(cx, Locks::take_all_within)
}
