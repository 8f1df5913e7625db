//! Where memory goes, in bytes, and a sum of it that is always at hand.
//!
//! A [`Footprint`] is exact and costs the lock of every shard. The [`Estimate`] is for the question that each command asks
//! while `maxmemory` is set: whoever has changed a shard says what it weighs now, as it still holds its lock, and the
//! question is a few loads. Clients are weighed by themselves (`client_memory`); what else is not in shards is in the
//! estimate as of a tenth of a second ago. Any thread.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// See the file's head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Keys and tables.
    pub data: u64,
    /// What an empty engine takes.
    pub fixed: u64,
    /// The journal, which is kept for those who read it.
    pub journal: u64,
    /// Clients: requests and replies on their way, and what is known of them.
    pub clients: u64,
    /// The texts of scripts and the Lua states in which they run.
    pub scripts: u64,
    /// The texts of libraries and the Lua states in which they run.
    pub functions: u64,
    /// Who must hear of which keys.
    pub tracking: u64,
}

impl Footprint {
    /// Everything: what `maxmemory` is compared with.
    pub fn total(&self) -> u64 {
        self.data + self.overhead()
    }

    /// Everything but keys and tables.
    pub fn overhead(&self) -> u64 {
        self.fixed + self.journal + self.clients + self.scripts + self.functions + self.tracking
    }
}

/// See the file's head.
#[derive(Debug)]
pub struct Estimate {
    shards: Box<[AtomicU64]>,
    sum: AtomicI64,
    overhead: AtomicU64,
}

impl Estimate {
    /// Of so many shards, all empty.
    pub fn new(shards: usize) -> Self {
        let shards = (0..shards).map(|_| AtomicU64::new(0)).collect();
        Self { shards, sum: AtomicI64::new(0), overhead: AtomicU64::new(0) }
    }

    /// A shard weighs so much now. The caller holds its lock.
    #[inline]
    pub fn note(&self, shard: usize, bytes: usize) {
        let old = self.shards[shard].swap(bytes as u64, Ordering::Relaxed);
        if old != bytes as u64 {
            self.sum.fetch_add(bytes as i64 - old as i64, Ordering::Relaxed);
        }
    }

    /// What is in no shard and no client weighs so much now.
    pub fn note_overhead(&self, bytes: u64) {
        self.overhead.store(bytes, Ordering::Relaxed);
    }

    /// What all shards weigh.
    #[inline]
    pub fn shards(&self) -> u64 {
        self.sum.load(Ordering::Relaxed).max(0) as u64
    }

    /// About what a footprint's total would be, without the clients.
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
}
