//! Strings: setting, getting, counting and editing them. Options that carry a time are in `set_expiry`.

pub mod bitfield;
pub mod bitmap;
pub mod bitop;
pub mod condition;
pub mod hyperloglog;
pub mod increx;
pub mod lcs;
mod population;
#[cfg(debug_assertions)]
mod seeded_bug;
pub mod set_expiry;

use std::slice;

use sleeve_store::{Deadline, Digits, Value};
use sleeve_wire::long_double::LongDouble;
use sleeve_wire::number;

use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};
use set_expiry::{GetOption, SetCondition, SetOptions};

/// GET key
pub fn get(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if !cx.reply_value(request.key(0))? {
        cx.reply().null();
    }
    Ok(())
}

/// MGET key \[key ...\]
pub fn mget(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    cx.reply().array(request.len() - 1);
    for key in request.keys() {
        if cx.out.is_full() {
            break;
        }
        if !cx.reply_value(key).unwrap_or(false) {
            cx.reply().null();
        }
    }
    Ok(())
}

/// STRLEN key
pub fn strlen(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let length = cx.read_string(request.key(0))?.map_or(0, |entry| entry.value().len());
    cx.reply().integer(length as i64);
    Ok(())
}

/// GETRANGE key start end
pub fn getrange(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let start = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let end = number::parse_i64(request.arg(3)).ok_or(Error::NOT_INTEGER)?;
    let mut digits = Digits::default();
    let part = cx.read_string(request.key(0))?.map(|entry| {
        let value = entry.value();
        let bytes = value.bytes(&mut digits);
        bytes.get(range_of(start, end, bytes.len())).unwrap_or_default().to_vec()
    });
    cx.reply().bulk(&part.unwrap_or_default());
    Ok(())
}

/// Returns the bytes from `start` to `end`, both included and counted from the end when negative.
fn range_of(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_front = |place: i64| if place < 0 { place.saturating_add(length as i64).max(0) } else { place };
    let first = from_front(start) as usize;
    let last = (from_front(end) as usize).min(length.saturating_sub(1));
    if first > last || length == 0 { 0..0 } else { first..last + 1 }
}

/// SET key value \[NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest\] \[GET\]
/// \[EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL\]
pub fn set(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, value) = (request.key(0), request.arg(2));
    if request.len() == 3 {
        cx.set(key, &Value::Plain(value), Deadline::Clear);
        cx.notify(EventClass::String, "set", key);
        cx.reply().ok();
        return Ok(());
    }
    let options = SetOptions::of(request, 3, cx.now.wall_ms())?;
    if options.get && !cx.reply_value(key)? {
        cx.reply().null();
    }
    let is_met = match options.condition {
        SetCondition::None => true,
        SetCondition::Missing => cx.look(key).is_none(),
        SetCondition::Present => cx.look(key).is_some(),
        SetCondition::Value(condition) => match cx.look(key) {
            Some(_) => condition.holds_at(cx, key)?,
            None => condition.holds_without(),
        },
    };
    match is_met {
        _ if options.get => {}
        true => cx.reply().ok(),
        false => cx.reply().null(),
    }
    if is_met {
        match options.condition {
            SetCondition::None => cx.set(key, &Value::Plain(value), options.deadline),
            _ => cx.set_seen(key, &Value::Plain(value), options.deadline),
        }
        stored(cx, key, value, options.deadline);
    }
    Ok(())
}

/// Sets a key and records it with its absolute deadline.
fn store(cx: &mut Cx<'_>, key: Key<'_>, value: &[u8], deadline: Deadline) {
    cx.set(key, &Value::Plain(value), deadline);
    stored(cx, key, value, deadline);
}

/// Publishes that a key was set, and records it with its absolute deadline.
fn stored(cx: &mut Cx<'_>, key: Key<'_>, value: &[u8], deadline: Deadline) {
    cx.notify(EventClass::String, "set", key);
    if matches!(deadline, Deadline::At(_)) {
        cx.notify(EventClass::Generic, "expire", key);
    }
    match deadline {
        Deadline::Clear => cx.record(&[b"SET", key.name, value]),
        Deadline::Keep => cx.record(&[b"SET", key.name, value, b"KEEPTTL"]),
        Deadline::At(at_ms) => {
            cx.deadline_given(cx.state.database, key, at_ms);
            cx.record(&[b"SET", key.name, value, b"PXAT", number::Digits::new(at_ms).as_bytes()]);
        }
    }
}

