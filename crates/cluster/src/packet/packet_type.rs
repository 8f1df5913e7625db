//! The types of packets.

/// The type of a packet, with either header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum PacketType {
    /// Asks for a PONG.
    Ping = 0,
    /// Answers a PING or MEET, or announces a change.
    Pong = 1,
    /// Asks to be taken up as a node.
    Meet = 2,
    /// Says that a node has failed.
    Fail = 3,
    /// Carries a published message.
    Publish = 4,
    /// Asks for a vote.
    VoteRequest = 5,
    /// Gives a vote.
    Vote = 6,
    /// Names the owner of slots.
    Update = 7,
    /// Asks a primary to pause its writes.
    ManualFailover = 8,
    /// Carries a message of a module.
    Module = 9,
    /// Carries a message of a shard.
    PublishShard = 10,
}

impl PacketType {
    /// All types, in the order of their codes.
    pub const ALL: [Self; 11] = [
        Self::Ping,
        Self::Pong,
        Self::Meet,
        Self::Fail,
        Self::Publish,
        Self::VoteRequest,
        Self::Vote,
        Self::Update,
        Self::ManualFailover,
        Self::Module,
        Self::PublishShard,
    ];

    /// Returns the type of a code, without the bit of the light header. None for a type of a later version.
    pub fn of_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Returns the code in packets.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Returns the name in the counters of CLUSTER INFO, such as `auth-req`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Meet => "meet",
            Self::Fail => "fail",
            Self::Publish => "publish",
            Self::VoteRequest => "auth-req",
            Self::Vote => "auth-ack",
            Self::Update => "update",
            Self::ManualFailover => "mfstart",
            Self::Module => "module",
            Self::PublishShard => "publishshard",
        }
    }
}
