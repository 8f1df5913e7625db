//! The calls that have to follow other calls, if some go over a second connection: the lane.
//!
//! There are two rules. **A call that takes the lane overtakes no other**: it leaves when every call that was sent before it
//! over the shared connection is answered. The lane knows that in one of two cases: there was no call in flight, or a fence
//! was sent behind them and has been answered. And **a call that touches a key that a call on the lane touches takes the lane
//! too**, behind that call, until it is answered. So two calls that touch the same key are executed in the order in which
//! they were made. The only calls that overtake others are those on the shared connection, which pass the calls on the lane.
//!
//! A call may still be executed after its caller has got a timeout error. It cannot be any more once a call that left behind
//! it is answered, or no call is in flight on the lane.
//!
//! Pure data: no clock, no connection; the owner keeps the calls themselves.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::touch::Touch;
use crate::sys::planted::{self, Fault};

/// The calls that have taken the lane and may still be executed.
pub(super) struct Order<C> {
    /// The calls that may still be executed, by number, with the keys that they touch.
    calls: BTreeMap<u64, Touch>,
    /// The number of these calls that touch each key; below it, the number of calls that may touch any key.
    keys: HashMap<u64, usize>,
    everything: usize,
    /// The calls that wait for calls in flight on the shared connection.
    waiting: VecDeque<(u64, C)>,
    /// The number of waiting calls for which a fence was sent that is not answered; none if no fence is in flight.
    fenced: Option<usize>,
    /// The calls that may leave.
    ready: VecDeque<(u64, C)>,
    /// The calls with callers that have got a timeout error.
    late: BTreeSet<u64>,
    next: u64,
}

impl<C> Default for Order<C> {
    fn default() -> Self {
        let (calls, keys, waiting, ready, late) = Default::default();
        Self { calls, keys, everything: 0, waiting, fenced: None, ready, late, next: 0 }
    }
}

impl<C> Order<C> {
    /// Returns the number of calls that have taken the lane and may still be executed.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether no call is on the lane.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether a call that touches these keys takes the lane.
    pub(super) fn takes_lane(&self, touch: &Touch, is_large: bool) -> bool {
        // A large call without a key may depend on any call on the shared connection, so it stays in order there.
        (is_large && *touch != Touch::Nothing) || self.must_follow(touch)
    }

    fn must_follow(&self, touch: &Touch) -> bool {
        match touch {
            Touch::Nothing => false,
            Touch::Everything => !self.is_empty(),
            Touch::Keys(keys) => self.everything > 0 || keys.iter().any(|key| self.keys.contains_key(key)),
        }
    }

    /// Adds a call that takes the lane. `is_clear` is true if no call is in flight on the shared connection.
    pub(super) fn enter(&mut self, call: C, touch: Touch, is_clear: bool) {
        let number = self.next;
        self.next += 1;
        match &touch {
            Touch::Nothing => {}
            Touch::Everything => self.everything += 1,
            Touch::Keys(keys) => keys.iter().for_each(|key| *self.keys.entry(*key).or_default() += 1),
        }
        self.calls.insert(number, touch);
        match (is_clear && self.waiting.is_empty()) || planted::has(Fault::OvertakesOnLane) {
            true => self.ready.push_back((number, call)),
            false => self.waiting.push_back((number, call)),
        }
    }

    /// Begins a fence, if calls wait for one, and returns the first of these calls.
    pub(super) fn begin_fence(&mut self) -> Option<&C> {
        if self.fenced.is_none() && !self.waiting.is_empty() {
            self.fenced = Some(self.waiting.len());
            return self.waiting.front().map(|(_, call)| call);
        }
        None
    }

    /// Notes the answer to the fence: the calls that waited for it may leave.
    pub(super) fn pass_fence(&mut self) {
        let count = self.fenced.take().unwrap_or(0).min(self.waiting.len());
        self.ready.extend(self.waiting.drain(..count));
    }

    /// Notes that the fence is lost: another one is needed.
    pub(super) fn lose_fence(&mut self) {
        self.fenced = None;
    }

    /// Notes that the fence cannot be answered, and returns the calls that waited for it, which are not sent.
    pub(super) fn fail_fence(&mut self) -> Vec<C> {
        let count = self.fenced.take().unwrap_or(0).min(self.waiting.len());
        let failed: Vec<(u64, C)> = self.waiting.drain(..count).collect();
        failed.iter().for_each(|(number, _)| self.leave(*number));
        failed.into_iter().map(|(_, call)| call).collect()
    }

    /// Takes the next call that may leave; calls leave in this order.
    pub(super) fn next_ready(&mut self) -> Option<(u64, C)> {
        self.ready.pop_front()
    }

    /// Returns whether no call waits to leave.
    pub(super) fn has_all_left(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    /// Removes a call that was answered, and all late calls that had left before it: they were executed, or will not be.
    pub(super) fn answered(&mut self, number: u64) {
        let later = self.late.split_off(&number);
        std::mem::replace(&mut self.late, later).into_iter().for_each(|late| self.leave(late));
        self.leave(number);
    }

    /// Removes a call that will not be executed, or was given up with its connection. It says nothing of other calls.
    pub(super) fn gone(&mut self, number: u64) {
        self.leave(number);
    }

    /// Notes that the caller of a call has got a timeout error; the call may still be executed.
    pub(super) fn timed_out(&mut self, number: u64) {
        self.late.insert(number);
    }

    /// Returns whether a call may still be executed after its caller has got a timeout error.
    pub(super) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Removes all late calls, because no call is in flight on the lane.
    pub(super) fn settle(&mut self) {
        std::mem::take(&mut self.late).into_iter().for_each(|late| self.leave(late));
    }

    fn leave(&mut self, number: u64) {
        match self.calls.remove(&number) {
            None | Some(Touch::Nothing) => {}
            Some(Touch::Everything) => self.everything -= 1,
            Some(Touch::Keys(keys)) => {
                for key in keys {
                    if let Some(count) = self.keys.get_mut(&key) {
                        *count -= 1;
                        if *count == 0 {
                            self.keys.remove(&key);
                        }
                    }
                }
            }
        }
    }
}
