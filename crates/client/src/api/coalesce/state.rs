//! The state of a gatherer: the gathered calls, the calls in flight, and the next work to do. Pure data under its owner's
//! lock.

use std::collections::VecDeque;
use std::mem;
use std::time::Instant;

use sleeve_wire::commands::Command;

use super::flight::{ArrivedReply, SentGathering, take_answers};
use super::gathering::{Gathering, Progress};
use super::group::Group;
use super::marks::Marks;
use crate::pipe::slot::Source;
use crate::reactor::TaskWaker;

/// The state of all clones of a handle, under one lock.
pub(super) struct GathererState {
    /// The source of the slots in which the callers' answers land.
    pub(super) source: Source,
    /// The number of the connection for which `source` is.
    pub(super) connection: u32,
    pub(super) gathering: Gathering,
    pub(super) progress: Progress,
    pub(super) marks: Marks,
    pub(super) flights: VecDeque<SentGathering>,
    /// Commands that the server has refused for many.
    pub(super) refused: Vec<Command>,
    /// True while a thread is at work, which looks again before it ends.
    pub(super) is_worked: bool,
    /// The client was closed.
    pub(super) is_closed: bool,
    /// The time of the timer's next look, if there is one.
    pub(super) looks_at: Option<Instant>,
    /// There is no timer, so that nothing may wait for it.
    pub(super) is_untimed: bool,
    /// Callers that wait for room, or until all is answered.
    pub(super) waiting: usize,
    /// Woken when all is answered, for async code that waits for that.
    pub(super) task_wakers: Vec<TaskWaker>,
}

/// The next work to do.
pub(super) enum Work {
    HandOut {
        answers: Vec<ArrivedReply>,
        answered: Option<u64>,
    },
    /// These groups, the gathering of this number; the last before it in which anything was merged was that one.
    Send {
        groups: Vec<Group>,
        sequence: u64,
        merged: u64,
    },
}

impl GathererState {
    /// Creates an empty state. Callers' answers land with `source`.
    pub(super) fn new(source: Source, is_untimed: bool) -> Self {
        Self {
            source,
            connection: 0,
            gathering: Gathering::default(),
            progress: Progress { sequence: 1, ..Progress::default() },
            marks: Marks::default(),
            flights: VecDeque::new(),
            refused: Vec::new(),
            is_worked: false,
            is_closed: false,
            looks_at: None,
            is_untimed,
            waiting: 0,
            task_wakers: Vec::new(),
        }
    }

    /// Returns whether nothing is gathered and no gathered call is in flight.
    pub(super) fn is_quiet(&self) -> bool {
        self.gathering.is_empty() && self.progress.answered + 1 == self.progress.sequence
    }

    /// Returns whether all gathered calls are answered, and no thread is at work with them.
    pub(super) fn is_settled(&self) -> bool {
        self.is_quiet() && !self.is_worked
    }

    /// Returns whether the gathered calls leave now.
    pub(super) fn may_leave(&self) -> bool {
        let waits = self.gathering.since.is_some() && !self.is_untimed;
        let is_time = self.gathering.is_due || (!waits && self.flights.is_empty());
        !self.gathering.is_empty() && is_time && self.gathering.is_free(self.progress)
    }

    pub(super) fn next_work(&mut self) -> Option<Work> {
        let (answers, answered) = take_answers(&mut self.flights);
        if !answers.is_empty() || answered.is_some() {
            return Some(Work::HandOut { answers, answered });
        }
        if !self.may_leave() {
            return None;
        }
        let Gathering { groups, .. } = mem::take(&mut self.gathering);
        let Progress { sequence, merged, .. } = self.progress;
        // Whether it is, is not known yet.
        (self.progress.sequence, self.progress.merged) = (sequence + 1, sequence);
        Some(Work::Send { groups, sequence, merged })
    }

    /// Notes that all gatherings up to this one are answered, and that the calls that had to be asked again have been sent.
    pub(super) fn settle(&mut self, answered: Option<u64>) {
        if let Some(answered) = answered {
            self.progress.answered = answered;
            let is_last = self.is_quiet();
            self.marks.answered(answered, is_last);
        }
    }
}