/// SETNX key value
pub fn setnx(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    let is_missing = cx.look(key).is_none();
    if is_missing {
        cx.set(key, &Value::Plain(request.arg(2)), Deadline::Clear);
        cx.notify(EventClass::String, "set", key);
    }
    cx.reply().integer(i64::from(is_missing));
    Ok(())
}

/// Answers SETEX and PSETEX.
pub fn set_for(cx: &mut Cx<'_>, request: Request<'_>, unit: set_expiry::Unit) -> Outcome {
    let at_ms = unit.positive_after(request.arg(2), cx.now.wall_ms(), request.row.name)?;
    store(cx, request.key(0), request.arg(3), Deadline::At(at_ms));
    cx.reply().ok();
    Ok(())
}

/// GETSET key value
pub fn getset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    if !cx.reply_value(key)? {
        cx.reply().null();
    }
    store(cx, key, request.arg(2), Deadline::Clear);
    Ok(())
}

/// GETDEL key
pub fn getdel(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    if cx.reply_value(key)? {
        cx.remove(key, Opt::LazyfreeLazyUserDel);
        cx.notify(EventClass::Generic, "del", key);
        cx.record(&[b"DEL", key.name]);
    } else {
        cx.reply().null();
    }
    Ok(())
}

/// GETEX key \[EX seconds | PX ms | EXAT seconds | PXAT ms | PERSIST\]
pub fn getex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, now_ms) = (request.key(0), cx.now.wall_ms());
    let option = GetOption::of(request)?;
    if !cx.reply_value(key)? {
        cx.reply().null();
        return Ok(());
    }
    let at_ms = match option {
        Some(GetOption::At(time)) => Some(time.instant(now_ms, request.row.name)?),
        _ => None,
    };
    match at_ms {
        Some(at_ms) if at_ms <= cx.due_ms => {
            cx.remove(key, Opt::LazyfreeLazyExpire);
            cx.notify(EventClass::Generic, "del", key);
            cx.record(&[key_change::removal(cx.engine, Opt::LazyfreeLazyExpire), key.name]);
        }
        Some(at_ms) => {
            if let Some(mut entry) = cx.edit_seen(key) {
                entry.set_deadline(Some(at_ms));
            }
            cx.deadline_given(cx.state.database, key, at_ms);
            cx.changed(key);
            cx.notify(EventClass::Generic, "expire", key);
            cx.record(&[b"PEXPIREAT", key.name, number::Digits::new(at_ms).as_bytes()]);
        }
        None if matches!(option, Some(GetOption::Persist)) => {
            if let Some(mut entry) = cx.edit_seen(key).filter(|entry| entry.deadline().is_some()) {
                entry.set_deadline(None);
                cx.changed(key);
                cx.notify(EventClass::Generic, "persist", key);
                cx.record(&[b"PERSIST", key.name]);
            }
        }
        None => {}
    }
    Ok(())
}

/// MSET key value \[key value ...\]
pub fn mset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    check_pairs(request)?;
    set_pairs(cx, request);
    cx.reply().ok();
    Ok(())
}

/// MSETNX key value \[key value ...\]
pub fn msetnx(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    check_pairs(request)?;
    let are_missing = request.keys().all(|key| cx.look(key).is_none());
    if are_missing {
        set_pairs(cx, request);
    }
    cx.reply().integer(i64::from(are_missing));
    Ok(())
}

/// MSETEX numkeys key value \[key value ...\] \[NX | XX\]
/// \[EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL\]
pub fn msetex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = number::parse_i64(request.arg(1)).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or(Error::fixed("ERR invalid numkeys value or out of range"))? as usize;
    let behind = count.checked_mul(2).map(|words| words + 2).filter(|&behind| behind <= request.len());
    let behind = behind.ok_or(Error::SYNTAX)?;
    let options = SetOptions::of(request, behind, cx.now.wall_ms())?;
    let is_met = match options.condition {
        _ if options.get => return Err(Error::SYNTAX),
        SetCondition::None => true,
        SetCondition::Missing => request.keys().all(|key| cx.look(key).is_none()),
        SetCondition::Present => request.keys().all(|key| cx.look(key).is_some()),
        SetCondition::Value(_) => return Err(Error::SYNTAX),
    };
    if is_met {
        for (index, key) in request.keys().enumerate() {
            store(cx, key, request.arg(2 * index + 3), options.deadline);
        }
    }
    cx.reply().integer(i64::from(is_met));
    Ok(())
}

fn check_pairs(request: Request<'_>) -> Outcome {
    if request.len().is_multiple_of(2) { Err(Error::arity(request.row.name)) } else { Ok(()) }
}

