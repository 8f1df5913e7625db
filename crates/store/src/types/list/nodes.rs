//! The packs of a long list, behind one door.
//!
//! A pack comes, changes and goes here alone: so the sums are always those of the packs, and a snapshot that is owed a pack
//! gets it before the change. To look at them is free to all of `chain`. Under the shard's lock, or on the snapshot's thread when
//! the store has let go of the list.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::node::Node;
use super::owed::Owed;
use crate::packed::pack::Pack;
use crate::value::handover::open_value::OpenValue;
use crate::value::handover::owing::{Budget, Owing};

/// The packs of a long list, in order.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: VecDeque<Node>,
    /// The elements of all packs.
    elements: usize,
    /// What the packs have asked for, in bytes.
    pack_bytes: usize,
    /// What is owed to a snapshot, while anything is.
    owed: Option<Box<Owed>>,
}

impl Deref for Nodes {
    type Target = VecDeque<Node>;

    #[inline]
    fn deref(&self) -> &VecDeque<Node> {
        &self.nodes
    }
}

impl FromIterator<Node> for Nodes {
    fn from_iter<T: IntoIterator<Item = Node>>(nodes: T) -> Self {
        let nodes = VecDeque::from_iter(nodes);
        let elements = nodes.iter().map(Node::count).sum();
        let pack_bytes = nodes.iter().map(Node::memory_bytes).sum();
        Self { nodes, elements, pack_bytes, owed: None }
    }
}

impl Nodes {
    /// The elements of all packs.
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The bytes that they take.
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.pack_bytes
    }

    /// Changes the elements of a pack.
    #[inline]
    pub fn edit<R>(&mut self, at: usize, change: impl FnOnce(&mut Pack) -> R) -> R {
        self.take_down(at);
        let node = &mut self.nodes[at];
        let (count, bytes) = (node.count(), node.memory_bytes());
        let result = node.edit(change);
        self.elements = self.elements - count + node.count();
        self.pack_bytes = self.pack_bytes - bytes + node.memory_bytes();
        result
    }

    /// Keeps the elements of a pack in another way. They stay the same, so nothing is handed over.
    pub fn reform(&mut self, at: usize, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[at];
        let bytes = node.memory_bytes();
        change(node);
        self.pack_bytes = self.pack_bytes - bytes + node.memory_bytes();
    }

    /// Adds a pack, which has this place afterwards.
    pub fn insert(&mut self, at: usize, pack: Pack) {
        let node = Node::new(pack);
        self.elements += node.count();
        self.pack_bytes += node.memory_bytes();
        self.nodes.insert(at, node);
        if let Some(owed) = &mut self.owed {
            owed.insert(at);
        }
    }

    /// Takes a pack out, which is there.
    pub fn remove(&mut self, at: usize) -> Node {
        self.take_down(at);
        let node = self.nodes.remove(at).expect("the caller has just seen the node");
        if let Some(owed) = &mut self.owed {
            owed.remove(at);
        }
        self.elements -= node.count();
        self.pack_bytes -= node.memory_bytes();
        if self.nodes.capacity() > 64 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
        node
    }

    /// Takes out the packs that have become empty: what was in them has been handed over when they were changed.
    pub fn remove_empty(&mut self) {
        if let Some(owed) = &mut self.owed {
            owed.retain(|node| self.nodes[node].count() != 0);
        }
        let bytes = &mut self.pack_bytes;
        self.nodes.retain(|node| {
            if node.count() == 0 {
                *bytes -= node.memory_bytes();
            }
            node.count() != 0
        });
    }
}

/// What a snapshot is owed.
impl Nodes {
    /// From now on all packs are owed to what was opened.
    pub fn owe(&mut self, open_value: &Arc<OpenValue>) {
        self.owed = Some(Box::new(Owed::new(Arc::clone(open_value), self.nodes.len())));
    }

    /// What was opened, while anything is owed.
    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.owed.as_ref().map(|owed| owed.open_value())
    }

    /// Hands a pack over that is about to change or to go, if it is owed.
    #[inline]
    fn take_down(&mut self, at: usize) {
        if self.owed.is_some() {
            self.take_owed_down(at);
        }
    }

    #[cold]
    fn take_owed_down(&mut self, at: usize) {
        if let Some(owed) = &mut self.owed {
            owed.take(at, &self.nodes[at]);
        }
        self.settle_owed();
    }

    fn settle_owed(&mut self) {
        if let Some(owed) = self.owed.take_if(|owed| owed.is_done()) {
            owed.open_value().finish();
        }
    }
}

impl Owing for Nodes {
    /// Hands over what is owed, from the front on.
    fn hand_over(&mut self, budget: &mut Budget) {
        if let Some(owed) = &mut self.owed {
            owed.hand_over(&self.nodes, budget);
        }
        self.settle_owed();
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(open_value) = self.open_value().map(Arc::clone) {
            open_value.end_of(self, |nodes| nodes.owed.take().is_some());
        }
    }
}

impl fmt::Debug for Nodes {
    /// Says how many there are; what is in them may be millions of elements.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Nodes({})", self.nodes.len())
    }
}
