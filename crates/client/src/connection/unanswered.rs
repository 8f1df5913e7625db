//! Whom a connection leaves without an answer, and what they are told: that time is up, or that nothing more is sent.

use std::time::Duration;

use super::{Link, Shared, Wire};
use crate::error::{Effect, Error};
use crate::pipe::Pipe;
use crate::pipe::slot::Completions;
use crate::pipe::timeout::{Phase, Situation};
use crate::request::name::Name;

impl Link {
    /// What is known now, for whom time is up.
    pub(crate) fn situation<'a>(&'a self, trouble: Option<&'a str>, limit: Option<Duration>) -> Situation<'a> {
        Situation { endpoint: &self.config.endpoint, limit, trouble }
    }

    /// Tells the commands that were issued too long before `now_ms` that their time is up.
    pub(crate) fn expire(&self, shared: &mut Shared, limit_ms: u32, now_ms: u32, done: &mut Completions) {
        let limit = Duration::from_millis(limit_ms.into());
        let (pipe, trouble) = shared.pipe_and_trouble();
        let situation = self.situation(trouble, Some(limit));
        if pipe.expire(now_ms.wrapping_sub(limit_ms), &situation, done)
            && shared.is_lone()
            && let Some(bell) = self.lone_bell.get()
        {
            // Nobody else wakes a caller that reads for itself.
            bell.raise();
        }
    }

    /// What is said to a caller who waits no longer for the answer to a command of this name.
    pub(crate) fn give_up(&self, name: Name) -> Error {
        let shared = self.shared.lock();
        self.situation(shared.trouble(), None).timed_out(name, shared.phase(), Effect::Unknown)
    }

    /// Why nothing can be sent any more.
    pub(crate) fn ended(&self) -> String {
        match self.collapsed.get() {
            Some(why) => why.clone(),
            None if self.is_lasting() => "the client was closed".to_owned(),
            None => "the leased connection was lost".to_owned(),
        }
    }
}

impl Wire {
    fn trouble(&self) -> Option<&str> {
        match self {
            Self::Down(why) => why.as_deref(),
            Self::Up { .. } => None,
        }
    }
}

impl Shared {
    /// What commands wait for that are neither answered nor failed, as far as that is the same for all.
    pub(crate) fn phase(&self) -> Phase {
        match self.pipe.gathered() {
            _ if !self.pipe.is_connected() => Phase::Connecting,
            0 => Phase::Answering,
            _ => Phase::Travelling,
        }
    }

    /// Why there is no connection, as far as an attempt has told.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.wire.trouble()
    }

    /// What is to be written and answered, and why there is no connection.
    pub(crate) fn pipe_and_trouble(&mut self) -> (&mut Pipe, Option<&str>) {
        (&mut self.pipe, self.wire.trouble())
    }
}
