//! Requests that are sent again: after their connection was lost, or because the server has refused them for the moment.
//!
//! **A lost connection.** The number of bytes that had left is compared with the bytes of each request. A request that had
//! left whole is lost, and it is unknown whether it was executed. If it only reads, or may be executed twice, and its bytes
//! are still there (`replay`), it goes first on the next connection instead. A request that had not left whole is kept. The
//! next connection is in another database and watches nothing. A request that has timed out is not sent again. A failing
//! server must not get twice the load, so every byte that is sent again is paid for out of a retry budget, into which a share
//! of the answered bytes goes. If a connection has answered nothing at all, its oldest request is not sent a third time: it
//! may be the request that breaks the connections.
//!
//! **A refusal.** A server that loads its data, runs a script for long or has lost its primary answers every command with an
//! error and executes none. So the command is sent again, whether it reads or writes, after a pause that grows with every
//! round, for as long as its caller gives it time, and without a payment. If its bytes are gone, and in a transaction, the
//! error is the caller's.
//!
//! Order: the requests that were refused are first in line, in their old order. After the pause the oldest of them leaves
//! alone, as a probe, and no request behind it leaves before it is answered, so none overtakes it. Only the requests that had
//! left behind it before it was refused are answered as their replies arrive, and may be executed before it. A command that
//! ends a script that holds up the server leaves at once: the requests that it overtakes cannot be executed before it.
//!
//! A SELECT that the pipe has put ahead of a request may be refused like any other command. The connection is then in another
//! database than the pipe intended, and a SELECT goes again before any other request leaves. A command that is executed there
//! in between ends the connection (`reply_reader`).

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;

use sleeve_wire::commands::{Flags, OwnConnection};

use super::asker::{Asker, Time, left_ms};
use super::hold::{Hold, may_end_script};
use super::queue::{Entry, Precedence, Segment};
use super::slot::FIRST_CONNECTION;
use super::{Pipe, WriteState, Writer};
use crate::config::Resend;
use crate::resp::request::name::Name;
use crate::resp::request::words::Places;
use crate::sys::planted::{self, Fault};

impl Pipe {
    /// Handles the loss of the connection. `taken` are the entries with replies that the reader was handing out.
    ///
    /// Returns the entries with requests that had left whole and are not sent again; `resend` decides which are. The other
    /// requests stay, to go out first on the next connection, in the order in which they were gathered. So those that were
    /// refused are ahead of all that left after them, except a probe.
    pub(crate) fn cut(&mut self, taken: VecDeque<Entry>, resend: Resend) -> Vec<Entry> {
        let mut lost: Vec<Entry> = taken.into_iter().collect();
        let (answered, mut again) = (self.answered, Segment::default());
        let mut position = answered;
        while let Some(entry) = self.in_flight.pop_front() {
            if position + entry.length as u64 > self.writer.sent {
                self.in_flight.push_front(entry);
                break;
            }
            self.queue.held -= entry.held();
            let length = entry.length as u64;
            lost.extend(self.send_again(entry, position, resend, &mut again));
            position += length;
        }
        if let Hold::Probing { .. } = self.refusals.hold {
            again.precedence = Precedence::Retry;
        }
        let kept = [self.take_unsent(position), self.take_transaction(&mut lost)];
        let has_told = kept.iter().flatten().flat_map(|segment| &segment.entries).any(|entry| entry.asker.is_over());
        let (urgent, retries) = self.queue.ahead();
        let (count, is_alone) = (again.entries.len(), urgent + retries == 0);
        let is_first = is_alone || (again.precedence == Precedence::Retry && urgent == 0);
        self.queue.held += again.held();
        for segment in kept.into_iter().flatten().chain((count > 0).then_some(again)) {
            let place = match segment.precedence {
                Precedence::Urgent => 0,
                Precedence::Retry => urgent,
                Precedence::Normal => urgent + retries,
            };
            self.queue.backlog.insert(place, segment);
        }
        self.start_anew(answered);
        let has_login = self.queue.entries().any(logs_in);
        if count > 0 || has_told || has_login || !is_alone {
            // Each request gets a SELECT if it needs one, because the next connection begins in its own database. That
            // connection also logs in by itself, so gathered logins are dropped.
            self.queue.gather_again(|entry, _| !entry.asker.is_over() && !logs_in(entry));
        } else {
            self.queue.reselect();
        }
        if is_first {
            self.budget.retried_until = self.queue.entries().take(count).map(|entry| entry.length as u64).sum();
        }
        self.refusals.hold = Hold::Nothing;
        if self.queue.ahead().1 > 0 {
            self.probe_next();
        }
        lost
    }

