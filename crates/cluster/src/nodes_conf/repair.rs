//! The things that are dropped from a nodes.conf that is torn or contradicts itself.

use std::fmt;

use crate::id::NodeId;
use crate::slots::Slot;

/// A thing that was dropped from a nodes.conf, or replaced by one that is certain. Its text is for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The file does not end behind a line, so the last word of its last line may be cut, and was dropped.
    CutEnd,
    /// A line describes no node, and was dropped.
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
    /// A part of a node's line cannot be read, and was dropped.
    Field {
        /// The node.
        node: NodeId,
        /// The part.
        field: &'static str,
    },
    /// A second line of a node was dropped.
    SecondLine {
        /// The node.
        node: NodeId,
    },
    /// A second node says that it is this node. It is taken as another.
    SecondMyself {
        /// The node.
        node: NodeId,
    },
    /// Two nodes claim slots. The one with the greater configuration epoch keeps them, or the first of equals.
    ClaimedTwice {
        /// The node that loses them.
        node: NodeId,
        /// The number of slots.
        slots: usize,
    },
    /// The slots of a replica were dropped.
    SlotsOfReplica {
        /// The replica.
        node: NodeId,
    },
    /// A slot on the move was dropped: there is no such node, or it is no other node than this one.
    Move {
        /// The slot.
        slot: Slot,
        /// The other node.
        node: NodeId,
    },
    /// A replica's primary has no line. This node's own primary is kept without an address; of another replica it was dropped.
    Primary {
        /// The replica.
        node: NodeId,
    },
    /// The shard of a replica is not that of its primary, and was replaced by it.
    Shard {
        /// The replica.
        node: NodeId,
    },
    /// The epoch of the last vote is not certain. The node does not vote again in the current epoch.
    LastVote,
    /// The current epoch is missing or below another epoch of the file, and was raised to it.
    CurrentEpoch {
        /// The new current epoch.
        raised_to: u64,
    },
    /// A variable of the last line is not known.
    Variable,
    /// More nodes than [`super::NODES_MAX`] were dropped.
    Nodes {
        /// The number of lines.
        dropped: usize,
    },
    /// More repairs were made, which are not listed.
    More {
        /// Their number.
        repairs: usize,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutEnd => f.write_str("the end is cut off: dropped its last word"),
            Self::Line { line } => write!(f, "line {line} describes no node: dropped it"),
            Self::Field { node, field } => write!(f, "{node}: dropped its {field}, which cannot be read"),
            Self::SecondLine { node } => write!(f, "{node}: dropped its second line"),
            Self::SecondMyself { node } => {
                write!(f, "{node}: a second node with the flag myself, taken as another node")
            }
            Self::ClaimedTwice { node, slots } => {
                write!(f, "{node}: dropped {slots} slots that another node claims too")
            }
            Self::SlotsOfReplica { node } => write!(f, "{node}: dropped its slots, because it is a replica"),
            Self::Move { slot, node } => {
                write!(f, "slot {slot}: dropped its move, because {node} is no other known node")
            }
            Self::Primary { node } => write!(f, "{node}: its primary has no line"),
            Self::Shard { node } => write!(f, "{node}: took the shard of its primary instead of its own"),
            Self::LastVote => f.write_str("the epoch of the last vote is not certain: no vote in the current epoch"),
            Self::CurrentEpoch { raised_to } => write!(f, "the current epoch was raised to {raised_to}"),
            Self::Variable => f.write_str("dropped an unknown variable"),
            Self::Nodes { dropped } => write!(f, "dropped {dropped} nodes, because there are too many"),
            Self::More { repairs } => write!(f, "{repairs} more"),
        }
    }
}

/// The reason why a nodes.conf cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The file has no line with the id of a node and the flag `myself`.
    NoMyself,
    /// The file is larger than [`super::TEXT_MAX`].
    TooLong,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMyself => "no line with a node's id has the flag myself, so the id of this node is lost",
            Self::TooLong => "the file is too long",
        })
    }
}

impl std::error::Error for Unreadable {}

/// The repairs of one file, with a bound on their number.
#[derive(Debug, Default)]
pub struct RepairLog {
    repairs: Vec<Repair>,
    more: usize,
}

impl RepairLog {
    const LEN_MAX: usize = 100;

    /// Notes a repair.
    pub fn note(&mut self, repair: Repair) {
        if self.repairs.len() < Self::LEN_MAX {
            self.repairs.push(repair);
        } else {
            self.more += 1;
        }
    }

    /// Returns all repairs that were noted.
    pub fn into_repairs(mut self) -> Vec<Repair> {
        if self.more > 0 {
            self.repairs.push(Repair::More { repairs: self.more });
        }
        self.repairs
    }
}
