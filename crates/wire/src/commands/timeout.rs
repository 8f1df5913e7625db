//! The timeout of a command that may wait: the argument that states it, and its unit.
//!
//! The caller interprets the value: a server refuses an invalid one, and a client has to expect any wait that a server may
//! derive from it. Constants and pure functions only; any thread.

use std::time::Duration;

/// The argument of a command that says how long it may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The place of the timeout.
    pub place: Place,
    /// The unit of the number.
    pub unit: Unit,
}

/// The place of a timeout among the arguments, the command's name being number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The argument with this number.
    At(usize),
    /// The last argument.
    Last,
    /// The argument behind this word. The word is an option that stands before the streams; without it the command does not
    /// wait.
    Behind(&'static str),
}

/// The unit of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, whole or not.
    Seconds,
    /// Whole milliseconds.
    Milliseconds,
}

impl Unit {
    /// Returns the duration of one unit.
    pub const fn duration(self) -> Duration {
        match self {
            Self::Seconds => Duration::from_secs(1),
            Self::Milliseconds => Duration::from_millis(1),
        }
    }
}

impl Timeout {
    /// Returns the number of the argument with the timeout, for a request of `count` arguments; `None` if the request asks
    /// for no wait.
    ///
    /// If arguments are missing, it is a number beyond the arguments.
    pub fn position<'a>(self, count: usize, argument: impl Fn(usize) -> &'a [u8]) -> Option<usize> {
        match self.place {
            Place::At(index) => Some(index),
            Place::Last => Some(count.saturating_sub(1)),
            Place::Behind(word) => behind(word.as_bytes(), count, argument),
        }
    }
}

fn behind<'a>(wanted: &[u8], count: usize, argument: impl Fn(usize) -> &'a [u8]) -> Option<usize> {
    let mut at = 1;
    while at < count {
        let word = argument(at);
        if word.eq_ignore_ascii_case(wanted) {
            return Some(at + 1);
        }
        if word.eq_ignore_ascii_case(b"STREAMS") {
            return None;
        }
        // A group or a consumer may have any name, even that of an option.
        at += if word.eq_ignore_ascii_case(b"GROUP") { 3 } else { 1 };
    }
    None
}
