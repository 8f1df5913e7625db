//! CLUSTER SLOTS: ranges of slots with the nodes that serve them.

use super::{Viewer, client_port, offset};
use crate::id::NodeId;
use crate::node::Node;
use crate::slots::{SLOTS, Slot};
use crate::state::ClusterState;
use crate::state::options::EndpointType;

/// A range of slots that one shard serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeReport {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// The owner, and behind it the replicas that can serve reads.
    pub nodes: Vec<EndpointReport>,
}

/// A node with the address that clients are to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointReport {
    /// The endpoint: an IP address, a host name, or None if the client is to use the host that it is connected to.
    pub endpoint: Option<String>,
    /// The port.
    pub port: u16,
    /// The id.
    pub id: NodeId,
    /// The IP address, if it is not the endpoint.
    pub ip: Option<String>,
    /// The host name, if there is one and it is not the endpoint.
    pub hostname: Option<String>,
}

/// Returns the ranges of all slots that have an owner.
pub fn slots(state: &ClusterState, viewer: Viewer<'_>) -> Vec<RangeReport> {
    let mut ranges: Vec<(Slot, Slot, NodeId)> = Vec::new();
    for slot in 0..SLOTS {
        let Some(owner) = state.slots.owner(slot) else { continue };
        match ranges.last_mut() {
            Some((_, last, of)) if *of == owner && *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot, owner)),
        }
    }
    ranges
        .into_iter()
        .map(|(first, last, owner)| RangeReport { first, last, nodes: members(state, owner, viewer) })
        .collect()
}

/// Returns the owner and its replicas that have data.
fn members(state: &ClusterState, owner: NodeId, viewer: Viewer<'_>) -> Vec<EndpointReport> {
    let serves = |node: &&Node| {
        node.id == owner
            || node.is_replica() && node.primary == Some(owner) && !node.has_failed() && offset(node, viewer.host) != 0
    };
    let mut nodes: Vec<&Node> = state.nodes.values().filter(serves).collect();
    nodes.sort_by_key(|node| (node.id != owner, node.id));
    nodes.into_iter().map(|node| endpoint(state, node, viewer.is_plain)).collect()
}

fn endpoint(state: &ClusterState, node: &Node, is_plain: bool) -> EndpointReport {
    let kind = state.options.endpoint_type;
    let ip = node.address.ip.clone();
    let hostname = Some(&node.address.hostname).filter(|name| !name.is_empty()).cloned();
    EndpointReport {
        endpoint: match kind {
            EndpointType::Ip => Some(ip.clone()),
            EndpointType::Hostname => Some(hostname.clone().unwrap_or_else(|| "?".to_owned())),
            EndpointType::UnknownEndpoint => None,
        },
        port: client_port(node, state, is_plain),
        id: node.id,
        ip: (kind != EndpointType::Ip).then_some(ip),
        hostname: hostname.filter(|_| kind != EndpointType::Hostname),
    }
}
