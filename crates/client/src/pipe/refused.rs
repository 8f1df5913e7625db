//! Requests that the server turned away for the moment, and that go again.
//!
//! A server that loads its data, runs a script for long or has lost its primary answers every command with an error and
//! executes none. Neither has anything happened nor is anything wrong with the command, so it is sent again, whether it reads
//! or writes, after a pause that grows with every round, for as long as its caller gives it time. Its bytes are those that are
//! kept for reads (`resend`); where they are gone, and in a transaction, the error is the caller's.
//!
//! Order: what was turned away goes first in line, in its old order, and nothing else leaves before the pause is over. What had
//! left behind it is answered as it comes, so it may be executed before; so may what leaves behind it after the pause, where it
//! is turned away once more and the server gets well right then. It takes bytes and gives bytes: no socket, no clock (times are
//! arguments), no thread.

use std::collections::VecDeque;
use std::mem;

use super::Pipe;
use super::in_flight::{Asker, Entry, Time, is_before, left_ms};
use super::segment::Segment;
use super::slot::Completions;
use crate::error::{Effect, Error};
use crate::request::name::Name;

/// The longest tick of the coarse clock, on which it is said when a command was issued.
const TICK_MS: u32 = 10;

/// Between two looks whether all is answered that had left.
const LOOK_MS: u32 = 5;

/// The errors of a server that says the same to everybody until it is well again, whatever it is asked.
const PASSING: [&str; 3] = ["LOADING", "BUSY", "MASTERDOWN"];

/// What a server says that takes no writes any more.
const DEMOTED: &str = "READONLY";

/// The error in a reply that turns a command away for the moment, if it is one. One that takes no writes any more may do so for
/// ever, but where there is another that does, it counts too.
pub(crate) fn passing(reply: &[u8], is_elsewhere: bool) -> Option<Error> {
    let error = Error::server(reply.strip_prefix(b"-")?.trim_ascii_end());
    let code = error.code()?;
    let passes = PASSING.contains(&code) || (code == DEMOTED && is_elsewhere);
    (passes && error.effect() == Effect::Refused).then_some(error)
}

impl Pipe {
    /// Takes those out of `taken`, whose replies are here, that the server has turned away for the moment: `refusals` are the
    /// numbers of such replies among theirs. They go again after a pause. Where any command may take so long, they keep the
    /// time that they have left. Whether there are any.
    #[cold]
    pub(crate) fn put_off(
        &mut self,
        taken: &mut VecDeque<Entry>,
        refusals: &[usize],
        now_ms: u32,
        limit_ms: Option<u32>,
    ) -> bool {
        let mut again = Segment { again: true, ..Segment::default() };
        let length: u64 = taken.iter().map(|entry| entry.length as u64).sum();
        let (mut position, mut replies) = (self.answered - length, 0);
        for entry in taken {
            let from = position;
            position += entry.length as u64;
            replies += entry.replies as usize;
            if refusals.contains(&(replies - 1)) && may_go_again(entry) {
                self.put_off_one(entry, from, &mut again, limit_ms);
            }
        }
        if again.entries.is_empty() {
            return false;
        }
        self.queued += again.length();
        // Those that were turned away before go first.
        let before = self.backlog.iter().take_while(|segment| segment.again).count();
        self.backlog.insert(before, again);
        // Each is in its database, wherever the connection is by then.
        self.gather_again(|_| true);
        // A transaction that looks at its keys holds all back as it is, and knows when that ends.
        if !self.held {
            self.held = true;
            self.pause.begin(now_ms);
        }
        true
    }

    /// Whether nobody has the bytes of the requests that so many replies are about.
    #[cold]
    pub(crate) fn has_bytes_of(&self, replies: usize) -> bool {
        let (mut position, mut rest) = (self.answered, replies);
        for entry in &self.in_flight {
            let Some(after) = rest.checked_sub(entry.replies as usize) else { break };
            rest = after;
            position += entry.length as u64;
        }
        !self.is_lent() || position <= self.kept.end()
    }

    /// Takes one out, if its bytes are still there.
    fn put_off_one(&mut self, entry: &mut Entry, from: u64, again: &mut Segment, limit_ms: Option<u32>) {
        let Some(request) = self.request_at(entry, from) else { return };
        again.bytes.extend_from_slice(request);
        let (length, asker) = (request.len(), mem::replace(&mut entry.asker, Asker::Nobody));
        let time = match (entry.time(), limit_ms) {
            // It is older than those that it will be among, of whom only the first are watched.
            (Time::Issued(at_ms), Some(limit_ms)) => Time::Due(at_ms.wrapping_add(limit_ms + TICK_MS)),
            (time, _) => time,
        };
        if let Time::Due(due_ms) = time {
            self.next_due_ms = self.next_due_ms.filter(|next_ms| is_before(*next_ms, due_ms)).or(Some(due_ms));
        }
        again.entries.push_back(super::entry(asker, 1, false, entry.database, length, time));
    }

    /// Refuses the gathered requests for databases that the server turns out not to have. Only before they may leave.
    pub(crate) fn refuse_databases(&mut self, databases: u32, error: &Error, done: &mut Completions) {
        let segments = self.backlog.iter().chain([&self.out]);
        if segments.flat_map(|segment| &segment.entries).all(|entry| entry.database < databases) {
            return;
        }
        self.gather_again(|entry| {
            let is_refused = entry.database >= databases;
            if is_refused {
                entry.asker.fail(error, done);
            }
            !is_refused
        });
    }

    /// How long nothing leaves yet, because the server has turned something away: also until all is answered that had left, of
    /// which more may have been turned away.
    pub(crate) fn pause_left_ms(&self, now_ms: u32) -> Option<u32> {
        let left_ms = left_ms(self.pause.until_ms?, now_ms);
        Some(if self.in_flight.is_empty() { left_ms } else { left_ms.max(LOOK_MS) })
    }

    /// Whether nothing leaves for a while.
    #[inline]
    pub(crate) fn is_pausing(&self) -> bool {
        self.pause.until_ms.is_some()
    }

    /// The pause is over.
    pub(crate) fn end_pause(&mut self) {
        if self.pause.until_ms.take().is_some() {
            self.held = false;
        }
    }
}

/// Whether one caller waits for one reply to a command that is known not to say of itself what it likes, as a script may.
fn may_go_again(entry: &Entry) -> bool {
    let is_plain = |name: Name| name.row().is_some_and(|row| !row.runs_script());
    matches!(&entry.asker, Asker::Slot(target) if is_plain(target.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_passes_is_told_from_one_that_stays() {
        for (text, elsewhere, passes) in [
            ("-LOADING Redis is loading the dataset in memory\r\n", false, true),
            (
                "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
                false,
                true,
            ),
            ("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", false, true),
            ("-READONLY You can't write against a read only replica.\r\n", true, true),
            ("-READONLY You can't write against a read only replica.\r\n", false, false),
            ("-BUSYKEY Target key name already exists.\r\n", true, false),
            ("-BUSYGROUP Consumer Group name already exists\r\n", true, false),
            ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", true, false),
            ("-LOADING is what my script calls it\r\n", true, false),
            ("+LOADING Redis is loading the dataset in memory\r\n", true, false),
        ] {
            assert_eq!(passing(text.as_bytes(), elsewhere).is_some(), passes, "{text}");
        }
    }
}
