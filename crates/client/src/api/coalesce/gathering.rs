//! Calls that have not left yet, as the groups that they become, in the order in which the groups will leave.
//!
//! A call joins a group of its kind, unless a later group involves one of its keys: then it comes behind that group. So calls
//! on one key keep their order, of any kind. A merged call may have to be sent again, alone, and no call on the same keys may
//! be executed before that. So a call on a key that a later group involves is not merged, and a gathering is held back while
//! a merged command on one of its keys is in flight. Pure data under its owner's lock.

use std::time::Instant;

use sleeve_wire::commands::Command;

use super::call::{Call, Touch};
use super::group::Group;
use super::marks::{Mark, Marks};
use crate::pipe::slot::Target;

/// The progress of gathering and answering.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// The number of the present gathering.
    pub(super) sequence: u64,
    /// The number of the last gathering that is answered; all before it are answered, too.
    pub(super) answered: u64,
    /// The number of the last gathering with a merged command.
    pub(super) merged: u64,
    /// The number of the last gathering with a call that may touch any key.
    pub(super) barrier: u64,
    /// The number of the last gathering that was sent.
    pub(super) sent: u64,
}

/// Calls that have not left yet.
#[derive(Default)]
pub(super) struct Gathering {
    pub(super) groups: Vec<Group>,
    /// The last group of each kind of command that merges calls on any key.
    open: Vec<(Command, u32, u32)>,
    /// The first group that takes calls: behind the groups before it there is a call that may touch any key.
    floor: u32,
    pub(super) calls: usize,
    pub(super) bytes: usize,
    /// The number of the gathering that must be answered before this one leaves.
    held_until: u64,
    /// True if the gathering leaves as soon as it may.
    pub(super) is_due: bool,
    /// The time at which its first call was made, if it leaves after a delay.
    pub(super) since: Option<Instant>,
    /// The greatest difference between the issue times of calls that become one command, in milliseconds.
    pub(super) spread_ms: u32,
}

impl Gathering {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns whether no command in flight holds the gathering back.
    pub(super) fn is_free(&self, progress: Progress) -> bool {
        self.held_until <= progress.answered
    }

    /// Returns whether these keys are neither among those of the gathered calls nor among those of the merged commands in
    /// flight.
    pub(super) fn is_clear_of(&self, touch: &Touch, marks: &Marks, progress: Progress) -> bool {
        match touch {
            Touch::Everything => self.is_empty() && progress.merged <= progress.answered,
            keys => {
                let is_pending = |key| marks.get(key).is_some_and(|mark| mark.sequence > progress.answered);
                progress.barrier <= progress.sent && !keys.keys().any(is_pending)
            }
        }
    }

    /// Adds a call that was issued now, on the link's wrapping clock.
    pub(super) fn add(
        &mut self,
        call: &Call<'_>,
        target: Target,
        now_ms: u32,
        marks: &mut Marks,
        progress: &mut Progress,
    ) {
        self.calls += 1;
        self.bytes += call.request.bytes.len();
        // `lowest` is the first group that the call may join, `held` the gathering that must be answered before it leaves.
        let (mut lowest, mut held) = (self.floor, 0);
        for mark in call.touch.keys().filter_map(|key| marks.get(key)) {
            if mark.sequence == progress.sequence {
                lowest = lowest.max(mark.group);
            } else {
                held = held.max(mark.sequence);
            }
        }
        if call.touch == Touch::Everything {
            (held, self.is_due) = (progress.merged, true);
            // This call may touch any key, so no call before it may be sent again behind it.
            self.groups.iter_mut().for_each(|group| group.is_settled = true);
        }
        self.held_until = self.held_until.max(held);
        let group = self.group_for(call, lowest, now_ms);
        let mut beside = None;
        for key in call.touch.keys() {
            let Some(mark) = marks.get(key).filter(|mark| mark.sequence == progress.sequence) else { continue };
            if mark.group == group {
                beside = Some(mark.place);
            } else if let Some(before) = self.groups.get_mut(mark.group as usize) {
                before.settle(key);
            }
        }
        let Some(found) = self.groups.get_mut(group as usize) else { return };
        let place = found.add(call, target, now_ms, beside);
        for key in call.touch.keys() {
            marks.set(key, Mark { sequence: progress.sequence, group, place });
        }
        if call.touch == Touch::Everything {
            self.floor = group + 1;
            progress.barrier = progress.sequence;
        }
    }

    /// Returns the group for a call, which is `lowest` or a later one.
    fn group_for(&mut self, call: &Call<'_>, lowest: u32, now_ms: u32) -> u32 {
        let takes = |group: &u32| {
            let group = self.groups.get(*group as usize);
            group.zip(call.merged.as_ref()).is_some_and(|(group, merged)| {
                group.takes(merged, call.database) && group.is_of(now_ms, self.spread_ms)
            })
        };
        let open = call.merged.as_ref().filter(|merged| !merged.rule.shape.shares_key());
        let open = open.map(|merged| (merged.rule.into, call.database));
        let place = open.and_then(|(into, database)| {
            self.open.iter().position(|(command, of, _)| *command == into && *of == database)
        });
        let found = match (open, place.and_then(|place| self.open.get(place))) {
            (Some(_), last) => last.map(|(.., group)| *group).filter(|group| *group >= lowest),
            // This is the group of the last call on the key. Without such a call, the group is about another key, and takes
            // no calls on this one.
            (None, _) => Some(lowest),
        };
        if let Some(group) = found.filter(takes) {
            return group;
        }
        let group = self.groups.len() as u32;
        self.groups.push(Group::for_call(call));
        match (open, place.and_then(|place| self.open.get_mut(place))) {
            (_, Some((.., last))) => *last = group,
            (Some((into, database)), None) => self.open.push((into, database, group)),
            (None, None) => {}
        }
        group
    }
}