    /// Notes that the reply to the oldest request cannot be taken, so the connection ends: the request is then the first of
    /// those that [`Pipe::cut`] returns, and is not sent again.
    pub(crate) fn blame_oldest(&mut self) {
        self.budget.blames_oldest = true;
    }

    /// Returns whether the reply to the oldest request in flight cannot be taken.
    pub(crate) fn blames_oldest(&self) -> bool {
        self.budget.blames_oldest
    }

    /// Begins the next connection, with nothing in flight. `answered` is the number of bytes that were answered on the last.
    fn start_anew(&mut self, answered: u64) {
        self.write_state = WriteState::Closed;
        (self.answered, self.expired) = (0, 0);
        self.queue.start_anew();
        self.refusals.start_anew();
        self.budget.start_anew(answered);
        self.writer = Writer::default();
        // A number is used again only after four thousand million connections.
        self.connection = self.connection.wrapping_add(1).max(FIRST_CONNECTION);
        self.source.renew_for(self.connection);
    }

    /// Takes the requests in flight that did not leave whole. `position` is the end of the last request that left whole,
    /// among the bytes of the connection.
    fn take_unsent(&mut self, position: u64) -> Option<Segment> {
        let bytes = mem::take(&mut self.writer.bytes);
        let written = mem::take(&mut self.writer.written) as u64;
        let entries = mem::take(&mut self.in_flight);
        if entries.is_empty() {
            return None;
        }
        // The last bytes that have left are those before `written`.
        let start = usize::try_from(position + written - self.writer.sent).unwrap_or(usize::MAX);
        let (holds, precedence) = (self.refusals.hold == Hold::Transaction, self.writer.precedence);
        let mut segment = Segment { bytes, start, entries, holds, precedence };
        self.restart_transaction(&mut segment);
        Some(segment)
    }

    /// Takes a transaction with conditions that has begun, and has not been executed because no part of its second phase had
    /// left: it begins again, ahead of the requests that it held back.
    fn take_transaction(&mut self, lost: &mut Vec<Entry>) -> Option<Segment> {
        let is_transaction = |entry: &Entry| matches!(entry.asker, Asker::Transaction(_));
        let mut segment = if let Some(Entry { asker: Asker::Transaction(transaction), .. }) = lost.last()
            && transaction.holds()
            && !transaction.is_over()
        {
            let entry = lost.pop()?;
            self.queue.held += entry.held();
            Segment::of_one(entry, Vec::new())
        } else {
            let first = self.queue.backlog.front().filter(|first| first.precedence == Precedence::Urgent)?;
            first.entries.front().filter(|entry| is_transaction(entry))?;
            self.queue.backlog.pop_front()?
        };
        self.restart_transaction(&mut segment);
        Some(segment)
    }

    /// Makes a transaction with conditions watch again: the old connection's WATCH is gone.
    fn restart_transaction(&mut self, segment: &mut Segment) {
        let Some(entry) = segment.entries.front_mut() else { return };
        let Asker::Transaction(transaction) = &mut entry.asker else { return };
        if let Some(request) = transaction.restart() {
            self.queue.held = self.queue.held + request.len() - entry.length;
            (entry.replies, entry.length, entry.selects) = (transaction.frames(), request.len(), false);
            (segment.bytes, segment.start, segment.holds) = (request, 0, true);
            segment.precedence = Precedence::Normal;
        }
    }
}

/// The requests that had left on a lost connection.
impl Pipe {
    /// Moves a request that had left to `again`, from which it is sent again, or gives it back. It begins at `position` among
    /// the bytes that have left.
    fn send_again(&mut self, mut entry: Entry, position: u64, resend: Resend, again: &mut Segment) -> Option<Entry> {
        // If the connection has answered nothing at all, the oldest request may be the one that breaks connections.
        let is_suspect = (position == 0 && self.budget.retried_until > 0)
            || (self.budget.blames_oldest && position == self.answered);
        let length = entry.length as u64;
        if is_suspect || !self.budget.allows(length) || entry.has_timed_out() || resend == Resend::Nothing {
            return Some(entry);
        }
        match self.writer.request_at(&entry, position, self.is_lent()) {
            Some(request) if only_reads(&entry) || may_repeat(&entry, request, resend) => {
                again.bytes.extend_from_slice(request);
                entry.length = request.len();
            }
            _ => return Some(entry),
        }
        entry.replies -= u32::from(mem::take(&mut entry.selects));
        entry.had_left |= !only_reads(&entry) && !planted::has(Fault::ForgetsThatItLeft);
        again.entries.push_back(entry);
        self.budget.spend(length);
        None
    }
}

