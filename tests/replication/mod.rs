//! Replication: Sleeve as primary and as replica of Redis 7.0, Redis 8 and Valkey 9.

mod acknowledged;
mod chains;
mod failover;
mod history;
mod ids;
mod migration;
mod primary;
pub mod replica;
