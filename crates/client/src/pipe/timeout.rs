//! The error for a command whose time is up: which command, at which server, what it waited for, and why that did not come.
//!
//! A command is told by its name and never by its arguments, which may be secrets. Pure functions; whoever has the lock on
//! the pipe calls them, so many commands that fail for the same reason share one sentence.

use std::fmt;
use std::time::Duration;

use super::in_flight::Asker;
use super::slot::Completions;
use crate::config::Endpoint;
use crate::error::{Effect, Error, ErrorKind};
use crate::request::name::Name;

/// What a command waited for when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A connection.
    Connecting,
    /// Its turn to be sent.
    Sending,
    /// Its turn to be sent or its answer: there are commands in both places.
    Travelling,
    /// Its answer.
    Answering,
}

/// What is known of a connection when time is up.
pub(crate) struct Situation<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// How long a command may take; none where its caller has said how long he waits.
    pub(crate) limit: Option<Duration>,
    /// Why there is no connection, as far as an attempt has told.
    pub(crate) trouble: Option<&'a str>,
}

impl Situation<'_> {
    /// What is said to whoever asked for the command of this name, and what became of it.
    #[cold]
    pub(crate) fn timed_out(&self, name: Name, phase: Phase, effect: Effect) -> Error {
        let outcome = match effect {
            Effect::None => "it was never sent",
            _ => "its effect is unknown",
        };
        let message =
            format!("{name} was not answered by {} within {self}: {}; {outcome}", self.endpoint, self.wait(phase));
        Error::new(ErrorKind::Timeout, effect, message)
    }

    /// What is said to a caller for whose request the queue had no room.
    #[cold]
    pub(crate) fn no_room(&self, name: Name, phase: Phase) -> Error {
        let message = format!(
            "{name} was never sent to {}: the queue of unanswered requests was full for all of {self}, and the oldest {}",
            self.endpoint,
            self.wait(phase).trim_start_matches("it ")
        );
        Error::unsent(ErrorKind::Timeout, message)
    }

    fn wait(&self, phase: Phase) -> String {
        let what = match (phase, self.trouble) {
            (Phase::Connecting, None) => "it waited for a connection, which was still being made",
            (Phase::Connecting, Some(trouble)) => {
                return format!("it waited for a connection: {trouble}");
            }
            (Phase::Sending, _) => "it waited to be sent",
            (Phase::Travelling, _) => "it waited to be sent or for its reply",
            (Phase::Answering, _) => "it waited for its reply",
        };
        what.to_owned()
    }
}

impl fmt::Display for Situation<'_> {
    /// The time that was not enough.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "the command timeout of {limit:?}"),
            None => f.write_str("the time that its caller gave it"),
        }
    }
}

/// Tells commands in a row that their time is up.
pub(crate) struct Verdict<'a> {
    situation: &'a Situation<'a>,
    /// What was said last, and to whom.
    said: Option<(Name, Phase, Error)>,
}

impl<'a> Verdict<'a> {
    pub(crate) fn new(situation: &'a Situation<'a>) -> Self {
        Self { situation, said: None }
    }

    /// Tells whoever asked.
    pub(crate) fn tell(&mut self, asker: &mut Asker, phase: Phase, done: &mut Completions) {
        let Some(name) = asker.name() else { return };
        let error = match &self.said {
            Some((before, when, error)) if (*before, *when) == (name, phase) => error.clone(),
            _ => {
                let effect = if phase == Phase::Answering { Effect::Unknown } else { Effect::None };
                self.situation.timed_out(name, phase, effect)
            }
        };
        asker.fail(&error, done);
        self.said = Some((name, phase, error));
    }
}

/// Whether one time of a wrapping clock of milliseconds is before another.
pub(crate) fn is_before(time_ms: u32, other_ms: u32) -> bool {
    (time_ms.wrapping_sub(other_ms) as i32) < 0
}
