//! INCREX: a counter within bounds, with a key that may be given a deadline by the same command.
//!
//! A step that would leave the bounds changes nothing at all, or with SATURATE stops at the bound. The sum is computed first,
//! then the deadline is decided. The record is SET of the result, or the removal of the key if its new deadline is past
//! already.

use sleeve_store::{Deadline, Digits, Value};
use sleeve_wire::long_double::LongDouble;
use sleeve_wire::number;

use super::set_expiry::Time;
use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The options behind the key, each at most once and in any order; the numbers are not parsed yet.
#[derive(Default)]
struct IncrexOptions<'a> {
    by: Option<&'a [u8]>,
    is_float: bool,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    time: Option<Time<'a>>,
    persists: bool,
    /// ENX: the deadline is set only if the key has none.
    only_new: bool,
}

/// A number of one of the two kinds in which INCREX counts: integers and floating-point numbers.
trait Amount: Copy {
    const ONE: Self;
    const LEAST: Self;
    const GREATEST: Self;
    const EVENT: &'static str;
    const BAD_INCREMENT: Error;
    const BAD_BOUND: [Error; 2];

    fn parse(text: &[u8]) -> Option<Self>;

    /// Reads a bound, which is finite.
    fn parse_bound(text: &[u8]) -> Option<Self> {
        Self::parse(text)
    }

    fn is_less(self, other: Self) -> bool;

    /// Returns the sum, if it is a number of this kind.
    fn sum(self, other: Self) -> Option<Self>;

    /// Returns the difference, if it is a number of this kind.
    fn difference(self, other: Self) -> Result<Self, Error>;

    fn is_negative(self) -> bool;
}

impl Amount for i64 {
    const ONE: Self = 1;
    const LEAST: Self = i64::MIN;
    const GREATEST: Self = i64::MAX;
    const EVENT: &'static str = "incrby";
    const BAD_INCREMENT: Error = Error::fixed("ERR Increment is not an integer or out of range");
    const BAD_BOUND: [Error; 2] = [
        Error::fixed("ERR LBOUND is not an integer or out of range"),
        Error::fixed("ERR UBOUND is not an integer or out of range"),
    ];

    fn parse(text: &[u8]) -> Option<Self> {
        number::parse_i64(text)
    }

    fn is_less(self, other: Self) -> bool {
        self < other
    }

    fn sum(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }

    fn difference(self, other: Self) -> Result<Self, Error> {
        self.checked_sub(other).ok_or(Error::fixed("ERR applied increment would overflow"))
    }

    fn is_negative(self) -> bool {
        self < 0
    }
}

impl Amount for LongDouble {
    const ONE: Self = LongDouble::ONE;
    const LEAST: Self = LongDouble::LEAST;
    const GREATEST: Self = LongDouble::GREATEST;
    const EVENT: &'static str = "incrbyfloat";
    const BAD_INCREMENT: Error = Error::fixed("ERR Increment is not a valid float");
    const BAD_BOUND: [Error; 2] =
        [Error::fixed("ERR LBOUND is not a valid float"), Error::fixed("ERR UBOUND is not a valid float")];

    fn parse(text: &[u8]) -> Option<Self> {
        LongDouble::parse(text)
    }

    fn parse_bound(text: &[u8]) -> Option<Self> {
        LongDouble::parse(text).filter(|bound| bound.is_finite())
    }

    fn is_less(self, other: Self) -> bool {
        self.checked_add(other.negated()).map_or(self.is_negative(), LongDouble::is_negative)
    }

    fn sum(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }

    fn difference(self, other: Self) -> Result<Self, Error> {
        self.checked_add(other.negated()).ok_or(Error::fixed("ERR applied increment would produce Infinity"))
    }

    fn is_negative(self) -> bool {
        LongDouble::is_negative(self)
    }
}

/// The amount that is added, and the bounds of the result.
struct Step<A> {
    by: A,
    lower: A,
    upper: A,
    saturates: bool,
}

