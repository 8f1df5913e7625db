//! MULTI, EXEC, DISCARD, WATCH and UNWATCH.
//!
//! EXEC finds the shards of all keys locked that its queue and its watches name. It checks the flag that changes of watched
//! keys raise, and runs the queue at once: no other thread can change a key between the check and the last command. The
//! effects go to the journal as one piece.

use sleeve_wire::commands::{Flags, Reach, Row};
use sleeve_wire::request::Args;

use crate::context::Cx;
use crate::context::eviction;
use crate::context::locking;
use crate::context::permission;
use crate::context::session_state::Transaction;
use crate::engine::readiness::Hindrance;
use crate::request::error::{Error, Outcome};
use crate::request::{Parts, Request, hash_keys};

/// MULTI.
pub fn multi(cx: &mut Cx<'_>) -> Outcome {
    if cx.state.multi.transaction.is_some() {
        return Err(Error::fixed("ERR MULTI calls can not be nested"));
    }
    cx.state.multi.transaction = Some(Transaction::default());
    cx.reply().ok();
    Ok(())
}

/// DISCARD.
pub fn discard(cx: &mut Cx<'_>) -> Outcome {
    if cx.state.multi.transaction.take().is_none() {
        return Err(Error::fixed("ERR DISCARD without MULTI"));
    }
    cx.state.multi.watching.clear(cx.engine);
    cx.reply().ok();
    Ok(())
}

/// WATCH key [key ...]
pub fn watch(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.state.multi.transaction.is_some() {
        return Err(Error::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    // If the flag of changed keys is raised already, EXEC will fail no matter which other keys are watched.
    if !cx.state.multi.watching.is_raised() {
        let database = cx.state.database;
        for key in request.keys() {
            let expired = cx.is_over(database, key);
            cx.state.multi.watching.add(cx.engine, database, key.name, expired);
        }
    }
    cx.reply().ok();
    Ok(())
}

/// UNWATCH.
pub fn unwatch(cx: &mut Cx<'_>) -> Outcome {
    cx.state.multi.watching.clear(cx.engine);
    cx.reply().ok();
    Ok(())
}

/// EXEC.
pub fn exec(cx: &mut Cx<'_>) -> Outcome {
    let Some(transaction) = cx.state.multi.transaction.take() else {
        return Err(Error::fixed("ERR EXEC without MULTI"));
    };
    if transaction.aborted {
        cx.state.multi.watching.clear(cx.engine);
        return Err(Error::EXEC_ABORT);
    }
    let changed = cx.state.multi.watching.is_raised() || watched_key_expired(cx);
    cx.state.multi.watching.clear(cx.engine);
    if changed {
        cx.reply().null_array();
        return Ok(());
    }
    // For scripts in the queue, the use of memory at the beginning of EXEC counts.
    cx.has_no_room = cx.has_no_room && eviction::is_over_limit(cx.engine);
    cx.state.multi.executing = Some(transaction.queue.len() as i64);
    cx.state.multi.slot = transaction.keys.first().map(|key| key.hash.slot());
    cx.locks.recorder.begin_transaction();
    cx.reply().array(transaction.queue.len());
    for ((row, args), places) in transaction.queue.iter().zip(&transaction.places) {
        let (mark, has_ended) = (cx.out.mark(), cx.state.closing);
        match permission::check_queued(cx, row, args) {
            Ok(()) => {
                note_write_behind_role(cx, row);
                (cx.call)(cx, Parts { row, args, key_places: &transaction.keys[places.clone()] }.request());
            }
            Err(error) => cx.refuse(&error),
        }
        if has_ended {
            // A command of the transaction has ended its own client: the rest takes effect, but its replies are dropped.
            cx.out.rewind(mark);
        } else if cx.out.is_full() {
            cx.cut_reply(mark);
        }
    }
    cx.locks.recorder.end_transaction(cx.engine.scripts.running.has_left_half());
    cx.state.multi.executing = None;
    // A script in the transaction may have taken long.
    cx.look_at_clock();
    Ok(())
}

/// Makes this server ask its new primary for a full sync if, in the same transaction, a REPLICAOF stands before a write. The
/// write is executed, as in Redis, but it is in no replication stream, so this server must not go on from its own offset.
fn note_write_behind_role(cx: &Cx<'_>, row: &Row) {
    if row.flags.contains(Flags::WRITE) && cx.engine.lifecycle.readiness.has(Hindrance::ReadOnly) {
        cx.engine.replication.role.begin_anew();
    }
}

/// Takes the locks that EXEC needs: those of all keys that its queue and its watches name, or all shards if a command of the
/// queue may read any shard.
///
/// # Errors
/// BUSY: a long script holds them.
pub fn lock(cx: &mut Cx<'_>) -> Outcome {
    let engine = cx.engine;
    let Some(transaction) = cx.state.multi.transaction.as_mut().filter(|transaction| !transaction.aborted) else {
        cx.locks.clear();
        return Ok(());
    };
    let Transaction { queue, keys, places, .. } = transaction;
    keys.clear();
    let hash = |(row, args): (&'static Row, Args<'_>)| {
        let start = keys.len();
        hash_keys(&engine.keyspace.store, row, args, keys);
        start..keys.len()
    };
    *places = queue.iter().map(hash).collect();
    if queue.iter().any(|(row, _)| row.reach != Reach::Named) {
        return locking::lock_all(cx);
    }
    let watched = cx.state.multi.watching.keys().iter().map(|watched| engine.keyspace.store.hash(&watched.key));
    let named = keys.iter().map(|key| key.hash);
    let hashes: Vec<_> = named.chain(watched).collect();
    locking::lock_keys(cx, hashes.iter().copied())
}

/// Returns whether a watched key has expired since WATCH. That counts as a change even if the key has not been removed yet.
fn watched_key_expired(cx: &Cx<'_>) -> bool {
    let watching = &cx.state.multi.watching;
    watching.keys().iter().any(|watched| {
        let key = cx.engine.keyspace.store.key(&watched.key);
        cx.is_over(watched.database, key) && !watching.was_expired(cx.engine, watched)
    })
}
