//! OBJECT: the encoding of a key's value, and how much the key is used.
//!
//! These commands renew no access clock, because a client that asks about a key is no user of it. The meaning of the clock is
//! in `engine/keyspace/key_clock`.

use sleeve_store::{Encoding, EntryRef, Kind};

use super::look_quietly;
use crate::config::{Config, MaxmemoryPolicy, Opt};
use crate::context::Cx;
use crate::engine::keyspace::key_clock;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The reference count that Redis shows for an integer that all keys share.
const SHARED_REFERENCES: i64 = i32::MAX as i64;
/// The end of the range of integers that Redis shares; it begins at 0.
const SHARED_INTEGERS_END: i64 = 10_000;

/// OBJECT ENCODING key
pub fn encoding(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let config = &cx.engine.config;
    let name = look_quietly(cx, request.key(0), |entry| encoding_name(config, &entry));
    cx.reply().bulk_or_null(name.map(str::as_bytes));
    Ok(())
}

/// Returns the encoding of a value, in the terms of the Redis version that the options name: Redis 7.0 packs neither lists
/// nor sets of strings, and its tools and tests expect the encodings that it has instead.
pub fn encoding_name(config: &Config, entry: &EntryRef<'_>) -> &'static str {
    let told = match (entry.encoding(), entry.kind()) {
        (Encoding::Listpack, Kind::List) if config.has_old_encodings() => Encoding::Quicklist,
        (Encoding::Listpack, Kind::Set) if config.has_old_encodings() => Encoding::Hashtable,
        (encoding, _) => encoding,
    };
    told.name()
}

/// OBJECT REFCOUNT key. This server shares no values, but tests of clients expect Redis's answer for small integers.
pub fn refcount(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let shares = shares_integers(cx);
    let count = look_quietly(cx, request.key(0), |entry| {
        let is_integer = entry.encoding() == Encoding::Integer;
        let number = entry.value().integer().filter(|_| is_integer && shares);
        if number.is_some_and(|number| (0..SHARED_INTEGERS_END).contains(&number)) { SHARED_REFERENCES } else { 1 }
    });
    answer(cx, count);
    Ok(())
}

/// Returns whether Redis would share integers. It does not if eviction needs an access clock for every key.
fn shares_integers(cx: &Cx<'_>) -> bool {
    use MaxmemoryPolicy::{AllkeysLfu, AllkeysLru, VolatileLfu, VolatileLru};
    let policy = cx.engine.config.maxmemory_policy();
    cx.engine.config.number(Opt::Maxmemory) == 0
        || !matches!(policy, AllkeysLfu | AllkeysLru | VolatileLfu | VolatileLru)
}

/// OBJECT IDLETIME key
pub fn idletime(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now = cx.now;
    let idle_s = look_quietly(cx, request.key(0), |entry| i64::from(key_clock::idle_s(entry.clock(), now)));
    if idle_s.is_some() && cx.engine.config.counts_uses() {
        return Err(Error::fixed(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
             policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    answer(cx, idle_s);
    Ok(())
}

/// OBJECT FREQ key
pub fn freq(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (engine, now) = (cx.engine, cx.now);
    let count =
        look_quietly(cx, request.key(0), |entry| i64::from(key_clock::frequency(&engine.config, entry.clock(), now)));
    if count.is_some() && !engine.config.counts_uses() {
        return Err(Error::fixed(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    answer(cx, count);
    Ok(())
}

fn answer(cx: &mut Cx<'_>, number: Option<i64>) {
    match number {
        Some(number) => cx.reply().integer(number),
        None => cx.reply().null(),
    }
}
