//! An inner node of a sorted set's order: its children, with the least score and the first member of each.
//!
//! This module adds, moves and removes members below a node; the root, and the queries about the whole, are in `order`. The
//! functions that change something keep account of the bytes that nodes take.

use super::leaf::{LEAF_MAX, Leaf, Member, Target};

/// The most children of a branch.
const FANOUT: usize = 64;

/// The number of members up to which a leaf takes some of a full neighbour's.
const NEIGHBOUR_MAX: usize = LEAF_MAX / 8 * 7;

/// An inner node.
pub(crate) struct Branch {
    /// The number of members below.
    pub len: usize,
    /// The least score of each child, as an integer.
    scores: Vec<u64>,
    /// The first member of each child, which has that score.
    firsts: Vec<Member>,
    pub below: Below,
}

/// The children of a branch: leaves only, or branches only.
pub(crate) enum Below {
    Leaves(Vec<Leaf>),
    Branches(Vec<Branch>),
}

/// The position of a node in its level: first, last, both or neither.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub is_first: bool,
    pub is_last: bool,
}

impl Branch {
    pub fn of(below: Below) -> Self {
        Self { len: 0, scores: Vec::new(), firsts: Vec::new(), below }
    }

    /// Returns the number of children.
    #[inline]
    fn width(&self) -> usize {
        self.scores.len()
    }

    /// Returns the bytes that the branch itself takes, without those of its children.
    pub fn own_bytes(&self) -> usize {
        let below = match &self.below {
            Below::Leaves(leaves) => leaves.capacity() * size_of::<Leaf>(),
            Below::Branches(branches) => branches.capacity() * size_of::<Self>(),
        };
        below + self.scores.capacity() * size_of::<u64>() + self.firsts.capacity() * size_of::<Member>()
    }

    /// Returns the number of members below one child.
    fn child_len(&self, at: usize) -> usize {
        match &self.below {
            Below::Leaves(leaves) => leaves[at].len(),
            Below::Branches(branches) => branches[at].len,
        }
    }

    /// Returns the number of members below the children in front of one.
    pub fn len_before(&self, at: usize) -> usize {
        match &self.below {
            Below::Leaves(leaves) => leaves[..at].iter().map(Leaf::len).sum(),
            Below::Branches(branches) => branches[..at].iter().map(|branch| branch.len).sum(),
        }
    }

    /// Returns the index of the last child with a first member before `target`, or of the first child.
    pub fn child_for(&self, target: &Target<'_>) -> usize {
        let before = |at: usize| target.is_behind(self.scores[at], self.firsts[at]);
        let (low, high) = match target.sortable() {
            Some(sortable) => {
                let low = self.scores.partition_point(|score| *score < sortable);
                (low, low + self.scores[low..].partition_point(|score| *score == sortable))
            }
            None => (0, self.width()),
        };
        let (mut low, mut high) = (low, high);
        while low < high {
            let middle = low.midpoint(high);
            (low, high) = if before(middle) { (middle + 1, high) } else { (low, middle) };
        }
        low.saturating_sub(1)
    }

    /// Returns the child that a member is below.
    fn child_of(&self, member: Member) -> usize {
        let at = self.child_for(&member.target());
        let is_next_first = self.firsts.get(at + 1).is_some_and(|first| first.is(member));
        at + usize::from(is_next_first)
    }

    /// Adds a member below. If this branch is split, returns the new branch behind it.
    pub fn insert(&mut self, member: Member, edge: Edge, bytes: &mut usize) -> Option<Self> {
        *bytes -= self.own_bytes();
        self.len += 1;
        let at = self.child_for(&member.target());
        let edge = Edge { is_first: edge.is_first && at == 0, is_last: edge.is_last && at + 1 >= self.width() };
        match &mut self.below {
            Below::Leaves(_) => self.insert_in_leaf(at, member, edge, bytes),
            Below::Branches(branches) => {
                let right = branches[at].insert(member, edge, bytes);
                self.refresh_first(at);
                if let Some(right) = right {
                    self.insert_branch(at + 1, right);
                }
            }
        }
        let right = (self.width() > FANOUT).then(|| self.split(edge));
        *bytes += self.own_bytes() + right.as_ref().map_or(0, Self::own_bytes);
        right
    }

