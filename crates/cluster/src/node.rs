//! A node of the cluster, as this node knows it.

use std::collections::BTreeMap;
use std::fmt;

use crate::action::LinkId;
use crate::id::NodeId;
use crate::slots::SlotSet;

/// The flags of a node. The lower 16 bits stand in packets and have the values of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeFlags(pub u16);

impl NodeFlags {
    /// The node is a primary.
    pub const PRIMARY: Self = Self(1);
    /// The node is a replica.
    pub const REPLICA: Self = Self(2);
    /// The node has not answered for the node timeout, as this node sees it.
    pub const PFAIL: Self = Self(4);
    /// A majority of primaries has reported the node as silent.
    pub const FAIL: Self = Self(8);
    /// The node describes itself.
    pub const MYSELF: Self = Self(16);
    /// The first exchange of packets is not over, and the id is one of chance.
    pub const HANDSHAKE: Self = Self(32);
    /// The address of the node is not known.
    pub const NO_ADDRESS: Self = Self(64);
    /// The node is to be sent a MEET.
    pub const MEET: Self = Self(128);
    /// The primary takes replicas that other primaries can spare.
    pub const MIGRATE_TO: Self = Self(256);
    /// The replica does not take part in elections (`cluster-replica-no-failover`).
    pub const NO_FAILOVER: Self = Self(512);
    /// The node reads extensions of a PING.
    pub const EXTENSIONS: Self = Self(1024);
    /// The node reads light headers for PUBLISH and PUBLISHSHARD (Valkey 8.1).
    pub const LIGHT_PUBLISH: Self = Self(2048);

    /// Returns whether all these flags are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns whether at least one of these flags is set.
    pub const fn has_any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns the flags of both.
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Returns the flags without these.
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Sets or clears flags.
    pub fn set(&mut self, flags: Self, on: bool) {
        *self = if on { self.with(flags) } else { self.without(flags) };
    }
}

/// The names of the flags as in nodes.conf and CLUSTER NODES, in the order in which they are written.
const NAMES: [(NodeFlags, &str); 8] = [
    (NodeFlags::MYSELF, "myself"),
    (NodeFlags::PRIMARY, "master"),
    (NodeFlags::REPLICA, "slave"),
    (NodeFlags::PFAIL, "fail?"),
    (NodeFlags::FAIL, "fail"),
    (NodeFlags::HANDSHAKE, "handshake"),
    (NodeFlags::NO_ADDRESS, "noaddr"),
    (NodeFlags::NO_FAILOVER, "nofailover"),
];

impl fmt::Display for NodeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("noflags"))?;
        names.try_for_each(|name| write!(f, ",{name}"))
    }
}

impl NodeFlags {
    /// Returns the flag of a name in nodes.conf. None for an unknown name; `noflags` is the empty set.
    pub fn of_name(name: &str) -> Option<Self> {
        if name == "noflags" {
            return Some(Self::default());
        }
        NAMES.iter().find(|(_, known)| *known == name).map(|(flag, _)| *flag)
    }
}

/// The address of a node. Empty texts and ports of 0 are not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Address {
    /// The IP address.
    pub ip: String,
    /// The port for clients without TLS. 0 if there is none.
    pub port: u16,
    /// The port for clients with TLS. 0 if there is none.
    pub tls_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// The host name that the node announces.
    pub hostname: String,
    /// The name that the node announces for people.
    pub human_name: String,
    /// The IPv4 address that the node announces for clients.
    pub client_ipv4: String,
    /// The IPv6 address that the node announces for clients.
    pub client_ipv6: String,
}

/// The two links between this node and another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeLinks {
    /// The link that this node opened, on which it sends.
    pub outgoing: Option<LinkId>,
    /// Whether the outgoing link is connected.
    pub is_connected: bool,
    /// When the outgoing link was last opened, in milliseconds.
    pub opened_ms: u64,
    /// The link that the other node opened.
    pub incoming: Option<LinkId>,
    /// When the last incoming link was lost, or the node was added, in milliseconds.
    pub incoming_lost_ms: u64,
    /// When the last MEET was sent, in milliseconds.
    pub meet_ms: u64,
    /// The attempts to connect that have failed since the last PONG.
    pub failures: u32,
    /// The next attempt to connect is not made before this time, in milliseconds.
    pub retry_ms: u64,
}

