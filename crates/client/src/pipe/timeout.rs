//! The error for a command whose time is up: which command, at which server, what it waited for, and why that did not come.
//!
//! A command is told by its name and never by its arguments, which may be secrets. Whoever has the lock on the pipe tells them,
//! so many commands that fail for the same reason share one sentence.

use std::fmt;
use std::time::Duration;

use super::Pipe;
use super::in_flight::{Asker, Entry, HELD_BYTES, Time, is_before};
use super::ledger::Ledger;
use super::slot::Completions;
use crate::config::Endpoint;
use crate::error::{Effect, Error, ErrorKind};
use crate::process::planted::{self, Fault};
use crate::request::name::Name;
use crate::sys::clock_us;

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
    /// What has gone over it; none where nothing travels.
    pub(crate) ledger: Option<&'a Ledger>,
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
            (Phase::Sending | Phase::Travelling, Some(refusal)) => {
                return format!("it waited to be sent again, because the server said: {refusal}");
            }
            (Phase::Sending, None) => "it waited to be sent",
            (Phase::Travelling, None) => "it waited to be sent or for its reply",
            (Phase::Answering, _) => "it waited for its reply",
        };
        self.facts(phase).map_or_else(|| what.to_owned(), |facts| format!("{what} ({facts})"))
    }

    /// What is known of the connection that tells where the time went.
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
    /// The time that was not enough.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "the command timeout of {limit:?}"),
            None => f.write_str("the time that its caller gave it"),
        }
    }
}

/// Tells commands in a row that their time is up.
struct Verdict<'a> {
    situation: &'a Situation<'a>,
    /// What was said last, and to whom.
    said: Option<(Name, Phase, Error)>,
    /// How many were told.
    told: u64,
}

impl<'a> Verdict<'a> {
    fn new(situation: &'a Situation<'a>) -> Self {
        Self { situation, said: None, told: 0 }
    }

    /// Tells whoever asked.
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
    /// Whether all has left, and nobody waits for an answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.gathered() == 0 && self.writing.is_empty() && self.in_flight.iter().all(|entry| entry.asker.is_abandoned())
    }

    /// Whether nobody waits for an answer any more, to what has left or to what has not.
    pub(crate) fn is_forgotten(&self) -> bool {
        let unsent = self.backlog.iter().chain([&self.out]).flat_map(|segment| &segment.entries);
        self.in_flight.iter().chain(unsent).all(|entry| entry.asker.is_abandoned())
    }

    /// Whether all has left, and everybody who waited was told something else.
    pub(crate) fn is_expired(&self) -> bool {
        self.gathered() == 0 && self.in_flight.iter().all(|entry| entry.asker.is_over())
    }

    /// Tells the requests without deadlines of their own that were issued before `before_ms` that their time is up. Whether
    /// there were any.
    ///
    /// What has left, or may be leaving, keeps its place, because its reply will still come. What never left is taken out
    /// whole and will not be sent, at no cost but its own: bytes are not moved, however many there are behind it.
    pub(crate) fn expire(&mut self, before_ms: u32, situation: &Situation<'_>, done: &mut Completions) -> bool {
        let mut verdict = Verdict::new(situation);
        let told_before = self.expired;
        // Whoever has a deadline that has not come is older than those behind, who have longer to wait.
        while let Some(entry) = self.in_flight.get_mut(self.expired)
            && (entry.was_told() || entry.was_issued_before(before_ms))
        {
            self.expired += 1;
            verdict.tell(entry, Phase::Answering, done);
        }
        let phase = self.unsent_phase();
        let mut removed = false;
        while let Some(first) = self.first_segment().entries.front()
            && (first.was_told() || first.was_issued_before(before_ms))
            && let Some(mut entry) = self.first_segment().remove_first()
        {
            removed = true;
            let counted = if entry.was_told() { &mut self.dead } else { &mut self.queued };
            *counted -= if planted::has(Fault::KeepsBudget) { 0 } else { entry.length };
            self.queued -= HELD_BYTES;
            verdict.tell(&mut entry, phase, done);
            self.unwatches |= matches!(&entry.asker, Asker::Transaction(transaction) if transaction.has_watched());
        }
        self.timeouts += verdict.told;
        if removed {
            self.reselect();
        }
        removed || self.expired > told_before
    }

    /// Tells the requests whose own deadlines were before `now_ms` that their time is up. Whether there were any. What never left
    /// is taken out before it may leave, or when that is more than half of what is gathered: all of it is moved for that.
    pub(crate) fn expire_due(&mut self, now_ms: u32, situation: &Situation<'_>, done: &mut Completions) -> bool {
        if self.next_due_ms.is_none_or(|due_ms| !is_before(due_ms, now_ms)) {
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
        for entry in self.in_flight.iter_mut().filter(|entry| !entry.was_told()) {
            if is_due(entry) {
                has_told = true;
                verdict.tell(entry, Phase::Answering, done);
            }
        }
        let phase = self.unsent_phase();
        let unsent = self.backlog.iter_mut().chain([&mut self.out]).flat_map(|segment| &mut segment.entries);
        for entry in unsent.filter(|entry| !entry.was_told()) {
            if is_due(entry) {
                has_told = true;
                self.queued -= entry.length;
                self.dead += entry.length;
                verdict.tell(entry, phase, done);
            }
        }
        self.next_due_ms = next_ms;
        self.timeouts += verdict.told;
        if self.dead > self.gathered() / 2 {
            self.gather_again(|_, _| true);
        }
        has_told
    }

    /// What those wait for that have not left.
    fn unsent_phase(&self) -> Phase {
        if self.is_connected() { Phase::Sending } else { Phase::Connecting }
    }

    /// The next deadline that a request has of its own, or an earlier time.
    pub(crate) fn next_due_ms(&self) -> Option<u32> {
        self.next_due_ms
    }

    /// When the oldest request was issued that has not been told that time is up. None where that has a deadline of its own,
    /// which comes first.
    pub(crate) fn oldest_ms(&self) -> Option<u32> {
        let unsent = || self.backlog.iter().chain([&self.out]).find_map(|segment| segment.entries.front());
        let oldest = self.in_flight.get(self.expired).or_else(unsent)?;
        (!oldest.has_deadline).then_some(oldest.at_ms)
    }
}

impl Entry {
    fn was_issued_before(&self, before_ms: u32) -> bool {
        !self.has_deadline && is_before(self.at_ms, before_ms)
    }

    /// Whether it has had a deadline, and was told that it has passed.
    pub(super) fn was_told(&self) -> bool {
        self.has_deadline && matches!(self.asker, Asker::Nobody)
    }
}
