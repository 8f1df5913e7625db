//! Requests that the server turned away for the moment, and that go again.
//!
//! A server that loads its data, runs a script for long or has lost its primary answers every command with an error and
//! executes none. Nothing has been executed and nothing is wrong with the command, so it is sent again, whether it reads or
//! writes, after a pause that grows with every round, for as long as its caller gives it time. Its bytes are those that are
//! kept for reads (`resend`); if they are gone, and in a transaction, the error is the caller's.
//!
//! Order: the requests that were turned away are first in line, in their old order. After the pause the oldest of them leaves
//! alone, as a probe, and nothing behind it leaves before it is answered, so nothing overtakes it. Only the requests that had
//! left behind it before it was turned away are answered as their replies arrive, and may be executed before. A command that
//! ends a script that holds the server leaves at once: the requests that it overtakes cannot be executed before.
//!
//! A SELECT that the pipe has put ahead of a request may be turned away like any other. The connection is then in another
//! database than the pipe intended, and is told again before anything else leaves. A command that is executed there in
//! between ends the connection (`reply_reader`). It takes bytes and gives bytes: no socket, no clock (times are arguments),
//! no thread.

pub(crate) mod hold;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;

use super::Pipe;
use super::in_flight::{Asker, Entry, Time, is_before, left_ms};
use super::segment::{Precedence, Segment, select_length, write_select};
use super::slot::Completions;
use crate::error::Error;
use crate::request::name::Name;
use hold::{Hold, ends_script, may_end_script};

/// The longest tick of the coarse clock, on which it is said when a command was issued.
const TICK_MS: u32 = 10;

/// The pause between two checks whether all requests that had left are answered.
const LOOK_MS: u32 = 5;

/// The requests that the server has turned away.
impl Pipe {
    /// Takes those out of `taken`, which have their replies, that the server has turned away for the moment: `refusals` are
    /// the numbers of such replies among theirs, in order. They go again after a pause, if the connection `retries`. If any
    /// command may take `limit_ms`, they keep the time that they have left. Returns whether anything is held back because of
    /// it.
    #[cold]
    pub(crate) fn put_off(
        &mut self,
        taken: &mut VecDeque<Entry>,
        refusals: impl IntoIterator<Item = usize>,
        now_ms: u32,
        limit_ms: Option<u32>,
        retries: bool,
    ) -> bool {
        let mut refusals = refusals.into_iter().peekable();
        let length: u64 = taken.iter().map(|entry| entry.length as u64).sum();
        let (mut position, mut replies, mut is_probe) = (self.answered - length, 0, false);
        for entry in taken {
            let (from, first) = (position, replies);
            position += entry.length as u64;
            replies += entry.replies as usize;
            let mut is_refused = false;
            while let Some(refusal) = refusals.next_if(|refusal| *refusal < replies) {
                self.is_elsewhere |= entry.selects && refusal == first;
                is_refused = refusal + 1 == replies;
            }
            // The reply to a SELECT alone takes no bytes of those of its request.
            is_probe |= is_refused && from < position && position == self.probe_end;
            if is_refused && retries && may_go_again(entry) {
                self.put_off_one(entry, from, limit_ms);
            }
        }
        if retries && (self.is_elsewhere || self.backlog.iter().any(|segment| segment.precedence == Precedence::Retry))
        {
            self.begin_pause(now_ms, is_probe);
        }
        self.hold.is_refusing()
    }

    /// Takes one out, if its bytes are still there: those that were turned away before it stay ahead of it.
    fn put_off_one(&mut self, entry: &mut Entry, from: u64, limit_ms: Option<u32>) {
        let Some(request) = self.request_at(entry, from).map(<[u8]>::to_vec) else { return };
        let asker = mem::replace(&mut entry.asker, Asker::Nobody);
        let time = match (entry.time(), limit_ms) {
            // It is older than the requests that it will be among; of those only the first are watched.
            (Time::Issued(at_ms), Some(limit_ms)) => Time::Due(at_ms.wrapping_add(limit_ms + TICK_MS)),
            (time, _) => time,
        };
        if let Time::Due(due_ms) = time {
            self.next_due_ms = self.next_due_ms.filter(|next_ms| is_before(*next_ms, due_ms)).or(Some(due_ms));
        }
        let mut again = Entry::new(asker, 1, false, entry.database, request.len(), time);
        self.queued += again.held();
        again.had_left = entry.had_left;
        // The probe is the oldest of all.
        let is_probe = from + entry.length as u64 == self.probe_end;
        let (urgent, retries) = self.ahead();
        match self.backlog.get_mut((urgent + retries).wrapping_sub(1)) {
            Some(segment) if retries > 0 && !is_probe => {
                segment.bytes.extend_from_slice(&request);
                segment.entries.push_back(again);
            }
            _ => {
                let segment = Segment { precedence: Precedence::Retry, ..Segment::of_one(again, request) };
                self.backlog.insert(urgent, segment);
            }
        }
    }

