//! A picture of the state for the threads that execute requests.

use std::collections::BTreeMap;

use crate::id::NodeId;
use crate::node::Node;
use crate::slots::{SLOTS, Slot};
use crate::state::cluster_state::ClusterState;
use crate::state::options::EndpointType;

/// The value in [`View::owners`] for a slot without an owner.
pub const NOBODY: u16 = u16::MAX;

/// The owners of all slots and the slots on the move, at one moment. Workers decide by it, without a lock, whether a request
/// belongs here.
#[derive(Debug, Clone)]
pub struct View {
    /// The version of the state that the view shows.
    pub version: u64,
    /// The owner of each slot, as an index into `nodes`. [`NOBODY`] for a slot without one.
    pub owners: Box<[u16]>,
    /// The nodes that owners, migrations and imports name, with the address that redirects name.
    pub nodes: Vec<Target>,
    /// The index of this node's primary, or of this node if it is a primary. [`NOBODY`] for a replica of an unknown primary.
    pub own_primary: u16,
    /// Whether this node is a replica.
    pub is_replica: bool,
    /// Whether the cluster works.
    pub is_ok: bool,
    /// The slots that leave this node, and the index of the node that they go to.
    pub migrating: BTreeMap<Slot, u16>,
    /// The slots that come to this node, and the index of the node that they come from.
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

impl ClusterState {
    /// Returns the version of the state, which every change that a [`View`] shows moves on.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a picture of the state.
    pub fn view(&self) -> View {
        let mut gathered = Gathered { state: self, indexes: BTreeMap::new(), nodes: Vec::new() };
        let mut owners: Box<[u16]> = vec![NOBODY; usize::from(SLOTS)].into();
        // A look-up of the owner of each slot would cost milliseconds, and each slot that moves makes a view at each node.
        for node in self.nodes.values().filter(|node| !node.slots.is_empty()) {
            let index = gathered.index(Some(node.id));
            for slot in node.slots.iter() {
                if let Some(owner) = owners.get_mut(usize::from(slot)) {
                    *owner = index;
                }
            }
        }
        let migrating = self.slots.migrating.iter().map(|(slot, to)| (*slot, gathered.index(Some(*to)))).collect();
        let importing = self.slots.importing.iter().map(|(slot, from)| (*slot, gathered.index(Some(*from)))).collect();
        let own_primary = gathered.index(self.own_primary());
        View {
            version: self.version,
            owners,
            nodes: gathered.nodes,
            own_primary,
            is_replica: self.myself().is_replica(),
            is_ok: self.health.is_ok,
            migrating,
            importing,
        }
    }
}

/// The nodes that a view names, each once.
struct Gathered<'a> {
    state: &'a ClusterState,
    indexes: BTreeMap<NodeId, u16>,
    nodes: Vec<Target>,
}

impl Gathered<'_> {
    fn index(&mut self, id: Option<NodeId>) -> u16 {
        let Some(node) = id.and_then(|id| self.state.nodes.get(&id)) else { return NOBODY };
        if let Some(index) = self.indexes.get(&node.id) {
            return *index;
        }
        let Some(index) = u16::try_from(self.nodes.len()).ok().filter(|index| *index != NOBODY) else { return NOBODY };
        self.nodes.push(target(node, self.state.options.endpoint_type));
        self.indexes.insert(node.id, index);
        index
    }
}

fn target(node: &Node, endpoint_type: EndpointType) -> Target {
    let address = &node.address;
    let endpoint = match endpoint_type {
        EndpointType::Ip => address.ip.clone(),
        EndpointType::Hostname if address.hostname.is_empty() => "?".to_owned(),
        EndpointType::Hostname => address.hostname.clone(),
        EndpointType::UnknownEndpoint => String::new(),
    };
    Target { id: node.id, endpoint, port: address.port, tls_port: address.tls_port }
}
