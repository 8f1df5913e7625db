//! The cost of durability: the AOF's syncs, snapshots, and the start that reads them.

pub mod restart;
pub mod snapshot;
pub mod synced;