    /// Returns how many segments at the front are urgent, and how many behind them are to be tried again.
    pub(super) fn ahead(&mut self) -> (usize, usize) {
        self.first_segment();
        let count = |precedence, skipped| {
            self.backlog.iter().skip(skipped).take_while(|segment| segment.precedence == precedence).count()
        };
        let urgent = count(Precedence::Urgent, 0);
        (urgent, count(Precedence::Retry, urgent))
    }

    /// Begins a pause, because the server has turned a request away. A transaction that looks at its keys holds all back as
    /// it is, and knows when that ends; and so does a probe that is out.
    fn begin_pause(&mut self, now_ms: u32, is_probe: bool) {
        if self.hold.is_on() {
            return;
        }
        // While a probe is in flight, a command that ends a script goes ahead when it is gathered.
        if !is_probe {
            self.advance_urgent();
        }
        self.hold = Hold::Pause;
        self.pause.begin(now_ms);
    }

    /// Returns whether the bytes of the requests that the next `replies` replies answer are here, and not lent to a writer.
    #[cold]
    pub(crate) fn has_bytes_of(&self, replies: usize) -> bool {
        let (mut position, mut rest) = (self.answered, replies);
        for entry in &self.in_flight {
            let Some(after) = rest.checked_sub(entry.replies as usize) else { break };
            rest = after;
            position += entry.length as u64;
        }
        !self.is_lent() || position <= self.replay_buffer.end()
    }

    /// Refuses the gathered requests for databases that the server turns out not to have. Only before they may leave.
    pub(crate) fn refuse_databases(&mut self, databases: u32, error: &Error, done: &mut Completions) {
        let segments = self.backlog.iter().chain([&self.out]);
        if segments.flat_map(|segment| &segment.entries).all(|entry| entry.database < databases) {
            return;
        }
        self.gather_again(|entry, _| {
            let is_refused = entry.database >= databases;
            if is_refused {
                entry.fail(error, done);
            }
            !is_refused
        });
    }

    /// Returns how long nothing leaves yet, because the server has turned something away: also until all is answered that had
    /// left, of which more may have been turned away.
    pub(crate) fn pause_left_ms(&self, now_ms: u32) -> Option<u32> {
        let left_ms = left_ms(self.pause.until_ms?, now_ms);
        Some(if self.in_flight.is_empty() { left_ms } else { left_ms.max(LOOK_MS) })
    }

    /// Returns whether nothing leaves for a while.
    #[inline]
    pub(crate) fn is_pausing(&self) -> bool {
        self.pause.until_ms.is_some()
    }

    /// Returns whether the server turns requests away, as far as is known, so that some are held back.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.hold.is_refusing()
    }

    /// Returns whether a request has left alone and is not answered yet.
    #[inline]
    pub(crate) fn is_probing(&self) -> bool {
        matches!(self.hold, Hold::Probing { .. })
    }

    /// Ends the pause.
    pub(crate) fn end_pause(&mut self) {
        if self.pause.until_ms.take().is_some() {
            self.hold = Hold::ProbeNext;
        }
    }
}

/// The choice of the request that leaves next.
impl Pipe {
    /// Sends the second phase of a transaction next, and the requests that were held back after it.
    pub(crate) fn resume(&mut self, asker: Asker, frames: u32, database: u32, request: Vec<u8>, time: Time) {
        let length = request.len();
        let entry = Entry::new(asker, frames, false, database, length, time);
        self.queued += entry.held();
        let is_refused = self.is_elsewhere || self.first_segment().precedence == Precedence::Retry;
        self.hold = Hold::Nothing;
        if is_refused {
            self.probe_next();
        }
        self.backlog.push_front(Segment { precedence: Precedence::Urgent, ..Segment::of_one(entry, request) });
    }

    /// Gathers a request that leaves before all others, in whichever database that is.
    #[cold]
    pub(super) fn gather_urgent(&mut self, asker: Asker, request: &[u8], time: Time) {
        let entry = Entry::new(asker, 1, false, self.wire_database, request.len(), time);
        self.queued += entry.held();
        let segment = Segment { precedence: Precedence::Urgent, ..Segment::of_one(entry, request.to_vec()) };
        let (urgent, _) = self.ahead();
        self.backlog.insert(urgent, segment);
    }

