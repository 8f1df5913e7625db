//! The work that a state machine leaves to its caller.

use std::fmt;

use crate::id::NodeId;
use crate::slots::SlotSet;

/// A connection of the bus. The state machine numbers the links that it opens with even numbers, the caller those that it
/// accepts with odd numbers. A number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// The order in which packets leave a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A packet of the bus itself. It leaves before all messages that wait, so that messages never delay a PING into a timeout.
    Control,
    /// A published message. If too many wait, the caller drops messages, never control packets.
    Message,
}

/// An action for the caller. Actions are carried out in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open a link to a bus port. The caller answers with `link_up` or `link_down`.
    Connect {
        /// The number of the new link.
        link: LinkId,
        /// An IP address.
        ip: String,
        /// The bus port.
        port: u16,
    },
    /// Close a link. The state machine has forgotten it, and gets no `link_down` for it.
    Close(LinkId),
    /// Send a whole packet.
    Send {
        /// The link.
        link: LinkId,
        /// The packet, which several links may share.
        bytes: std::sync::Arc<[u8]>,
        /// Whether it may wait behind others.
        priority: Priority,
    },
    /// Replace nodes.conf by this text, atomically.
    Save {
        /// The text.
        text: String,
        /// Whether the file must be on the disk before the next action is carried out: a vote and an epoch must survive a
        /// power failure.
        sync: bool,
    },
    /// Follow this primary.
    Follow {
        /// The node.
        node: NodeId,
        /// Its IP address or host name.
        host: String,
        /// Its port for clients: the TLS port where replication uses TLS.
        port: u16,
    },
    /// Become a primary, with the data that is there.
    Lead,
    /// Delete the keys of these slots, which belong to other nodes now.
    DeleteKeys(SlotSet),
    /// Delete all keys: CLUSTER RESET of a replica and of an empty primary.
    FlushAll,
    /// Hold the writes of all clients until this time on the clock of [`crate::Time::ms`], for a manual failover.
    PauseWrites {
        /// The end of the pause, in milliseconds.
        until_ms: u64,
    },
    /// End the pause of a manual failover. Clients have to be judged by the present view before that: a replica may have the
    /// slots by now.
    ResumeWrites,
    /// Deliver a message to the subscribers of this server.
    Publish {
        /// The channel.
        channel: Vec<u8>,
        /// The message.
        message: Vec<u8>,
        /// Whether the channel is one of a shard (SPUBLISH).
        is_sharded: bool,
    },
    /// Write a line to the log.
    Log(LogLevel, String),
}

/// The level of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// A detail.
    Verbose,
    /// A normal event.
    Notice,
    /// A fault.
    Warning,
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}
