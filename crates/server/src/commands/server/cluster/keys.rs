//! The subcommands of CLUSTER about keys and slots: KEYSLOT, COUNTKEYSINSLOT and GETKEYSINSLOT.
//!
//! A node with several databases answers for the selected one.

use sleeve_cluster::{SLOTS, Slot};
use sleeve_store::{keys_in_slot, walk_slot};
use sleeve_wire::{number, slot};

use super::enabled;
use crate::context::Cx;
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

fn slot_of(number: i64) -> Option<Slot> {
    Slot::try_from(number).ok().filter(|slot| *slot < SLOTS)
}
