//! The subcommands of CLUSTER about keys and slots: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT and FLUSHSLOT.
//!
//! A node with several databases answers for the selected one. FLUSHSLOT removes the keys of all databases, as in Valkey.

use sleeve_cluster::{SLOTS, Slot, admin};
use sleeve_store::{Garbage, keys_in_slot, walk_slot};
use sleeve_wire::{number, slot};

use super::{enabled, too_many};
use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change::Cause;
use crate::context::notifications::EventClass;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

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

/// CLUSTER FLUSHSLOT slot \[ASYNC | SYNC\]. Each key is recorded as DEL, which every replica knows; Valkey sends its replicas
/// the request.
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
    let (shard, selected) = (cx.engine.keyspace.store.shard_of_slot(slot), cx.state.database);
    let mut garbage = Vec::new();
    for database in 0..cx.engine.keyspace.store.databases() {
        let mut names = Vec::<Box<[u8]>>::new();
        cx.locks.with(shard, |shard| {
            let mut from = None;
            while keys_in_slot(shard, database, slot) > 0 {
                from = walk_slot(shard, (database, slot), from, usize::MAX, |entry| names.push(entry.key().into()));
                if from.is_none() {
                    break;
                }
            }
        });
        cx.state.database = database as u32;
        for name in &names {
            let key = cx.engine.keyspace.store.key(name);
            if let Some(left) = cx.take_off(Cause::Command, key) {
                cx.notify(EventClass::Generic, "del", key);
                cx.record(&[b"DEL", name]);
                garbage.push(left);
            }
        }
    }
    cx.state.database = selected;
    let (objects, bytes) = (garbage.len(), garbage.iter().map(Garbage::bytes).sum());
    if is_async {
        cx.engine.keyspace.lazy_free.later_if_large(garbage, objects, bytes);
    }
    cx.reply().ok();
    Ok(())
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
