//! The state of a connection with a server that refuses requests for the moment: the reason why gathered requests may not
//! leave, and the length of the pause.
//!
//! The client sends such a server nothing during a pause, and then one request alone, a probe. If the probe is refused too,
//! there is another, longer pause; when it is answered, all requests may leave, first those that were refused. A command that
//! ends a script that holds up the server goes ahead of all. Pure data; the owner of the pipe has it.

use std::mem;

use super::asker::{Asker, Time, is_before};
use super::queue::{Entry, Precedence, SELECT_LENGTH_MAX, Segment, SendQueue, select_length, write_select};
use crate::error::{Effect, Error};
use crate::resp::request::name::Name;
use crate::resp::request::words::Words;

/// The errors of a server that gives the same answer to every request until it has recovered.
const PASSING: [&str; 3] = ["LOADING", "BUSY", "MASTERDOWN"];

/// The error code of a server that takes no writes any more.
const DEMOTED: &str = "READONLY";

/// Returns the error in a reply that refuses a command for the moment, if it is one. A server that takes no writes may do so
/// for ever; but if another server may take them (`is_elsewhere`), its error counts, too.
pub(crate) fn passing(reply: &[u8], is_elsewhere: bool) -> Option<Error> {
    let error = Error::server(reply.strip_prefix(b"-")?.trim_ascii_end());
    let code = error.code()?;
    let passes = PASSING.contains(&code) || (code == DEMOTED && is_elsewhere);
    (passes && error.effect() == Effect::Refused).then_some(error)
}

/// The commands that end a script that holds up a server; the server takes them while it refuses all others.
const KILLS: [Name; 2] = [Name::of(&["SCRIPT", "KILL"]), Name::of(&["FUNCTION", "KILL"])];

/// The command that ends the server together with the script, if it is told not to save.
const SHUTDOWN: Name = Name::of(&["SHUTDOWN"]);

/// Returns whether a request of this asker may be one that ends a script that holds the server.
pub(crate) fn may_end_script(asker: &Asker) -> bool {
    matches!(asker, Asker::Slot(target) if KILLS.contains(&target.name()) || target.name() == SHUTDOWN)
}

/// Returns whether this request ends a script that holds the server, or the server with it.
pub(crate) fn ends_script(asker: &Asker, request: &[u8]) -> bool {
    let is_nosave =
        |(start, end): (usize, usize)| request.get(start..end).is_some_and(|word| word.eq_ignore_ascii_case(b"NOSAVE"));
    may_end_script(asker) && (asker.name() != Some(SHUTDOWN) || Words::of(request).any(is_nosave))
}

/// The reason why gathered requests may not leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    #[default]
    Nothing,
    /// A transaction checks the keys that it watches.
    Transaction,
    /// The server has refused a request a moment ago.
    Pause,
    /// The pause has ended: the request that is first in line leaves alone.
    ProbeNext,
    /// A request has left alone, or the SELECT of its database has (`selects`), and is not answered yet.
    Probing { selects: bool },
    /// The request that had left alone was answered: all requests may leave, first those that were refused.
    Recovered,
}

impl Hold {
    /// Returns whether only urgent requests may leave.
    #[inline]
    pub(crate) fn is_on(self) -> bool {
        matches!(self, Self::Transaction | Self::Pause | Self::Probing { .. })
    }

    /// Returns whether the server refuses requests, as far as the client knows.
    #[inline]
    pub(crate) fn is_refusing(self) -> bool {
        matches!(self, Self::Pause | Self::ProbeNext | Self::Probing { .. })
    }
}

/// The refusals of one server, and their consequences for the gathered requests.
#[derive(Default)]
pub(crate) struct Refusals {
    /// The reason why nothing may be written after the bytes in flight, if there is one.
    pub(super) hold: Hold,
    pub(super) pause: Pause,
    /// The end of the last request that left alone, as a position among the bytes of this connection.
    pub(super) probe_end: u64,
    /// True if the connection is not in the intended database, because a SELECT was refused.
    pub(super) is_elsewhere: bool,
}

impl Refusals {
    /// Returns whether the server refuses requests, as far as the client knows, so that some are held back.
    #[inline]
    pub(crate) fn is_refusing(&self) -> bool {
        self.hold.is_refusing()
    }

    /// Returns whether a request has left alone and is not answered yet.
    #[inline]
    pub(crate) fn is_probing(&self) -> bool {
        matches!(self.hold, Hold::Probing { .. })
    }

    /// Returns whether nothing leaves for a while.
    #[inline]
    pub(crate) fn is_pausing(&self) -> bool {
        self.pause.until_ms.is_some()
    }

    /// Ends the pause.
    pub(crate) fn end_pause(&mut self) {
        if self.pause.until_ms.take().is_some() {
            self.hold = Hold::ProbeNext;
        }
    }

    /// Resets the state for the next connection.
    pub(super) fn start_anew(&mut self) {
        (self.is_elsewhere, self.pause.until_ms, self.probe_end) = (false, None, 0);
    }
}