/// The times at which something was last heard of a node, in milliseconds of [`crate::Time::ms`]. 0 is never.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contact {
    /// When the PING was sent that has not been answered. 0 if none is in flight.
    pub ping_sent_ms: u64,
    /// When the last PONG came.
    pub pong_ms: u64,
    /// When the last PONG came, on the clock of [`crate::Time::unix_ms`], for reports and gossip.
    pub pong_unix_ms: u64,
    /// When the last byte came, of whatever packet.
    pub data_ms: u64,
    /// When the FAIL flag was set.
    pub fail_ms: u64,
    /// When this node last voted for a replica of the node.
    pub voted_ms: u64,
    /// The replica that the vote was given to.
    pub voted_for: Option<NodeId>,
    /// When the offset came in the header of a packet.
    pub offset_ms: u64,
    /// When the node was first seen to have the configuration epoch of this node, both being primaries. 0 if it has not.
    pub collided_ms: u64,
    /// When the primary lost its last working replica: it is an orphan since then.
    pub orphaned_ms: u64,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The id. A node in handshake has a random one.
    pub id: NodeId,
    /// The id of its shard: that of the primary when the shard began.
    pub shard: NodeId,
    /// The flags.
    pub flags: NodeFlags,
    /// When the node was added, in milliseconds.
    pub created_ms: u64,
    /// The address.
    pub address: Address,
    /// The primary of a replica.
    pub primary: Option<NodeId>,
    /// The epoch at which the node took its slots.
    pub config_epoch: u64,
    /// The slots of a primary.
    pub slots: SlotSet,
    /// The replication offset in the last header of the node, in bytes.
    pub offset: u64,
    /// Which primaries report the node as silent, and when each report came, in milliseconds.
    pub reports: BTreeMap<NodeId, u64>,
    /// The links.
    pub links: NodeLinks,
    /// The last signs of life.
    pub contact: Contact,
}

impl Node {
    /// Returns a node of which nothing but its id is known.
    pub fn new(id: NodeId, flags: NodeFlags, created_ms: u64) -> Self {
        Self {
            id,
            shard: id,
            flags,
            created_ms,
            address: Address::default(),
            primary: None,
            config_epoch: 0,
            slots: SlotSet::default(),
            offset: 0,
            reports: BTreeMap::new(),
            links: NodeLinks::default(),
            contact: Contact::default(),
        }
    }

    /// Returns whether the node is a primary.
    pub fn is_primary(&self) -> bool {
        self.flags.has(NodeFlags::PRIMARY)
    }

    /// Returns whether the node is a replica.
    pub fn is_replica(&self) -> bool {
        self.flags.has(NodeFlags::REPLICA)
    }

    /// Returns whether the first exchange of packets with the node is not over.
    pub fn is_in_handshake(&self) -> bool {
        self.flags.has(NodeFlags::HANDSHAKE)
    }

    /// Returns whether the node votes in elections: a primary that has slots.
    pub fn is_voter(&self) -> bool {
        self.is_primary() && !self.slots.is_empty()
    }

    /// Returns whether a majority has declared the node failed.
    pub fn has_failed(&self) -> bool {
        self.flags.has(NodeFlags::FAIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_written_in_the_order_of_nodes_conf() {
        let flags = NodeFlags::REPLICA.with(NodeFlags::MYSELF).with(NodeFlags::FAIL);
        assert_eq!(flags.to_string(), "myself,slave,fail");
        assert_eq!(NodeFlags::default().to_string(), "noflags");
        assert_eq!(NodeFlags::of_name("fail?"), Some(NodeFlags::PFAIL));
        assert_eq!(NodeFlags::of_name("master,slave"), None);
    }
}
