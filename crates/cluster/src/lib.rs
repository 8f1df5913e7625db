//! A node of a Redis or Valkey Cluster, as a state machine without sockets, files, threads or a clock.
//!
//! The owner is [`ClusterState`]. Its callers give it the time, whole packets of the cluster bus, the opening and closing of
//! links, and the commands of an operator. It appends [`Action`]s: packets to send, links to open, a nodes.conf to write, a
//! primary to follow. The caller carries the actions out in their order, so a vote leaves only after the nodes.conf that
//! records it is on the disk. Because time and chance come from outside, whole clusters are simulated in one thread from one
//! seed.
//!
//! [`packet`] turns the bytes of the bus into checked values and back. [`report`] describes the cluster for CLUSTER NODES,
//! SLOTS, SHARDS, LINKS and INFO.

pub mod action;
pub mod host;
pub mod id;
pub mod node;
pub mod packet;
pub mod slots;
pub mod state;

pub use action::{Action, LinkId};
pub use host::{Host, Time};
pub use id::NodeId;
pub use node::{Node, NodeFlags};
pub use slots::{SLOTS, Slot, SlotSet};
pub use state::ClusterState;
