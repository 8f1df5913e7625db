//! Hashes: setting, reading, counting and removing fields.
//!
//! Walks and random fields are in `walk`, deadlines of fields in `field_expiry`, and the commands that do two things at once
//! in `timed`. An expired field is removed when its hash is looked up; a large hash loses some of its expired fields at each
//! look-up. Until then no command sees an expired field.

pub mod field_expiry;
pub mod timed;
pub mod walk;

use sleeve_store::{Collection, Deadline, Digits, Map, MapRef, ValueRef};
use sleeve_wire::long_double::LongDouble;
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

const NOT_INTEGER: Error = Error::fixed("ERR hash value is not an integer");
const NOT_FLOAT: Error = Error::fixed("ERR hash value is not a float");
const NOT_FINITE: Error = Error::fixed("ERR increment would produce NaN or Infinity");

/// HSET key field value \[field value ...\]
pub fn hset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let created = set_pairs(cx, request)?;
    cx.reply().integer(created);
    Ok(())
}

/// HMSET key field value \[field value ...\]
pub fn hmset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    set_pairs(cx, request)?;
    cx.reply().ok();
    Ok(())
}

/// Sets the pairs of a request; returns how many of the fields are new.
fn set_pairs(cx: &mut Cx<'_>, request: Request<'_>) -> Result<i64, Error> {
    if !request.len().is_multiple_of(2) {
        return Err(Error::arity(request.row.name));
    }
    let (key, limits, now_ms) = (request.key(0), limits::of_hashes(cx.engine), cx.due_ms);
    let updated = cx.update::<Map, _>(key, |map| {
        let mut created = 0;
        for at in (2..request.len()).step_by(2) {
            let is_new = map.set(request.arg(at), request.arg(at + 1), Deadline::Clear, limits, now_ms);
            created += i64::from(is_new);
        }
        created
    })?;
    cx.changed_by(key, request.len() / 2 - 1);
    cx.notify(EventClass::Hash, "hset", key);
    Ok(updated.result)
}

/// HSETNX key field value
pub fn hsetnx(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, limits, now_ms) = (request.key(0), limits::of_hashes(cx.engine), cx.due_ms);
    let (field, value) = (request.arg(2), request.arg(3));
    let is_set = cx.update::<Map, _>(key, |map| {
        let is_missing = map.as_ref().get(field, now_ms).is_none();
        if is_missing {
            map.set(field, value, Deadline::Clear, limits, now_ms);
        }
        is_missing
    })?;
    if is_set.result {
        cx.changed(key);
        cx.notify(EventClass::Hash, "hset", key);
    }
    cx.reply().integer(i64::from(is_set.result));
    Ok(())
}

/// HGET key field
pub fn hget(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.due_ms;
    let found = read(cx, request.key(0), |map, reply| write_or_null(reply, map.get(request.arg(2), now_ms)))?;
    if found.is_none() {
        cx.reply().null();
    }
    Ok(())
}

/// HMGET key field \[field ...\]
pub fn hmget(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (fields, now_ms) = (request.args.from(2), cx.due_ms);
    let found = read(cx, request.key(0), |map, reply| {
        reply.array(fields.len());
        for field in fields.iter() {
            if reply.is_full() {
                return;
            }
            write_or_null(reply, map.get(field, now_ms));
        }
    })?;
    if found.is_none() {
        let mut reply = cx.reply();
        reply.array(fields.len());
        fields.iter().for_each(|_| reply.null());
    }
    Ok(())
}

/// HGETALL key
pub fn hgetall(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.due_ms;
    let found = read(cx, request.key(0), |map, reply| {
        reply.map(map.live_len(now_ms));
        map.for_each(now_ms, |field, value| {
            if !reply.is_full() {
                write(reply, field);
                write(reply, value);
            }
        });
    })?;
    if found.is_none() {
        cx.reply().map(0);
    }
    Ok(())
}

/// Answers HKEYS and HVALS.
pub fn write_half(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    half: for<'v> fn(ValueRef<'v>, ValueRef<'v>) -> ValueRef<'v>,
) -> Outcome {
    let now_ms = cx.due_ms;
    let found = read(cx, request.key(0), |map, reply| {
        reply.array(map.live_len(now_ms));
        map.for_each(now_ms, |field, value| {
            if !reply.is_full() {
                write(reply, half(field, value));
            }
        });
    })?;
    if found.is_none() {
        cx.reply().array(0);
    }
    Ok(())
}

/// HLEN key
pub fn hlen(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let length = cx.read_as::<Map>(request.key(0))?.map_or(0, MapRef::len);
    cx.reply().integer(length as i64);
    Ok(())
}

