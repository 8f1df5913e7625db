//! The lowest level of a sorted set's order: up to 64 members side by side.
//!
//! A member is the entry of the set's table, which is the only copy of its name and of its score. The leaf has one word for
//! it: the address in the lower 48 bits and, above, a *grade*, which is the score on a scale of the leaf's own, from 0 to
//! 65,535. Grades never contradict scores, they are only coarser: a score off the scale gets the grade at its end. So a
//! search compares words that lie together. It looks into entries, each of which may be a cache miss, only where two grades
//! are the same. The scale is laid anew when the scores have outgrown it, or fill so little of it that grades often are the
//! same.
//!
//! Nothing here owns an entry. Only `order` calls, which has the promise that they live.

use std::cmp::Ordering;
use std::ops::Range;

use crate::memory::prefetch::prefetch;
use crate::table::entry::Entry;
use crate::value::ValueRef;

/// The most members of a leaf.
pub(crate) const LEAF_MAX: usize = 64;

/// The number of members by which a visit prefetches entries ahead.
const AHEAD: usize = 6;

/// The number of members with words that share a cache line.
const LINE: usize = 8;

const ADDRESS_BITS: u32 = 48;
const GRADE_MAX: u64 = 0xffff;

/// The number of grades that the scores must span; if they span fewer, the scale is laid anew.
const GRADES_MIN: u64 = 1024;

/// A member of a sorted set: an entry that lives, with the bits of its score as its value.
#[derive(Clone, Copy)]
pub(crate) struct Member(Entry);

