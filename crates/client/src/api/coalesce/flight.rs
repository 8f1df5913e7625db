//! Gatherings that were sent and are not answered yet.
//!
//! The replies of a connection arrive in the order of its requests, so the oldest gathering is answered first. Pure data.

use std::collections::VecDeque;
use std::mem;

use super::call::Touch;
use super::group::Group;
use crate::pipe::asker::Unit;
use crate::pipe::slot::{Handle, Payload, Source, Target};
use crate::resp::request::name::Name;

/// The receivers of a reply.
pub(super) enum Receivers {
    /// One caller, which gets the whole reply.
    Whole(Target),
    /// Several callers, each of which gets its part.
    Parts(Group),
}

/// A command in flight, with the handle of its answer.
pub(super) struct Awaited {
    pub(super) handle: Handle,
    pub(super) outcome: Receivers,
}

/// The unanswered commands of one gathering that was sent.
pub(super) struct SentGathering {
    pub(super) sequence: u64,
    pub(super) awaited: VecDeque<Awaited>,
}

/// An answer, and its receivers.
pub(super) struct ArrivedReply {
    pub(super) payload: Payload,
    pub(super) outcome: Receivers,
}

/// Requests that leave together, encoded.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) units: Vec<Unit>,
    /// The number of bytes that belong to ended requests.
    closed: usize,
}

impl Outgoing {
    /// Ends a request: the bytes written since the last one, with its issue time and the target of its answer.
    fn close(&mut self, database: u32, target: Target, issued_ms: u32) {
        self.units.push(Unit { database, target, length: self.bytes.len() - self.closed, issued_ms });
        self.closed = self.bytes.len();
    }

    /// Writes the calls of a group, one by one.
    pub(super) fn one_by_one(mut group: Group) -> Self {
        let mut outgoing = Self::default();
        for part in mem::take(&mut group.parts) {
            group.write_part(&part, &mut outgoing.bytes);
            outgoing.close(group.database, part.target, part.issued_ms);
        }
        outgoing
    }
}

/// A gathering that is ready to leave: its requests, the answers to wait for, and the calls that leave alone.
pub(super) struct PreparedGathering {
    pub(super) outgoing: Outgoing,
    pub(super) awaited: VecDeque<Awaited>,
    /// The groups of a single call, with the keys that each touches: none of them has to be sent again.
    pub(super) alone: Vec<(u32, Touch)>,
    /// True if any calls of the gathering are merged.
    pub(super) is_merged: bool,
}

impl PreparedGathering {
    /// Encodes the requests of groups. The gatherer waits for the last in any case, so that it knows when all are answered.
    pub(super) fn of(groups: Vec<Group>, source: &mut Source) -> Self {
        let (mut outgoing, mut awaited, mut alone) = (Outgoing::default(), VecDeque::new(), Vec::new());
        let mut pieces: Vec<Group> = Vec::with_capacity(groups.len());
        for (number, group) in (0..).zip(groups) {
            if group.parts.len() == 1 {
                alone.push((number, group.touch.clone()));
            }
            pieces.extend(group.into_groups());
        }
        let (last, mut is_merged) = (pieces.len().saturating_sub(1), false);
        for (at, mut piece) in pieces.into_iter().enumerate() {
            let database = piece.database;
            if let Some(rule) = piece.rule.filter(|_| piece.parts.len() > 1) {
                let (target, handle) = source.pair(Name::of_row(rule.into.row()));
                is_merged = true;
                piece.write_merged(&mut outgoing.bytes);
                outgoing.close(database, target, piece.issued_ms());
                awaited.push_back(Awaited { handle, outcome: Receivers::Parts(piece) });
                continue;
            }
            let Some(part) = piece.parts.pop() else { continue };
            piece.write_part(&part, &mut outgoing.bytes);
            let issued_ms = part.issued_ms;
            let target = if at == last {
                let (target, handle) = source.pair(part.target.name());
                awaited.push_back(Awaited { handle, outcome: Receivers::Whole(part.target) });
                target
            } else {
                part.target
            };
            outgoing.close(database, target, issued_ms);
        }
        Self { outgoing, awaited, alone, is_merged }
    }
}

/// Takes the answers that have arrived, the oldest first, and the number of the last gathering that is answered with them, if
/// there is one.
pub(super) fn take_answers(flights: &mut VecDeque<SentGathering>) -> (Vec<ArrivedReply>, Option<u64>) {
    let (mut answers, mut answered) = (Vec::new(), None);
    while let Some(flight) = flights.front_mut() {
        while let Some(Awaited { handle, outcome }) = flight.awaited.pop_front() {
            match handle.take() {
                Ok(payload) => answers.push(ArrivedReply { payload, outcome }),
                Err(handle) => {
                    flight.awaited.push_front(Awaited { handle, outcome });
                    return (answers, answered);
                }
            }
        }
        answered = Some(flight.sequence);
        flights.pop_front();
    }
    (answers, answered)
}
