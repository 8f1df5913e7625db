//! The links of the bus that are open or being opened.

use std::collections::BTreeMap;

use crate::action::LinkId;
use crate::id::NodeId;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The node at the other end. None for an accepted link on which no known node has spoken.
    pub node: Option<NodeId>,
    /// Whether this node opened the link.
    pub is_outgoing: bool,
    /// The IP address of the other end.
    pub peer_ip: String,
    /// The IP address of this end. Empty for a link that this node opened.
    pub local_ip: String,
    /// When the link was opened or accepted, in milliseconds.
    pub opened_ms: u64,
    /// When the link was opened or accepted, on the clock of [`crate::Time::unix_ms`].
    pub opened_unix_ms: u64,
}

/// The links by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    open: BTreeMap<LinkId, Link>,
    opened: u64,
}

impl Links {
    /// Returns a link. None if it has been closed, which its last packets may not know yet.
    pub fn get(&self, link: LinkId) -> Option<&Link> {
        self.open.get(&link)
    }

    /// Returns a link for changes.
    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        self.open.get_mut(&link)
    }

    /// Returns the number of the next link that this node opens: 2, 4, 6 and so on.
    pub(crate) fn next_number(&mut self) -> LinkId {
        self.opened += 1;
        LinkId(2 * self.opened)
    }

    /// Adds a link.
    pub(crate) fn add(&mut self, number: LinkId, link: Link) {
        self.open.insert(number, link);
    }

    /// Removes a link.
    pub(crate) fn remove(&mut self, link: LinkId) -> Option<Link> {
        self.open.remove(&link)
    }

    /// Returns all links in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.open.iter().map(|(number, link)| (*number, link))
    }
}
