//! The cluster as this node sees it, for the commands that describe it: CLUSTER NODES, SLOTS, SHARDS, LINKS, REPLICAS and INFO.
//!
//! Texts and values are those of Redis 7.0. The server turns the values into replies. Nodes stand in the order of their ids.
//! Pure functions; any thread that holds the state.

mod info;
mod links;
mod nodes;
mod shards;
mod slots;

pub use info::info;
pub use links::{LinkDirection, LinkReport, links};
pub use nodes::{nodes, replicas};
pub use shards::{MemberHealth, MemberReport, ShardReport, shards};
pub use slots::{EndpointReport, RangeReport, slots};

use crate::host::{Host, Time};
use crate::node::{Node, NodeFlags};
use crate::nodes_conf::Stored;
use crate::state::ClusterState;

/// The client that a report is for, and the server around the state.
#[derive(Clone, Copy)]
pub struct Viewer<'a> {
    /// The time.
    pub now: Time,
    /// The server, which knows its own replication offset.
    pub host: &'a dyn Host,
    /// Whether the client is connected without TLS. Where the bus uses TLS, it is shown the ports without TLS, if nodes have one.
    pub is_plain: bool,
}

/// Returns the facts by which a line is written.
fn stored(state: &ClusterState, now: Time) -> Stored<'_> {
    Stored { now, ..state.stored() }
}

/// Returns the replication offset of a node: the node's last packet states it, and this node knows its own.
fn offset(node: &Node, host: &dyn Host) -> u64 {
    if node.flags.has(NodeFlags::MYSELF) { host.replication_offset() } else { node.offset }
}

/// Returns the port of a node for a client.
fn client_port(node: &Node, state: &ClusterState, is_plain: bool) -> u16 {
    let wants_plain = is_plain && node.address.port != 0;
    if state.options.has_tls && !wants_plain { node.address.tls_port } else { node.address.port }
}
