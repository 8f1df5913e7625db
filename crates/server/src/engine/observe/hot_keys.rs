//! HOTKEYS: the keys that take the most of the processor's time and of the network, collected at the request of a client.
//!
//! Each thread that executes keeps its own [`Tally`], in its block of counters; a reader adds them up. If there is no
//! collection, commands cost nothing extra: the flag is next to the limits that a batch looks up for slow and large commands.
//! Any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::key_tally::Tally;
use super::stats::Stats;
use crate::host::clock::Instant;
use crate::host::facts::{self, CpuTimes};

/// The settings of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Keys are reported by the time that their commands take.
    pub by_time: bool,
    /// Keys are reported by the bytes of their requests and replies.
    pub by_bytes: bool,
    /// The number of keys in the reply.
    pub count: usize,
    /// The time after which the collection ends by itself, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The sampling: the keys of one command in so many, chosen at random, are counted.
    pub sample_ratio: u64,
}

/// A collection, running or ended.
#[derive(Debug, Clone, Copy)]
pub struct Collection {
    /// The collection's settings.
    pub plan: Plan,
    /// The time at which it began.
    pub began: Instant,
    /// The CPU time of the process when it began.
    began_cpu: CpuTimes,
    /// The time at which it ended, and the CPU time of the process then.
    ended: Option<(Instant, CpuTimes)>,
}

impl Collection {
    /// Returns whether the collection is running.
    pub fn is_active(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns the duration of the collection so far, in milliseconds.
    pub fn duration_ms(&self, now: Instant) -> u64 {
        let duration_ms = self.ended.map_or(now, |(ended, _)| ended).since(self.began).as_millis() as u64;
        self.plan.duration_ms.map_or(duration_ms, |most_ms| duration_ms.min(most_ms))
    }

    /// Returns the CPU time of the process since the collection began, in milliseconds: user time and system time.
    pub fn cpu_ms(&self) -> (u64, u64) {
        let until = self.ended.map_or_else(facts::cpu_times, |(_, cpu)| cpu);
        let since = |until_us: u64, began_us: u64| until_us.saturating_sub(began_us) / 1_000;
        (since(until.user_us, self.began_cpu.user_us), since(until.system_us, self.began_cpu.system_us))
    }
}

/// The collection of one engine.
#[derive(Debug, Default)]
pub struct HotKeys {
    is_collecting: AtomicBool,
    sample_ratio: AtomicU64,
    /// The time at which the collection ends by itself, in monotonic milliseconds.
    until_ms: AtomicU64,
    collection: Mutex<Option<Collection>>,
}

impl HotKeys {
    /// Returns whether there may be a collection that counts commands; [`HotKeys::wants`] decides for each command.
    #[inline]
    pub fn is_collecting(&self) -> bool {
        self.is_collecting.load(Ordering::Relaxed)
    }

    /// Returns the sampling: the keys of one command in so many are counted.
    pub fn sample_ratio(&self) -> u64 {
        self.sample_ratio.load(Ordering::Relaxed)
    }

    /// Returns whether a command that ran at this time is counted.
    pub fn wants(&self, now: Instant) -> bool {
        self.is_collecting() && now.monotonic_ms() < self.until_ms.load(Ordering::Relaxed)
    }

    /// Returns whether a collection is running.
    pub fn is_active(&self, now: Instant) -> bool {
        self.current(now).is_some_and(|collection| collection.is_active())
    }

    /// Begins a collection, and forgets the one before. Returns false if one is running.
    pub fn start(&self, plan: Plan, stats: &Stats, now: Instant) -> bool {
        let mut collection = self.current(now);
        if collection.is_some_and(|collection| collection.is_active()) {
            return false;
        }
        stats.each_tally(|tally| *tally = Tally::default());
        let until_ms = plan.duration_ms.map_or(u64::MAX, |duration_ms| now.monotonic_ms().saturating_add(duration_ms));
        *collection = Some(Collection { plan, began: now, began_cpu: facts::cpu_times(), ended: None });
        self.until_ms.store(until_ms, Ordering::Relaxed);
        self.sample_ratio.store(plan.sample_ratio, Ordering::Relaxed);
        self.is_collecting.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the collection; its results stay. Returns false if none is running.
    pub fn stop(&self, now: Instant) -> bool {
        match self.current(now).as_mut().filter(|collection| collection.is_active()) {
            Some(collection) => {
                self.end(collection, now);
                true
            }
            None => false,
        }
    }

    /// Forgets the results. Returns false if a collection is running.
    pub fn reset(&self, stats: &Stats, now: Instant) -> bool {
        let mut collection = self.current(now);
        if collection.is_some_and(|collection| collection.is_active()) {
            return false;
        }
        *collection = None;
        stats.each_tally(|tally| *tally = Tally::default());
        true
    }

    /// Returns the collection, if there is one, and its counts.
    pub fn found(&self, stats: &Stats, now: Instant) -> Option<(Collection, Tally)> {
        let collection = (*self.current(now))?;
        let mut sum = Tally::default();
        stats.each_tally(|tally| sum.absorb(tally));
        Some((collection, sum))
    }

    /// Returns the collection, after ending it if its time has passed.
    fn current(&self, now: Instant) -> parking_lot::MutexGuard<'_, Option<Collection>> {
        let mut current = self.collection.lock();
        if let Some(collection) = current.as_mut()
            && collection.is_active()
            && now.monotonic_ms() >= self.until_ms.load(Ordering::Relaxed)
        {
            self.end(collection, now);
        }
        current
    }

