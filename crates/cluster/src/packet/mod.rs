//! The packets of the cluster bus of Redis 7 and Valkey 7.2 to 9, protocol version 1.
//!
//! A packet is judged completely before its parts are used: each length inside it must fit into the length that its header
//! states, and that must be the length of the packet.

use crate::id::NodeId;
use crate::node::NodeFlags;
use crate::slots::SlotSet;

mod decode;
mod encode;
mod layout;
mod malformed;
mod packet_type;
#[cfg(test)]
mod tests;

pub use decode::{decode, frame_length};
pub use malformed::Malformed;
pub use packet_type::PacketType;

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// A packet with the full header of 2,256 bytes.
    Full {
        /// The header, which describes the sender.
        header: Box<Header>,
        /// The body.
        body: Body,
    },
    /// A packet with the light header of 16 bytes (Valkey 8.1). The sender is the node of the link.
    Light(Message),
}

/// The full header: the sender's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The sender's id.
    pub sender: NodeId,
    /// The sender's flags.
    pub flags: NodeFlags,
    /// The greatest epoch that the sender has seen.
    pub current_epoch: u64,
    /// The configuration epoch of the sender, or of its primary if it is a replica.
    pub config_epoch: u64,
    /// The sender's replication offset, in bytes.
    pub offset: u64,
    /// The slots of the sender, or of its primary if it is a replica.
    pub slots: SlotSet,
    /// The sender's primary, if it is a replica.
    pub primary: Option<NodeId>,
    /// The IP address that the sender announces. Empty if the receiver is to take it from the socket.
    pub ip: String,
    /// The base port: the TLS port if the bus uses TLS, otherwise the plain one.
    pub port: u16,
    /// The other port for clients: the plain one if the bus uses TLS (`pport`), or the TLS port in Valkey 8.1. 0 if
    /// there is none.
    pub other_port: u16,
    /// The bus port.
    pub bus_port: u16,
    /// Whether the sender sees the cluster as working.
    pub is_cluster_ok: bool,
    /// Whether the sender, a primary, has paused its writes for a manual failover (mflags bit 0).
    pub is_paused: bool,
    /// Whether the sender wants its vote to be given although the primary works: a forced or manual failover (mflags bit 1).
    pub is_forced: bool,
    /// Whether the sender reads extensions (mflags bit 2). Redis 7.0 sets it only in packets that have one, and does not know
    /// extensions other than the host name: it logs each of them as a fault.
    pub reads_extensions: bool,
}

/// The body of a packet with a full header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// PING, PONG or MEET.
    Heartbeat(Heartbeat),
    /// The sender says that a node has failed, by the reports of a majority.
    Fail(NodeId),
    /// A published message.
    Publish(Message),
    /// A replica asks for votes.
    VoteRequest,
    /// A primary gives its vote.
    Vote,
    /// The sender says who owns slots that the receiver claims.
    Update {
        /// The owner.
        node: NodeId,
        /// The configuration epoch of the owner.
        config_epoch: u64,
        /// All slots of the owner.
        slots: SlotSet,
    },
    /// A replica asks its primary to pause its writes for a manual failover.
    ManualFailover,
    /// A message of a module. Sleeve has no modules and drops it.
    Module,
    /// A packet of a type of a later version, of which only the header is read.
    Unknown(u16),
}

/// The kind of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatKind {
    /// Asks for a PONG.
    Ping,
    /// Answers a PING or MEET, or announces a change.
    Pong,
    /// Asks to be taken up as a node, and for a PONG.
    Meet,
}

impl From<HeartbeatKind> for PacketType {
    fn from(kind: HeartbeatKind) -> Self {
        match kind {
            HeartbeatKind::Ping => Self::Ping,
            HeartbeatKind::Pong => Self::Pong,
            HeartbeatKind::Meet => Self::Meet,
        }
    }
}

/// A PING, PONG or MEET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The kind.
    pub kind: HeartbeatKind,
    /// Some other nodes, as the sender sees them.
    pub gossip: Vec<Gossip>,
    /// The extensions.
    pub extensions: Vec<Extension>,
}

/// A node as another node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gossip {
    /// The id.
    pub node: NodeId,
    /// When the sender sent its last PING that is not answered, in seconds since 1970. 0 if none is in flight.
    pub ping_sent_s: u32,
    /// When the sender got its last PONG, in seconds since 1970.
    pub pong_s: u32,
    /// The IP address.
    pub ip: String,
    /// The base port, as in [`Header::port`].
    pub port: u16,
    /// The bus port.
    pub bus_port: u16,
    /// The flags.
    pub flags: NodeFlags,
    /// The other port, as in [`Header::other_port`].
    pub other_port: u16,
}

/// An extension of a heartbeat. Each describes the sender, except `Forgotten`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extension {
    /// The host name.
    Hostname(String),
    /// The name for people.
    HumanName(String),
    /// A node that the sender was told to forget, and for how many more seconds.
    Forgotten {
        /// The node.
        node: NodeId,
        /// The seconds for which it must not be taken up again.
        ttl_s: u64,
    },
    /// The id of the sender's shard.
    Shard(NodeId),
    /// The IPv4 address for clients.
    ClientIpv4(String),
    /// The IPv6 address for clients.
    ClientIpv6(String),
    /// The port for clients without TLS, if it differs from that of the node (Valkey 9.1).
    ClientPort(u16),
    /// The port for clients with TLS, if it differs from that of the node (Valkey 9.1).
    ClientTlsPort(u16),
    /// An extension of a type that this version does not know. It is skipped. The type 4 of Redis 8, a secret that its nodes
    /// share, is one: it means nothing to other servers.
    Unknown(u16),
}

/// A message for subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: Vec<u8>,
    /// The message.
    pub message: Vec<u8>,
    /// Whether it is a message of a shard (PUBLISHSHARD).
    pub is_sharded: bool,
}
