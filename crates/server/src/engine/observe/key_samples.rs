//! The keys that were used most recently and most often, from samples that are always taken: one in 128 keys on average, at
//! random distances, so that a regular pattern of requests does not distort them.
//!
//! Keys are sampled after the lookup of a group of requests, as they arrive from clients. Keys that scripts use without
//! naming them, keys in commands of a primary, and those of MEMORY USAGE, which is no use of a key, are not sampled. If no
//! key of a group is due, this costs one subtraction for the group. Samples go into counters of the executing thread
//! ([`KeySamples`]); all counters are halved from time to time.

use super::heavy_hitters::HeavyHitters;

/// The sampling rate: one in so many keys is sampled on average.
pub const SAMPLE_RATIO: usize = 128;

/// The time after which a sample counts half, in milliseconds.
pub const HALF_LIFE_MS: u64 = 10_000;

/// The share of a thread's samples, one in so many, above which a key is always kept.
const SHARES: usize = 256;

/// The samples of one thread.
pub type KeySamples = HeavyHitters<SHARES>;