/// The order in which requests leave that are sent again, or that are urgent.
impl SendQueue {
    /// Splits the first request off from those behind it, so that it leaves alone. The connection is in its database.
    pub(super) fn detach_probe(&mut self) {
        let Some(mut alone) = self.first_segment().detach_first() else { return };
        if let Some(entry) = alone.entries.front_mut()
            && mem::take(&mut entry.selects)
        {
            let length = select_length(entry.database);
            (alone.start, entry.length, entry.replies) = (length, entry.length - length, entry.replies - 1);
            self.held -= length;
        }
        self.first_segment();
        self.backlog.push_front(alone);
    }

    /// Releases the requests after the server has recovered: those that were refused leave together, each in its database,
    /// and then those behind them.
    pub(super) fn release(&mut self) {
        let (mut released, mut selected) = (Segment::default(), self.wire_database);
        while self.first_segment().precedence == Precedence::Retry
            && let Some(segment) = self.backlog.pop_front()
        {
            self.held -= segment.held();
            segment.for_each(|entry, request| {
                let (frames, time) = (entry.frames(), entry.time());
                self.held += released.push(entry.asker, frames, (entry.database, &mut selected), request, time);
            });
        }
        let wire_database = mem::replace(&mut self.wire_database, selected);
        self.reselect();
        self.wire_database = wire_database;
        if !released.entries.is_empty() {
            self.backlog.push_front(released);
        }
    }

    /// Queues a request that leaves before all others, in any database.
    #[cold]
    pub(super) fn push_urgent(&mut self, asker: Asker, request: &[u8], time: Time) {
        let entry = Entry::new(asker, 1, false, self.wire_database, request.len(), time);
        self.held += entry.held();
        let segment = Segment { precedence: Precedence::Urgent, ..Segment::of_one(entry, request.to_vec()) };
        let (urgent, _) = self.ahead();
        self.backlog.insert(urgent, segment);
    }

    /// Moves the commands that end a script that holds up the server ahead of the gathered requests.
    pub(super) fn advance_urgent(&mut self) {
        if !self.entries().any(|entry| may_end_script(&entry.asker)) {
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
        urgent.into_iter().for_each(|(asker, request, time)| self.push_urgent(asker, &request, time));
    }

    /// Returns the number of urgent segments at the front, and the number of segments behind them that are sent again.
    pub(super) fn ahead(&mut self) -> (usize, usize) {
        self.first_segment();
        let count = |precedence, skipped| {
            self.backlog.iter().skip(skipped).take_while(|segment| segment.precedence == precedence).count()
        };
        let urgent = count(Precedence::Urgent, 0);
        (urgent, count(Precedence::Retry, urgent))
    }

    /// Adds or removes the SELECT of the first request in line, for the database in which the connection is by then.
    pub(super) fn reselect(&mut self) {
        let wire_database = self.wire_database;
        let segment = self.first_segment();
        let Some(first) = segment.entries.front() else {
            self.database = wire_database;
            return;
        };
        if first.selects || first.database == wire_database {
            return;
        }
        // The request gets a segment of its own, so that only its bytes are moved.
        let Some(mut alone) = segment.detach_first() else { return };
        self.first_segment();
        let mut bytes = Vec::with_capacity(alone.bytes.len() + SELECT_LENGTH_MAX);
        if let Some(entry) = alone.entries.front_mut() {
            write_select(&mut bytes, entry.database);
            let counted = if entry.has_timed_out() { &mut self.dead } else { &mut self.held };
            *counted += bytes.len();
            entry.length += bytes.len();
            entry.selects = true;
            entry.replies += 1;
        }
        bytes.extend_from_slice(&alone.bytes);
        self.backlog.push_front(Segment { bytes, ..alone });
    }
}

/// The length of the first pause after a refusal, and below it the longest.
const PAUSE_MS_MIN: u32 = 10;
const PAUSE_MS_MAX: u32 = 500;

/// The time without a refusal after which the next pause is a first one.
const QUIET_MS: u32 = 1000;

/// The time at which the requests that were refused may leave again.
#[derive(Default)]
pub(crate) struct Pause {
    /// The time until which only urgent requests leave.
    pub(crate) until_ms: Option<u32>,
    /// The length of the last pause, and the time of its end.
    last: Option<(u32, u32)>,
}

impl Pause {
    /// Begins a pause: of the shortest length, or twice as long as the last pause if that has just ended.
    pub(crate) fn begin(&mut self, now_ms: u32) {
        let length_ms = match self.last {
            Some((length_ms, ended_ms)) if is_before(now_ms, ended_ms.wrapping_add(QUIET_MS)) => {
                (length_ms * 2).min(PAUSE_MS_MAX)
            }
            _ => PAUSE_MS_MIN,
        };
        self.until_ms = Some(now_ms.wrapping_add(length_ms));
        self.last = Some((length_ms, now_ms.wrapping_add(length_ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_begin_anew_when_it_was_quiet() {
        let mut pause = Pause::default();
        let mut now_ms = u32::MAX - 100;
        let mut lengths = Vec::new();
        for _ in 0..8 {
            pause.begin(now_ms);
            let until_ms = pause.until_ms.take().expect("it has begun");
            lengths.push(until_ms.wrapping_sub(now_ms));
            now_ms = until_ms.wrapping_add(1);
        }
        assert_eq!(lengths, [10, 20, 40, 80, 160, 320, 500, 500]);
        pause.begin(now_ms.wrapping_add(QUIET_MS));
        assert_eq!(pause.last.map(|(length_ms, _)| length_ms), Some(PAUSE_MS_MIN));
    }
}