/// A place between two members.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'k> {
    /// The place before all members with this score, or behind them.
    Score { sortable: u64, behind: bool },
    /// The place where the member with this score and this name is or would be.
    Member { sortable: u64, name: &'k [u8] },
    /// The place before the first name that is not less than this one, or behind the names that are equal, as if all scores
    /// were equal.
    Name { name: &'k [u8], behind: bool },
}

/// Returns a score as an integer of the same order. Both zeros are one.
#[inline]
pub(crate) fn sortable(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

impl Member {
    /// # Safety
    /// The entry lives as long as the result is used, and its value is an integer.
    pub unsafe fn new(entry: Entry) -> Self {
        Self(entry)
    }

    /// Returns the name. Its lifetime is bounded by the code that made the member.
    #[inline]
    pub fn name<'a>(self) -> &'a [u8] {
        self.0.key()
    }

    #[inline]
    pub fn score(self) -> f64 {
        match self.0.value() {
            ValueRef::Integer(bits) => f64::from_bits(bits as u64),
            ValueRef::Bytes(_) => 0.0,
        }
    }

    #[inline]
    pub fn sortable(self) -> u64 {
        sortable(self.score())
    }

    #[inline]
    pub fn prefetch(self) {
        prefetch(self.0.address() as *const u8);
    }

    #[inline]
    pub fn is(self, other: Self) -> bool {
        self.0 == other.0
    }

    /// Returns where it is in the order.
    pub fn target<'a>(self) -> Target<'a> {
        Target::Member { sortable: self.sortable(), name: self.name() }
    }
}

impl Target<'_> {
    /// Returns the score, if it matters.
    #[inline]
    pub fn sortable(&self) -> Option<u64> {
        match *self {
            Self::Score { sortable, .. } | Self::Member { sortable, .. } => Some(sortable),
            Self::Name { .. } => None,
        }
    }

    /// Returns whether a member with the score `own` lies before this place.
    #[inline]
    pub fn is_behind(&self, own: u64, member: Member) -> bool {
        match *self {
            Self::Score { sortable, behind } => own < sortable || (behind && own == sortable),
            Self::Member { sortable, name } => own < sortable || (own == sortable && member.name() < name),
            Self::Name { name, behind } => match member.name().cmp(name) {
                Ordering::Less => true,
                Ordering::Equal => behind,
                Ordering::Greater => false,
            },
        }
    }
}

/// A member and its grade in one word.
#[derive(Clone, Copy)]
struct Link(u64);

impl Link {
    #[inline]
    fn new(grade: u64, member: Member) -> Self {
        Self(grade << ADDRESS_BITS | member.0.address() as u64)
    }

    #[inline]
    fn grade(self) -> u64 {
        self.0 >> ADDRESS_BITS
    }

    #[inline]
    fn member(self) -> Member {
        let address = self.0 & ((1 << ADDRESS_BITS) - 1);
        // SAFETY: a link is made of a living member, and is taken out of the order before the entry ends.
        Member(unsafe { Entry::at(address as usize) })
    }
}

/// Entries of a sorted set side by side, in order.
pub(crate) struct Leaf {
    links: Vec<Link>,
    /// The score of grade 0, as `sortable` gives it; a grade is two to the power of `shift` such scores wide.
    base: u64,
    shift: u8,
}

impl Leaf {
    pub fn new() -> Self {
        Self { links: Vec::new(), base: 0, shift: ADDRESS_BITS as u8 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.links.len() >= LEAF_MAX
    }

    /// Returns the bytes of its memory.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }

    #[inline]
    pub fn member(&self, index: usize) -> Member {
        self.links[index].member()
    }

    #[inline]
    fn grade(&self, sortable: u64) -> u64 {
        (sortable.saturating_sub(self.base) >> self.shift).min(GRADE_MAX)
    }

    /// Returns the links with the same grade as a score.
    #[inline]
    fn candidates(&self, sortable: u64) -> (usize, usize) {
        self.links.chunks(LINE).for_each(|line| prefetch(line.as_ptr().cast()));
        let grade = self.grade(sortable);
        let low = self.links.partition_point(|link| link.grade() < grade);
        let same = self.links[low..].partition_point(|link| link.grade() == grade);
        (low, low + same)
    }

    /// Returns how many members lie before `target`.
    #[inline]
    pub fn count_before(&self, target: &Target<'_>) -> usize {
        let (low, high) = target.sortable().map_or((0, self.links.len()), |sortable| self.candidates(sortable));
        let is_before = |link: &Link| target.is_behind(link.member().sortable(), link.member());
        low + self.links[low..high].partition_point(is_before)
    }

    /// Returns the index of a member with an entry that still has the score under which it stands here.
    pub fn index_of(&self, member: Member) -> Option<usize> {
        let (low, high) = self.candidates(member.sortable());
        let same = self.links[low..high].iter().position(|link| link.member().is(member))?;
        Some(low + same)
    }

    /// Puts a member before the one at `index`, where it belongs.
    pub fn insert(&mut self, index: usize, member: Member) {
        if self.links.len() == self.links.capacity() {
            self.links.reserve_exact(self.links.len().max(LINE));
        }
        if self.links.len().is_multiple_of(LINE) {
            self.lay_scale();
        }
        let link = Link::new(self.grade(member.sortable()), member);
        self.links.insert(index, link);
    }

    /// Takes up to `count` members from `index` on out and shows them; returns their number.
    pub fn remove(&mut self, index: usize, count: usize, show: &mut dyn FnMut(Member)) -> usize {
        let end = self.links.len().min(index.saturating_add(count));
        self.links.drain(index..end).for_each(|link| show(link.member()));
        end - index
    }

    /// Takes the members from `index` on into a leaf of their own.
    pub fn split_off(&mut self, index: usize) -> Self {
        // Leaves that are split will be filled: all of them have the same size, so that no memory lies idle between.
        let mut links = Vec::with_capacity(LEAF_MAX);
        links.extend(self.links.drain(index..));
        let mut right = Self { links, ..*self };
        self.lay_scale();
        right.lay_scale();
        right
    }

    /// Takes over the members of the leaf behind this one.
    pub fn append(&mut self, right: &mut Self) {
        self.take_from_right(right, right.len());
    }

    /// Takes over the first `count` members of the leaf behind this one.
    pub fn take_from_right(&mut self, right: &mut Self, count: usize) {
        right.links[..count].iter().for_each(|link| link.member().prefetch());
        self.links.reserve_exact(count.max(LEAF_MAX - self.links.len()));
        for link in right.links.drain(..count) {
            let grade = self.grade(link.member().sortable());
            self.links.push(Link::new(grade, link.member()));
        }
        self.lay_scale();
    }

    /// Takes over the last `count` members of the leaf in front of this one.
    pub fn take_from_left(&mut self, left: &mut Self, count: usize) {
        let kept = left.links.len() - count;
        left.links[kept..].iter().for_each(|link| link.member().prefetch());
        self.links.reserve_exact(count.max(LEAF_MAX - self.links.len()));
        let moved: Vec<Member> = left.links.drain(kept..).map(Link::member).collect();
        self.links.splice(0..0, moved.iter().map(|member| Link::new(0, *member)));
        for (at, member) in moved.iter().enumerate() {
            self.links[at] = Link::new(self.grade(member.sortable()), *member);
        }
        self.lay_scale();
    }

    /// Shows the members that are so many steps from the first, or from the last if `is_reverse`.
    pub fn visit(&self, steps: Range<usize>, is_reverse: bool, show: &mut dyn FnMut(Member)) {
        let member = |step: usize| self.member(if is_reverse { self.links.len() - 1 - step } else { step });
        steps.clone().take(AHEAD).for_each(|step| member(step).prefetch());
        for step in steps.clone() {
            if step + AHEAD < steps.end {
                member(step + AHEAD).prefetch();
            }
            show(member(step));
        }
    }

    /// Lays the scale anew if it has become too short or too coarse.
    fn lay_scale(&mut self) {
        let (Some(first), Some(last)) = (self.links.first(), self.links.last()) else { return };
        let (low, high) = (first.member().sortable(), last.member().sortable());
        let is_short = low < self.base || (high - self.base) >> self.shift > GRADE_MAX;
        let is_coarse = self.shift > 0 && (high - low) >> self.shift < GRADES_MIN;
        if !is_short && !is_coarse {
            return;
        }
        self.links.iter().for_each(|link| link.member().prefetch());
        self.base = low;
        self.shift = (u64::BITS - (high - low).leading_zeros()).saturating_sub(16) as u8;
        for at in 0..self.links.len() {
            let member = self.links[at].member();
            self.links[at] = Link::new(self.grade(member.sortable()), member);
        }
    }

    /// Checks that grades agree with scores, and that members are in order: for tests.
    #[cfg(test)]
    pub fn check(&self) {
        assert!(!self.links.is_empty() && self.links.len() <= LEAF_MAX);
        assert!(self.links.iter().all(|link| link.grade() == self.grade(link.member().sortable())));
        let key = |link: &Link| (link.member().sortable(), link.member().name());
        assert!(self.links.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_as_integers_have_the_order_of_scores() {
        let scores = [f64::NEG_INFINITY, f64::MIN, -1.5, -1.0, -f64::MIN_POSITIVE, -5e-324, 0.0, 5e-324, 1.0, 1e300];
        for pair in scores.windows(2) {
            assert!(sortable(pair[0]) < sortable(pair[1]), "{pair:?}");
        }
        assert_eq!(sortable(0.0), sortable(-0.0));
        assert!(sortable(f64::MAX) < sortable(f64::INFINITY));
    }
}
