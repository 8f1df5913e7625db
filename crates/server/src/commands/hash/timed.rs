//! Commands that read or set fields and do something to their deadlines, or to the fields, at the same time.
//!
//! They record their effects: values with an absolute deadline, or the removal of fields that expire at once.

use sleeve_store::{Collection, Deadline, Digits, Map, MapRef};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::field_expiry::{BAD_COUNT, fields_at, given, instant, persist, persisted, record_fields};
use super::{record_deadline, write_or_null};
use crate::commands::string::set_expiry::Unit;
use crate::context::notifications::EventClass;
use crate::context::{Cx, ELEMENTS_MAX};
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// Returns the unit and the base of the option EX, PX, EXAT or PXAT, if `word` is one.
fn time_option(word: &[u8], now_ms: i64) -> Option<(Unit, i64)> {
    match word.to_ascii_lowercase().as_slice() {
        b"ex" => Some((Unit::Seconds, now_ms)),
        b"px" => Some((Unit::Milliseconds, now_ms)),
        b"exat" => Some((Unit::Seconds, 0)),
        b"pxat" => Some((Unit::Milliseconds, 0)),
        _ => None,
    }
}

fn write_fields(reply: &mut Writer<'_>, map: MapRef<'_>, fields: &[&[u8]], now_ms: i64) {
    reply.array(fields.len());
    fields.iter().for_each(|field| write_or_null(reply, map.get(field, now_ms)));
}

/// Replies with the values of fields; returns false if the key is missing, so that all values are null.
fn reply_fields(cx: &mut Cx<'_>, key: Key<'_>, fields: &[&[u8]]) -> Result<bool, Error> {
    let now_ms = cx.due_ms;
    let found = cx.reply_apart(|cx, reply| {
        cx.peek_as::<Map>(key).map(|map| map.map(|map| write_fields(reply, map, fields, now_ms)))
    })?;
    if found.is_none() {
        write_nulls(cx, fields.len());
    }
    Ok(found.is_some())
}

fn write_nulls(cx: &mut Cx<'_>, count: usize) {
    let mut reply = cx.reply();
    reply.array(count);
    (0..count).for_each(|_| reply.null());
}

/// HGETEX key \[EX seconds | PX ms | EXAT seconds | PXAT ms | PERSIST\] FIELDS numfields field \[field ...\]
pub fn hgetex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, now_ms) = (request.key(0), cx.now.wall_ms());
    cx.look_as::<Map>(key)?;
    let (mut at_ms, mut at) = (None, 2);
    let persists = request.arg(2).eq_ignore_ascii_case(b"persist");
    if persists {
        at = 3;
    } else if let Some((unit, base_ms)) = time_option(request.arg(2), now_ms) {
        at_ms = Some(instant(request.arg(3), unit, base_ms, request.row.name)?);
        at = 4;
    }
    let fields = fields_at(request, at, BAD_COUNT)?;
    if at_ms.is_some_and(|at_ms| at_ms <= cx.due_ms) {
        return reply_and_delete(cx, key, &fields);
    }
    if reply_fields(cx, key, &fields)? {
        match at_ms {
            Some(at_ms) => expire(cx, key, &fields, at_ms)?,
            None if persists => persist_all(cx, key, &fields)?,
            None => {}
        }
    }
    Ok(())
}

fn expire(cx: &mut Cx<'_>, key: Key<'_>, fields: &[&[u8]], at_ms: i64) -> Outcome {
    let now_ms = cx.due_ms;
    let updated = cx.update_seen::<Map, _>(key, |map| {
        let is_there = |field: &&&[u8]| map.as_ref().get(field, now_ms).is_some();
        let present: Vec<&[u8]> = fields.iter().filter(is_there).copied().collect();
        present.iter().for_each(|field| map.set_deadline(field, Some(at_ms)));
        present
    })?;
    let present = updated.map(|updated| updated.result).unwrap_or_default();
    if !present.is_empty() {
        given(cx, key, at_ms, &present);
    }
    Ok(())
}

fn persist_all(cx: &mut Cx<'_>, key: Key<'_>, fields: &[&[u8]]) -> Outcome {
    let now_ms = cx.due_ms;
    let updated = cx.update_seen::<Map, _>(key, |map| {
        fields.iter().copied().filter(|field| persist(map, field, now_ms)).collect::<Vec<&[u8]>>()
    })?;
    let changed = updated.map(|updated| updated.result).unwrap_or_default();
    if !changed.is_empty() {
        persisted(cx, key, &changed);
    }
    Ok(())
}

