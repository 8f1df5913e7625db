//! A long list: a chain of packs, none larger than a limit, as the quicklist of Redis.
//!
//! The packs stand in a deque, so both ends are at hand, and an index is found by adding up counts from the nearer end. A
//! pack is filled at the ends of the list up to the limit; the borders between packs fall where they fall in Redis, on
//! which the way back to a packed list depends. An insertion in the middle of a full pack splits it, and neighbours that
//! then fit into one are joined. Only `list` speaks to it. Plain data, usable from any thread.

use std::collections::{VecDeque, vec_deque};

use crate::listpack::{Elements, Packed};
use crate::pack::Pack;
use crate::value::ValueRef;

/// How large a pack of a list may be: the option `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit {
    bytes: usize,
    count: Option<usize>,
}

/// The most bytes in a pack that is limited by a count.
const BYTES_SAFE: usize = 8192;

/// What Redis takes an element to need beyond its text, in bytes, when it asks whether a pack has room for it.
const ELEMENT_EXTRA_BYTES: usize = 8;

impl ListLimit {
    /// Reads the option: a positive number is a count of elements, -1 to -5 are 4, 8, 16, 32 and 64 KiB.
    pub fn new(option: i64) -> Self {
        match usize::try_from(option) {
            Ok(count) => Self { bytes: BYTES_SAFE, count: Some(count.max(1)) },
            Err(_) => Self { bytes: 4096 << (option.max(-5).unsigned_abs() - 1), count: None },
        }
    }

    /// Whether a pack of this many elements may have this many bytes, counted as Redis does.
    pub(crate) fn allows(self, redis_bytes: usize, count: usize) -> bool {
        redis_bytes <= self.bytes && self.count.is_none_or(|limit| count <= limit)
    }

    /// Whether a list of this size, in one pack, is small enough to be packed again: half of the limit.
    pub(crate) fn allows_return(self, redis_bytes: usize, count: usize) -> bool {
        match self.count {
            Some(limit) => count <= limit / 2,
            None => redis_bytes <= self.bytes / 2,
        }
    }

    /// Whether a pack has room for `value`.
    fn takes(self, node: &Node, value: ValueRef<'_>) -> bool {
        let bytes = node.pack.as_packed().redis_bytes() + value.len() + ELEMENT_EXTRA_BYTES;
        self.allows(bytes, node.count + 1)
    }
}

#[derive(Clone)]
struct Node {
    pack: Pack,
    /// The number of its elements, so that looking for an index reads no pack.
    count: usize,
}

impl Node {
    fn new(pack: Pack) -> Self {
        let count = pack.len();
        Self { pack, count }
    }
}

/// See the file's head.
#[derive(Clone, Default)]
pub struct Chain {
    nodes: VecDeque<Node>,
    len: usize,
    /// What the packs have asked for, in bytes.
    pack_bytes: usize,
}

/// Where an element is, or where one could be inserted.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    node: usize,
    offset: usize,
}

impl Chain {
    /// A chain of the elements of one pack.
    pub(crate) fn from_pack(pack: Pack) -> Self {
        let mut chain = Self::default();
        if !pack.is_empty() {
            chain.insert_node(0, pack);
        }
        chain
    }

