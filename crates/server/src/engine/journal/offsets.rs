//! For each shard, the offset behind the newest piece about it.
//!
//! A thread that has seen a shard has seen no effect that stands behind that offset, so a reply that waits until the journal
//! is written so far shows nothing that could be lost. Changed and read under the shard's lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// One offset for each shard.
#[derive(Debug)]
pub struct ShardOffsets(Box<[Offset]>);

/// On a line of the cache of its own: different threads write to neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Offset(AtomicU64);

impl ShardOffsets {
    /// Creates the offsets of so many shards, about which nothing was appended.
    pub fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Offset::default()).collect())
    }

    /// Notes that something about this shard was appended, up to this offset. The caller holds its lock.
    pub fn note(&self, shard: usize, offset: u64) {
        self.0[shard].0.store(offset, Ordering::Relaxed);
    }

    /// Forgets them: the journal goes on at an offset that has nothing to do with those before. All shards are locked.
    pub fn forget(&self) {
        self.0.iter().for_each(|offset| offset.0.store(0, Ordering::Relaxed));
    }

    /// Returns the offset behind the newest piece about this shard. The caller holds its lock.
    pub fn get(&self, shard: usize) -> u64 {
        self.0[shard].0.load(Ordering::Relaxed)
    }
}