/// Returns whether the request logs the connection in, which only the connection itself does.
fn logs_in(entry: &Entry) -> bool {
    let row = entry.asker.name().and_then(Name::row);
    row.is_some_and(|row| row.sharing.connection == Some(OwnConnection::Greeting))
}

/// Returns whether a caller waits for a reply that can be requested again: the command only reads, and does not wait on the
/// server.
fn only_reads(entry: &Entry) -> bool {
    let is_awaited = match &entry.asker {
        Asker::Slot(target) => !target.is_abandoned(),
        Asker::Read(read) => read.target().is_some(),
        _ => false,
    };
    let row = entry.asker.name().and_then(Name::row);
    is_awaited && row.is_some_and(|row| row.flags.contains(Flags::READONLY) && row.timeout.is_none())
}

/// Returns whether a command that writes may be sent again although it had left.
fn may_repeat(entry: &Entry, request: &[u8], resend: Resend) -> bool {
    let Some(row) = entry.asker.name().and_then(Name::row).filter(|_| matches!(entry.asker, Asker::Slot(_))) else {
        return false;
    };
    let places = Places::of(request);
    let args = || places.args(request);
    match resend {
        _ if planted::has(Fault::RepeatsWrites) => true,
        Resend::Overwrites => row.sharing.repeat.is_some_and(|repeat| repeat.allows(args())),
        _ => row.sharing.repeat.is_some_and(|repeat| repeat.is_numbered(args())),
    }
}

/// The longest tick of the coarse clock, on which commands are issued.
const TICK_MS: u32 = 10;

/// The pause between two checks whether all requests that had left are answered.
const LOOK_MS: u32 = 5;

/// The requests that the server has refused for the moment.
impl Pipe {
    /// Takes those entries out of `taken` that the server has refused for the moment. All of `taken` have their replies;
    /// `refusals` are the indices of such replies among theirs, in order. If the connection `retries`, the requests are sent
    /// again after a pause, and keep the rest of their timeout of `limit_ms`. Returns whether requests are held back because
    /// of it.
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
                self.refusals.is_elsewhere |= entry.selects && refusal == first;
                is_refused = refusal + 1 == replies;
            }
            // A SELECT's reply that is an entry of its own takes none of the bytes of its request.
            is_probe |= is_refused && from < position && position == self.refusals.probe_end;
            if is_refused && retries && may_go_again(entry) {
                self.put_off_one(entry, from, limit_ms);
            }
        }
        if retries
            && (self.refusals.is_elsewhere
                || self.queue.backlog.iter().any(|segment| segment.precedence == Precedence::Retry))
        {
            self.begin_pause(now_ms, is_probe);
        }
        self.refusals.is_refusing()
    }

    /// Puts one refused request back in line, if its bytes are still there. Those that were refused before stay ahead of it.
    fn put_off_one(&mut self, entry: &mut Entry, from: u64, limit_ms: Option<u32>) {
        let Some(request) = self.writer.request_at(entry, from, self.is_lent()).map(<[u8]>::to_vec) else { return };
        let asker = mem::replace(&mut entry.asker, Asker::Nobody);
        let time = match (entry.time(), limit_ms) {
            // The request is older than those that it gets between, of which only the first are watched. So it gets a
            // deadline of its own.
            (Time::Issued(at_ms), Some(limit_ms)) => Time::Due(at_ms.wrapping_add(limit_ms + TICK_MS)),
            (time, _) => time,
        };
        self.queue.note(time);
        let mut again = Entry::new(asker, 1, false, entry.database, request.len(), time);
        self.queue.held += again.held();
        again.had_left = entry.had_left;
        // The probe is older than all other refused requests.
        let is_probe = from + entry.length as u64 == self.refusals.probe_end;
        let (urgent, retries) = self.queue.ahead();
        match self.queue.backlog.get_mut((urgent + retries).wrapping_sub(1)) {
            Some(segment) if retries > 0 && !is_probe => {
                segment.bytes.extend_from_slice(&request);
                segment.entries.push_back(again);
            }
            _ => {
                let segment = Segment { precedence: Precedence::Retry, ..Segment::of_one(again, request) };
                self.queue.backlog.insert(urgent, segment);
            }
        }
    }

    /// Begins a pause, because the server has refused a request. A transaction that checks its conditions, or a probe in
    /// flight, holds all requests back already, and its end is known.
    fn begin_pause(&mut self, now_ms: u32, is_probe: bool) {
        if self.refusals.hold.is_on() {
            return;
        }
        // While a probe is in flight, a command that ends a script is moved ahead when it is gathered.
        if !is_probe {
            self.queue.advance_urgent();
        }
        self.refusals.hold = Hold::Pause;
        self.refusals.pause.begin(now_ms);
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
        !self.is_lent() || self.writer.keeps(position)
    }

    /// Returns the time for which no request leaves, because the server has refused one. That includes the time until all
    /// requests that had left are answered, because more of them may have been refused.
    pub(crate) fn pause_left_ms(&self, now_ms: u32) -> Option<u32> {
        let left_ms = left_ms(self.refusals.pause.until_ms?, now_ms);
        Some(if self.in_flight.is_empty() { left_ms } else { left_ms.max(LOOK_MS) })
    }
}

