//! CLUSTER SHARDS: each primary with its slots and its replicas.

use super::{Viewer, offset};
use crate::id::NodeId;
use crate::node::Node;
use crate::slots::Slot;
use crate::state::ClusterState;
use crate::state::options::EndpointType;

/// A primary, its slots and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardReport {
    /// The ranges of slots.
    pub ranges: Vec<(Slot, Slot)>,
    /// The primary, and behind it its replicas.
    pub members: Vec<MemberReport>,
}

/// A node of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReport {
    /// The id.
    pub id: NodeId,
    /// The port for clients without TLS. 0 if there is none.
    pub port: u16,
    /// The port for clients with TLS. 0 if there is none.
    pub tls_port: u16,
    /// The IP address.
    pub ip: String,
    /// The endpoint: an IP address, a host name, or empty if the client is to use the host that it is connected to.
    pub endpoint: String,
    /// The host name. Empty if there is none.
    pub hostname: String,
    /// Whether the node is a replica.
    pub is_replica: bool,
    /// The replication offset, in bytes.
    pub offset: u64,
    /// Whether the node works.
    pub health: MemberHealth,
}

/// Whether a node of a shard works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberHealth {
    /// A majority has declared the node failed.
    Fail,
    /// The node is a replica without data.
    Loading,
    /// The node serves.
    Online,
}

impl MemberHealth {
    /// Returns the word in the reply.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Loading => "loading",
            Self::Online => "online",
        }
    }
}

/// Returns the shards, one for each primary, with or without slots.
pub fn shards(state: &ClusterState, viewer: Viewer<'_>) -> Vec<ShardReport> {
    let primaries = state.nodes.values().filter(|node| node.is_primary());
    primaries
        .map(|primary| {
            let members = std::iter::once(primary)
                .chain(state.replicas_of(primary.id))
                .map(|node| member(state, node, viewer))
                .collect();
            ShardReport { ranges: primary.slots.ranges(), members }
        })
        .collect()
}

fn member(state: &ClusterState, node: &Node, viewer: Viewer<'_>) -> MemberReport {
    let address = &node.address;
    let offset = offset(node, viewer.host);
    let has_name = !address.hostname.is_empty();
    MemberReport {
        id: node.id,
        port: address.port,
        tls_port: address.tls_port,
        ip: address.ip.clone(),
        endpoint: match state.options.endpoint_type {
            EndpointType::Ip => address.ip.clone(),
            EndpointType::Hostname if has_name => address.hostname.clone(),
            EndpointType::Hostname => "?".to_owned(),
            EndpointType::UnknownEndpoint => String::new(),
        },
        hostname: address.hostname.clone(),
        is_replica: node.is_replica(),
        offset,
        health: match (node.has_failed(), node.is_replica() && offset == 0) {
            (true, _) => MemberHealth::Fail,
            (false, true) => MemberHealth::Loading,
            (false, false) => MemberHealth::Online,
        },
    }
}
