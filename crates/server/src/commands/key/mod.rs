//! Commands on keys of any type: existence, type, renaming, moves, copies and walks.
//!
//! Commands with keys find their shards locked. KEYS, SCAN and RANDOMKEY name no key: outside of a transaction they take one
//! shard at a time, so their reply does not show one instant, and an expired key is removed only after the walk, under its
//! own lock.

pub mod database;
pub mod dump;
pub mod expiry;
pub mod migrate;
pub mod object;
pub mod sort;

use sleeve_store::{EntryRef, Garbage};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::connection::is_alone;
use super::scan;
use super::scan::{ScanFilter, Walk, Walked};
use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change;
use crate::context::key_change::Cause;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::key_clock;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The error of COPY and MOVE if source and destination are the same.
const SAME_OBJECT: Error = Error::fixed("ERR source and destination objects are the same");

/// Looks up a key as TYPE, TTL and OBJECT do: counts a hit or miss, and leaves its access clock alone.
pub(super) fn look<T>(cx: &mut Cx<'_>, key: Key<'_>, see: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
    let seen = look_quietly(cx, key, see);
    if seen.is_none() {
        cx.notify(EventClass::KeyMiss, "keymiss", key);
    }
    seen
}

/// Looks up a key as OBJECT does: a missing key causes no keyspace event.
pub(super) fn look_quietly<T>(cx: &mut Cx<'_>, key: Key<'_>, see: impl FnOnce(EntryRef<'_>) -> T) -> Option<T> {
    let seen = cx.peek(key).map(see);
    let counter = if seen.is_some() { &cx.counters.hits } else { &cx.counters.misses };
    counter.add(1);
    seen
}

/// DEL key \[key ...\]
pub fn del(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.engine.config.flag(Opt::LazyfreeLazyUserDel) {
        return unlink(cx, request);
    }
    let mut removed = 0;
    for key in request.keys() {
        if cx.take_off(Cause::Command, key).is_some() {
            cx.notify(EventClass::Generic, "del", key);
            removed += 1;
        }
    }
    cx.reply().integer(removed);
    Ok(())
}

/// UNLINK key \[key ...\]
pub fn unlink(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mut removed, mut garbage) = (0, Vec::new());
    for key in request.keys() {
        if let Some(left) = cx.take_off(Cause::Command, key) {
            cx.notify(EventClass::Generic, "del", key);
            removed += 1;
            if left.bytes() > 0 {
                garbage.push(left);
            }
        }
    }
    let bytes = garbage.iter().map(Garbage::bytes).sum();
    let objects = garbage.len();
    cx.engine.keyspace.lazy_free.later_if_large(garbage, objects, bytes);
    cx.reply().integer(removed);
    Ok(())
}

/// EXISTS key \[key ...\]
pub fn exists(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let found = request.keys().filter(|key| look(cx, *key, |_| ()).is_some()).count();
    cx.reply().integer(found as i64);
    Ok(())
}

/// TOUCH key \[key ...\]. It renews the access clocks even of a client that said NO-TOUCH.
pub fn touch(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (engine, dice, now) = (cx.engine, cx.dice, cx.now);
    let renew = |entry: EntryRef<'_>| key_clock::touch((&engine.config, dice), &entry, now);
    let found = request.keys().filter(|key| look(cx, *key, renew).is_some()).count();
    cx.reply().integer(found as i64);
    Ok(())
}

/// TYPE key
pub fn kind(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let name = look(cx, request.key(0), |entry| entry.kind().name()).unwrap_or("none");
    cx.reply().simple(name);
    Ok(())
}

/// RENAME key newkey
pub fn rename(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (from, to) = (request.key(0), request.key(1));
    cx.look(from).ok_or(Error::NO_SUCH_KEY)?;
    if from.name != to.name {
        put_under(cx, from, to);
    }
    cx.reply().ok();
    Ok(())
}

/// RENAMENX key newkey
pub fn renamenx(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (from, to) = (request.key(0), request.key(1));
    cx.look(from).ok_or(Error::NO_SUCH_KEY)?;
    let moves = from.name != to.name && cx.look(to).is_none();
    if moves {
        put_under(cx, from, to);
    }
    cx.reply().integer(i64::from(moves));
    Ok(())
}

/// Puts the value of `from`, with its deadline, under another name. The key is there.
fn put_under(cx: &mut Cx<'_>, from: Key<'_>, to: Key<'_>) {
    // The lookup removes and records an expired destination, so that its end is not taken for a replacement.
    cx.peek(to);
    let database = cx.state.database;
    cx.relocate((database, from), (database, to));
    cx.notify(EventClass::Generic, "rename_from", from);
    cx.notify(EventClass::Generic, "rename_to", to);
}

/// MOVE key db
pub fn relocate(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if is_alone(cx) {
        return Err(Error::fixed("ERR MOVE is not allowed in cluster mode"));
    }
    let (key, from) = (request.key(0), cx.state.database);
    let to = database_of(cx, request.arg(2))?;
    if to == from {
        return Err(SAME_OBJECT);
    }
    let moves = cx.look(key).is_some() && in_database(cx, to, |cx| cx.look(key).is_none());
    if moves {
        cx.relocate((from, key), (to, key));
        cx.notify_in(from, EventClass::Generic, "move_from", key);
        cx.notify_in(to, EventClass::Generic, "move_to", key);
    }
    cx.reply().integer(i64::from(moves));
    Ok(())
}