fn set_pairs(cx: &mut Cx<'_>, request: Request<'_>) {
    for (index, key) in request.keys().enumerate() {
        cx.set(key, &Value::Plain(request.arg(2 * index + 2)), Deadline::Clear);
        cx.notify(EventClass::String, "set", key);
    }
}

/// INCRBY key increment
pub fn incrby(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let increment = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    add(cx, request, increment)
}

/// DECRBY key decrement
pub fn decrby(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let decrement = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let increment = decrement.checked_neg().ok_or(Error::fixed("ERR decrement would overflow"))?;
    add(cx, request, increment)
}

/// Adds to the integer at a key, for INCR, DECR and their like.
pub fn add(cx: &mut Cx<'_>, request: Request<'_>, increment: i64) -> Outcome {
    let key = request.key(0);
    #[cfg(debug_assertions)]
    if cx.state.multi.executing.is_none() && cx.engine.debug.seeded_bug.load(std::sync::atomic::Ordering::Relaxed) {
        return seeded_bug::add(cx, key, increment);
    }
    let sum = match cx.edit_string(key)? {
        None => {
            cx.set(key, &Value::Integer(increment), Deadline::Clear);
            cx.notify(EventClass::String, "incrby", key);
            cx.reply().integer(increment);
            return Ok(());
        }
        Some(mut entry) => {
            let old = entry.value().integer().ok_or(Error::NOT_INTEGER)?;
            let sum = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
            drop(entry.set_integer(sum));
            sum
        }
    };
    cx.changed(key);
    cx.notify(EventClass::String, "incrby", key);
    cx.reply().integer(sum);
    Ok(())
}

/// INCRBYFLOAT key increment
pub fn incrbyfloat(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    let mut digits = Digits::default();
    let old = match cx.look_string(key)? {
        None => LongDouble::ZERO,
        Some(entry) => LongDouble::parse(entry.value().bytes(&mut digits)).ok_or(Error::NOT_FLOAT)?,
    };
    let increment = LongDouble::parse(request.arg(2)).ok_or(Error::NOT_FLOAT)?;
    let sum = old.checked_add(increment).ok_or(Error::fixed("ERR increment would produce NaN or Infinity"))?;
    let mut text = Vec::new();
    sum.push_human(&mut text);
    cx.set_seen(key, &Value::Bytes(&text), Deadline::Keep);
    cx.notify(EventClass::String, "incrbyfloat", key);
    cx.record(&[b"SET", key.name, &text, b"KEEPTTL"]);
    cx.reply().bulk(&text);
    Ok(())
}

/// APPEND key value
pub fn append(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, tail) = (request.key(0), request.arg(2));
    let length_max = string_length_max(cx);
    let length = match cx.edit_string(key)? {
        Some(mut entry) => {
            check_length(entry.value().len(), tail.len(), length_max)?;
            entry.append(tail)
        }
        None => {
            cx.set(key, &Value::Plain(tail), Deadline::Clear);
            cx.notify(EventClass::String, "append", key);
            cx.reply().integer(tail.len() as i64);
            return Ok(());
        }
    };
    cx.changed(key);
    cx.notify(EventClass::String, "append", key);
    cx.reply().integer(length as i64);
    Ok(())
}

/// SETRANGE key offset value
pub fn setrange(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, value) = (request.key(0), request.arg(3));
    let offset = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| Error::fixed("ERR offset is out of range"))?;
    let old_length = cx.look_string(key)?.map(|entry| entry.value().len());
    if value.is_empty() {
        cx.reply().integer(old_length.unwrap_or(0) as i64);
        return Ok(());
    }
    check_length(offset, value.len(), string_length_max(cx))?;
    let end = offset + value.len();
    let mut entry = cx.edit_or_insert(key, &Value::Zeros(end));
    let length = entry.with_bytes_mut(end, slice::from_ref(&(offset..end)), |bytes| {
        bytes[offset..end].copy_from_slice(value);
        bytes.len()
    });
    cx.changed(key);
    cx.notify(EventClass::String, "setrange", key);
    cx.reply().integer(length as i64);
    Ok(())
}

/// Returns the greatest length of a string that a command may make, in bytes.
pub fn string_length_max(cx: &Cx<'_>) -> u64 {
    cx.engine.config.memory(Opt::ProtoMaxBulkLen)
}

/// Refuses a string of `length` and `more` bytes that would be too long.
pub fn check_length(length: usize, more: usize, length_max: u64) -> Outcome {
    match length.checked_add(more) {
        Some(total) if total as u64 <= length_max => Ok(()),
        _ => Err(Error::STRING_TOO_LONG),
    }
}