/// Replies with the values of fields and removes each field, so that a field that is named twice is null the second time.
fn reply_and_delete(cx: &mut Cx<'_>, key: Key<'_>, fields: &[&[u8]]) -> Outcome {
    let (mut bytes, protocol, now_ms) = (std::mem::take(&mut cx.out.bytes), cx.state.protocol, cx.due_ms);
    let updated = cx.update_seen::<Map, _>(key, |map| {
        let mut reply = Writer::new(&mut bytes, protocol);
        reply.array(fields.len());
        let mut take = |field: &&[u8]| {
            write_or_null(&mut reply, map.as_ref().get(field, now_ms));
            map.remove(field, now_ms)
        };
        fields.iter().copied().filter(|field| take(field)).collect::<Vec<&[u8]>>()
    });
    cx.out.bytes = bytes;
    let Some(updated) = updated? else {
        write_nulls(cx, fields.len());
        return Ok(());
    };
    if !updated.result.is_empty() {
        cx.removed(key, EventClass::Hash, "hdel", (updated.result.len(), updated.emptied));
        record_fields(cx, &[b"HDEL", key.name], &updated.result);
    }
    Ok(())
}

/// HGETDEL key FIELDS numfields field \[field ...\]
pub fn hgetdel(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    cx.look_as::<Map>(key)?;
    let fields = fields_at(request, 2, BAD_COUNT)?;
    reply_and_delete(cx, key, &fields)
}

/// Fields with their values.
type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The options of HSETEX.
struct SetOptions<'a> {
    /// FNX: none of the fields may exist.
    only_missing: bool,
    /// FXX: all of the fields must exist.
    only_present: bool,
    deadline: Deadline,
    pairs: Pairs<'a>,
}

impl<'a> SetOptions<'a> {
    fn of(request: Request<'a>, now_ms: i64) -> Result<Self, Error> {
        let mut options =
            Self { only_missing: false, only_present: false, deadline: Deadline::Clear, pairs: Vec::new() };
        let arity = || Error::arity(request.row.name);
        let (mut at, mut has_deadline) = (2, false);
        while let Some(word) = request.args.get(at) {
            let time = time_option(word, now_ms);
            if word.eq_ignore_ascii_case(b"fields") {
                options.pairs = pairs_at(request, at + 1)?;
                return Ok(options);
            } else if word.eq_ignore_ascii_case(b"fnx") || word.eq_ignore_ascii_case(b"fxx") {
                if options.only_missing || options.only_present {
                    return Err(Error::fixed("ERR Only one of FXX or FNX arguments can be specified"));
                }
                options.only_missing = word.eq_ignore_ascii_case(b"fnx");
                options.only_present = !options.only_missing;
            } else if word.eq_ignore_ascii_case(b"keepttl") || time.is_some() {
                if has_deadline {
                    let text = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
                    return Err(Error::fixed(text));
                }
                has_deadline = true;
                options.deadline = Deadline::Keep;
                if let Some((unit, base_ms)) = time {
                    at += 1;
                    let text = request.args.get(at).ok_or_else(arity)?;
                    options.deadline = Deadline::At(instant(text, unit, base_ms, request.row.name)?);
                }
            } else {
                return Err(Error::naming("ERR unknown argument: {}", &[word]));
            }
            at += 1;
        }
        Err(arity())
    }
}

/// Reads the field-value pairs. Their number stands at the argument `at`, and they end the request.
fn pairs_at(request: Request<'_>, at: usize) -> Result<Pairs<'_>, Error> {
    if request.len() < at + 3 {
        return Err(Error::arity(request.row.name));
    }
    let count = number::parse_i64(request.arg(at)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(Error::fixed("ERR invalid number of fields"))?;
    let (mut words, mut pairs) = (request.args.from(at + 1).iter(), Vec::new());
    if count.checked_mul(2) != Some(words.len()) {
        return Err(Error::arity(request.row.name));
    }
    while let (Some(field), Some(value)) = (words.next(), words.next()) {
        pairs.push((field, value));
    }
    Ok(pairs)
}

/// HSETEX key \[FNX | FXX\] \[EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL\] FIELDS numfields field value ...
pub fn hsetex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, now_ms) = (request.key(0), cx.due_ms);
    let options = SetOptions::of(request, cx.now.wall_ms())?;
    let found = cx.probe_as::<Map>(key)?;
    let is_there = |(field, _): &(&[u8], &[u8])| found.is_some_and(|map| map.get(field, now_ms).is_some());
    let refused = options.only_missing && options.pairs.iter().any(is_there)
        || options.only_present && !options.pairs.iter().all(is_there);
    if refused {
        cx.look(key);
    } else {
        match options.deadline {
            Deadline::At(at_ms) if at_ms <= now_ms => set_and_delete(cx, key, &options.pairs)?,
            _ => set(cx, key, &options)?,
        }
    }
    cx.reply().integer(i64::from(!refused));
    Ok(())
}