/// INCREX key \[BYFLOAT increment | BYINT increment\] \[LBOUND lowerbound\] \[UBOUND upperbound\] \[SATURATE\]
/// \[EX seconds | PX ms | EXAT seconds | PXAT ms | PERSIST\] \[ENX\]
pub fn increx(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = IncrexOptions::parse(request)?;
    let key = request.key(0);
    if options.is_float {
        let step = options.step::<LongDouble>()?;
        if !step.by.is_finite() {
            return Err(Error::fixed("ERR BYFLOAT increment cannot be Infinity"));
        }
        let deadline = options.deadline(cx, request)?;
        count_in_floats(cx, key, &step, deadline)
    } else {
        let step = options.step::<i64>()?;
        let deadline = options.deadline(cx, request)?;
        count_in_integers(cx, key, &step, deadline)
    }
}

fn count_in_integers(cx: &mut Cx<'_>, key: Key<'_>, step: &Step<i64>, deadline: DeadlineChange) -> Outcome {
    let old = match cx.peek_string(key)? {
        None => 0,
        Some(entry) => entry.value().integer().ok_or(Error::NOT_INTEGER)?,
    };
    let (new, applied) = match step.apply(old)? {
        Some((new, applied)) => {
            store(cx, key, (&Value::Integer(new), number::Digits::new(new).as_bytes()), i64::EVENT, deadline);
            (new, applied)
        }
        None => (old, 0),
    };
    let mut reply = cx.reply();
    reply.array(2);
    reply.integer(new);
    reply.integer(applied);
    Ok(())
}

fn count_in_floats(cx: &mut Cx<'_>, key: Key<'_>, step: &Step<LongDouble>, deadline: DeadlineChange) -> Outcome {
    let mut digits = Digits::default();
    let old = match cx.peek_string(key)? {
        None => LongDouble::ZERO,
        Some(entry) => LongDouble::parse(entry.value().bytes(&mut digits)).ok_or(Error::NOT_FLOAT)?,
    };
    if !old.is_finite() {
        return Err(Error::fixed("ERR value cannot be Infinity"));
    }
    let (mut new_text, mut applied_text) = (Vec::new(), Vec::new());
    match step.apply(old)? {
        Some((new, applied)) => {
            new.push_human(&mut new_text);
            applied.push_human(&mut applied_text);
            store(cx, key, (&Value::Bytes(&new_text), &new_text), LongDouble::EVENT, deadline);
        }
        None => {
            old.push_human(&mut new_text);
            applied_text.push(b'0');
        }
    }
    let mut reply = cx.reply();
    reply.array(2);
    reply.double_text(&new_text);
    reply.double_text(&applied_text);
    Ok(())
}

impl<A: Amount> Step<A> {
    /// Returns the result and its difference from the old value; None if the value stays as it is.
    ///
    /// # Errors
    /// The difference is no number of this kind.
    fn apply(&self, old: A) -> Result<Option<(A, A)>, Error> {
        let (sum, past) = match old.sum(self.by) {
            Some(sum) if sum.is_less(self.lower) => (Some(sum), Some(self.lower)),
            Some(sum) if self.upper.is_less(sum) => (Some(sum), Some(self.upper)),
            Some(sum) => (Some(sum), None),
            // The sum is beyond the range of this kind.
            None => (None, Some(if self.by.is_negative() { self.lower } else { self.upper })),
        };
        match (sum, past) {
            (Some(sum), None) => Ok(Some((sum, self.by))),
            (_, Some(bound)) if self.saturates => Ok(Some((bound, bound.difference(old)?))),
            _ => Ok(None),
        }
    }
}

/// The change of the key's deadline.
#[derive(Debug, Clone, Copy)]
enum DeadlineChange {
    Keep,
    Persist,
    At { at_ms: i64, only_new: bool },
}