    fn insert_in_leaf(&mut self, at: usize, member: Member, edge: Edge, bytes: &mut usize) {
        let Below::Leaves(leaves) = &mut self.below else { return };
        if leaves.is_empty() {
            leaves.reserve_exact(1);
            leaves.push(Leaf::new());
            self.scores.push(member.sortable());
            self.firsts.push(member);
        }
        let index = leaves[at].count_before(&member.target());
        let cut = match edge {
            Edge { is_last: true, .. } if index == leaves[at].len() => leaves[at].len(),
            Edge { is_first: true, .. } if index == 0 => 0,
            _ => LEAF_MAX / 2,
        };
        let is_full = leaves[at].is_full();
        if is_full && cut == LEAF_MAX / 2 && self.even_out(at, bytes) {
            // The neighbour may be where the member belongs now; both have room.
            let at = self.child_for(&member.target());
            return self.insert_in_leaf(at, member, edge, bytes);
        }
        let Below::Leaves(leaves) = &mut self.below else { return };
        let leaf = &mut leaves[at];
        *bytes -= leaf.bytes();
        if !is_full {
            leaf.insert(index, member);
            *bytes += leaf.bytes();
            return self.refresh_first(at);
        }
        let mut right = leaf.split_off(cut);
        // The new leaf takes the member, unless it belongs inside the old one.
        let belongs_left = index < cut || cut == 0;
        let (half, index) = if belongs_left { (&mut *leaf, index) } else { (&mut right, index - cut) };
        half.insert(index, member);
        *bytes += leaf.bytes() + right.bytes();
        self.insert_leaf(at + 1, right);
        self.refresh_first(at);
    }

    /// Moves members of a full leaf to a neighbour that has room; false if there is none. So leaves are split only where
    /// they are full side by side.
    fn even_out(&mut self, at: usize, bytes: &mut usize) -> bool {
        let Below::Leaves(leaves) = &mut self.below else { return false };
        let has_room = |at: usize| leaves.get(at).is_some_and(|leaf| leaf.len() <= NEIGHBOUR_MAX);
        let (left_at, is_right) = match at.checked_sub(1) {
            _ if has_room(at + 1) => (at, true),
            Some(left) if has_room(left) => (left, false),
            _ => return false,
        };
        let (left, right) = leaves.split_at_mut(left_at + 1);
        let (left, right) = (&mut left[left_at], &mut right[0]);
        *bytes -= left.bytes() + right.bytes();
        let moved = left.len().abs_diff(right.len()) / 2;
        if is_right {
            right.take_from_left(left, moved);
        } else {
            left.take_from_right(right, moved);
        }
        *bytes += left.bytes() + right.bytes();
        self.refresh_first(left_at);
        self.refresh_first(left_at + 1);
        true
    }

    fn insert_leaf(&mut self, at: usize, leaf: Leaf) {
        let first = leaf.member(0);
        let Below::Leaves(leaves) = &mut self.below else { return };
        make_room(leaves);
        leaves.insert(at, leaf);
        self.insert_first(at, first);
    }

    pub fn insert_branch(&mut self, at: usize, branch: Self) {
        let first = branch.firsts[0];
        let Below::Branches(branches) = &mut self.below else { return };
        make_room(branches);
        branches.insert(at, branch);
        self.insert_first(at, first);
    }

    fn insert_first(&mut self, at: usize, first: Member) {
        make_room(&mut self.scores);
        make_room(&mut self.firsts);
        self.scores.insert(at, first.sortable());
        self.firsts.insert(at, first);
    }

