//! The callers that a connection leaves without an answer, and their errors: that they timed out, or that nothing more is
//! sent.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Link, Shared};
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::in_flight::left_ms;
use crate::pipe::ledger::Ledger;
use crate::pipe::slot::Completions;
use crate::pipe::timeout::{Phase, Situation};
use crate::reactor::TaskWaker;
use crate::request::name::Name;
use crate::sys::{clock_ms, exact_clock_ms};

impl Link {
    /// Returns the known state of the connection, for callers that timed out.
    pub(crate) fn situation<'a>(
        &'a self,
        trouble: Option<&'a str>,
        limit: Option<Duration>,
        ledger: Option<&'a Ledger>,
    ) -> Situation<'a> {
        Situation { endpoint: &self.config.endpoint, limit, trouble, ledger }
    }

    /// Fails the commands that timed out, and returns the time until the next timeout; none for as long as no command is
    /// sent.
    pub(crate) fn expire(&self, shared: &mut Shared, done: &mut Completions) -> Option<Duration> {
        let (pipe, trouble, ledger) = shared.parts();
        let due_left = pipe.next_due_ms().and_then(|_| self.expire_due(pipe, trouble, ledger, done));
        let limit_left = self.limit_ms().and_then(|limit_ms| self.expire_old(pipe, trouble, ledger, limit_ms, done));
        if done.has_some()
            && shared.is_lone()
            && let Some(event) = self.caller_event.get()
        {
            // Nothing else wakes a caller that reads its own replies.
            event.raise();
        }
        self.made_room(shared);
        due_left.into_iter().chain(limit_left).min()
    }

    /// Fails timed-out commands as `expire` does, of those with deadlines of their own.
    #[cold]
    fn expire_due(
        &self,
        pipe: &mut Pipe,
        trouble: Option<&str>,
        ledger: &Ledger,
        done: &mut Completions,
    ) -> Option<Duration> {
        let now_ms = exact_clock_ms();
        pipe.expire_due(now_ms, &self.situation(trouble, None, Some(ledger)), done);
        // One more, so that it has passed when the wait ends.
        pipe.next_due_ms().map(|due_ms| Duration::from_millis((left_ms(due_ms, now_ms) + 1).into()))
    }

    /// Fails timed-out commands as `expire` does, of those without deadlines of their own.
    fn expire_old(
        &self,
        pipe: &mut Pipe,
        trouble: Option<&str>,
        ledger: &Ledger,
        limit_ms: u32,
        done: &mut Completions,
    ) -> Option<Duration> {
        let now_ms = clock_ms();
        let limit = Duration::from_millis(limit_ms.into());
        pipe.expire(now_ms.wrapping_sub(limit_ms), &self.situation(trouble, Some(limit), Some(ledger)), done);
        pipe.oldest_ms().map(|issued_ms| {
            // One more, so that the coarse clock has passed the limit when the wait ends; and at least so long that looking is
            // not all that is done.
            let left_ms = limit_ms.saturating_sub(now_ms.wrapping_sub(issued_ms)) + 1;
            Duration::from_millis(left_ms.max(limit_ms / 16).into())
        })
    }

    /// Returns the error for a caller that no longer waits for the answer to a command of this name.
    pub(crate) fn give_up(&self, name: Name) -> Error {
        let shared = self.shared.lock();
        self.situation(shared.trouble(), None, Some(&shared.ledger)).timed_out(name, shared.phase(), Effect::Unknown)
    }

    /// Returns the error of a command of this name with a deadline that has passed before it was sent.
    pub(crate) fn too_late(&self, name: Name) -> Error {
        self.situation(None, None, None).timed_out(name, Phase::Sending, Effect::None)
    }

    /// Wakes the waiters for the end of the first attempt, or of the task.
    pub(crate) fn announce(&self, shared: &mut Shared) {
        self.changed.notify_all();
        shared.watchers.drain(..).for_each(TaskWaker::wake);
    }

    /// Returns whether a lost connection is made again.
    pub(crate) fn is_lasting(&self) -> bool {
        self.lasting.load(Ordering::Relaxed)
    }

    /// Returns the reason why nothing can be sent any more.
    pub(crate) fn ended(&self) -> String {
        match self.panicked.get() {
            Some(why) => why.clone(),
            None if self.is_lasting() => "the client was closed".to_owned(),
            None if self.is_common.load(Ordering::Relaxed) => {
                format!("the connection to {} was lost", self.config.endpoint)
            }
            None => "the leased connection was lost".to_owned(),
        }
    }

    /// Returns the error for a caller that comes too late: its command was never sent. Only the connection to a node of a
    /// cluster can be lost to a client that is open.
    pub(crate) fn came_too_late(&self) -> Error {
        let error = Error::closed(&self.ended());
        match self.is_common.load(Ordering::Relaxed) && self.panicked.get().is_none() {
            true => Error::unsent(ErrorKind::Connect, error.message()),
            false => error,
        }
    }
}