/// Sets the result, which is passed as a value and as text, and the deadline.
fn store(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    (value, text): (&Value<'_>, &[u8]),
    event: &'static str,
    wanted: DeadlineChange,
) {
    let has_deadline = cx.peek(key).map(|entry| entry.deadline().is_some());
    let wanted = match wanted {
        DeadlineChange::At { only_new: true, .. } if has_deadline == Some(true) => DeadlineChange::Keep,
        wanted => wanted,
    };
    match wanted {
        DeadlineChange::At { at_ms, .. } if at_ms <= cx.due_ms => {
            if has_deadline.is_some() {
                cx.remove(key, Opt::LazyfreeLazyExpire);
                cx.notify(EventClass::Generic, "del", key);
                cx.record(&[key_change::removal(cx.engine, Opt::LazyfreeLazyExpire), key.name]);
            }
        }
        DeadlineChange::At { at_ms, .. } => {
            cx.set(key, value, Deadline::At(at_ms));
            cx.deadline_given(cx.state.database, key, at_ms);
            cx.notify(EventClass::String, event, key);
            cx.notify(EventClass::Generic, "expire", key);
            cx.record(&[b"SET", key.name, text, b"PXAT", number::Digits::new(at_ms).as_bytes()]);
        }
        DeadlineChange::Persist => {
            cx.set(key, value, Deadline::Clear);
            cx.notify(EventClass::String, event, key);
            if has_deadline == Some(true) {
                cx.notify(EventClass::Generic, "persist", key);
            }
            cx.record(&[b"SET", key.name, text]);
        }
        DeadlineChange::Keep => {
            cx.set(key, value, Deadline::Keep);
            cx.notify(EventClass::String, event, key);
            cx.record(&[b"SET", key.name, text, b"KEEPTTL"]);
        }
    }
}

impl<'a> IncrexOptions<'a> {
    fn parse(request: Request<'a>) -> Result<Self, Error> {
        let (mut options, mut at) = (Self::default(), 2);
        while at < request.len() {
            let operand = request.args.get(at + 1);
            at += match request.arg(at).to_ascii_lowercase().as_slice() {
                b"saturate" => once(&mut options.saturates)?,
                b"persist" => once(&mut options.persists)?,
                b"enx" => once(&mut options.only_new)?,
                b"byint" => give(&mut options.by, operand)?,
                b"byfloat" => {
                    options.is_float = true;
                    give(&mut options.by, operand)?
                }
                b"lbound" => give(&mut options.lower, operand)?,
                b"ubound" => give(&mut options.upper, operand)?,
                _ => {
                    let time = Time::of(request, at, None)?;
                    give(&mut options.time, Some(time))?
                }
            };
        }
        if options.persists && (options.time.is_some() || options.only_new) {
            return Err(Error::SYNTAX);
        }
        if options.only_new && options.time.is_none() {
            return Err(Error::fixed("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }

    fn step<A: Amount>(&self) -> Result<Step<A>, Error> {
        let by = self.by.map_or(Some(A::ONE), A::parse).ok_or(A::BAD_INCREMENT)?;
        let [bad_lower, bad_upper] = A::BAD_BOUND;
        let lower = self.lower.map_or(Some(A::LEAST), A::parse_bound).ok_or(bad_lower)?;
        let upper = self.upper.map_or(Some(A::GREATEST), A::parse_bound).ok_or(bad_upper)?;
        if upper.is_less(lower) {
            return Err(Error::fixed("ERR LBOUND can't be greater than UBOUND"));
        }
        Ok(Step { by, lower, upper, saturates: self.saturates })
    }

    fn deadline(&self, cx: &Cx<'_>, request: Request<'_>) -> Result<DeadlineChange, Error> {
        Ok(match self.time {
            _ if self.persists => DeadlineChange::Persist,
            None => DeadlineChange::Keep,
            Some(time) => {
                let at_ms = time.instant(cx.now.wall_ms(), request.row.name)?;
                DeadlineChange::At { at_ms, only_new: self.only_new }
            }
        })
    }
}

/// Notes an option without an operand; returns how many words it takes.
fn once(place: &mut bool) -> Result<usize, Error> {
    if std::mem::replace(place, true) { Err(Error::SYNTAX) } else { Ok(1) }
}

/// Notes an option with an operand; returns how many words it takes.
fn give<T>(place: &mut Option<T>, operand: Option<T>) -> Result<usize, Error> {
    if operand.is_none() || place.is_some() {
        return Err(Error::SYNTAX);
    }
    *place = operand;
    Ok(2)
}
