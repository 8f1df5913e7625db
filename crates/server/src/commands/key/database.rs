//! Whole databases: the number of keys, their removal, and the exchange of two databases.
//!
//! FLUSHDB, FLUSHALL and SWAPDB find all shards locked. The removed data is freed when the locks are given back, or, under
//! ASYNC, on another thread.

use std::ops::Range;

use sleeve_wire::commands::Command;
use sleeve_wire::number;

use crate::config::Opt;
use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::persistence::purpose::Purpose;
use crate::engine::readiness::Hindrance;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The least number of keys that are freed on another thread. Fewer are freed sooner than another thread has woken.
const ELSEWHERE_KEYS_MIN: usize = 1_000;

/// DBSIZE
pub fn dbsize(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let (database, mut count) = (cx.database(), 0);
    cx.locks.for_each(|shard| count += shard.len(database));
    cx.reply().integer(count as i64);
    Ok(())
}

/// FLUSHDB \[ASYNC | SYNC\]
pub fn flushdb(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let database = cx.database();
    flush(cx, request, database..database + 1)?;
    cx.reply().ok();
    Ok(())
}

/// FLUSHALL \[ASYNC | SYNC\]
pub fn flushall(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let databases = cx.engine.keyspace.store.databases();
    flush(cx, request, 0..databases)?;
    if !save_emptiness(cx) {
        cx.reply().ok();
    }
    Ok(())
}

/// Begins a snapshot of the empty data, if `save` has rules, and aborts the one that is being written. Returns whether the
/// client waits for the snapshot, as in Redis. If the client cannot wait, the snapshot is written all the same.
fn save_emptiness(cx: &mut Cx<'_>) -> bool {
    let engine = cx.engine;
    // The last snapshot stays as it is: during loading only a primary's commands arrive, and the primary sends them again at
    // the next start.
    if engine.lifecycle.readiness.has(Hindrance::Loading) || engine.clients.pause.is_ending() {
        return false;
    }
    if !engine.persistence.snapshots.are_ruled() || !engine.config.is_set(Opt::Save) {
        engine.persistence.snapshots.abort(Purpose::File, &mut None);
        return false;
    }
    if !cx.may_block() {
        engine.persistence.snapshots.save_anew(&engine.handle(), Box::new(|_| ()));
        return false;
    }
    let nothing = Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null };
    cx.block(Command::FlushAll.row(), nothing);
    if let Some(waiter) = cx.state.blocked.clone() {
        let answering = engine.handle();
        // Whether the snapshot succeeds or not, the flush itself is in the journal and has to become durable as any other
        // write does.
        let answer = move |_| answering.answer_showing(answering.journal.end(), &waiter, |reply| reply.ok());
        engine.persistence.snapshots.save_anew(&engine.handle(), Box::new(answer));
    }
    true
}

fn flush(cx: &mut Cx<'_>, request: Request<'_>, databases: Range<usize>) -> Outcome {
    let is_async = parse_async(cx, request)?;
    let engine = cx.engine;
    let count = cx.flush(databases, |flushed, count| {
        let is_worth_it = is_async && count >= ELSEWHERE_KEYS_MIN;
        if is_worth_it { engine.keyspace.lazy_free.hand_over(flushed, count) } else { Err(flushed) }
    });
    cx.changed_many(count as u64);
    if count == 0 {
        // A flush that removed no key is recorded too: a reader of the journal has to be as empty afterwards as this server.
        cx.record_request(&request);
    }
    Ok(())
}

fn parse_async(cx: &Cx<'_>, request: Request<'_>) -> Result<bool, Error> {
    match request.args.get(1) {
        None => Ok(cx.engine.config.flag(Opt::LazyfreeLazyUserFlush)),
        Some(_) if request.len() > 2 => Err(Error::SYNTAX),
        Some(mode) if mode.eq_ignore_ascii_case(b"async") => Ok(true),
        Some(mode) if mode.eq_ignore_ascii_case(b"sync") => Ok(false),
        Some(_) => Err(Error::SYNTAX),
    }
}

/// SWAPDB index1 index2
pub fn swapdb(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.engine.cluster.get().is_some() {
        return Err(Error::fixed("ERR SWAPDB is not allowed in cluster mode"));
    }
    let one = index_of(request.arg(1)).ok_or(Error::fixed("ERR invalid first DB index"))?;
    let other = index_of(request.arg(2)).ok_or(Error::fixed("ERR invalid second DB index"))?;
    let databases = cx.engine.keyspace.store.databases();
    let place = |index: i32| usize::try_from(index).ok().filter(|index| *index < databases);
    let (Some(one), Some(other)) = (place(one), place(other)) else { return Err(Error::DATABASE_RANGE) };
    if one != other {
        cx.swap(one, other);
    }
    cx.changed_many(1);
    cx.reply().ok();
    Ok(())
}

fn index_of(text: &[u8]) -> Option<i32> {
    number::parse_i64(text).and_then(|number| i32::try_from(number).ok())
}
