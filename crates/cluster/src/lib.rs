//! A node of a Redis or Valkey Cluster, as a state machine without sockets, files, threads or a clock.
//!
//! The owner is [`ClusterState`]. Its callers give it the time, whole packets of the cluster bus, the opening and closing of
//! links, and the commands of an operator. It appends [`Action`]s: packets to send, links to open, a nodes.conf to write, a
//! primary to follow. The caller carries the actions out in their order, so a vote leaves only after the nodes.conf that
//! records it is on the disk. Because time and chance come from outside, whole clusters are simulated in one thread from one
//! seed.
//!
//! # The rooms, from top to bottom
//!
//! A room uses only rooms below it.
//!
//! | room | contents |
//! | --- | --- |
//! | `admin` | The commands of an operator, which check and change the state. |
//! | `report` | The state in the words of CLUSTER NODES, SLOTS, SHARDS, LINKS and INFO. |
//! | `state` | The state of this node, and the events that change it. |
//! | `nodes_conf` | The file in which a node keeps its cluster: written, read and repaired. |
//! | `packet` | The packets of the bus: bytes to checked values and back. |
//! | `slot_table` | The owners of the slots, and the slots on the move. |
//! | `node` | A node, as this node knows it: flags, address, signs of life. |
//! | `action` | The work that the state leaves to its caller. |
//! | `host` | The facts that the state asks its caller for: time, offsets, keys, chance. |
//! | `epochs` | The epochs of a cluster. |
//! | `slots` | Sets of slots. |
//! | `id` | The ids of nodes and shards. |
//! | `planted` | Faults that tests plant, to show that the simulation finds them. |

pub mod action;
pub mod admin;
pub mod epochs;
pub mod host;
pub mod id;
pub mod node;
pub mod nodes_conf;
pub mod packet;
mod planted;
pub mod report;
pub mod slot_table;
pub mod slots;
pub mod state;

#[cfg(test)]
mod simulation;

pub use action::{Action, LinkId};
pub use host::{Host, Time};
pub use id::NodeId;
pub use node::{Node, NodeFlags};
pub use slots::{SLOTS, Slot, SlotSet};
pub use state::ClusterState;
