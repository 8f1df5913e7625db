//! The commands, a file for each kind. Each takes the manager, prints as redis-cli prints, and fails when it has printed why.

pub mod backup;
pub mod create;
pub mod every_node;
pub mod import;
pub mod membership;
pub mod rebalance;
pub mod reshard;