/// The choice of the request that leaves next.
impl Pipe {
    /// Sends the second phase of a transaction next, and the requests that were held back after it.
    pub(crate) fn resume(&mut self, asker: Asker, frames: u32, database: u32, request: Vec<u8>, time: Time) {
        let length = request.len();
        let entry = Entry::new(asker, frames, false, database, length, time);
        let is_refused = self.refusals.is_elsewhere || self.queue.first_segment().precedence == Precedence::Retry;
        self.refusals.hold = Hold::Nothing;
        if is_refused {
            self.probe_next();
        }
        self.queue.push_first(entry, request, Precedence::Urgent);
    }

    /// Lets one request leave alone next, without a pause, because the server may still refuse requests.
    fn probe_next(&mut self) {
        self.queue.advance_urgent();
        self.refusals.hold = Hold::ProbeNext;
    }

    /// Puts the request that leaves next first in line, if the server refuses requests or has just done so. No urgent request
    /// is in line.
    #[cold]
    pub(super) fn choose_next(&mut self) {
        if self.refusals.hold == Hold::ProbeNext {
            return self.begin_probe();
        }
        if self.refusals.hold == Hold::Recovered {
            self.refusals.hold = Hold::Nothing;
            self.queue.release();
        }
        if mem::take(&mut self.refusals.is_elsewhere) {
            self.queue.push_select(self.queue.wire_database);
        }
    }

    /// Sends the oldest refused request alone. If it needs a SELECT, the SELECT goes alone before it.
    fn begin_probe(&mut self) {
        let wire_database = self.queue.wire_database;
        let is_elsewhere = mem::take(&mut self.refusals.is_elsewhere);
        let first = self.queue.first_segment();
        let retried =
            first.entries.front().filter(|_| first.precedence == Precedence::Retry).map(|entry| entry.database);
        let database = retried.unwrap_or(wire_database);
        let selects = is_elsewhere || database != wire_database;
        if selects {
            self.queue.push_select(database);
        } else if retried.is_some() {
            self.queue.detach_probe();
        } else {
            self.refusals.hold = Hold::Nothing;
            return;
        }
        self.refusals.hold = Hold::Probing { selects };
        let unanswered: usize = self.in_flight.iter().map(|entry| entry.length).sum();
        self.refusals.probe_end = self.answered + (unanswered + self.queue.first_segment().length()) as u64;
    }
}

/// Returns whether one caller waits for one reply to a command that cannot itself produce such an error, as a script can. A
/// command that ends a script is useless later, so it is not sent again.
fn may_go_again(entry: &Entry) -> bool {
    let is_plain = |name: Name| name.row().is_some_and(|row| !row.runs_script());
    matches!(&entry.asker, Asker::Slot(target) if is_plain(target.name())) && !may_end_script(&entry.asker)
}