    fn end(&self, collection: &mut Collection, now: Instant) {
        self.is_collecting.store(false, Ordering::Relaxed);
        collection.ended = Some((now, facts::cpu_times()));
    }
}

#[cfg(test)]
mod tests {
    use sleeve_store::{Hash, Key};

    use super::*;

    const PLAN: Plan = Plan { by_time: true, by_bytes: true, count: 10, duration_ms: None, sample_ratio: 1 };

    fn at(ms: u64) -> Instant {
        Instant { wall_us: 0, monotonic_us: ms * 1_000 }
    }

    fn keys<'a>(names: &'a [&'a str]) -> impl ExactSizeIterator<Item = Key<'a>> {
        names.iter().map(|name| Key { name: name.as_bytes(), hash: Hash(u64::from(name.as_bytes()[0])) })
    }

    #[test]
    fn keys_share_what_their_command_took_and_all_threads_are_told() {
        let (hot_keys, stats) = (HotKeys::default(), Stats::default());
        assert!(hot_keys.found(&stats, at(0)).is_none());
        assert!(hot_keys.start(PLAN, &stats, at(5)));
        let [one, other] = [stats.open(), stats.open()];
        one.hot_keys.lock().add(keys(&["a", "b", "a"]), (10, 31), true);
        other.hot_keys.lock().add(keys(&["b"]), (4, 8), true);
        other.hot_keys.lock().add(keys(&["c"]), (100, 200), false);
        // The counts of a thread are kept when it ends.
        stats.close(&one);
        let (collection, tally) = hot_keys.found(&stats, at(9)).expect("it was started");
        assert!(collection.is_active());
        assert_eq!(collection.duration_ms(at(9)), 4);
        assert_eq!((tally.elapsed_ticks, tally.bytes, tally.key_bytes()), (114, 239, 38));
        assert_eq!(tally.top_by_ticks(9), [(b"b".as_slice(), 7), (b"a", 6)]);
        assert_eq!(tally.top_by_bytes(1), [(b"a".as_slice(), 20)]);
    }

    #[test]
    fn one_collection_is_under_way_until_it_is_ended_or_its_time_is_over() {
        let (hot_keys, stats) = (HotKeys::default(), Stats::default());
        assert!(!hot_keys.stop(at(0)) && hot_keys.reset(&stats, at(0)));
        assert!(hot_keys.start(PLAN, &stats, at(0)));
        assert!(!hot_keys.start(PLAN, &stats, at(1)) && !hot_keys.reset(&stats, at(1)));
        stats.open().hot_keys.lock().add(keys(&["a"]), (1, 1), true);
        assert!(hot_keys.stop(at(7)) && !hot_keys.stop(at(8)) && !hot_keys.is_collecting());
        let (collection, tally) = hot_keys.found(&stats, at(99)).expect("it is over but not forgotten");
        assert_eq!((collection.duration_ms(at(99)), tally.bytes), (7, 1));
        assert!(hot_keys.start(Plan { duration_ms: Some(1_000), ..PLAN }, &stats, at(100)));
        assert_eq!(hot_keys.found(&stats, at(101)).expect("it has begun").1.bytes, 0);
        assert!(hot_keys.wants(at(1_099)) && !hot_keys.wants(at(1_100)));
        let (collection, _) = hot_keys.found(&stats, at(5_000)).expect("it is over but not forgotten");
        assert_eq!((collection.is_active(), collection.duration_ms(at(5_000))), (false, 1_000));
        assert!(!hot_keys.is_collecting() && !hot_keys.stop(at(5_000)) && hot_keys.reset(&stats, at(5_000)));
        assert!(hot_keys.found(&stats, at(5_001)).is_none());
    }
}
