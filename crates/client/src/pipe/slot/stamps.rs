//! The times at which the request of a slot left and its reply arrived, for the few calls that are timed.
//!
//! The code that hands replies out knows both for a batch at a time (`ledger`), and notes them for slots with a command that
//! is marked so (`Name::timed`), before they are answered. The notes lie beside the slots of a chunk, in memory that is
//! allocated with the first note. A program that times nothing pays for the check of one number for each batch. Any thread;
//! times are arguments, in microseconds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of calls that are timed at present.
static TIMED: AtomicUsize = AtomicUsize::new(0);

/// A call that is timed. It is created before the request is sent; otherwise no reader would note the times.
pub(crate) struct TimedCall(());

impl TimedCall {
    pub(crate) fn begin() -> Self {
        TIMED.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for TimedCall {
    fn drop(&mut self) {
        TIMED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether any call is timed now.
#[inline]
pub(crate) fn are_wanted() -> bool {
    // A thread that reads replies has taken the lock under which a request is sent after the call was counted.
    TIMED.load(Ordering::Relaxed) > 0
}

/// The notes of one chunk of slots.
#[derive(Default)]
pub(super) struct Stamps(OnceLock<Box<[Stamp]>>, #[cfg(test)] crate::pipe::testing::Alive);

/// The times at which a request left and its reply arrived; unset if 0.
#[derive(Default)]
struct Stamp {
    left_us: AtomicU64,
    came_us: AtomicU64,
}

impl Stamps {
    /// Notes the times at which the request of the slot of this index left and its reply arrived. The slot is about to be
    /// answered, and the asker waits for that.
    #[cold]
    pub(super) fn set(&self, index: usize, slots: usize, left_us: u64, came_us: u64) {
        let stamps = self.0.get_or_init(|| (0..slots).map(|_| Stamp::default()).collect());
        if let Some(stamp) = stamps.get(index) {
            stamp.left_us.store(left_us, Ordering::Relaxed);
            stamp.came_us.store(came_us, Ordering::Relaxed);
        }
    }

    /// Returns when the request left, and when its reply came, if both are known.
    pub(super) fn get(&self, index: usize) -> Option<(u64, u64)> {
        let stamp = self.0.get()?.get(index)?;
        let times = (stamp.left_us.load(Ordering::Relaxed), stamp.came_us.load(Ordering::Relaxed));
        (times.1 > 0).then_some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Completions, Payload};
    use super::*;
    use crate::pipe::testing::source;
    use crate::resp::request::name::Name;

    #[test]
    fn only_timed_calls_are_stamped_and_stamps_stay_with_their_slot() {
        let mut source = source();
        let name = Name::of(&["GET"]);
        let ends = [name, name.timed(), name].map(|name| source.pair(name));
        let times = || ends.each_ref().map(|(_, handle)| handle.times());
        assert_eq!(times(), [None; 3]);
        ends.iter().for_each(|(target, _)| target.stamp(5, 9));
        assert_eq!(times(), [None, Some((5, 9)), None]);
        ends.iter().for_each(|(target, _)| target.stamp(6, 11));
        let mut done = Completions::default();
        let handles = ends.map(|(target, handle)| {
            target.complete(Payload::of(b"+OK\r\n"), &mut done);
            handle
        });
        assert_eq!(handles.each_ref().map(|handle| handle.times()), [None, Some((6, 11)), None]);
    }

    #[test]
    fn a_call_is_counted_for_as_long_as_it_is_held() {
        let calls = [TimedCall::begin(), TimedCall::begin()];
        assert!(are_wanted());
        drop(calls);
    }
}
