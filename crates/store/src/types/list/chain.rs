//! A long list: a chain of packs, none larger than a limit, as the quicklist of Redis.
//!
//! The packs stand in a deque, so both ends are at hand, and an index is found by adding up counts from the nearer end. A
//! pack is filled at the ends of the list up to the limit; the borders between packs fall where they fall in Redis, on
//! which the way back to a packed list depends. An insertion in the middle of a full pack splits it, and neighbours that
//! then fit into one are joined. Only `list` speaks to it. Plain data, usable from any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::items::{Items, ItemsBack};
use super::limit::ListLimit;
use super::node::{Node, Opened, give_back_spare};
use super::nodes::Nodes;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::value::ValueRef;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::{Budget, CaptureSource};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end with the first element; `LEFT` in commands.
    Front,
    /// The end with the last element; `RIGHT` in commands.
    Back,
}

/// A list that is too large for one pack.
#[derive(Default)]
pub struct Chain {
    nodes: Nodes,
    /// The number of nodes at each end that stay uncompressed, by the limit of the last growth. If it is 0, no node is
    /// compressed.
    depth: usize,
    /// The number of compressed nodes that readers have unpacked.
    opened: Opened,
}

impl Clone for Chain {
    fn clone(&self) -> Self {
        let opened = Opened::default();
        Self { nodes: self.nodes.iter().map(|node| node.copy(&opened)).collect(), depth: self.depth, opened }
    }
}

/// The place of an element, or a place at which one could be inserted.
#[derive(Clone, Copy)]
pub(crate) struct ElementIndex {
    node: usize,
    offset: usize,
}

impl Chain {
    /// Makes a chain of the elements of one pack.
    pub(crate) fn from_pack(pack: Pack) -> Self {
        let mut chain = Self::default();
        if !pack.is_empty() {
            chain.nodes.insert(0, pack);
        }
        chain
    }

