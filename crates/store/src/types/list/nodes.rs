//! The packs of a long list; all changes of a pack go through this file.
//!
//! A pack is added, changed and removed here only. So the sums are always those of the packs, and a snapshot that lacks a
//! pack gets it before the change. All of `chain` may read the packs. Under the shard's lock, or on the snapshot's thread
//! when the store has released the list.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::before_images::BeforeImages;
use super::node::Node;
use crate::packed::pack::Pack;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::{Budget, CaptureSource};

/// The packs of a long list, in order.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: VecDeque<Node>,
    /// The number of elements in all packs.
    elements: usize,
    /// The bytes that the packs have allocated.
    pack_bytes: usize,
    /// The before-images that a snapshot still lacks, while it does.
    before_images: Option<Box<BeforeImages>>,
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
        Self { nodes, elements, pack_bytes, before_images: None }
    }
}

impl Nodes {
    /// Returns the number of elements in all packs.
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the bytes that the packs take.
    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.pack_bytes
    }

    /// Changes the elements of a pack.
    #[inline]
    pub fn edit<R>(&mut self, at: usize, change: impl FnOnce(&mut Pack) -> R) -> R {
        self.capture(at);
        let node = &mut self.nodes[at];
        let (count, bytes) = (node.count(), node.memory_bytes());
        let result = node.edit(change);
        self.elements = self.elements - count + node.count();
        self.pack_bytes = self.pack_bytes - bytes + node.memory_bytes();
        result
    }

    /// Changes the form of a pack. The elements stay the same, so no capture is needed.
    pub fn reform(&mut self, at: usize, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[at];
        let bytes = node.memory_bytes();
        change(node);
        self.pack_bytes = self.pack_bytes - bytes + node.memory_bytes();
    }

    /// Adds a pack at this place.
    pub fn insert(&mut self, at: usize, pack: Pack) {
        let node = Node::new(pack);
        self.elements += node.count();
        self.pack_bytes += node.memory_bytes();
        self.nodes.insert(at, node);
        if let Some(before_images) = &mut self.before_images {
            before_images.insert(at);
        }
    }

    /// Takes out the pack at this place.
    pub fn remove(&mut self, at: usize) -> Node {
        self.capture(at);
        let node = self.nodes.remove(at).expect("the caller has just seen the node");
        if let Some(before_images) = &mut self.before_images {
            before_images.remove(at);
        }
        self.elements -= node.count();
        self.pack_bytes -= node.memory_bytes();
        if self.nodes.capacity() > 64 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
        node
    }

    /// Takes out the packs that have become empty: they were captured before they were changed.
    pub fn remove_empty(&mut self) {
        if let Some(before_images) = &mut self.before_images {
            before_images.retain(|node| self.nodes[node].count() != 0);
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

/// The capture for a snapshot.
impl Nodes {
    /// Marks all packs as pending capture for `open_value`, the snapshot's unfinished copy of this list.
    pub fn begin_capture(&mut self, open_value: &Arc<OpenValue>) {
        self.before_images = Some(Box::new(BeforeImages::new(Arc::clone(open_value), self.nodes.len())));
    }

    /// Returns the snapshot's unfinished copy of this list, while packs are pending capture.
    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.before_images.as_ref().map(|before_images| before_images.open_value())
    }

    /// Captures a pack that is about to change or to go, if it is pending.
    #[inline]
    fn capture(&mut self, at: usize) {
        if self.before_images.is_some() {
            self.capture_before_change(at);
        }
    }

    #[cold]
    fn capture_before_change(&mut self, at: usize) {
        if let Some(before_images) = &mut self.before_images {
            before_images.capture(at, &self.nodes[at]);
        }
        self.finish_capture();
    }

    fn finish_capture(&mut self) {
        if let Some(before_images) = self.before_images.take_if(|before_images| before_images.is_done()) {
            before_images.open_value().finish();
        }
    }
}

impl CaptureSource for Nodes {
    /// Captures pending packs, from the front on.
    fn capture_more(&mut self, budget: &mut Budget) {
        if let Some(before_images) = &mut self.before_images {
            before_images.capture_more(&self.nodes, budget);
        }
        self.finish_capture();
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(open_value) = self.open_value().map(Arc::clone) {
            open_value.end_of(self, |nodes| nodes.before_images.take().is_some());
        }
    }
}

impl fmt::Debug for Nodes {
    /// Prints the number of packs only; there may be millions of elements.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Nodes({})", self.nodes.len())
    }
}
