//! What decides how a value that is read is kept: packed or large, and which of its fields not at all.
//!
//! A file says how its writer kept a value. That is passed over: the reader builds what these limits say, as if commands had
//! made the value here. Plain data, the same for all threads that read one file.

use crate::types::hash::MapLimits;
use crate::types::list::limit::ListLimit;
use crate::types::set::SetLimits;
use crate::types::sorted_set::SortedSetLimits;
use crate::value::key_hash::HashKey;

/// What decides how values are kept.
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
    /// The time, milliseconds since the epoch: fields whose time is over are not kept.
    pub now_ms: i64,
}

impl Limits {
    /// The limits that Redis has unless it is told otherwise; nothing is over.
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