fn set(cx: &mut Cx<'_>, key: Key<'_>, options: &SetOptions<'_>) -> Outcome {
    let (limits, now_ms, deadline) = (limits::of_hashes(cx.engine), cx.due_ms, options.deadline);
    let is_recorded = cx.locks.recorder.is_recording();
    let updated = cx.update::<Map, _>(key, |map| {
        for (field, value) in &options.pairs {
            map.set(field, value, deadline, limits, now_ms);
        }
        let deadline = |field| map.as_ref().get_with_deadline(field, now_ms)?.1;
        let timed = |(field, _): &(_, _)| Some((deadline(*field)?, *field));
        let mut timed: Vec<(i64, &[u8])> =
            if is_recorded { options.pairs.iter().filter_map(timed).collect() } else { Vec::new() };
        timed.sort_unstable();
        timed.dedup();
        timed
    })?;
    cx.changed_by(key, options.pairs.len());
    cx.notify(EventClass::Hash, "hset", key);
    if matches!(deadline, Deadline::At(_)) {
        cx.notify(EventClass::Hash, "hexpire", key);
    }
    record_set(cx, key, &options.pairs, &updated.result);
    Ok(())
}

/// Records that fields were set, and in order which of them have deadlines now, with commands that servers without HSETEX
/// know.
fn record_set(cx: &mut Cx<'_>, key: Key<'_>, pairs: &[(&[u8], &[u8])], timed: &[(i64, &[u8])]) {
    if let Some(mut words) = cx.effect(2 + 2 * pairs.len()) {
        words.bulks(&[b"HSET", key.name]);
        pairs.iter().for_each(|(field, value)| words.bulks(&[field, value]));
    }
    for timed in timed.chunk_by(|(one_ms, _), (other_ms, _)| one_ms == other_ms) {
        let fields: Vec<&[u8]> = timed.iter().map(|(_, field)| *field).collect();
        record_deadline(cx, key, timed[0].0, &fields);
    }
}

/// Records the commands that make the present hash out of the key's previous value, if some of its fields have deadlines.
/// Returns false, and records nothing, if no field has one, or if the value is no hash. The dumped form of such a hash
/// differs between servers, and these commands are understood by all.
pub fn record_whole(cx: &mut Cx<'_>, key: Key<'_>) -> bool {
    let mut fields: Vec<(Vec<u8>, Vec<u8>, Option<i64>)> = Vec::new();
    let due_ms = cx.due_ms;
    let Ok(Some(map)) = cx.peek_as::<Map>(key) else { return false };
    map.for_each_with_deadline(due_ms, |field, value, deadline_ms| {
        let [field, value] = [field, value].map(|text| text.bytes(&mut Digits::default()).to_vec());
        fields.push((field, value, deadline_ms));
    });
    if fields.iter().all(|(_, _, deadline_ms)| deadline_ms.is_none()) {
        return false;
    }
    cx.record(&[b"DEL", key.name]);
    for fields in fields.chunks(ELEMENTS_MAX) {
        let pairs: Vec<(&[u8], &[u8])> = fields.iter().map(|(field, value, _)| (&**field, &**value)).collect();
        let timed = |(field, _, at_ms): &'_ (Vec<u8>, _, Option<i64>)| Some(((*at_ms)?, field.clone()));
        let mut timed: Vec<(i64, Vec<u8>)> = fields.iter().filter_map(timed).collect();
        timed.sort_unstable();
        let timed: Vec<(i64, &[u8])> = timed.iter().map(|(at_ms, field)| (*at_ms, &**field)).collect();
        record_set(cx, key, &pairs, &timed);
    }
    true
}

/// Sets fields that expire at once: they are removed, and so is the key if it has no other fields.
fn set_and_delete(cx: &mut Cx<'_>, key: Key<'_>, pairs: &[(&[u8], &[u8])]) -> Outcome {
    let now_ms = cx.due_ms;
    let updated = cx.update_present::<Map, _>(key, |map| {
        pairs.iter().for_each(|(field, _)| _ = map.remove(field, now_ms));
    })?;
    cx.changed_by(key, pairs.len());
    cx.notify(EventClass::Hash, "hset", key);
    cx.notify(EventClass::Hash, "hdel", key);
    if updated.is_none_or(|updated| updated.emptied) {
        cx.notify(EventClass::Generic, "del", key);
    }
    let fields: Vec<&[u8]> = pairs.iter().map(|(field, _)| *field).collect();
    record_fields(cx, &[b"HDEL", key.name], &fields);
    Ok(())
}
