//! Deadlines of keys: commands that set and read them, in seconds and milliseconds, relative and absolute.
//!
//! A deadline is kept and recorded in milliseconds since the epoch. Each form of request has the same effect: a PEXPIREAT, or
//! a DEL if the given time is past.

use sleeve_wire::number;

use super::look;
use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The unit of PEXPIRE, in milliseconds.
pub const MILLISECOND: i64 = 1;
/// The unit of EXPIRE, in milliseconds.
pub const SECOND: i64 = 1_000;

/// Answers EXPIRE and PEXPIRE, which set a deadline relative to now (`is_relative`), and EXPIREAT and PEXPIREAT.
pub fn expire(cx: &mut Cx<'_>, request: Request<'_>, unit_ms: i64, is_relative: bool) -> Outcome {
    let base_ms = if is_relative { cx.now.wall_ms() } else { 0 };
    let condition = Condition::parse(request)?;
    let amount = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let deadline_ms = amount
        .checked_mul(unit_ms)
        .and_then(|after_ms| after_ms.checked_add(base_ms))
        .ok_or_else(|| Error::invalid_expire(request.row.name))?;
    let done = set_deadline(cx, request.key(0), deadline_ms, condition);
    cx.reply().integer(i64::from(done));
    Ok(())
}

/// Sets a key's deadline if the key exists and the condition holds; a deadline in the past removes the key.
fn set_deadline(cx: &mut Cx<'_>, key: Key<'_>, deadline_ms: i64, condition: Condition) -> bool {
    let due_ms = cx.due_ms;
    let Some(mut entry) = cx.edit(key) else { return false };
    if !condition.allows(entry.deadline(), deadline_ms) {
        return false;
    }
    if deadline_ms <= due_ms {
        cx.remove(key, Opt::LazyfreeLazyExpire);
        cx.notify(EventClass::Generic, "del", key);
        cx.record(&[key_change::removal(cx.engine, Opt::LazyfreeLazyExpire), key.name]);
        return true;
    }
    entry.set_deadline(Some(deadline_ms));
    cx.deadline_given(cx.state.database, key, deadline_ms);
    cx.changed(key);
    cx.notify(EventClass::Generic, "expire", key);
    cx.record(&[b"PEXPIREAT", key.name, number::Digits::new(deadline_ms).as_bytes()]);
    true
}

/// PERSIST key
pub fn persist(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    let had_deadline = cx.edit(key).is_some_and(|mut entry| {
        let had_deadline = entry.deadline().is_some();
        if had_deadline {
            entry.set_deadline(None);
        }
        had_deadline
    });
    if had_deadline {
        cx.changed(key);
        cx.notify(EventClass::Generic, "persist", key);
    }
    cx.reply().integer(i64::from(had_deadline));
    Ok(())
}

/// The conditions NX, XX, GT and LT on the deadline that a key has. All that are given must hold.
#[derive(Debug, Clone, Copy, Default)]
struct Condition {
    none: bool,
    any: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(request: Request<'_>) -> Result<Self, Error> {
        let mut condition = Self::default();
        for option in request.args.from(3).iter() {
            match option {
                _ if option.eq_ignore_ascii_case(b"nx") => condition.none = true,
                _ if option.eq_ignore_ascii_case(b"xx") => condition.any = true,
                _ if option.eq_ignore_ascii_case(b"gt") => condition.later = true,
                _ if option.eq_ignore_ascii_case(b"lt") => condition.earlier = true,
                _ => return Err(unsupported(option)),
            }
        }
        if condition.none && (condition.any || condition.later || condition.earlier) {
            return Err(Error::fixed("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if condition.later && condition.earlier {
            return Err(Error::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// Returns whether the condition allows the new deadline. A key without a deadline counts as one that lives forever.
    fn allows(self, old_ms: Option<i64>, new_ms: i64) -> bool {
        !(self.none && old_ms.is_some()
            || self.any && old_ms.is_none()
            || self.later && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.earlier && old_ms.is_some_and(|old_ms| new_ms >= old_ms))
    }
}

fn unsupported(option: &[u8]) -> Error {
    Error::naming("ERR Unsupported option {}", &[option])
}

/// Returns a time in seconds, rounded to the nearest second.
fn rounded_s(time_ms: i64) -> i64 {
    time_ms / SECOND + i64::from(time_ms % SECOND >= SECOND / 2)
}

/// Answers TTL and PTTL, which return the remaining time (`is_relative`), and EXPIRETIME and PEXPIRETIME: -2 if there is no
/// key, -1 if it has no deadline.
pub fn deadline(cx: &mut Cx<'_>, request: Request<'_>, unit_ms: i64, is_relative: bool) -> Outcome {
    let now_ms = cx.now.wall_ms();
    let in_unit = |time_ms| if unit_ms == SECOND { rounded_s(time_ms) } else { time_ms };
    let answer = match look(cx, request.key(0), |entry| entry.deadline()) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline_ms)) if is_relative => in_unit(deadline_ms.saturating_sub(now_ms).max(0)),
        Some(Some(deadline_ms)) => in_unit(deadline_ms),
    };
    cx.reply().integer(answer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_the_nearest_even_at_the_end_of_time() {
        assert_eq!([0, 499, 500, 1_499, 1_500].map(rounded_s), [0, 0, 1, 1, 2]);
        assert_eq!(rounded_s(i64::MAX), 9_223_372_036_854_776);
    }

    #[test]
    fn a_key_without_a_deadline_lives_longer_than_any_other() {
        let later = Condition { later: true, ..Condition::default() };
        let earlier = Condition { earlier: true, ..Condition::default() };
        assert!(!later.allows(None, i64::MAX));
        assert!(earlier.allows(None, i64::MAX));
        assert!(!later.allows(Some(5), 5) && later.allows(Some(5), 6));
        assert!(!earlier.allows(Some(5), 5) && earlier.allows(Some(5), 4));
    }
}
