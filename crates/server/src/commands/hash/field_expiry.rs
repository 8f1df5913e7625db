//! The deadlines of fields: commands that set, read and remove them, in seconds and milliseconds, relative and absolute.
//!
//! A deadline is kept and recorded in milliseconds since the epoch. Each form of request has the same effect: an HPEXPIREAT
//! of the fields that got a deadline, or an HDEL of those that expire at once. A command names its fields behind the word
//! FIELDS and their number, and answers with a code or a time for each.

use sleeve_store::{Collection, Digits, Map, MapRef};
use sleeve_wire::number;

use super::record_deadline;
use crate::commands::string::set_expiry::Unit;
use crate::context::notifications::EventClass;
use crate::context::{Cx, ELEMENTS_MAX};
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The latest deadline that Redis keeps for a field: 46 bits of milliseconds.
const DEADLINE_MAX_MS: i64 = (1 << 46) - 1;

/// The answers about a field.
const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;
const NOT_MET: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// Reads a time that is not negative, and returns the instant that lies this time after `base_ms`, in milliseconds since the
/// epoch.
///
/// # Errors
/// The text is no integer, or the time is negative or later than any deadline may be.
pub fn instant(text: &[u8], unit: Unit, base_ms: i64, command: &str) -> Result<i64, Error> {
    let value = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
    if value < 0 {
        return Err(Error::fixed("ERR invalid expire time, must be >= 0"));
    }
    let at_ms = unit.milliseconds(value).and_then(|after_ms| after_ms.checked_add(base_ms));
    at_ms.filter(|&at_ms| at_ms <= DEADLINE_MAX_MS).ok_or_else(|| Error::invalid_expire(command))
}

/// The condition on a field's old deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    None,
    Any,
    /// GT: the old deadline is earlier than the new one. A field without a deadline counts as one that lives for ever.
    Earlier,
    /// LT: the old deadline is later than the new one.
    Later,
}

impl Condition {
    /// Reads the condition at argument 3, if there is one.
    fn of(word: &[u8]) -> Self {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => Self::None,
            b"xx" => Self::Any,
            b"gt" => Self::Earlier,
            b"lt" => Self::Later,
            _ => Self::Always,
        }
    }

    fn allows(self, old_ms: Option<i64>, new_ms: i64) -> bool {
        match self {
            Self::Always => true,
            Self::None => old_ms.is_none(),
            Self::Any => old_ms.is_some(),
            Self::Earlier => old_ms.is_some_and(|old_ms| old_ms < new_ms),
            Self::Later => old_ms.is_none_or(|old_ms| old_ms > new_ms),
        }
    }
}

