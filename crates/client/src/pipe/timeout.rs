//! The error of a command that timed out: the command, its server, the phase in which it waited, and the reason for the
//! delay.
//!
//! A command is identified by its name and never by its arguments, which may be secrets. The owner of the pipe's lock gives
//! the errors to the callers, so many commands that fail for the same reason share one error.

use std::fmt;
use std::time::Duration;

use super::Pipe;
use super::asker::{Asker, Time, is_before};
use super::ledger::Ledger;
use super::queue::{Entry, HELD_BYTES};
use super::slot::Completions;
use crate::config::Endpoint;
use crate::error::{Effect, Error, ErrorKind};
use crate::resp::request::name::Name;
use crate::sys::clock_us;
use crate::sys::planted::{self, Fault};

/// The phase of a command when it timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The command waited for a connection.
    Connecting,
    /// The command waited to be sent.
    Sending,
    /// The command waited to be sent or for its answer: there are commands in both phases.
    Travelling,
    /// The command waited for its answer.
    Answering,
}

/// The known state of a connection at a timeout.
pub(crate) struct Situation<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// The time that a command may take; none if its caller has set a deadline.
    pub(crate) limit: Option<Duration>,
    /// The reason why there is no connection, as far as an attempt has reported one.
    pub(crate) trouble: Option<&'a str>,
    /// The connection's traffic; none if it has no traffic.
    pub(crate) ledger: Option<&'a Ledger>,
}

impl Situation<'_> {
    /// Returns the error for the asker of the command of this name, with the effect of the command.
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

    /// Returns the error for a caller with a request that found no room in the queue.
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
            (Phase::Sending | Phase::Travelling, Some(refusal)) => {
                return format!("it waited to be sent again, because the server said: {refusal}");
            }
            (Phase::Sending, None) => "it waited to be sent",
            (Phase::Travelling, None) => "it waited to be sent or for its reply",
            (Phase::Answering, _) => "it waited for its reply",
        };
        self.facts(phase).map_or_else(|| what.to_owned(), |facts| format!("{what} ({facts})"))
    }

    /// Describes the state of the connection that explains the time spent.
    fn facts(&self, phase: Phase) -> Option<String> {
        let (ledger, now_us) = (self.ledger?, clock_us());
        let full = ledger.fullness(now_us);
        match phase {
            Phase::Answering => ledger.since_oldest(now_us),
            _ => full.or_else(|| ledger.since_oldest(now_us)),
        }
    }
}

impl fmt::Display for Situation<'_> {
    /// Writes the time that has passed, and the name of its setting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "the command timeout of {limit:?} (Config::command_timeout)"),
            None => f.write_str("the time that its caller gave it"),
        }
    }
}

/// The state of a round that fails commands which timed out.
struct Verdict<'a> {
    situation: &'a Situation<'a>,
    /// The error that was given last, with its command and phase.
    said: Option<(Name, Phase, Error)>,
    /// The number of commands that timed out in this round.
    told: u64,
}

impl<'a> Verdict<'a> {
    fn new(situation: &'a Situation<'a>) -> Self {
        Self { situation, said: None, told: 0 }
    }

    /// Gives the error to the asker.
    fn tell(&mut self, entry: &mut Entry, phase: Phase, done: &mut Completions) {
        let Some(name) = entry.asker.name() else { return };
        let has_left = phase == Phase::Answering || entry.had_left;
        let effect = if has_left { Effect::Unknown } else { Effect::None };
        let error = match &self.said {
            Some((before, when, error)) if (*before, *when, error.effect()) == (name, phase, effect) => error.clone(),
            _ => self.situation.timed_out(name, phase, effect),
        };
        entry.fail(&error, done);
        self.said = Some((name, phase, error));
        self.told += 1;
    }
}

