//! The times that string commands carry: EX, PX, EXAT, PXAT, KEEPTTL and PERSIST.

use sleeve_wire::number;

use crate::error::Error;
use crate::request::Request;

/// The unit of a time in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// Reads a number in this unit as milliseconds; none when it does not fit.
    pub fn milliseconds(self, value: i64) -> Option<i64> {
        match self {
            Self::Seconds => value.checked_mul(1_000),
            Self::Milliseconds => Some(value),
        }
    }

    /// The instant, in milliseconds since the epoch, that lies a positive time after `base_ms`; `command` is who asks.
    ///
    /// # Errors
    /// When the text is no integer, or the time is not positive or does not fit.
    pub fn positive_after(self, text: &[u8], base_ms: i64, command: &str) -> Result<i64, Error> {
        let value = number::parse_i64(text).ok_or(Error::NOT_INTEGER)?;
        let milliseconds = self.milliseconds(value).filter(|&milliseconds| milliseconds > 0);
        milliseconds.and_then(|milliseconds| milliseconds.checked_add(base_ms)).ok_or(Error::invalid_expire(command))
    }
}

/// What happens to the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Milliseconds since the epoch.
    At(i64),
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Clear,
}

/// The options of SET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetOptions {
    /// NX.
    pub only_missing: bool,
    /// XX.
    pub only_present: bool,
    /// GET.
    pub get: bool,
    /// EX, PX, EXAT, PXAT or KEEPTTL.
    pub expiry: Option<Expiry>,
}

impl SetOptions {
    /// Reads what follows key and value.
    ///
    /// # Errors
    /// An unknown option, two that exclude each other, or a bad time.
    pub fn of(request: Request<'_>, now_ms: i64) -> Result<Self, Error> {
        let mut options = Self::default();
        let (mut at, mut time) = (3, None);
        while at < request.len() {
            let word = request.arg(at);
            if word.eq_ignore_ascii_case(b"nx") && !options.only_present {
                options.only_missing = true;
            } else if word.eq_ignore_ascii_case(b"xx") && !options.only_missing {
                options.only_present = true;
            } else if word.eq_ignore_ascii_case(b"get") {
                options.get = true;
            } else if word.eq_ignore_ascii_case(b"keepttl") && time.is_none() {
                options.expiry = Some(Expiry::Keep);
            } else if options.expiry.is_none() && time.is_none() {
                time = Some(Time::of(request, at)?);
                at += 1;
            } else {
                return Err(Error::SYNTAX);
            }
            at += 1;
        }
        if let Some(time) = time {
            options.expiry = Some(Expiry::At(time.instant(now_ms, request.row.name)?));
        }
        Ok(options)
    }
}

/// The option of GETEX.
///
/// # Errors
/// An unknown option, more than one, or a bad time.
pub fn of_getex(request: Request<'_>, now_ms: i64) -> Result<Option<Expiry>, Error> {
    match request.args.get(2) {
        None => Ok(None),
        Some(word) if word.eq_ignore_ascii_case(b"persist") && request.len() == 3 => Ok(Some(Expiry::Clear)),
        Some(_) if request.len() == 4 => {
            let time = Time::of(request, 2)?;
            Ok(Some(Expiry::At(time.instant(now_ms, request.row.name)?)))
        }
        Some(_) => Err(Error::SYNTAX),
    }
}

/// A time option and its argument.
struct Time<'a> {
    unit: Unit,
    is_relative: bool,
    text: &'a [u8],
}

impl<'a> Time<'a> {
    fn of(request: Request<'a>, at: usize) -> Result<Self, Error> {
        let (unit, is_relative) = match request.arg(at).to_ascii_lowercase().as_slice() {
            b"ex" => (Unit::Seconds, true),
            b"px" => (Unit::Milliseconds, true),
            b"exat" => (Unit::Seconds, false),
            b"pxat" => (Unit::Milliseconds, false),
            _ => return Err(Error::SYNTAX),
        };
        let text = request.args.get(at + 1).ok_or(Error::SYNTAX)?;
        Ok(Self { unit, is_relative, text })
    }

    fn instant(&self, now_ms: i64, command: &str) -> Result<i64, Error> {
        self.unit.positive_after(self.text, if self.is_relative { now_ms } else { 0 }, command)
    }
}