/// Reads the fields behind FIELDS and their number. FIELDS stands at the argument `at`, and the fields end the request.
///
/// # Errors
/// The word is missing, or the number is not the number of fields that follow; `bad_count` is the error for a number that is
/// not positive.
pub fn fields_at<'a>(request: Request<'a>, at: usize, bad_count: Error) -> Result<Vec<&'a [u8]>, Error> {
    if !request.args.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"fields")) {
        return Err(Error::fixed("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let count = request.args.get(at + 1).and_then(number::parse_i64);
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0).ok_or(bad_count)?;
    let fields: Vec<&[u8]> = request.args.from(at + 2).iter().collect();
    if fields.len() != count {
        return Err(Error::fixed("ERR The `numfields` parameter must match the number of arguments"));
    }
    Ok(fields)
}

/// The error for a number of fields that is not positive.
pub const BAD_COUNT: Error = Error::fixed("ERR Number of fields must be a positive integer");

/// Answers HEXPIRE and HPEXPIRE, which give fields a deadline relative to now (`is_relative`), and HEXPIREAT and HPEXPIREAT.
pub fn expire(cx: &mut Cx<'_>, request: Request<'_>, unit: Unit, is_relative: bool) -> Outcome {
    let base_ms = if is_relative { cx.now.wall_ms() } else { 0 };
    let key = request.key(0);
    cx.look_as::<Map>(key)?;
    let at_ms = instant(request.arg(2), unit, base_ms, request.row.name)?;
    let condition = Condition::of(request.arg(3));
    let bad_count = Error::fixed("ERR Parameter `numFields` should be greater than 0");
    let fields = fields_at(request, if condition == Condition::Always { 3 } else { 4 }, bad_count)?;
    let now_ms = cx.due_ms;
    let updated = cx.update_seen::<Map, _>(key, |map| {
        let expire = |field: &&[u8]| expire_field(map, field, at_ms, condition, now_ms);
        fields.iter().map(expire).collect::<Vec<i64>>()
    })?;
    let codes = updated.as_ref().map_or(vec![NO_FIELD; fields.len()], |updated| updated.result.clone());
    if let Some(updated) = &updated {
        if codes.contains(&DONE) {
            given(cx, key, at_ms, &with_code(&fields, &codes, DONE));
        }
        if codes.contains(&DELETED) {
            let deleted = with_code(&fields, &codes, DELETED);
            cx.removed(key, EventClass::Hash, "hdel", (deleted.len(), updated.emptied));
            record_fields(cx, &[b"HDEL", key.name], &deleted);
        }
    }
    write_codes(cx, &codes);
    Ok(())
}

fn expire_field(map: &mut Map, field: &[u8], at_ms: i64, condition: Condition, now_ms: i64) -> i64 {
    match map.as_ref().get_with_deadline(field, now_ms) {
        None => NO_FIELD,
        Some((_, old_ms)) if !condition.allows(old_ms, at_ms) => NOT_MET,
        Some(_) if at_ms <= now_ms => {
            map.remove(field, now_ms);
            DELETED
        }
        Some(_) => {
            map.set_deadline(field, Some(at_ms));
            DONE
        }
    }
}

fn with_code<'a>(fields: &[&'a [u8]], codes: &[i64], wanted: i64) -> Vec<&'a [u8]> {
    fields.iter().zip(codes).filter(|(_, code)| **code == wanted).map(|(field, _)| *field).collect()
}

/// Notifies and records that fields of a key have been given a deadline.
pub fn given(cx: &mut Cx<'_>, key: Key<'_>, at_ms: i64, fields: &[&[u8]]) {
    cx.changed_by(key, fields.len());
    cx.notify(EventClass::Hash, "hexpire", key);
    record_deadline(cx, key, at_ms, fields);
}

/// Records an effect that has fields, or fields and values, as its last arguments.
pub fn record_fields(cx: &mut Cx<'_>, head: &[&[u8]], fields: &[&[u8]]) {
    cx.record_with(head, fields.iter().copied());
}

fn write_codes(cx: &mut Cx<'_>, codes: &[i64]) {
    let mut reply = cx.reply();
    reply.array(codes.len());
    codes.iter().for_each(|code| reply.integer(*code));
}

/// HPERSIST key FIELDS numfields field \[field ...\]
pub fn hpersist(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, now_ms) = (request.key(0), cx.due_ms);
    cx.look_as::<Map>(key)?;
    let fields = fields_at(request, 2, BAD_COUNT)?;
    let updated = cx.update_seen::<Map, _>(key, |map| {
        fields.iter().map(|field| persist_field(map, field, now_ms)).collect::<Vec<i64>>()
    })?;
    let codes = updated.map_or(vec![NO_FIELD; fields.len()], |updated| updated.result);
    if codes.contains(&DONE) {
        persisted(cx, key, &with_code(&fields, &codes, DONE));
    }
    write_codes(cx, &codes);
    Ok(())
}

/// Removes the deadline of a field; returns the code that the command answers for the field.
fn persist_field(map: &mut Map, field: &[u8], now_ms: i64) -> i64 {
    match map.as_ref().get_with_deadline(field, now_ms) {
        None => NO_FIELD,
        Some((_, None)) => NO_DEADLINE,
        Some((_, Some(_))) => {
            map.set_deadline(field, None);
            DONE
        }
    }
}

