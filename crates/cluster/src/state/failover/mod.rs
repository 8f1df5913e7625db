//! The detection of failed nodes, and the replacement of failed primaries by their replicas.

pub mod campaign;
pub mod failure;
pub mod manual;
pub mod replica_migration;
pub mod vote;
