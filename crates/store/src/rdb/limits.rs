//! The limits that decide how a value that is read is kept: packed or large, and which of its fields are left out.
//!
//! A file says how its writer kept a value. The reader ignores that: it builds the value that these limits ask for, as if
//! commands had made it here. Plain data, the same for all threads that read one file.

use crate::types::hash::MapLimits;
use crate::types::list::limit::ListLimit;
use crate::types::set::SetLimits;
use crate::types::sorted_set::SortedSetLimits;
use crate::value::key_hash::HashKey;

/// The limits that decide how values are kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The secret of tables.
    pub hash_key: HashKey,
    /// Lists.
    pub list: ListLimit,
    /// Sets.
    pub set: SetLimits,
    /// Hashes.
    pub hash: MapLimits,
    /// Sorted sets.
    pub sorted_set: SortedSetLimits,
    /// The time, in milliseconds since the epoch: fields that are expired by then are not kept.
    pub now_ms: i64,
}

impl Limits {
    /// Returns the default limits of Redis, with a time at which no field is expired.
    pub fn usual(hash_key: HashKey) -> Self {
        Self {
            hash_key,
            list: ListLimit::new(-2),
            set: SetLimits { integers_max: 512, packed_max: 128, packed_value_max: 64 },
            hash: MapLimits { entries_max: 128, value_bytes_max: 64 },
            sorted_set: SortedSetLimits { entries_max: 128, value_max: 64 },
            now_ms: i64::MIN,
        }
    }
}
