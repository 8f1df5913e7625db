//! The state of a node of the cluster, and the events that change it.
//!
//! [`ClusterState`] holds the owners: the nodes, the slots, the links, the election. The files in `receive` take packets, those
//! in `failover` detect failures and replace failed primaries. All events enter in `events`.
//!
//! An event appends actions, and its end settles the consequences: whether the cluster works, which primary is followed,
//! whether nodes.conf is to be written. nodes.conf is the first of the actions that the caller takes, so that a vote or a new
//! epoch leaves only after it is on the disk.

pub mod cluster_state;
pub mod election;
mod events;
pub mod failover;
pub mod forgotten;
pub mod health;
pub mod links;
pub mod manual_failover;
pub mod members;
pub mod options;
mod receive;
pub mod send;
pub mod slot_claims;
pub mod traffic;
pub mod view;

pub use crate::epochs::Epochs;
pub use crate::slot_table::SlotTable;
pub use cluster_state::ClusterState;
pub use health::Health;
pub use options::Options;
pub use view::{NOBODY, Target, View};
