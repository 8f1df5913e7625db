//! nodes.conf: the file in which a node keeps its cluster across restarts, in Redis's format.
//!
//! A line describes a node, as CLUSTER NODES does:
//!
//! ```text
//! <id> <ip>:<port>@<bus port>,<host name>,<name>=<value>… <flags> <primary or -> <ping> <pong> <epoch> <link> <slots>…
//! ```
//!
//! Redis 7.0 writes neither the names with values (7.2 and Valkey do), nor a comma if there is no host name. Behind the slots of
//! this node stand those on the move: `[slot->-id]` leaves, `[slot-<-id]` comes. The last line is `vars currentEpoch <n>
//! lastVoteEpoch <n>`.
//!
//! Redis overwrites the file in its place, so a power failure may leave a part of the new text in front of a part of the old
//! one, or of nothing. People edit the file, too. [`read`] takes everything that is certain, and reports each thing that it
//! drops as a [`Repair`]. Only a file that does not say which node this one is cannot be read: a node that starts with another
//! id would be a stranger to its cluster. The bounds are [`TEXT_MAX`] and [`NODES_MAX`].
//!
//! Pure functions; any thread.

mod assembly;
mod line;
mod repair;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

pub use assembly::read;
pub use repair::{Repair, Unreadable};
pub use write::{Form, write, write_line};

use crate::epochs::Epochs;
use crate::host::Time;
use crate::id::NodeId;
use crate::node::Node;
use crate::slot_table::SlotTable;

/// The bytes of the largest file that is read: a thousand nodes with scattered slots need less than half.
pub const TEXT_MAX: usize = 16 << 20;

/// The most nodes that are read, one for each slot.
pub const NODES_MAX: usize = 16_384;

/// The facts that nodes.conf keeps, as they stand in the state of a node.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// All nodes. Those in handshake are not written.
    pub nodes: &'a BTreeMap<NodeId, Node>,
    /// The slots on the move.
    pub slots: &'a SlotTable,
    /// The epochs.
    pub epochs: Epochs,
    /// Whether the bus uses TLS, so that the port of a line is the one with TLS.
    pub has_tls: bool,
    /// The time, by which PINGs in flight are dated.
    pub now: Time,
}

/// The facts that were read from a nodes.conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The id of this node.
    pub me: NodeId,
    /// All nodes, this one included.
    pub nodes: BTreeMap<NodeId, Node>,
    /// The owners of the slots, which agree with the slots of the nodes, and the slots on the move.
    pub slots: SlotTable,
    /// The epochs.
    pub epochs: Epochs,
}
