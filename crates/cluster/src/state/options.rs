//! The options of a node of the cluster.

use crate::node::Address;

/// The options that the state machine reads, named as the options of redis.conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `cluster-node-timeout`, in milliseconds.
    pub node_timeout_ms: u64,
    /// `cluster-replica-validity-factor`.
    pub replica_validity_factor: u64,
    /// `cluster-migration-barrier`.
    pub migration_barrier: usize,
    /// `cluster-allow-replica-migration`.
    pub allows_replica_migration: bool,
    /// `cluster-require-full-coverage`.
    pub requires_full_coverage: bool,
    /// `cluster-replica-no-failover`.
    pub is_no_failover: bool,
    /// `repl-ping-replica-period`, in milliseconds: by it a replica judges the age of its data.
    pub replica_ping_period_ms: u64,
    /// `tls-cluster`: whether the bus uses TLS.
    pub has_tls: bool,
    /// `cluster-preferred-endpoint-type`.
    pub endpoint_type: EndpointType,
    /// The address that this node announces: `cluster-announce-*` over the ports that it listens on. An empty IP address is
    /// learned from the first MEET.
    pub address: Address,
}

/// The way in which redirects and CLUSTER SLOTS name a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointType {
    /// By its IP address.
    #[default]
    Ip,
    /// By its host name, or `?` if it has announced none.
    Hostname,
    /// Not at all: the client uses the host that it is connected to.
    UnknownEndpoint,
}
