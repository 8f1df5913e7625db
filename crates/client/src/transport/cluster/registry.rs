//! All nodes that were ever named and are not forgotten, each once. The registry belongs to the cluster's task.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Config;
use crate::reactor::TaskWaker;
use crate::transport::node::{Address, Node};

/// The largest number of nodes, which no cluster reaches: an answer that names more is refused.
const NODES_MAX: usize = 4096;

/// The purpose of a connection to a node: requests to an owner of slots, or reads from a replica. A replica's connection
/// needs READONLY, and an owner may become a replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Owner,
    Replica,
}

/// The nodes, by address.
pub(super) struct Registry {
    nodes: BTreeMap<(Address, Part), Arc<Node>>,
    last: u32,
    task_waker: TaskWaker,
}

impl Registry {
    /// Returns an empty registry. The task of this waker asks other nodes about a silent one.
    pub(super) fn new(task_waker: TaskWaker) -> Self {
        Self { nodes: BTreeMap::new(), last: 0, task_waker }
    }

    /// Returns the node at this address; a new one if the address is not known. Returns none if there are too many.
    pub(super) fn at(&mut self, address: &Address, config: &Config) -> Option<Arc<Node>> {
        self.known_as((address.clone(), Part::Owner), config)
    }

    /// Returns the node as `at` does, for reads from a replica.
    pub(super) fn replica_at(&mut self, address: &Address, config: &Config) -> Option<Arc<Node>> {
        self.known_as((address.clone(), Part::Replica), config)
    }

    fn known_as(&mut self, place: (Address, Part), config: &Config) -> Option<Arc<Node>> {
        if let Some(node) = self.nodes.get(&place) {
            return Some(Arc::clone(node));
        }
        if self.nodes.len() >= NODES_MAX {
            return None;
        }
        self.last += 1;
        let node = Arc::new(Node::in_cluster(self.last, place.0.clone(), config, self.task_waker));
        self.nodes.insert(place, Arc::clone(&node));
        Some(node)
    }

    /// Returns the node of this number.
    pub(super) fn numbered(&self, number: u32) -> Option<&Arc<Node>> {
        self.nodes.values().find(|node| node.number == number)
    }

    /// Returns all nodes.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Forgets the nodes that `is_kept` does not select, and ends their connections.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Node) -> bool) {
        self.nodes.retain(|_, node| {
            let keeps = is_kept(node);
            if !keeps {
                node.dismiss();
            }
            keeps
        });
    }
}
