//! The result of judging, and the limits below which there is too little to judge.

/// The smallest share of the time that is worth a remedy.
pub const SHARE_MIN: f64 = 0.1;

/// The number of commands from which on a program's habits can be judged.
pub const COMMANDS_MIN: u64 = 50;

/// The number of commands for each round trip from which on the program pipelines: below it, two commands meet by chance now
/// and then.
pub const DEPTH_MIN: f64 = 1.5;

/// A cause, and the word by which reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Connections serve for a command or two.
    ConnectionPerCommand,
    /// The program waits for the reply to each command before it sends the next, all the time.
    NoPipelining,
    /// The program waits for the reply to each command before it sends the next within a request, and does something else
    /// afterwards.
    RoundTripsPerRequest,
    /// Replies have arrived and lie unread.
    StarvedExecutor,
    /// Values take longer to send than to ask for.
    BigValues,
    /// Commands occupy the server for long.
    SlowCommands,
    /// Most commands are about one key.
    HotKey,
    /// The server stands still while it forks.
    Fork,
    /// The server waits until its disk has the data.
    Fsync,
    /// Memory of the server is swapped out to a disk.
    Swapping,
    /// A lack of free processors.
    Cpu,
    /// The way to the server is narrow, long, or loses packets.
    Network,
    /// Slots that no node of the cluster serves.
    UncoveredSlots,
    /// A node of the cluster has failed.
    FailedNode,
    /// A slot is between two nodes of the cluster.
    OpenSlot,
    /// Two primaries of the cluster have one epoch.
    EpochCollision,
    /// One primary of the cluster does most of the work.
    UnevenLoad,
    /// A primary of the cluster has no replica.
    NoReplica,
}

impl Cause {
    /// Returns the name of the cause in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectionPerCommand => "a connection per command",
            Self::NoPipelining => "no pipelining",
            Self::RoundTripsPerRequest => "round trips per request",
            Self::StarvedExecutor => "a starved executor",
            Self::BigValues => "big values",
            Self::SlowCommands => "slow commands",
            Self::HotKey => "a hot key",
            Self::Fork => "a fork's pause",
            Self::Fsync => "fsync",
            Self::Swapping => "swapping",
            Self::Cpu => "CPU",
            Self::Network => "the network",
            Self::UncoveredSlots => "uncovered slots",
            Self::FailedNode => "a failed node",
            Self::OpenSlot => "an open slot",
            Self::EpochCollision => "an epoch collision",
            Self::UnevenLoad => "uneven load",
            Self::NoReplica => "a primary without a replica",
        }
    }

    /// Returns whether the cause names the resource that is exhausted, rather than the reason.
    pub fn is_general(self) -> bool {
        matches!(self, Self::Cpu | Self::Network)
    }
}

/// A cause that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The cause that was found.
    pub cause: Cause,
    /// The weight of the cause, from 0 to 1.
    pub weight: f64,
    /// The numbers that show it.
    pub numbers: Vec<String>,
    /// The remedy.
    pub remedy: String,
}