    /// Sends one request alone next: there is no pause, but the server may still turn requests away.
    pub(super) fn probe_next(&mut self) {
        self.advance_urgent();
        self.hold = Hold::ProbeNext;
    }

    /// Moves the commands that end a script that holds the server ahead of the gathered requests.
    fn advance_urgent(&mut self) {
        let segments = self.backlog.iter().chain([&self.out]);
        if !segments.flat_map(|segment| &segment.entries).any(|entry| may_end_script(&entry.asker)) {
            return;
        }
        let mut urgent = Vec::new();
        self.gather_again(|entry, request| {
            let is_urgent = ends_script(&entry.asker, request);
            if is_urgent {
                urgent.push((mem::replace(&mut entry.asker, Asker::Nobody), request.to_vec(), entry.time()));
            }
            !is_urgent
        });
        urgent.into_iter().for_each(|(asker, request, time)| self.gather_urgent(asker, &request, time));
    }

    /// Puts the request that leaves next first in line, if the server turns requests away or has just done so. Nothing is
    /// urgent.
    #[cold]
    pub(super) fn choose_next(&mut self) {
        if self.hold == Hold::ProbeNext {
            return self.begin_probe();
        }
        if self.hold == Hold::Recovered {
            self.hold = Hold::Nothing;
            self.release();
        }
        if mem::take(&mut self.is_elsewhere) {
            self.select_first(self.wire_database);
        }
    }

    /// Sends the oldest request that was turned away alone; before it the SELECT of its database, alone too, if it needs one.
    fn begin_probe(&mut self) {
        let wire_database = self.wire_database;
        let is_elsewhere = mem::take(&mut self.is_elsewhere);
        let first = self.first_segment();
        let retried =
            first.entries.front().filter(|_| first.precedence == Precedence::Retry).map(|entry| entry.database);
        let database = retried.unwrap_or(wire_database);
        let selects = is_elsewhere || database != wire_database;
        if selects {
            self.select_first(database);
        } else if retried.is_some() {
            self.detach_probe();
        } else {
            self.hold = Hold::Nothing;
            return;
        }
        self.hold = Hold::Probing { selects };
        let unanswered: usize = self.in_flight.iter().map(|entry| entry.length).sum();
        self.probe_end = self.answered + (unanswered + self.first_segment().length()) as u64;
    }

    /// Queues SELECT for a database ahead of everything else.
    fn select_first(&mut self, database: u32) {
        let time = self.first_segment().entries.front().map_or(Time::Issued(0), Entry::time);
        let mut bytes = Vec::new();
        write_select(&mut bytes, database);
        let entry = Entry::new(Asker::Nobody, 1, true, database, bytes.len(), time);
        self.queued += entry.held();
        self.backlog.push_front(Segment::of_one(entry, bytes));
    }

    /// Parts the first request from those behind it. The connection is in its database.
    fn detach_probe(&mut self) {
        let Some(mut alone) = self.first_segment().detach_first() else { return };
        if let Some(entry) = alone.entries.front_mut()
            && mem::take(&mut entry.selects)
        {
            let length = select_length(entry.database);
            (alone.start, entry.length, entry.replies) = (length, entry.length - length, entry.replies - 1);
            self.queued -= length;
        }
        self.first_segment();
        self.backlog.push_front(alone);
    }

    /// Releases the requests after the server has recovered: those that were turned away leave together, each in its
    /// database, and then those behind them.
    fn release(&mut self) {
        let (mut released, mut selected) = (Segment::default(), self.wire_database);
        while self.first_segment().precedence == Precedence::Retry
            && let Some(segment) = self.backlog.pop_front()
        {
            self.queued -= segment.held();
            segment.for_each(|entry, request| {
                let (frames, time) = (entry.frames(), entry.time());
                self.queued += released.push(entry.asker, frames, (entry.database, &mut selected), request, time);
            });
        }
        let wire_database = mem::replace(&mut self.wire_database, selected);
        self.reselect();
        self.wire_database = wire_database;
        if !released.entries.is_empty() {
            self.backlog.push_front(released);
        }
    }
}

/// Returns whether one caller waits for one reply to a command that cannot produce such an error itself, as a script may. A
/// command that ends a script is of no use later.
fn may_go_again(entry: &Entry) -> bool {
    let is_plain = |name: Name| name.row().is_some_and(|row| !row.runs_script());
    matches!(&entry.asker, Asker::Slot(target) if is_plain(target.name())) && !may_end_script(&entry.asker)
}
