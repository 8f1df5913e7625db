//! For each shard, the offset behind the newest piece that concerns it.
//!
//! A thread that has read a shard has seen no effect behind that offset. So if a reply waits until the journal is durable up
//! to it, the reply shows nothing that could be lost. Changed and read under the shard's lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// One offset for each shard.
#[derive(Debug)]
pub struct ShardOffsets(Box<[Offset]>);

/// An offset in a cache line of its own, because different threads write to neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Offset(AtomicU64);

impl ShardOffsets {
    /// Makes the offsets of so many shards; nothing was appended about them.
    pub fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Offset::default()).collect())
    }

    /// Notes that a piece that concerns this shard was appended, up to this offset. The caller holds the shard's lock.
    pub fn note(&self, shard: usize, offset: u64) {
        self.0[shard].0.store(offset, Ordering::Relaxed);
    }

    /// Forgets the offsets: the journal continues at an offset that has no relation to those before. All shards are locked.
    pub fn forget(&self) {
        self.0.iter().for_each(|offset| offset.0.store(0, Ordering::Relaxed));
    }

    /// Returns the offset behind the newest piece that concerns this shard. The caller holds the shard's lock.
    pub fn get(&self, shard: usize) -> u64 {
        self.0[shard].0.load(Ordering::Relaxed)
    }
}
