//! The order of a sorted set: a B+ tree that also counts, so that ranks and places lead to each other.
//!
//! Leaves (see `leaf`) hold members; above them, a branch has for each of its children the least score, the member that has
//! it, and the child itself. Each branch knows how many members are below it. Leaves that split at either end of the whole
//! stay full, so scores that come in order leave no gaps; elsewhere a full leaf gives members to a neighbour, and is split in
//! halves when both neighbours are as full. Neighbours that have become small are joined.
//!
//! The tree refers to entries and owns none: the caller that inserts one promises that it lives, and that its score stays as
//! it is, until it is removed. Names are compared only where scores are equal. Used by `large`, under the shard's lock.

use super::branch::{Below, Branch, Edge};
use super::leaf::{Member, Target};

/// The entries of a sorted set by score and name, with the number of those below each branch.
pub(crate) struct Order {
    root: Branch,
    /// The bytes that leaves and branches take.
    bytes: usize,
}

/// A part of the order, by rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub start: usize,
    pub count: usize,
    /// True if ranks count from the last member, and the visit goes backwards.
    pub is_reverse: bool,
}

impl Order {
    pub fn new() -> Self {
        Self { root: Branch::of(Below::Leaves(Vec::new())), bytes: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.root.len
    }

    /// Returns the bytes of leaves and branches.
    #[inline]
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Adds a member.
    ///
    /// # Safety
    /// The member's entry lives and keeps its score until it is taken out, and it is not in the order yet.
    pub unsafe fn insert(&mut self, member: Member) {
        let edge = Edge { is_first: true, is_last: true };
        if let Some(right) = self.root.insert(member, edge, &mut self.bytes) {
            let left = std::mem::replace(&mut self.root, Branch::of(Below::Branches(Vec::new())));
            for (at, branch) in [left, right].into_iter().enumerate() {
                self.root.len += branch.len;
                self.root.insert_branch(at, branch);
            }
            self.bytes += self.root.own_bytes();
        }
    }

    /// Removes a member with an entry that has the score with which it was inserted.
    pub fn remove(&mut self, member: Member) {
        let is_found = self.root.remove(member, &mut self.bytes);
        debug_assert!(is_found, "a member of the table is in the order");
        self.lower();
    }

    /// Takes out up to `count` members from the one at rank `start` on, and shows them.
    pub fn remove_ranks(&mut self, start: usize, count: usize, show: &mut dyn FnMut(Member)) {
        let mut left = count.min(self.len().saturating_sub(start));
        while left > 0 {
            left -= self.root.cut(start, left, show, &mut self.bytes);
            self.lower();
        }
    }

    /// Makes the tree lower while the root has only one child.
    fn lower(&mut self) {
        while let Below::Branches(branches) = &mut self.root.below
            && branches.len() <= 1
        {
            let lowered = branches.pop().unwrap_or_else(|| Branch::of(Below::Leaves(Vec::new())));
            self.bytes -= self.root.own_bytes();
            self.root = lowered;
        }
    }

    /// Returns how many members lie before `target`.
    pub fn count_before(&self, target: &Target<'_>) -> usize {
        let (mut branch, mut count) = (&self.root, 0);
        loop {
            let at = branch.child_for(target);
            count += branch.len_before(at);
            match &branch.below {
                Below::Leaves(leaves) => return count + leaves.get(at).map_or(0, |leaf| leaf.count_before(target)),
                Below::Branches(branches) => branch = &branches[at],
            }
        }
    }

    /// Returns the member at `rank`.
    pub fn get(&self, rank: usize) -> Option<Member> {
        let mut found = None;
        self.visit(Span { start: rank, count: 1, is_reverse: false }, &mut |member| found = Some(member));
        found
    }

    /// Shows the members of a span, one after another.
    pub fn visit(&self, span: Span, show: &mut dyn FnMut(Member)) {
        let Span { mut start, mut count, is_reverse } = span;
        self.root.visit(&mut start, &mut count, is_reverse, show);
    }
}

#[cfg(test)]
impl Order {
    /// Checks the invariants: counts, first members, order, sizes and bytes.
    pub fn check(&self) {
        let mut bytes = 0;
        self.root.check(&mut bytes, true);
        assert_eq!(bytes, self.bytes);
        let mut last: Option<(u64, Vec<u8>)> = None;
        self.visit(Span { start: 0, count: usize::MAX, is_reverse: false }, &mut |member| {
            let key = (member.sortable(), member.name().to_vec());
            assert!(last.as_ref().is_none_or(|last| *last < key));
            last = Some(key);
        });
    }
}
