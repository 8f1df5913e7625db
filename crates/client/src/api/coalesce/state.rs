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
    /// The source of the slots for the callers' answers.
    pub(super) source: Source,
    /// The number of the connection that `source` makes slots for.
    pub(super) connection: u32,
    pub(super) gathering: Gathering,
    pub(super) progress: Progress,
    pub(super) marks: Marks,
    pub(super) flights: VecDeque<SentGathering>,
    /// Merged commands that the server has refused.
    pub(super) refused: Vec<Command>,
    /// True while a thread is at work, which checks for further work before it ends.
    pub(super) is_worked: bool,
    /// True if the client was closed.
    pub(super) is_closed: bool,
    /// The time of the timer's next check, if there is one.
    pub(super) looks_at: Option<Instant>,
    /// True if there is no timer, so that no call may wait for a delay.
    pub(super) is_untimed: bool,
    /// The number of callers that wait for room, or until all calls are answered.
    pub(super) waiting: usize,
    /// The tasks to wake when all calls are answered, for waiting async code.
    pub(super) task_wakers: Vec<TaskWaker>,
}

/// The next work to do.
pub(super) enum Work {
    HandOut {
        answers: Vec<ArrivedReply>,
        answered: Option<u64>,
    },
    /// Send these groups, which are the gathering of this number; `merged` is the last gathering before it with a merged
    /// command.
    Send {
        groups: Vec<Group>,
        sequence: u64,
        merged: u64,
    },
}

impl GathererState {
    /// Creates an empty state. `source` makes the slots for callers' answers.
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

    /// Returns whether no call is gathered or in flight.
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
        // Whether calls of this gathering are merged is not known yet; it counts as merged until it is.
        (self.progress.sequence, self.progress.merged) = (sequence + 1, sequence);
        Some(Work::Send { groups, sequence, merged })
    }

    /// Notes that all gatherings up to this one are answered, and that the calls to be sent again have been sent.
    pub(super) fn settle(&mut self, answered: Option<u64>) {
        if let Some(answered) = answered {
            self.progress.answered = answered;
            let is_last = self.is_quiet();
            self.marks.answered(answered, is_last);
        }
    }
}