/// HSTRLEN key field
pub fn hstrlen(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.due_ms;
    let value = cx.read_as::<Map>(request.key(0))?.and_then(|map| map.get(request.arg(2), now_ms));
    let length = value.map_or(0, |value| value.len());
    cx.reply().integer(length as i64);
    Ok(())
}

/// HEXISTS key field
pub fn hexists(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.due_ms;
    let is_there = cx.read_as::<Map>(request.key(0))?.is_some_and(|map| map.get(request.arg(2), now_ms).is_some());
    cx.reply().integer(i64::from(is_there));
    Ok(())
}

/// HDEL key field \[field ...\]
pub fn hdel(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, now_ms) = (request.key(0), cx.due_ms);
    let remove = |map: &mut Map| request.args.from(2).iter().filter(|field| map.remove(field, now_ms)).count();
    let updated = cx.update_present::<Map, _>(key, remove)?;
    cx.reply_removed(key, EventClass::Hash, "hdel", updated);
    Ok(())
}

/// Records the deadline that fields of a key have.
pub fn record_deadline(cx: &mut Cx<'_>, key: Key<'_>, at_ms: i64, fields: &[&[u8]]) {
    let (at, count) = (number::Digits::new(at_ms), number::Digits::new(fields.len() as i64));
    let head: [&[u8]; 5] = [b"HPEXPIREAT", key.name, at.as_bytes(), b"FIELDS", count.as_bytes()];
    cx.record_with(&head, fields.iter().copied());
}

/// HINCRBY key field increment
pub fn hincrby(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let increment = number::parse_i64(request.arg(3)).ok_or(Error::NOT_INTEGER)?;
    let (key, field, limits, now_ms) = (request.key(0), request.arg(2), limits::of_hashes(cx.engine), cx.due_ms);
    let updated = cx.update::<Map, _>(key, |map| {
        let old = match map.as_ref().get(field, now_ms) {
            Some(value) => value.integer().ok_or(NOT_INTEGER)?,
            None => 0,
        };
        let sum = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
        map.set(field, number::Digits::new(sum).as_bytes(), Deadline::Keep, limits, now_ms);
        Ok::<i64, Error>(sum)
    })?;
    let sum = updated.result?;
    cx.changed(key);
    cx.notify(EventClass::Hash, "hincrby", key);
    cx.reply().integer(sum);
    Ok(())
}

/// HINCRBYFLOAT key field increment
pub fn hincrbyfloat(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let increment = LongDouble::parse(request.arg(3)).ok_or(Error::NOT_FLOAT)?;
    if !increment.is_finite() {
        return Err(Error::fixed("ERR value is NaN or Infinity"));
    }
    let (key, field, limits, now_ms) = (request.key(0), request.arg(2), limits::of_hashes(cx.engine), cx.due_ms);
    let updated = cx.update::<Map, _>(key, |map| {
        let (old, deadline) = match map.as_ref().get_with_deadline(field, now_ms) {
            Some((value, deadline)) => {
                (LongDouble::parse(value.bytes(&mut Digits::default())).ok_or(NOT_FLOAT)?, deadline)
            }
            None => (LongDouble::ZERO, None),
        };
        let sum = old.checked_add(increment).ok_or(NOT_FINITE)?;
        let mut text = Vec::new();
        sum.push_human(&mut text);
        map.set(field, &text, Deadline::Keep, limits, now_ms);
        Ok::<_, Error>((text, deadline))
    })?;
    let (text, deadline) = updated.result?;
    cx.changed(key);
    cx.notify(EventClass::Hash, "hincrbyfloat", key);
    cx.record(&[b"HSET", key.name, field, &text]);
    if let Some(at_ms) = deadline {
        // The recorded HSET removes the field's deadline.
        record_deadline(cx, key, at_ms, &[field]);
    }
    cx.reply().bulk(&text);
    Ok(())
}

/// Calls `see` with the hash of a key, to write the reply; returns None if the key is missing.
#[inline]
pub fn read<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    see: impl FnOnce(MapRef<'_>, &mut Writer<'_>) -> R,
) -> Result<Option<R>, Error> {
    cx.reply_apart(|cx, reply| cx.read_as::<Map>(key).map(|map| map.map(|map| see(map, reply))))
}

/// Writes a field or a value as a bulk string.
#[inline]
pub fn write(reply: &mut Writer<'_>, value: ValueRef<'_>) {
    match value {
        ValueRef::Integer(number) => reply.bulk_integer(number),
        ValueRef::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Writes a value as a bulk string, or null.
#[inline]
pub fn write_or_null(reply: &mut Writer<'_>, value: Option<ValueRef<'_>>) {
    match value {
        Some(value) => write(reply, value),
        None => reply.null(),
    }
}
