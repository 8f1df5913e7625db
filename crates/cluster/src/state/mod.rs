//! The state of a node of the cluster.

use std::collections::BTreeMap;

use crate::action::{Action, LinkId};
use crate::id::NodeId;
use crate::node::Node;
use crate::slots::Slot;

pub mod options;

pub use crate::epochs::Epochs;
pub use crate::slot_table::SlotTable;
pub use options::Options;

/// The state of this node: all nodes that it knows, the owners of the slots, and the election that it takes part in.
#[derive(Debug)]
pub struct ClusterState {
    /// The id of this node.
    pub(crate) me: NodeId,
    /// All known nodes, this one included. In the order of ids, so that simulations repeat.
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// The owners of the slots.
    pub(crate) slots: SlotTable,
    /// The epochs, which nodes.conf keeps.
    pub(crate) epochs: Epochs,
    /// Whether the cluster works, as this node sees it.
    pub(crate) health: Health,
    /// The nodes that must not be taken up again, and until when, in milliseconds.
    pub(crate) forgotten: BTreeMap<NodeId, u64>,
    /// The nodes at the other ends of the links. None for an accepted link on which no known node has spoken.
    pub(crate) links: BTreeMap<LinkId, Option<NodeId>>,
    /// The options.
    pub(crate) options: Options,
    /// The actions that the caller has not taken yet.
    pub(crate) actions: Vec<Action>,
    /// Counts each change that a [`View`] would show.
    pub(crate) version: u64,
}

/// Whether the cluster works, as this node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether commands with keys are executed.
    pub is_ok: bool,
}

/// The owners of all slots and the slots on the move, at one moment. Workers decide by it, without a lock, whether a request
/// belongs here.
#[derive(Debug, Clone)]
pub struct View {
    /// The version of the state that the view shows.
    pub version: u64,
    /// The owner of each slot, as an index into `nodes`. `NOBODY` for a slot without one.
    pub owners: Box<[u16]>,
    /// The nodes that owners, migrations and imports name, with the address that redirects name.
    pub nodes: Vec<Target>,
    /// The index of this node's primary, or of this node if it is a primary.
    pub own_primary: u16,
    /// Whether this node is a replica.
    pub is_replica: bool,
    /// Whether the cluster works.
    pub is_ok: bool,
    /// The slots that leave this node, and the index of the node that they go to.
    pub migrating: BTreeMap<Slot, u16>,
    /// The slots that come to this node.
    pub importing: BTreeMap<Slot, u16>,
}

/// A node as the target of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The id.
    pub id: NodeId,
    /// The endpoint that redirects name: an IP address, a host name, or empty if the client is to use the host it knows
    /// (`cluster-preferred-endpoint-type`).
    pub endpoint: String,
    /// The port for clients without TLS. 0 if there is none.
    pub port: u16,
    /// The port for clients with TLS. 0 if there is none.
    pub tls_port: u16,
}

/// The value in [`View::owners`] for a slot without an owner.
pub const NOBODY: u16 = u16::MAX;
