//! The options of SET, GETEX and their like, among them those with a time: EX, PX, EXAT, PXAT, KEEPTTL and PERSIST.
//!
//! They are turned into a deadline before anything is changed. The commands on deadlines of hash fields read times with the
//! same units.

use sleeve_store::Deadline;
use sleeve_wire::number;

use super::condition::Condition;
use crate::request::Request;
use crate::request::error::Error;

/// The unit of a time in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// Returns a number in this unit as milliseconds; None if it does not fit.
    pub fn milliseconds(self, value: i64) -> Option<i64> {
        match self {
            Self::Seconds => value.checked_mul(1_000),
            Self::Milliseconds => Some(value),
        }
    }

    /// Reads a positive time, and returns the instant that lies this time after `base_ms`, in milliseconds since the epoch;
    /// `command` is the name for the error.
    ///
    /// # Errors
    /// The text is no integer, or the time is not positive or does not fit.
    pub fn positive_after(self, text: &[u8], base_ms: i64, command: &str) -> Result<i64, Error> {
        let value = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
        let milliseconds = self.milliseconds(value).filter(|&milliseconds| milliseconds > 0);
        milliseconds.and_then(|milliseconds| milliseconds.checked_add(base_ms)).ok_or(Error::invalid_expire(command))
    }
}

/// The condition under which SET sets the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetCondition<'a> {
    /// Always.
    None,
    /// NX.
    Missing,
    /// XX.
    Present,
    /// IFEQ and its like.
    Value(Condition<'a>),
}

/// The options of SET and MSETEX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetOptions<'a> {
    /// NX, XX, IFEQ and its like.
    pub condition: SetCondition<'a>,
    /// GET.
    pub get: bool,
    /// EX, PX, EXAT, PXAT or KEEPTTL.
    pub deadline: Deadline,
}

impl<'a> SetOptions<'a> {
    /// Reads the options from argument `first` on.
    ///
    /// # Errors
    /// An unknown option, two that exclude each other, or a bad time.
    pub fn of(request: Request<'a>, first: usize, now_ms: i64) -> Result<Self, Error> {
        let mut options = Self { condition: SetCondition::None, get: false, deadline: Deadline::Clear };
        let (mut at, mut time) = (first, None);
        while at < request.len() {
            let word = request.arg(at);
            if let Some((condition, words)) = Self::condition(request, at)? {
                let is_again = condition == options.condition && words == 1;
                if options.condition != SetCondition::None && !is_again {
                    return Err(Error::SYNTAX);
                }
                options.condition = condition;
                at += words - 1;
            } else if word.eq_ignore_ascii_case(b"get") {
                options.get = true;
            } else if word.eq_ignore_ascii_case(b"keepttl") && time.is_none() {
                options.deadline = Deadline::Keep;
            } else if options.deadline == Deadline::Clear {
                time = Some(Time::of(request, at, time)?);
                at += 1;
            } else {
                return Err(Error::SYNTAX);
            }
            at += 1;
        }
        if let Some(time) = time {
            options.deadline = Deadline::At(time.instant(now_ms, request.row.name)?);
        }
        Ok(options)
    }

    /// Reads the condition at argument `at`; returns it and its number of words, or None if another option stands there.
    fn condition(request: Request<'a>, at: usize) -> Result<Option<(SetCondition<'a>, usize)>, Error> {
        let word = request.arg(at);
        if word.eq_ignore_ascii_case(b"nx") {
            return Ok(Some((SetCondition::Missing, 1)));
        }
        if word.eq_ignore_ascii_case(b"xx") {
            return Ok(Some((SetCondition::Present, 1)));
        }
        let operand = request.args.get(at + 1);
        match Condition::named(word, operand.unwrap_or_default()) {
            Some(_) if operand.is_none() => Err(Error::SYNTAX),
            condition => Ok(condition.map(|condition| (SetCondition::Value(condition), 2))),
        }
    }
}

/// The option of GETEX; its number is not parsed yet.
#[derive(Debug, Clone, Copy)]
pub enum GetOption<'a> {
    /// PERSIST.
    Persist,
    /// EX, PX, EXAT or PXAT.
    At(Time<'a>),
}

impl<'a> GetOption<'a> {
    /// Reads the options behind the key.
    ///
    /// # Errors
    /// An unknown option, or two that exclude each other.
    pub fn of(request: Request<'a>) -> Result<Option<Self>, Error> {
        let (mut at, mut option) = (2, None);
        while at < request.len() {
            option = match option {
                None | Some(Self::Persist) if request.arg(at).eq_ignore_ascii_case(b"persist") => Some(Self::Persist),
                Some(Self::Persist) => return Err(Error::SYNTAX),
                None => Some(Self::At(Time::of(request, at, None)?)),
                Some(Self::At(earlier)) => Some(Self::At(Time::of(request, at, Some(earlier))?)),
            };
            at += if matches!(option, Some(Self::At(_))) { 2 } else { 1 };
        }
        Ok(option)
    }
}

/// A time option and its argument.
#[derive(Debug, Clone, Copy)]
pub struct Time<'a> {
    unit: Unit,
    is_relative: bool,
    text: &'a [u8],
}

impl<'a> Time<'a> {
    /// Reads the option at argument `at`. The same option may come again, and then the last one counts.
    ///
    /// # Errors
    /// Another option, or another time than before.
    pub fn of(request: Request<'a>, at: usize, earlier: Option<Self>) -> Result<Self, Error> {
        let (unit, is_relative) = match request.arg(at).to_ascii_lowercase().as_slice() {
            b"ex" => (Unit::Seconds, true),
            b"px" => (Unit::Milliseconds, true),
            b"exat" => (Unit::Seconds, false),
            b"pxat" => (Unit::Milliseconds, false),
            _ => return Err(Error::SYNTAX),
        };
        let text = request.args.get(at + 1).ok_or(Error::SYNTAX)?;
        if earlier.is_some_and(|earlier| (earlier.unit, earlier.is_relative) != (unit, is_relative)) {
            return Err(Error::SYNTAX);
        }
        Ok(Self { unit, is_relative, text })
    }

    /// Returns the instant in milliseconds since the epoch.
    ///
    /// # Errors
    /// A bad number, in the words of `command`.
    pub fn instant(&self, now_ms: i64, command: &str) -> Result<i64, Error> {
        self.unit.positive_after(self.text, if self.is_relative { now_ms } else { 0 }, command)
    }
}
