//! What an engine keeps beside its shards: the locks that a command holds, the clock of a key's use, the memory that keys
//! take, and the keys to evict next.

pub(crate) mod eviction_pool;
pub(crate) mod key_clock;
pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod memory_accounting;
