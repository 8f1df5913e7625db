//! Plans: which node gets which slots, and which node replicates which. Pure functions of numbers and names; nodes are numbers,
//! and chance comes from the caller.

pub mod affinity;
pub mod allocation;
pub mod rebalance;
pub mod reshard;
