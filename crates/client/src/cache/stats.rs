//! The counts of a near cache. Pure data; any thread.

/// The counts of a near cache since it was opened, and its size: see [`Cached::stats`](crate::Cached::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Reads that were answered here.
    pub hits: u64,
    /// Reads that went to the server.
    pub misses: u64,
    /// Reads that waited for the reply to another's.
    pub shared: u64,
    /// Replies that are kept.
    pub entries: u64,
    /// Bytes that they take, as they count against [`CacheOptions::bytes_max`](crate::CacheOptions::bytes_max).
    pub bytes: u64,
    /// Keys that the server said have changed.
    pub invalidations: u64,
    /// Times at which everything went: a lost connection, with which in a cluster only that goes which its node owned;
    /// FLUSHALL or FLUSHDB, [`Cached::clear`](crate::Cached::clear).
    pub flushes: u64,
    /// Replies that went because there was no room.
    pub evictions: u64,
    /// Replies that went because their time was over.
    pub expirations: u64,
    /// Replies that came and were not kept: an error, or a key of which something was heard meanwhile.
    pub unkept: u64,
}

impl CacheStats {
    /// The share of reads that cost the server nothing, from 0 to 1; 0 where nothing was read.
    pub fn hit_rate(&self) -> f64 {
        let reads = self.hits + self.shared + self.misses;
        if reads == 0 { 0.0 } else { (self.hits + self.shared) as f64 / reads as f64 }
    }

    /// Adds the counts of another part of the cache.
    pub(super) fn add(&mut self, part: &Self) {
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