    /// The number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that it owns.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.pack_bytes
    }

    /// The packs in order, for files and for peers.
    pub(crate) fn packs(&self) -> impl ExactSizeIterator<Item = Packed<'_>> {
        self.nodes.iter().map(|node| node.pack.as_packed())
    }

    /// The only pack, if there is just one.
    pub(crate) fn only_pack(&self) -> Option<Packed<'_>> {
        match self.nodes.len() {
            1 => self.nodes.front().map(|node| node.pack.as_packed()),
            _ => None,
        }
    }

    /// Takes the first pack out.
    pub(crate) fn take_pack(&mut self) -> Option<Pack> {
        (!self.nodes.is_empty()).then(|| self.remove_node(0))
    }

    /// Adds a pack behind the last.
    pub(crate) fn push_pack(&mut self, pack: Pack) {
        self.insert_node(self.nodes.len(), pack);
    }

    /// Puts `value` before the first element.
    pub(crate) fn push_front(&mut self, value: ValueRef<'_>, limit: ListLimit) {
        match self.nodes.front() {
            Some(node) if limit.takes(node, value) => self.edit(0, |pack| pack.push_front(value)),
            full => {
                if full.is_some() {
                    self.edit(0, give_back_spare);
                }
                let mut pack = Pack::with_room_in_front(0);
                pack.push_front(value);
                self.insert_node(0, pack);
            }
        }
    }

    /// Appends `value`.
    pub(crate) fn push_back(&mut self, value: ValueRef<'_>, limit: ListLimit) {
        let last = self.nodes.len().saturating_sub(1);
        match self.nodes.back() {
            Some(node) if limit.takes(node, value) => self.edit(last, |pack| pack.push_back(value)),
            full => {
                if full.is_some() {
                    self.edit(last, give_back_spare);
                }
                self.push_pack([value].into_iter().collect());
            }
        }
    }

    /// The first element.
    #[inline]
    pub(crate) fn first(&self) -> Option<ValueRef<'_>> {
        self.nodes.front()?.pack.as_packed().first()
    }

    /// The last element.
    #[inline]
    pub(crate) fn last(&self) -> Option<ValueRef<'_>> {
        self.nodes.back()?.pack.as_packed().last()
    }

    /// Removes the first element.
    pub(crate) fn pop_front(&mut self) {
        if !self.nodes.is_empty() {
            self.edit(0, Pack::pop_front);
            self.drop_if_empty(0);
        }
    }

    /// Removes the last element.
    pub(crate) fn pop_back(&mut self) {
        if let Some(last) = self.nodes.len().checked_sub(1) {
            self.edit(last, Pack::pop_back);
            self.drop_if_empty(last);
        }
    }

    /// Removes the first `count` elements.
    pub(crate) fn drop_front(&mut self, mut count: usize) {
        while let Some(node) = self.nodes.front() {
            if node.count > count {
                if count > 0 {
                    self.edit(0, |pack| pack.remove_range(pack.as_packed().iter().offset(), count));
                }
                return;
            }
            count -= node.count;
            self.remove_node(0);
        }
    }

    /// Removes all but the first `keep` elements.
    pub(crate) fn truncate(&mut self, keep: usize) {
        while let Some(node) = self.nodes.back() {
            let (last, before) = (self.nodes.len() - 1, self.len - node.count);
            if before < keep {
                self.edit(last, |pack| pack.truncate(keep - before));
                return;
            }
            self.remove_node(last);
        }
    }

    /// Where the element at `index` is.
    pub(crate) fn place(&self, index: usize) -> Option<Place> {
        let (node, within) = self.node_of(index)?;
        let offset = self.nodes[node].pack.as_packed().offset_of(within)?;
        Some(Place { node, offset })
    }

    /// The node of the element at `index`, and its index there.
    fn node_of(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index < self.len / 2 {
            let mut before = 0;
            for (number, node) in self.nodes.iter().enumerate() {
                if index < before + node.count {
                    return Some((number, index - before));
                }
                before += node.count;
            }
            return None;
        }
        let mut behind = self.len;
        for (number, node) in self.nodes.iter().enumerate().rev() {
            behind -= node.count;
            if index >= behind {
                return Some((number, index - behind));
            }
        }
        None
    }

    /// The elements from the one at `index` to the last.
    pub(crate) fn iter_from(&self, index: usize) -> Items<'_> {
        let Some((node, within)) = self.node_of(index) else { return Items::of(Packed::EMPTY.iter()) };
        let packed = self.nodes[node].pack.as_packed();
        let here = packed.offset_of(within).map_or(Packed::EMPTY.iter(), |offset| packed.iter_from(offset));
        Items { here, nodes: self.nodes.range(node + 1..) }
    }

    /// The elements from the one at `index` back to the first.
    pub(crate) fn iter_back_from(&self, index: usize) -> ItemsBack<'_> {
        let Some((node, within)) = self.node_of(index) else { return ItemsBack::of(Packed::EMPTY.iter()) };
        let packed = self.nodes[node].pack.as_packed();
        let here = match packed.offset_of(within) {
            Some(offset) => packed.iter_to(packed.after(offset)),
            None => Packed::EMPTY.iter(),
        };
        ItemsBack { here, nodes: self.nodes.range(..node) }
    }

    /// Where the first element equal to `pivot` is.
    pub(crate) fn find(&self, pivot: ValueRef<'_>) -> Option<Place> {
        self.nodes.iter().enumerate().find_map(|(node, each)| {
            let offset = each.pack.as_packed().find(pivot, 0)?;
            Some(Place { node, offset })
        })
    }

    /// The place behind an element.
    pub(crate) fn behind(&self, place: Place) -> Place {
        Place { offset: self.nodes[place.node].pack.as_packed().after(place.offset), ..place }
    }

    /// Puts `value` in the place of an element, which gets a pack of its own where the new one has no room.
    pub(crate) fn replace(&mut self, place: Place, value: ValueRef<'_>, limit: ListLimit) {
        let Place { node, offset } = place;
        let packed = self.nodes[node].pack.as_packed();
        let less = packed.after(offset) - offset;
        let bytes = packed.redis_bytes() - less + value.len() + ELEMENT_EXTRA_BYTES;
        if limit.allows(bytes, self.nodes[node].count) || self.nodes[node].count == 1 {
            self.edit(node, |pack| pack.replace_at(offset, value));
            return;
        }
        self.edit(node, |pack| pack.remove_range(offset, 1));
        self.insert(place, value, limit);
    }

    /// Inserts `value` at a place.
    pub(crate) fn insert(&mut self, place: Place, value: ValueRef<'_>, limit: ListLimit) {
        let Place { node, offset } = place;
        if limit.takes(&self.nodes[node], value) {
            self.edit(node, |pack| pack.insert_at(offset, value));
            return;
        }
        let packed = self.nodes[node].pack.as_packed();
        let at_front = offset == packed.iter().offset();
        let at_back = offset == packed.bytes_len();
        if at_front && node > 0 && limit.takes(&self.nodes[node - 1], value) {
            self.edit(node - 1, |pack| pack.push_back(value));
        } else if at_back && self.nodes.get(node + 1).is_some_and(|next| limit.takes(next, value)) {
            self.edit(node + 1, |pack| pack.push_front(value));
        } else if at_front || at_back {
            self.insert_node(node + usize::from(at_back), [value].into_iter().collect());
        } else {
            self.split_and_insert(place, value, limit);
        }
    }

    fn split_and_insert(&mut self, Place { node, offset }: Place, value: ValueRef<'_>, limit: ListLimit) {
        let tail = self.edit(node, |pack| pack.split_off(offset));
        self.edit(node, give_back_spare);
        self.insert_node(node + 1, tail);
        if limit.takes(&self.nodes[node], value) {
            self.edit(node, |pack| pack.push_back(value));
        } else if limit.takes(&self.nodes[node + 1], value) {
            self.edit(node + 1, |pack| pack.push_front(value));
        } else {
            self.insert_node(node + 1, [value].into_iter().collect());
            return;
        }
        self.join(node + 1, limit);
        if node > 0 {
            self.join(node - 1, limit);
        }
    }

    /// Joins a node with the next one if they fit into one.
    fn join(&mut self, node: usize, limit: ListLimit) {
        let (Some(one), Some(next)) = (self.nodes.get(node), self.nodes.get(node + 1)) else { return };
        let (bytes, more) = (one.pack.as_packed().redis_bytes(), next.pack.as_packed().redis_bytes());
        if limit.allows(bytes + more, one.count + next.count) {
            let next = self.remove_node(node + 1);
            self.edit(node, |pack| pack.append(next.as_packed()));
        }
    }

    /// Removes up to `count` elements equal to `value` from the front on; says how many there were.
    pub(crate) fn remove(&mut self, value: ValueRef<'_>, count: usize) -> usize {
        let mut removed = 0;
        for node in 0..self.nodes.len() {
            if removed < count {
                removed += self.edit_if(node, value, |pack| remove_in(pack, value, count - removed));
            }
        }
        self.drop_empty();
        removed
    }

    /// Removes up to `count` elements equal to `value` from the back on; says how many there were.
    pub(crate) fn remove_back(&mut self, value: ValueRef<'_>, count: usize) -> usize {
        let mut removed = 0;
        for node in (0..self.nodes.len()).rev() {
            if removed < count {
                removed += self.edit_if(node, value, |pack| remove_in_back(pack, value, count - removed));
            }
        }
        self.drop_empty();
        removed
    }

    fn edit_if(&mut self, node: usize, value: ValueRef<'_>, change: impl FnOnce(&mut Pack) -> usize) -> usize {
        match self.nodes[node].pack.as_packed().find(value, 0) {
            Some(_) => self.edit(node, change),
            None => 0,
        }
    }

    /// Changes a pack and keeps the sums right.
    #[inline]
    fn edit<R>(&mut self, node: usize, change: impl FnOnce(&mut Pack) -> R) -> R {
        let Node { pack, count } = &mut self.nodes[node];
        let bytes = pack.memory_bytes();
        let result = change(pack);
        let now = pack.len();
        self.len = self.len - *count + now;
        self.pack_bytes = self.pack_bytes - bytes + pack.memory_bytes();
        *count = now;
        result
    }

    fn insert_node(&mut self, at: usize, pack: Pack) {
        let node = Node::new(pack);
        self.len += node.count;
        self.pack_bytes += node.pack.memory_bytes();
        self.nodes.insert(at, node);
    }

    fn remove_node(&mut self, at: usize) -> Pack {
        let node = self.nodes.remove(at).expect("the caller has just seen the node");
        self.len -= node.count;
        self.pack_bytes -= node.pack.memory_bytes();
        if self.nodes.capacity() > 64 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
        node.pack
    }

    fn drop_if_empty(&mut self, node: usize) {
        if self.nodes[node].count == 0 {
            self.remove_node(node);
        }
    }

    fn drop_empty(&mut self) {
        let bytes = &mut self.pack_bytes;
        self.nodes.retain(|node| {
            if node.count == 0 {
                *bytes -= node.pack.memory_bytes();
            }
            node.count != 0
        });
    }
}

