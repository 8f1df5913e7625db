//! The subcommands of CLUSTER about keys and slots: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT and FLUSHSLOT.
//!
//! A node with several databases answers for the selected one. FLUSHSLOT removes the keys of all databases, as in Valkey.

use sleeve_cluster::{SLOTS, Slot, admin};
use sleeve_store::{Garbage, SlotPosition, keys_in_slot, walk_slot};
use sleeve_wire::{number, slot};

use super::{enabled, too_many};
use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change::Cause;
use crate::context::notifications::EventClass;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The number of keys that FLUSHSLOT removes in one step.
const FLUSHED_AT_ONCE: usize = 256;

/// CLUSTER KEYSLOT key
pub fn key_slot(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    cx.reply().integer(i64::from(slot::of_key(request.arg(2))));
    Ok(())
}

/// CLUSTER COUNTKEYSINSLOT slot
pub fn count_keys_in_slot(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let number = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let slot = slot_of(number).ok_or(Error::fixed("ERR Invalid slot"))?;
    let database = cx.database();
    let shard = cx.engine.keyspace.store.shard_of_slot(slot);
    let count = cx.locks.with(shard, |shard| keys_in_slot(shard, database, slot));
    cx.reply().integer(count as i64);
    Ok(())
}

/// CLUSTER GETKEYSINSLOT slot count
pub fn get_keys_in_slot(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let number = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let count = number::parse_i64(request.arg(3)).ok_or(Error::NOT_INTEGER)?;
    let count = usize::try_from(count).ok();
    let (Some(slot), Some(count)) = (slot_of(number), count) else {
        return Err(Error::fixed("ERR Invalid slot or number of keys"));
    };
    let database = cx.database();
    let shard = cx.engine.keyspace.store.shard_of_slot(slot);
    let names = cx.locks.with(shard, |shard| {
        let count = count.min(keys_in_slot(shard, database, slot) as usize);
        let (mut names, mut from) = (Vec::<Box<[u8]>>::with_capacity(count), None);
        while names.len() < count {
            let wanted = count - names.len();
            from = walk_slot(shard, (database, slot), from, wanted, |entry| names.push(entry.key().into()));
            if from.is_none() {
                break;
            }
        }
        // A step shows a few more entries than it was asked for.
        names.truncate(count);
        names
    });
    let mut reply = cx.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// CLUSTER FLUSHSLOT slot \[ASYNC | SYNC\]. The removal is recorded as DEL or UNLINK of the keys, which every replica knows;
/// Valkey sends its replicas the request.
pub fn flush_slot(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let slot = parse_slot(request.arg(2))?;
    let is_async = match request.args.get(3) {
        None => cx.engine.config.flag(Opt::LazyfreeLazyUserFlush),
        Some(_) if request.len() > 4 => return Err(too_many(request)),
        Some(mode) if mode.eq_ignore_ascii_case(b"async") => true,
        Some(mode) if mode.eq_ignore_ascii_case(b"sync") => false,
        Some(_) => return Err(Error::SYNTAX),
    };
    let selected = cx.state.database;
    for database in 0..cx.engine.keyspace.store.databases() {
        cx.state.database = database as u32;
        let mut from = Some(None);
        while let Some(position) = from {
            from = flush_some(cx, (slot, position), is_async).map(Some);
        }
    }
    cx.state.database = selected;
    cx.reply().ok();
    Ok(())
}

/// Removes some keys of a slot in the selected database, from a position on, and returns the position behind them. None if the
/// slot has been walked to its end. Names and values of one step are in memory at a time.
fn flush_some(cx: &mut Cx<'_>, (slot, from): (Slot, Option<SlotPosition>), is_async: bool) -> Option<SlotPosition> {
    let (database, mut names) = (cx.database(), Vec::<Box<[u8]>>::new());
    let shard = cx.engine.keyspace.store.shard_of_slot(slot);
    let next = cx.locks.with(shard, |shard| {
        walk_slot(shard, (database, slot), from, FLUSHED_AT_ONCE, |entry| names.push(entry.key().into()))
    });
    let mut garbage = Vec::with_capacity(names.len());
    names.retain(|name| {
        let key = cx.engine.keyspace.store.key(name);
        let left = cx.take_off(Cause::Command, key);
        if left.is_some() {
            cx.notify(EventClass::Generic, "del", key);
        }
        let is_removed = left.is_some();
        garbage.extend(left);
        is_removed
    });
    if !names.is_empty() {
        let word: &[u8] = if is_async { b"UNLINK" } else { b"DEL" };
        cx.record_with(&[word], names.iter().map(|name| &**name));
    }
    let (objects, bytes) = (garbage.len(), garbage.iter().map(Garbage::bytes).sum());
    if is_async {
        cx.engine.keyspace.lazy_free.later_if_large(garbage, objects, bytes);
    }
    next
}

/// Reads a slot in the words of FLUSHSLOT and SLOT-STATS.
///
/// # Errors
/// The text is no number of a slot.
pub(super) fn parse_slot(text: &[u8]) -> Result<Slot, Error> {
    admin::slot_of(text).map_err(|refusal| Error::naming("ERR {}", &[refusal.text()]))
}

fn slot_of(number: i64) -> Option<Slot> {
    Slot::try_from(number).ok().filter(|slot| *slot < SLOTS)
}
