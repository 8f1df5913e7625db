//! The state that an engine keeps in addition to its shards: the locks that a command holds, the clock of a key's use, the
//! memory of keys, the keys to evict next, and the sizes at which small values become large ones.

pub(crate) mod all_shards;
pub(crate) mod eviction_pool;
pub(crate) mod key_clock;
pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod memory_accounting;
