//! What it costs that data outlives the process: the log's syncs, snapshots, and the start that reads them.

pub mod restart;
pub mod snapshot;
pub mod synced;
