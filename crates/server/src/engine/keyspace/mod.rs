//! The keyspace: the data, and the state that an engine keeps in addition to its shards: the locks that a command holds, the
//! access clocks, the memory of keys, the keys to evict next, and the sizes at which values change from a small encoding to a
//! large one.

pub(crate) mod all_shards;
pub(crate) mod eviction_pool;
pub(crate) mod key_clock;
pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod memory_accounting;
pub(crate) mod turns;

use sleeve_store::{Options, Store};

use crate::engine::journal::ShardOffsets;
use crate::host::lazy_free::LazyFree;
use eviction_pool::Candidates;
use memory_accounting::Estimate;
use turns::Turns;

/// The data of an engine, and the state that belongs to all of it.
pub struct Keyspace {
    /// The data.
    pub store: Store,
    /// The turns of the commands that need more than their own shard.
    pub(crate) turns: Turns,
    /// For each shard, the offset of the journal behind the newest piece that concerns it.
    pub(crate) offsets: ShardOffsets,
    /// The estimate of the memory in use.
    pub(crate) estimate: Estimate,
    /// The best keys to evict when memory is short.
    pub(crate) candidates: Candidates,
    /// The queue and the thread that frees large values.
    pub lazy_free: LazyFree,
}

impl Keyspace {
    /// Makes an empty keyspace.
    pub fn new(options: Options, lazy_free: LazyFree) -> Self {
        Self {
            store: Store::new(options),
            turns: Turns::default(),
            offsets: ShardOffsets::new(options.shards),
            estimate: Estimate::new(options.shards),
            candidates: Candidates::default(),
            lazy_free,
        }
    }
}