/// Removes the deadline of a field; returns whether it had one.
pub fn persist(map: &mut Map, field: &[u8], now_ms: i64) -> bool {
    persist_field(map, field, now_ms) == DONE
}

/// Notifies and records that the deadlines of fields of a key were removed.
///
/// The effect is an HSET of the present values, which removes deadlines too. If Redis 8 loads an AOF with an HPERSIST for a
/// deadline that is past by then, it ignores the command and loses the field.
pub fn persisted(cx: &mut Cx<'_>, key: Key<'_>, fields: &[&[u8]]) {
    cx.changed(key);
    cx.notify(EventClass::Hash, "hpersist", key);
    if !cx.locks.recorder.is_recording() {
        return;
    }
    let due_ms = cx.due_ms;
    for fields in fields.chunks(ELEMENTS_MAX) {
        let Ok(Some(map)) = cx.peek_as::<Map>(key) else { return };
        let value = |field: &&[u8]| Some(map.get(field, due_ms)?.bytes(&mut Digits::default()).to_vec());
        let values: Vec<Vec<u8>> = fields.iter().filter_map(value).collect();
        let pairs: Vec<&[u8]> = fields.iter().zip(&values).flat_map(|(field, value)| [field, &**value]).collect();
        record_fields(cx, &[b"HSET", key.name], &pairs);
    }
}

/// Returns a time in seconds, rounded up, as Redis does for fields (and not for keys).
fn seconds_up(time_ms: i64) -> i64 {
    (time_ms + 999) / 1_000
}

/// Answers HTTL and HPTTL, which return the remaining time (`is_relative`), and HEXPIRETIME and HPEXPIRETIME.
pub fn deadline(cx: &mut Cx<'_>, request: Request<'_>, unit: Unit, is_relative: bool) -> Outcome {
    let base_ms = if is_relative { cx.now.wall_ms() } else { 0 };
    let now_ms = cx.due_ms;
    let map = cx.read_as::<Map>(request.key(0))?;
    let fields = fields_at(request, 2, BAD_COUNT)?;
    let about = |map: MapRef<'_>, field: &[u8]| match map.get_with_deadline(field, now_ms) {
        None => NO_FIELD,
        Some((_, None)) => NO_DEADLINE,
        Some((_, Some(at_ms))) if unit == Unit::Seconds => seconds_up(at_ms - base_ms),
        Some((_, Some(at_ms))) => at_ms - base_ms,
    };
    let answers: Vec<i64> = fields.iter().map(|field| map.map_or(NO_FIELD, |map| about(map, field))).collect();
    write_codes(cx, &answers);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_not_negative_and_fits_into_46_bits() {
        assert_eq!(instant(b"2", Unit::Seconds, 5, "hexpire"), Ok(2_005));
        assert_eq!(instant(b"70368744177663", Unit::Milliseconds, 0, "hexpire"), Ok(DEADLINE_MAX_MS));
        for text in [b"70368744177664".as_slice(), b"9223372036854775807"] {
            assert_eq!(instant(text, Unit::Milliseconds, 1, "hx"), Err(Error::invalid_expire("hx")));
            assert_eq!(instant(text, Unit::Seconds, 1, "hx"), Err(Error::invalid_expire("hx")));
        }
        assert_eq!(instant(b"x", Unit::Seconds, 0, "hx"), Err(Error::NOT_INTEGER));
        assert!(instant(b"-1", Unit::Seconds, 0, "hx").is_err_and(|error| error.text().ends_with(b">= 0")));
    }

    #[test]
    fn a_field_without_a_deadline_lives_longer_than_any_other() {
        assert!(!Condition::of(b"gt").allows(None, i64::MAX) && Condition::of(b"LT").allows(None, i64::MAX));
        assert!(!Condition::of(b"GT").allows(Some(5), 5) && Condition::of(b"Gt").allows(Some(5), 6));
        assert!(!Condition::of(b"lt").allows(Some(5), 5) && Condition::of(b"lt").allows(Some(5), 4));
        assert_eq!([1, 999, 1_000, 1_001].map(seconds_up), [1, 1, 1, 2]);
    }
}