    /// Returns the number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nodes.elements()
    }

    /// Returns the bytes that the chain owns.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.memory()
    }

    /// Marks all packs as pending capture for `open_value`, the snapshot's unfinished copy of this list.
    pub(crate) fn begin_capture(&mut self, open_value: &Arc<OpenValue>) {
        self.nodes.begin_capture(open_value);
    }

    /// Returns the snapshot's unfinished copy of this list, while packs are pending capture.
    pub(crate) fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.nodes.open_value()
    }

    /// Captures pending packs, from the front on.
    pub(crate) fn capture_more(&mut self, budget: &mut Budget) {
        self.nodes.capture_more(budget);
    }

    /// Returns an iterator over the packs in order, for files and for peers.
    pub(crate) fn packs(&self) -> impl ExactSizeIterator<Item = Packed<'_>> {
        self.nodes.iter().map(|node| node.as_packed())
    }

    /// Returns the only pack, if there is just one.
    pub(crate) fn only_pack(&self) -> Option<Packed<'_>> {
        match self.nodes.len() {
            1 => self.nodes.front().map(|node| node.as_packed()),
            _ => None,
        }
    }

    /// Takes the first pack out.
    pub(crate) fn take_pack(&mut self) -> Option<Pack> {
        (!self.nodes.is_empty()).then(|| self.remove_node(0).into_pack())
    }

    /// Adds a pack behind the last.
    pub(crate) fn push_pack(&mut self, pack: Pack) {
        self.nodes.insert(self.nodes.len(), pack);
    }

    /// Puts `value` before the first element.
    pub(crate) fn push_front(&mut self, value: ValueRef<'_>, limit: ListLimit) {
        match self.nodes.front() {
            Some(node) if node.takes(value, limit) => self.nodes.edit(0, |pack| pack.push_front(value)),
            full => {
                if full.is_some() {
                    self.nodes.edit(0, give_back_spare);
                }
                let mut pack = Pack::with_room_in_front(0);
                pack.push_front(value);
                self.nodes.insert(0, pack);
                self.compress_near(End::Front, limit);
            }
        }
    }

    /// Appends `value`.
    pub(crate) fn push_back(&mut self, value: ValueRef<'_>, limit: ListLimit) {
        let last = self.nodes.len().saturating_sub(1);
        match self.nodes.back() {
            Some(node) if node.takes(value, limit) => self.nodes.edit(last, |pack| pack.push_back(value)),
            full => {
                if full.is_some() {
                    self.nodes.edit(last, give_back_spare);
                }
                self.push_pack([value].into_iter().collect());
                self.compress_near(End::Back, limit);
            }
        }
    }

    /// Returns the first element.
    #[inline]
    pub(crate) fn first(&self) -> Option<ValueRef<'_>> {
        self.nodes.front()?.as_packed().first()
    }

    /// Returns the last element.
    #[inline]
    pub(crate) fn last(&self) -> Option<ValueRef<'_>> {
        self.nodes.back()?.as_packed().last()
    }

    /// Removes the first element.
    pub(crate) fn pop_front(&mut self) {
        if !self.nodes.is_empty() {
            self.nodes.edit(0, Pack::pop_front);
            self.drop_if_empty(0);
        }
    }

    /// Removes the last element.
    pub(crate) fn pop_back(&mut self) {
        if let Some(last) = self.nodes.len().checked_sub(1) {
            self.nodes.edit(last, Pack::pop_back);
            self.drop_if_empty(last);
        }
    }

    /// Removes the first `count` elements.
    pub(crate) fn drop_front(&mut self, mut count: usize) {
        while let Some(node) = self.nodes.front() {
            if node.count() > count {
                if count > 0 {
                    self.nodes.edit(0, |pack| pack.remove_range(pack.as_packed().iter().offset(), count));
                }
                return;
            }
            count -= node.count();
            self.remove_node(0);
        }
    }

    /// Removes all but the first `keep` elements.
    pub(crate) fn truncate(&mut self, keep: usize) {
        while let Some(node) = self.nodes.back() {
            let (last, before) = (self.nodes.len() - 1, self.len() - node.count());
            if before < keep {
                self.nodes.edit(last, |pack| pack.truncate(keep - before));
                return;
            }
            self.remove_node(last);
        }
    }

    /// Returns the place of the element at `index`.
    pub(crate) fn place(&self, index: usize) -> Option<ElementIndex> {
        let (node, within) = self.node_of(index)?;
        let offset = self.nodes[node].as_packed().offset_of(within)?;
        Some(ElementIndex { node, offset })
    }

    /// Returns the index of the node with the element at `index`, and the element's index in that node.
    fn node_of(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len() {
            return None;
        }
        if index < self.len() / 2 {
            let mut before = 0;
            for (number, node) in self.nodes.iter().enumerate() {
                if index < before + node.count() {
                    return Some((number, index - before));
                }
                before += node.count();
            }
            return None;
        }
        let mut behind = self.len();
        for (number, node) in self.nodes.iter().enumerate().rev() {
            behind -= node.count();
            if index >= behind {
                return Some((number, index - behind));
            }
        }
        None
    }

    /// Returns the elements from the one at `index` to the last.
    pub(crate) fn iter_from(&self, index: usize) -> Items<'_> {
        let Some((node, within)) = self.node_of(index) else { return Items::of(Packed::EMPTY.iter()) };
        let packed = self.nodes[node].as_packed();
        let here = packed.offset_of(within).map_or(Packed::EMPTY.iter(), |offset| packed.iter_from(offset));
        Items::new(here, self.nodes.range(node + 1..))
    }

    /// Returns the elements from the one at `index` back to the first.
    pub(crate) fn iter_back_from(&self, index: usize) -> ItemsBack<'_> {
        let Some((node, within)) = self.node_of(index) else { return ItemsBack::of(Packed::EMPTY.iter()) };
        let packed = self.nodes[node].as_packed();
        let here = match packed.offset_of(within) {
            Some(offset) => packed.iter_to(packed.after(offset)),
            None => Packed::EMPTY.iter(),
        };
        ItemsBack::new(here, self.nodes.range(..node))
    }

    /// Returns the place of the first element that equals `pivot`.
    pub(crate) fn find(&self, pivot: ValueRef<'_>) -> Option<ElementIndex> {
        self.nodes.iter().enumerate().find_map(|(node, each)| {
            let offset = each.as_packed().find(pivot, 0)?;
            Some(ElementIndex { node, offset })
        })
    }

    /// Returns the place behind an element.
    pub(crate) fn behind(&self, place: ElementIndex) -> ElementIndex {
        ElementIndex { offset: self.nodes[place.node].as_packed().after(place.offset), ..place }
    }

    /// Replaces an element by `value`. A large value gets a pack of its own; another value stays in the pack, even beyond the
    /// limit.
    pub(crate) fn replace(&mut self, place: ElementIndex, value: ValueRef<'_>, limit: ListLimit) {
        self.put(place, value, limit);
        self.compress_all(limit);
    }

    fn put(&mut self, place: ElementIndex, value: ValueRef<'_>, limit: ListLimit) {
        let ElementIndex { node, offset } = place;
        match (limit.is_large(value), self.nodes[node].is_alone(limit)) {
            (true, true) | (false, false) => _ = self.nodes.edit(node, |pack| pack.replace_at(offset, value)),
            (false, true) => {
                self.insert_at(self.behind(place), End::Back, value, limit);
                self.remove_node(node);
            }
            (true, false) => {
                let tail = self.nodes.edit(node, |pack| {
                    pack.remove_range(offset, 1);
                    pack.split_off(offset)
                });
                self.nodes.insert(node + 1, [value].into_iter().collect());
                if !tail.is_empty() {
                    self.nodes.insert(node + 2, tail);
                }
                self.drop_if_empty(node);
            }
        }
    }

    /// Inserts `value` at a place, which is that of another element, or behind it: `side` says which.
    pub(crate) fn insert(&mut self, place: ElementIndex, side: End, value: ValueRef<'_>, limit: ListLimit) {
        self.insert_at(place, side, value, limit);
        self.compress_all(limit);
    }

    fn insert_at(&mut self, place: ElementIndex, side: End, value: ValueRef<'_>, limit: ListLimit) {
        let ElementIndex { node, offset } = place;
        if self.nodes[node].takes(value, limit) {
            self.nodes.edit(node, |pack| pack.insert_at(offset, value));
            return;
        }
        let packed = self.nodes[node].as_packed();
        let at_front = offset == packed.iter().offset();
        let at_back = offset == packed.bytes_len();
        if at_front && node > 0 && self.nodes[node - 1].takes(value, limit) {
            self.nodes.edit(node - 1, |pack| pack.push_back(value));
        } else if at_back && self.nodes.get(node + 1).is_some_and(|next| next.takes(value, limit)) {
            self.nodes.edit(node + 1, |pack| pack.push_front(value));
        } else if at_front || at_back {
            self.nodes.insert(node + usize::from(at_back), [value].into_iter().collect());
        } else {
            self.split_and_insert(place, side, value, limit);
        }
    }

    /// Splits a full pack at a place. `value` goes with the part that is further from the element beside which it is
    /// inserted, as in Redis.
    fn split_and_insert(&mut self, place: ElementIndex, side: End, value: ValueRef<'_>, limit: ListLimit) {
        let ElementIndex { node, offset } = place;
        let tail = self.nodes.edit(node, |pack| pack.split_off(offset));
        self.nodes.edit(node, give_back_spare);
        self.nodes.insert(node + 1, tail);
        if limit.is_large(value) {
            self.nodes.insert(node + 1, [value].into_iter().collect());
            return;
        }
        match side {
            End::Front => self.nodes.edit(node, |pack| pack.push_back(value)),
            End::Back => self.nodes.edit(node + 1, |pack| pack.push_front(value)),
        }
        self.join_around(node + usize::from(side == End::Front), limit);
    }

    /// Joins neighbours that fit into one pack: the two before a node, the two behind it, and those with the node.
    fn join_around(&mut self, mut node: usize, limit: ListLimit) {
        if node >= 2 && self.join(node - 2, limit) {
            node -= 1;
        }
        self.join(node + 1, limit);
        if node >= 1 && self.join(node - 1, limit) {
            node -= 1;
        }
        self.join(node, limit);
    }

    /// Joins a node with the next one if they fit into one; returns whether they did.
    fn join(&mut self, node: usize, limit: ListLimit) -> bool {
        let (Some(one), Some(next)) = (self.nodes.get(node), self.nodes.get(node + 1)) else { return false };
        if one.is_alone(limit) || next.is_alone(limit) {
            return false;
        }
        let bytes = one.as_packed().redis_bytes() + next.as_packed().redis_bytes();
        let fits = limit.allows(bytes - Packed::EMPTY.redis_bytes(), one.count() + next.count());
        if fits {
            let next = self.remove_node(node + 1).into_pack();
            self.nodes.edit(node, |pack| pack.append(next.as_packed()));
        }
        fits
    }

    /// Removes up to `count` elements equal to `value` from the front on; returns the number removed.
    pub(crate) fn remove(&mut self, value: ValueRef<'_>, count: usize) -> usize {
        let mut removed = 0;
        for node in 0..self.nodes.len() {
            if removed < count {
                removed += self.edit_if(node, value, |pack| pack.remove_equal(value, count - removed));
            }
        }
        self.nodes.remove_empty();
        removed
    }

    /// Removes up to `count` elements equal to `value` from the back on; returns the number removed.
    pub(crate) fn remove_back(&mut self, value: ValueRef<'_>, count: usize) -> usize {
        let mut removed = 0;
        for node in (0..self.nodes.len()).rev() {
            if removed < count {
                removed += self.edit_if(node, value, |pack| pack.remove_equal_back(value, count - removed));
            }
        }
        self.nodes.remove_empty();
        removed
    }

    fn edit_if(&mut self, node: usize, value: ValueRef<'_>, change: impl FnOnce(&mut Pack) -> usize) -> usize {
        match self.nodes[node].as_packed().find(value, 0) {
            Some(_) => {
                let removed = self.nodes.edit(node, change);
                if (self.depth..self.nodes.len().saturating_sub(self.depth)).contains(&node) && self.depth > 0 {
                    self.compress(node);
                }
                removed
            }
            None => 0,
        }
    }

    fn remove_node(&mut self, at: usize) -> Node {
        let node = self.nodes.remove(at);
        self.decompress_ends();
        node
    }

    /// Compresses all nodes that lie deep enough, after a change in the middle.
    pub(crate) fn compress_all(&mut self, limit: ListLimit) {
        self.depth = limit.compress_depth();
        if self.depth > 0 {
            (self.depth..self.nodes.len().saturating_sub(self.depth)).for_each(|node| self.compress(node));
            self.close();
        }
    }

    /// Compresses the node that now lies deep enough because a node was added at this end.
    fn compress_near(&mut self, end: End, limit: ListLimit) {
        if self.depth != limit.compress_depth() {
            return self.compress_all(limit);
        }
        let (depth, len) = (self.depth, self.nodes.len());
        if depth > 0 && len > 2 * depth {
            self.compress(if end == End::Front { depth } else { len - 1 - depth });
            self.close();
        }
    }

    fn compress(&mut self, at: usize) {
        self.nodes.reform(at, |node| node.compress(&self.opened));
    }

    /// Releases the unpacked forms that readers have made: they mostly read near the ends.
    fn close(&mut self) {
        for step in 0..self.nodes.len().div_ceil(2) {
            if self.opened.load(Ordering::Relaxed) == 0 {
                return;
            }
            let behind = self.nodes.len() - 1 - step;
            self.nodes.reform(step, Node::close);
            self.nodes.reform(behind, Node::close);
        }
        // The remaining unpacked forms were removed with their nodes.
        self.opened.store(0, Ordering::Relaxed);
    }

    /// Unpacks the nodes that are now near an end, for good.
    fn decompress_ends(&mut self) {
        let ends = [self.depth.checked_sub(1), self.nodes.len().checked_sub(self.depth)];
        for node in ends.into_iter().flatten() {
            if self.nodes.get(node).is_some_and(Node::is_compressed) {
                self.nodes.reform(node, Node::decompress);
            }
        }
    }

    fn drop_if_empty(&mut self, node: usize) {
        if self.nodes[node].count() == 0 {
            self.remove_node(node);
        }
    }
}
