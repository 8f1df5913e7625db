//! The counts of a near cache. Pure data; any thread.

/// The counts of a near cache since it was opened, and its size: see [`Cached::stats`](crate::Cached::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Reads that were answered here.
    pub hits: u64,
    /// Reads that were sent to the server.
    pub misses: u64,
    /// Reads that waited for the reply to another caller's read.
    pub shared: u64,
    /// Replies that are in the cache.
    pub entries: u64,
    /// The bytes that these replies take, as they count against [`CacheOptions::bytes_max`](crate::CacheOptions::bytes_max).
    pub bytes: u64,
    /// Keys that the server has reported as changed.
    pub invalidations: u64,
    /// The number of times at which all replies were removed: by FLUSHALL or FLUSHDB, by
    /// [`Cached::clear`](crate::Cached::clear), or by a lost connection. A lost connection of a cluster removes only the
    /// replies of the slots that its node owned.
    pub flushes: u64,
    /// Replies that were removed for want of room.
    pub evictions: u64,
    /// Replies that were removed because their time to live had passed.
    pub expirations: u64,
    /// Replies that arrived and were not kept: an error, or a key with an invalidation that arrived before the reply.
    pub unkept: u64,
}

impl CacheStats {
    /// Returns the share of reads that cost the server nothing, from 0 to 1; 0 if there was no read.
    pub fn hit_rate(&self) -> f64 {
        let reads = self.hits + self.shared + self.misses;
        if reads == 0 { 0.0 } else { (self.hits + self.shared) as f64 / reads as f64 }
    }

    /// Adds the counts of another part of the cache.
    pub(crate) fn add(&mut self, part: &Self) {
        self.hits += part.hits;
        self.misses += part.misses;
        self.shared += part.shared;
        self.entries += part.entries;
        self.bytes += part.bytes;
        self.invalidations += part.invalidations;
        self.flushes += part.flushes;
        self.evictions += part.evictions;
        self.expirations += part.expirations;
        self.unkept += part.unkept;
    }
}
