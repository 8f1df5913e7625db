//! The use of memory, in bytes, and a sum of it that is always available.
//!
//! A [`MemoryUse`] is exact and costs the lock of every shard. The [`Estimate`] is for the check that each command makes
//! while `maxmemory` is set. A thread that has changed a shard notes its size while it still holds the lock, so the check is
//! a few loads. Clients are measured separately (`client_memory`). All other memory outside of shards is in the estimate as
//! of a tenth of a second ago. Any thread.
//!
//! The pending output to replicas and to the AOF is in use, but is not compared with `maxmemory`, as in Redis: evicting keys
//! for it would have effects that make these readers slower still. It has limits of its own (`client-output-buffer-limit
//! replica`, `repl-spill-max`, `journal-max-bytes`).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::engine::journal::JournalMemory;

/// The bytes in use by their purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The keys and tables.
    pub data: u64,
    /// An empty engine, and the rest of the process that it serves.
    pub fixed: u64,
    /// The journal, which is kept for its readers.
    pub journal: JournalMemory,
    /// Clients other than replicas: requests and replies in flight, and the clients' properties.
    pub clients: u64,
    /// Replicas: requests and replies in flight, and the clients' properties.
    pub replicas: u64,
    /// The texts of scripts. The Lua states in which they run are reported separately, as in Redis.
    pub scripts: u64,
    /// The texts of libraries.
    pub functions: u64,
    /// The table of clients that track keys.
    pub tracking: u64,
}

impl MemoryUse {
    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        self.data + self.overhead()
    }

    /// Returns the sum of all parts except keys and tables.
    pub fn overhead(&self) -> u64 {
        let clients = self.clients + self.replicas;
        self.fixed + self.journal.held + clients + self.scripts + self.functions + self.tracking
    }

    /// Returns the part that is not compared with `maxmemory`: the pending output to replicas and to the AOF.
    pub fn uncounted(&self) -> u64 {
        self.journal.held - self.journal.backlog + self.replicas
    }

    /// Returns the bytes in use for replicas beyond the backlog.
    pub fn for_replicas(&self) -> u64 {
        self.journal.for_replicas + self.replicas
    }
}

/// A sum of memory that costs a few loads to read.
#[derive(Debug)]
pub struct Estimate {
    shards: Box<[AtomicU64]>,
    sum: AtomicI64,
    overhead: AtomicU64,
    /// The bytes of the process when it was empty; 0 if the process serves more than this engine.
    startup: AtomicU64,
    excess: Excess,
}

/// The time for which more memory was in use than `maxmemory` allows.
#[derive(Debug, Default)]
struct Excess {
    /// The beginning of the present excess, in monotonic nanoseconds; 0 if there is none.
    since_ns: AtomicU64,
    /// The sum of the earlier excesses.
    total_ns: AtomicU64,
}

impl Estimate {
    /// Makes the estimate of so many shards, all empty.
    pub fn new(shards: usize) -> Self {
        let shards = (0..shards).map(|_| AtomicU64::new(0)).collect();
        let [overhead, startup] = [(); 2].map(|()| AtomicU64::new(0));
        Self { shards, sum: AtomicI64::new(0), overhead, startup, excess: Excess::default() }
    }

    /// Notes the present size of a shard. The caller holds its lock.
    #[inline]
    pub fn note(&self, shard: usize, bytes: usize) {
        let old = self.shards[shard].swap(bytes as u64, Ordering::Relaxed);
        if old != bytes as u64 {
            self.sum.fetch_add(bytes as i64 - old as i64, Ordering::Relaxed);
        }
    }

    /// Returns a shard that `random` chooses in proportion to the bytes of each.
    pub fn draw_shard(&self, random: u64) -> usize {
        let sizes = || self.shards.iter().map(|shard| shard.load(Ordering::Relaxed));
        let mut rest = ((u128::from(random) * u128::from(sizes().sum::<u64>())) >> 64) as u64;
        // A shard that shrinks meanwhile may leave a rest; then the first will do.
        let drawn = sizes().position(|size| {
            let is_here = rest < size;
            rest = rest.saturating_sub(size);
            is_here
        });
        drawn.unwrap_or(0)
    }

    /// Notes the size of the empty process, which serves only this engine.
    pub fn note_startup(&self, bytes: u64) {
        self.startup.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of the process when it was empty; 0 if that is not known.
    pub fn startup(&self) -> u64 {
        self.startup.load(Ordering::Relaxed)
    }

    /// Notes the present bytes that belong to no shard and no client, and are compared with `maxmemory`.
    pub fn note_overhead(&self, bytes: u64) {
        self.overhead.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether the limit is exceeded now.
    #[inline]
    pub fn is_exceeded(&self) -> bool {
        self.excess.since_ns.load(Ordering::Relaxed) != 0
    }

    /// Notes whether the limit is exceeded.
    pub fn note_excess(&self, is_exceeded: bool, now_ns: u64) {
        let Excess { since_ns, total_ns } = &self.excess;
        if is_exceeded {
            _ = since_ns.compare_exchange(0, now_ns.max(1), Ordering::Relaxed, Ordering::Relaxed);
        } else {
            let since_ns = since_ns.swap(0, Ordering::Relaxed);
            total_ns.fetch_add(if since_ns == 0 { 0 } else { now_ns.saturating_sub(since_ns) }, Ordering::Relaxed);
        }
    }

    /// Returns how long the limit has been exceeded, in total and this time, in milliseconds.
    pub fn excess_ms(&self, now_ns: u64) -> (u64, u64) {
        let since_ns = self.excess.since_ns.load(Ordering::Relaxed);
        let current_ns = if since_ns == 0 { 0 } else { now_ns.saturating_sub(since_ns) };
        ((self.excess.total_ns.load(Ordering::Relaxed) + current_ns) / 1_000_000, current_ns / 1_000_000)
    }

    /// Returns the bytes of all shards.
    #[inline]
    pub fn shards(&self) -> u64 {
        self.sum.load(Ordering::Relaxed).max(0) as u64
    }

    /// Returns the estimated part of [`MemoryUse`] that is compared with `maxmemory`, without the clients.
    #[inline]
    pub fn total(&self) -> u64 {
        self.shards() + self.overhead.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_the_sum_of_what_was_said_last() {
        let estimate = Estimate::new(2);
        for (shard, bytes) in [(0, 100), (1, 50), (0, 20), (1, 50), (0, 70)] {
            estimate.note(shard, bytes);
        }
        estimate.note_overhead(5);
        assert_eq!(estimate.total(), 125);
    }

    #[test]
    fn shards_are_drawn_in_proportion_to_their_bytes() {
        let estimate = Estimate::new(3);
        assert_eq!(estimate.draw_shard(u64::MAX), 0);
        [(0, 100), (2, 300)].into_iter().for_each(|(shard, bytes)| estimate.note(shard, bytes));
        let drawn = [0, u64::MAX / 5, u64::MAX / 3, u64::MAX].map(|random| estimate.draw_shard(random));
        assert_eq!(drawn, [0, 0, 2, 2]);
    }

    #[test]
    fn times_of_excess_add_up() {
        let estimate = Estimate::new(1);
        for (is_exceeded, now_ms) in [(true, 10), (true, 20), (false, 30), (false, 40), (true, 50)] {
            estimate.note_excess(is_exceeded, now_ms * 1_000_000);
        }
        assert_eq!(estimate.excess_ms(55_000_000), (25, 5));
    }
}