    /// Updates the record of a child's first member.
    #[inline]
    fn refresh_first(&mut self, at: usize) {
        let (score, first) = match &self.below {
            Below::Leaves(leaves) => {
                let first = leaves[at].member(0);
                if first.is(self.firsts[at]) && self.scores[at] == first.sortable() {
                    return;
                }
                (first.sortable(), first)
            }
            Below::Branches(branches) => (branches[at].scores[0], branches[at].firsts[0]),
        };
        (self.scores[at], self.firsts[at]) = (score, first);
    }

    /// Takes the upper half of the children into a branch of their own; at an end of the level, as few as possible.
    fn split(&mut self, edge: Edge) -> Self {
        let cut = match edge {
            Edge { is_last: true, .. } => self.width() - 1,
            Edge { is_first: true, .. } => 1,
            _ => self.width() / 2,
        };
        let below = match &mut self.below {
            Below::Leaves(leaves) => Below::Leaves(split_off(leaves, cut)),
            Below::Branches(branches) => Below::Branches(split_off(branches, cut)),
        };
        let (scores, firsts) = (split_off(&mut self.scores, cut), split_off(&mut self.firsts, cut));
        let mut right = Self { len: 0, scores, firsts, below };
        right.len = right.len_before(right.width());
        self.len -= right.len;
        right
    }

    pub fn remove(&mut self, member: Member, bytes: &mut usize) -> bool {
        if self.width() == 0 {
            return false;
        }
        let at = self.child_of(member);
        *bytes -= self.own_bytes();
        let is_found = match &mut self.below {
            Below::Branches(branches) => branches[at].remove(member, bytes),
            Below::Leaves(leaves) => match leaves[at].index_of(member) {
                Some(index) => {
                    *bytes -= leaves[at].bytes();
                    leaves[at].remove(index, 1, &mut |_| ());
                    *bytes += leaves[at].bytes();
                    true
                }
                None => false,
            },
        };
        self.len -= usize::from(is_found);
        self.mend(at, bytes);
        *bytes += self.own_bytes();
        is_found
    }

    /// Takes members out of one leaf, from the one at rank `start` on and at most `count`; returns their number.
    pub fn cut(&mut self, start: usize, count: usize, show: &mut dyn FnMut(Member), bytes: &mut usize) -> usize {
        *bytes -= self.own_bytes();
        let (mut at, mut start) = (0, start);
        while start >= self.child_len(at) {
            start -= self.child_len(at);
            at += 1;
        }
        let removed = match &mut self.below {
            Below::Branches(branches) => branches[at].cut(start, count, show, bytes),
            Below::Leaves(leaves) => {
                *bytes -= leaves[at].bytes();
                let removed = leaves[at].remove(start, count, show);
                *bytes += leaves[at].bytes();
                removed
            }
        };
        self.len -= removed;
        self.mend(at, bytes);
        *bytes += self.own_bytes();
        removed
    }

    /// Repairs the tree around a child that has lost members: an empty child is removed, and a small one is joined with a
    /// small neighbour.
    fn mend(&mut self, at: usize, bytes: &mut usize) {
        if self.child_len(at) == 0 {
            return self.drop_child(at, bytes);
        }
        self.refresh_first(at);
        let joins = |left: usize| left + 1 < self.width() && self.may_join(left);
        let left = [at.checked_sub(1), Some(at)].into_iter().flatten().find(|left| joins(*left));
        if let Some(left) = left {
            self.join(left, bytes);
        }
    }

    /// Returns whether a child and the one behind it are small enough to be one; one of them is so small that it should.
    fn may_join(&self, left: usize) -> bool {
        let (sizes, most) = match &self.below {
            Below::Leaves(leaves) => ([leaves[left].len(), leaves[left + 1].len()], LEAF_MAX),
            Below::Branches(branches) => ([branches[left].width(), branches[left + 1].width()], FANOUT),
        };
        sizes[0].min(sizes[1]) < most / 4 && sizes[0] + sizes[1] <= most / 4 * 3
    }