/// COPY source destination \[DB destination-db\] \[REPLACE\]
pub fn copy(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (from, to) = (request.key(0), request.key(1));
    let (mut database, mut replaces) = (cx.state.database, false);
    let mut options = request.args.from(3).iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"replace") {
            replaces = true;
        } else if option.eq_ignore_ascii_case(b"db") {
            let index = options.next().ok_or(Error::SYNTAX)?;
            database = match database_of(cx, index) {
                Err(_) if is_alone(cx) && is_possible_database(cx, index) => {
                    return Err(Error::fixed("ERR Copying to another database is not allowed in cluster mode"));
                }
                database => database?,
            };
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if database == cx.state.database && from.name == to.name {
        return Err(SAME_OBJECT);
    }
    let clock = cx.moment().clock;
    let source = cx.read(from).map(|entry| entry.detach());
    let source = source.filter(|_| in_database(cx, database, |cx| cx.look(to).is_none()) || replaces);
    let copies = source.is_some();
    if let Some(mut entry) = source {
        entry.clock = clock;
        cx.put(database, to, entry);
        cx.notify_in(database, EventClass::Generic, "copy_to", to);
    }
    cx.reply().integer(i64::from(copies));
    Ok(())
}

/// Returns whether the number is that of a database which this server would have if it were no node of a cluster.
fn is_possible_database(cx: &Cx<'_>, index: &[u8]) -> bool {
    number::parse_i64(index).is_some_and(|index| (0..cx.engine.config.number(Opt::Databases)).contains(&index))
}

/// Runs `f` as if this database were the selected one.
fn in_database<T>(cx: &mut Cx<'_>, database: u32, f: impl FnOnce(&mut Cx<'_>) -> T) -> T {
    let selected = std::mem::replace(&mut cx.state.database, database);
    let result = f(cx);
    cx.state.database = selected;
    result
}

/// Reads the number of a database, as MOVE and COPY take it.
fn database_of(cx: &Cx<'_>, text: &[u8]) -> Result<u32, Error> {
    let number = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
    let number = i32::try_from(number)
        .map_err(|_| Error::fixed("ERR value is out of range, value must between -2147483648 and 2147483647"))?;
    let number = u32::try_from(number).map_err(|_| Error::DATABASE_RANGE)?;
    if (number as usize) < cx.engine.keyspace.store.databases() { Ok(number) } else { Err(Error::DATABASE_RANGE) }
}

/// KEYS pattern
pub fn keys(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let filter = ScanFilter { pattern: Some(request.arg(1)), kind: None };
    let (database, now_ms) = (cx.database(), cx.due_ms);
    let (mut names, mut count) = (Vec::new(), 0);
    let mut writer = Writer::bounded(&mut names, cx.state.protocol, cx.out.room());
    if let Some(name) = filter.literal() {
        if cx.show(name, now_ms, |_| ()).is_some() {
            writer.bulk(name);
            count = 1;
        }
    } else {
        cx.locks.for_each(|shard| {
            shard.for_each(database, |entry| {
                if !writer.is_full() && !scan::is_due(&entry, now_ms) && filter.admits(&entry) {
                    writer.bulk(entry.key());
                    count += 1;
                }
            });
        });
    }
    cx.reply().array(count);
    cx.out.bytes.append(&mut names);
    Ok(())
}

/// The number of expired keys that RANDOMKEY may draw during a pause before it answers with one of them, as replicas of Redis
/// do.
const RANDOM_TRIES_MAX: usize = 100;

/// RANDOMKEY
pub fn randomkey(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let (engine, now_ms) = (cx.engine, cx.due_ms);
    let mut tries_left = RANDOM_TRIES_MAX;
    loop {
        let show = |entry: EntryRef<'_>| (entry.key().to_vec(), scan::is_due(&entry, now_ms));
        match cx.show_random(show) {
            // Each removed key brings the end of the loop nearer; but during a pause none may be removed, and all may have
            // expired.
            Some((name, true)) if tries_left > 0 || key_change::may_vanish(engine, cx.now) => {
                cx.remove_due(&name);
                tries_left = tries_left.saturating_sub(1);
            }
            found => {
                cx.reply().bulk_or_null(found.as_ref().map(|(name, _)| name.as_slice()));
                return Ok(());
            }
        }
    }
}

/// SCAN cursor \[MATCH pattern\] \[COUNT count\] \[TYPE type\]
pub fn scan(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let cursor = scan::parse_cursor(request.arg(1))?;
    let Walk { filter, count, .. } = Walk::parse(request.args.from(2), Walked::Keys)?;
    let now_ms = cx.due_ms;
    let (mut names, mut shown, mut due) = (Vec::new(), 0, Vec::new());
    let mut writer = Writer::bounded(&mut names, cx.state.protocol, cx.out.room());
    let next = cx.walk(cursor, count, |entry| {
        if writer.is_full() || !filter.admits(&entry) {
            return;
        }
        if scan::is_due(&entry, now_ms) {
            due.push(entry.key().to_vec());
        } else {
            writer.bulk(entry.key());
            shown += 1;
        }
    });
    due.iter().for_each(|name| cx.remove_due(name));
    scan::write_step(&mut cx.reply(), next, shown);
    cx.out.bytes.append(&mut names);
    Ok(())
}