impl Pipe {
    /// Returns whether all requests have left, and no caller waits for an answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.queue.gathered() == 0
            && self.writer.bytes.is_empty()
            && self.in_flight.iter().all(|entry| entry.asker.is_abandoned())
    }

    /// Returns whether no caller waits for an answer any more, to a request that has left or to one that has not.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.in_flight.iter().chain(self.queue.entries()).all(|entry| entry.asker.is_abandoned())
    }

    /// Returns whether all requests have left, and every waiting caller was given another answer.
    pub(crate) fn is_expired(&self) -> bool {
        self.queue.gathered() == 0 && self.in_flight.iter().all(|entry| entry.asker.is_over())
    }

    /// Fails the requests without deadlines of their own that were issued before `before_ms`, because they timed out. Returns
    /// whether there were any.
    ///
    /// A request that has left, or may be leaving, keeps its place, because its reply will still arrive. A request that never
    /// left is removed and will not be sent. That costs only the work for this request: no bytes are moved, however many
    /// there are behind it.
    pub(crate) fn expire(&mut self, before_ms: u32, situation: &Situation<'_>, done: &mut Completions) -> bool {
        let mut verdict = Verdict::new(situation);
        let told_before = self.expired;
        // A request with a deadline in the future is older than those behind it, which may wait longer.
        while let Some(entry) = self.in_flight.get_mut(self.expired)
            && (entry.has_timed_out() || entry.was_issued_before(before_ms))
        {
            self.expired += 1;
            verdict.tell(entry, Phase::Answering, done);
        }
        let phase = self.unsent_phase();
        let mut removed = false;
        while let Some(first) = self.queue.first_segment().entries.front()
            && (first.has_timed_out() || first.was_issued_before(before_ms))
            && let Some(mut entry) = self.queue.first_segment().remove_first()
        {
            removed = true;
            let counted = if entry.has_timed_out() { &mut self.queue.dead } else { &mut self.queue.held };
            *counted -= if planted::has(Fault::KeepsBudget) { 0 } else { entry.length };
            self.queue.held -= HELD_BYTES;
            verdict.tell(&mut entry, phase, done);
            self.queue.unwatches |=
                matches!(&entry.asker, Asker::Transaction(transaction) if transaction.has_watched());
        }
        self.timeouts += verdict.told;
        if removed {
            self.queue.reselect();
        }
        removed || self.expired > told_before
    }

    /// Fails the requests with deadlines of their own before `now_ms`, because they timed out. Returns whether there were
    /// any. A request that never left is removed before it may leave, or when such requests are more than half of those that
    /// are gathered: all gathered bytes are moved for that.
    pub(crate) fn expire_due(&mut self, now_ms: u32, situation: &Situation<'_>, done: &mut Completions) -> bool {
        if self.queue.next_due_ms.is_none_or(|due_ms| !is_before(due_ms, now_ms)) {
            return false;
        }
        let (mut verdict, mut next_ms, mut has_told) = (Verdict::new(situation), None, false);
        let mut is_due = |entry: &Entry| match entry.time() {
            Time::Due(due_ms) if is_before(due_ms, now_ms) => true,
            Time::Due(due_ms) => {
                next_ms = next_ms.filter(|next_ms| is_before(*next_ms, due_ms)).or(Some(due_ms));
                false
            }
            Time::Issued(_) => false,
        };
        for entry in self.in_flight.iter_mut().filter(|entry| !entry.has_timed_out()) {
            if is_due(entry) {
                has_told = true;
                verdict.tell(entry, Phase::Answering, done);
            }
        }
        let phase = self.unsent_phase();
        let mut dead = 0;
        for entry in self.queue.entries_mut().filter(|entry| !entry.has_timed_out()) {
            if is_due(entry) {
                has_told = true;
                dead += entry.length;
                verdict.tell(entry, phase, done);
            }
        }
        self.queue.held -= dead;
        self.queue.dead += dead;
        self.queue.next_due_ms = next_ms;
        self.timeouts += verdict.told;
        if self.queue.dead > self.queue.gathered() / 2 {
            self.queue.gather_again(|_, _| true);
        }
        has_told
    }

    /// Returns the phase of the requests that have not left.
    fn unsent_phase(&self) -> Phase {
        if self.is_connected() { Phase::Sending } else { Phase::Connecting }
    }

    /// Returns the time at which the oldest request was issued that has not timed out; none if that request has a deadline of
    /// its own, which comes first.
    pub(crate) fn oldest_ms(&self) -> Option<u32> {
        let oldest = self.in_flight.get(self.expired).or_else(|| self.queue.entries().next())?;
        (!oldest.has_deadline).then_some(oldest.at_ms)
    }
}
