//! CLUSTER LINKS: the links to and from other nodes.

use crate::action::LinkId;
use crate::id::NodeId;
use crate::state::ClusterState;
use crate::state::links::Link;

/// The side that opened a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkDirection {
    /// This node opened the link.
    To,
    /// The other node opened the link.
    From,
}

impl LinkDirection {
    /// Returns the word in the reply.
    pub const fn word(self) -> &'static str {
        match self {
            Self::To => "to",
            Self::From => "from",
        }
    }
}

/// A link. The caller knows its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkReport {
    /// The side that opened the link.
    pub direction: LinkDirection,
    /// The other node.
    pub node: NodeId,
    /// The number of the link.
    pub link: LinkId,
    /// When the link was opened or accepted, in milliseconds since 1970.
    pub opened_unix_ms: u64,
}

/// Returns the links to and from known nodes, those of one node together.
pub fn links(state: &ClusterState) -> Vec<LinkReport> {
    let report = |(number, link): (LinkId, &Link)| {
        let direction = if link.is_outgoing { LinkDirection::To } else { LinkDirection::From };
        let opened_unix_ms = link.opened_unix_ms;
        link.node.map(|node| LinkReport { direction, node, link: number, opened_unix_ms })
    };
    let mut links: Vec<LinkReport> = state.links.iter().filter_map(report).collect();
    links.sort_by_key(|link| (link.node, link.direction));
    links
}