    fn join(&mut self, left: usize, bytes: &mut usize) {
        match &mut self.below {
            Below::Leaves(leaves) => {
                let mut right = leaves.remove(left + 1);
                *bytes -= leaves[left].bytes() + right.bytes();
                leaves[left].append(&mut right);
                *bytes += leaves[left].bytes();
            }
            Below::Branches(branches) => {
                let right = branches.remove(left + 1);
                *bytes -= branches[left].own_bytes() + right.own_bytes();
                branches[left].append(right);
                *bytes += branches[left].own_bytes();
            }
        }
        self.scores.remove(left + 1);
        self.firsts.remove(left + 1);
    }

    /// Takes over the children of the branch behind this one.
    fn append(&mut self, right: Self) {
        self.len += right.len;
        self.scores.extend(right.scores);
        self.firsts.extend(right.firsts);
        match (&mut self.below, right.below) {
            (Below::Leaves(leaves), Below::Leaves(more)) => leaves.extend(more),
            (Below::Branches(branches), Below::Branches(more)) => branches.extend(more),
            _ => debug_assert!(false, "all leaves are on one level"),
        }
    }

    fn drop_child(&mut self, at: usize, bytes: &mut usize) {
        match &mut self.below {
            Below::Leaves(leaves) => *bytes -= leaves.remove(at).bytes(),
            Below::Branches(branches) => *bytes -= branches.remove(at).own_bytes(),
        }
        self.scores.remove(at);
        self.firsts.remove(at);
    }

    /// Shows members until `left` is 0, after `skip` of them; `is_reverse` goes from the last to the first.
    pub fn visit(&self, skip: &mut usize, left: &mut usize, is_reverse: bool, show: &mut dyn FnMut(Member)) {
        for step in 0..self.width() {
            if *left == 0 {
                return;
            }
            let at = if is_reverse { self.width() - 1 - step } else { step };
            let len = self.child_len(at);
            if *skip >= len {
                *skip -= len;
                continue;
            }
            match &self.below {
                Below::Branches(branches) => branches[at].visit(skip, left, is_reverse, show),
                Below::Leaves(leaves) => {
                    let end = len.min(skip.saturating_add(*left));
                    leaves[at].visit(*skip..end, is_reverse, show);
                    *left -= end - *skip;
                    *skip = 0;
                }
            }
        }
    }
}

/// Makes room for one more child, and a few beyond: there are many branches, and doubling would leave them half empty.
fn make_room<T>(children: &mut Vec<T>) {
    if children.len() == children.capacity() {
        children.reserve_exact(8);
    }
}

/// Splits like `Vec::split_off`, but into halves that take no more memory than they need.
fn split_off<T>(children: &mut Vec<T>, at: usize) -> Vec<T> {
    let mut upper = Vec::new();
    upper.reserve_exact((children.len() - at).next_multiple_of(8));
    upper.extend(children.drain(at..));
    children.shrink_to(at.next_multiple_of(8));
    upper
}

#[cfg(test)]
impl Branch {
    /// Returns the height.
    pub fn check(&self, bytes: &mut usize, is_root: bool) -> usize {
        *bytes += self.own_bytes();
        assert!(self.width() <= FANOUT && (is_root || self.width() > 0));
        assert_eq!(self.len, self.len_before(self.width()));
        assert!((0..self.width()).all(|at| self.scores[at] == self.firsts[at].sortable()));
        match &self.below {
            Below::Leaves(leaves) => {
                for (leaf, first) in leaves.iter().zip(&self.firsts) {
                    leaf.check();
                    *bytes += leaf.bytes();
                    assert!(leaf.member(0).is(*first));
                }
                1
            }
            Below::Branches(branches) => {
                assert!(!is_root || branches.len() > 1);
                let heights: Vec<usize> = branches.iter().map(|branch| branch.check(bytes, false)).collect();
                assert!(heights.windows(2).all(|pair| pair[0] == pair[1]));
                assert!(branches.iter().zip(&self.firsts).all(|(branch, first)| branch.firsts[0].is(*first)));
                heights[0] + 1
            }
        }
    }
}