/// Removes up to `count` elements equal to `value` from the front on; says how many there were.
pub(crate) fn remove_in(pack: &mut Pack, value: ValueRef<'_>, count: usize) -> usize {
    let (mut removed, mut offset) = (0, pack.as_packed().iter().offset());
    while removed < count {
        let Some(found) = pack.as_packed().find_from(offset, value, 0) else { break };
        // What is behind moves up, and the free room in front may have taken the rest: the offset stays right, as it
        // counts from where the run begins.
        pack.remove_range(found, 1);
        (removed, offset) = (removed + 1, found);
    }
    removed
}

/// Likewise, from the back on.
pub(crate) fn remove_in_back(pack: &mut Pack, value: ValueRef<'_>, count: usize) -> usize {
    let (mut removed, mut offset) = (0, pack.as_packed().bytes_len());
    while removed < count {
        let Some(before) = pack.as_packed().before(offset) else { break };
        offset = before;
        if pack.as_packed().is_at(offset, value) {
            pack.remove_range(offset, 1);
            removed += 1;
        }
    }
    removed
}

/// Gives back what a pack that will not grow has in reserve, if it is worth a copy.
fn give_back_spare(pack: &mut Pack) {
    let used = pack.as_bytes().len();
    if pack.memory_bytes() - used > used / 32 {
        pack.shrink_to_fit();
    }
}

/// Elements in order, through all packs.
#[derive(Clone)]
pub struct Items<'a> {
    here: Elements<'a>,
    nodes: vec_deque::Iter<'a, Node>,
}

impl<'a> Items<'a> {
    /// The elements of one pack.
    pub(crate) fn of(here: Elements<'a>) -> Self {
        Self { here, nodes: vec_deque::Iter::default() }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(value) = self.here.next() {
                return Some(value);
            }
            self.here = self.nodes.next()?.pack.as_packed().iter();
        }
    }
}

/// Elements from a place back to the first, through all packs.
#[derive(Clone)]
pub struct ItemsBack<'a> {
    here: Elements<'a>,
    nodes: vec_deque::Iter<'a, Node>,
}

impl<'a> ItemsBack<'a> {
    /// The elements of one pack.
    pub(crate) fn of(here: Elements<'a>) -> Self {
        Self { here, nodes: vec_deque::Iter::default() }
    }
}

impl<'a> Iterator for ItemsBack<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(value) = self.here.next_back() {
                return Some(value);
            }
            self.here = self.nodes.next_back()?.pack.as_packed().iter();
        }
    }
}
