//! A large sorted set: a table from names to scores, and the order of its entries.
//!
//! The table's entry is the only copy of a member and of its score: the bits of the score are the entry's value. The order
//! refers to entries by address. An entry never moves while its score is overwritten in place, so an address is good until
//! the member is removed. Used by `sorted_set`, under the shard's lock.

use super::leaf::{Member, Target, sortable};
use super::order::{Order, Span};
use crate::memory::prefetch::PrefetchStep;
use crate::table::Table;
use crate::table::before_images::Recipient;
use crate::table::entry::body::Body;
use crate::table::entry::handle::EntryRef;
use crate::value::ValueRef;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::Budget;
use crate::value::key_hash::HashKey;
use crate::value::key_hash::Placement;
use std::iter;
use std::sync::Arc;

/// A sorted set that is too large to be packed.
pub struct Ranked {
    table: Table,
    order: Order,
}

// SAFETY: the order's addresses are those of entries that the table beside it owns, and both move together.
unsafe impl Send for Ranked {}

/// A cursor is the upper 48 bits of a position in the table.
const CURSOR_SHIFT: u32 = 16;

/// The largest number of buckets that a step of a walk visits for each member that it was asked for.
const WALK_BUCKETS_PER_MEMBER: usize = 10;

fn score_of(entry: &EntryRef<'_>) -> f64 {
    match entry.value() {
        ValueRef::Integer(bits) => f64::from_bits(bits as u64),
        ValueRef::Bytes(_) => 0.0,
    }
}

impl Ranked {
    pub fn new(hash_key: HashKey) -> Self {
        Self { table: Table::new(Placement::of_members(hash_key)), order: Order::new() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the bytes of entries, table and order.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.order.memory()
    }

    /// Returns where a member should be in the table.
    pub fn position(&self, name: &[u8]) -> u64 {
        self.table.position(name)
    }

    /// Takes a step towards a member, ahead of looking for it.
    pub fn prefetch(&self, position: u64, step: PrefetchStep) {
        self.table.prefetch(iter::once(position), step);
    }

    pub fn score(&self, name: &[u8]) -> Option<f64> {
        self.table.find(self.table.position(name), name).map(|entry| score_of(&entry))
    }

    /// Gives a member a score; returns its former score.
    pub fn set(&mut self, name: &[u8], score: f64) -> Option<f64> {
        let Self { table, order } = self;
        let position = table.position(name);
        if let Some(mut entry) = table.find_mut(position, name) {
            let old = score_of(&entry.view());
            if sortable(old) == sortable(score) {
                return Some(old);
            }
            // SAFETY: the entry lives, and its value is eight bytes before and after, so that it stays where it is; it has
            // its old score until it is out of the order, and its new one before it is in the order again.
            unsafe {
                let member = Member::new(entry.view().entry());
                order.remove(member);
                entry.overwrite_score(score.to_bits() as i64);
                order.insert(member);
            }
            return Some(old);
        }
        let entry = table.insert(position, name, Body::Scored(score.to_bits() as i64), None, 0);
        // SAFETY: the entry lives until the table lets go of it, and each function that removes a member takes it out of the
        // order first.
        unsafe { order.insert(Member::new(entry.view().entry())) };
        None
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let position = self.table.position(name);
        let entry = self.table.find(position, name)?;
        let score = score_of(&entry);
        // SAFETY: the entry lives, and has the score with which it was inserted.
        self.order.remove(unsafe { Member::new(entry.entry()) });
        self.table.discard(position, name);
        Some(score)
    }

    /// Removes `count` members from the one at rank `start` on.
    pub fn remove_ranks(&mut self, start: usize, count: usize) {
        let Self { table, order } = self;
        let mut name = Vec::new();
        order.remove_ranks(start, count, &mut |member| {
            name.clear();
            name.extend_from_slice(member.name());
            table.discard(table.position(&name), &name);
        });
    }

    pub fn open(&mut self, open_value: &Arc<OpenValue>) {
        self.table.begin_capture(Recipient::Members(Arc::clone(open_value)));
    }

    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.table.open_value()
    }

    pub fn capture_more(&mut self, budget: &mut Budget) {
        self.table.capture_more(budget);
    }

    /// Returns how many members lie before `target`.
    pub fn count_before(&self, target: &Target<'_>) -> usize {
        self.order.count_before(target)
    }

    /// Returns rank and score of a member.
    pub fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(name)?;
        Some((self.count_before(&Target::Member { sortable: sortable(score), name }), score))
    }

    /// Returns the member at `rank`.
    pub fn get(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.order.get(rank).map(|member| (member.name(), member.score()))
    }

    /// Shows the members of a span.
    pub fn visit<'a>(&'a self, span: Span, show: &mut dyn FnMut(&'a [u8], f64)) {
        self.order.visit(span, &mut |member| show(member.name(), member.score()));
    }

    /// Takes one step of a walk in no particular order: shows about `wanted` members from `cursor` on, and returns the next
    /// cursor, or 0 at the end. A member that stays is shown exactly once.
    pub fn walk<'a>(&'a self, cursor: u64, wanted: usize, mut show: impl FnMut(&'a [u8], f64)) -> u64 {
        let (mut position, mut wanted) = (cursor << CURSOR_SHIFT, wanted.max(1));
        let mut buckets_left = wanted.saturating_mul(WALK_BUCKETS_PER_MEMBER);
        loop {
            let step = self.table.walk(position, wanted, |entry| show(entry.key(), score_of(&entry)));
            wanted = wanted.saturating_sub(step.shown);
            buckets_left = buckets_left.saturating_sub(step.buckets.max(1));
            let Some(next) = step.next else { return 0 };
            if wanted == 0 || buckets_left == 0 {
                return next >> CURSOR_SHIFT;
            }
            position = next;
        }
    }
}

impl Clone for Ranked {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.table.hash_key());
        self.visit(Span { start: 0, count: usize::MAX, is_reverse: false }, &mut |name, score| {
            copy.set(name, score);
        });
        copy
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The plain twin: names to scores, sorted at each query.
    #[derive(Default)]
    struct Twin(BTreeMap<Vec<u8>, f64>);

    impl Twin {
        fn sorted(&self) -> Vec<(Vec<u8>, f64)> {
            let mut members: Vec<_> = self.0.iter().map(|(name, score)| (name.clone(), *score)).collect();
            members.sort_by(|one, other| one.1.partial_cmp(&other.1).unwrap().then_with(|| one.0.cmp(&other.0)));
            members
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % limit
        }
    }

    fn compare(set: &Ranked, twin: &Twin) {
        set.order.check();
        let sorted = twin.sorted();
        assert_eq!((set.len(), set.order.len()), (sorted.len(), sorted.len()));
        for is_reverse in [false, true] {
            let mut seen = Vec::new();
            set.visit(Span { start: 0, count: usize::MAX, is_reverse }, &mut |name, score| {
                seen.push((name.to_vec(), score));
            });
            if is_reverse {
                seen.reverse();
            }
            assert_eq!(seen, sorted);
        }
        for (rank, (name, score)) in sorted.iter().enumerate().step_by(7) {
            assert_eq!(set.rank(name), Some((rank, *score)));
            assert_eq!(set.get(rank), Some((name.as_slice(), *score)));
            for behind in [false, true] {
                let target = Target::Score { sortable: sortable(*score), behind };
                let expected = sorted.iter().filter(|other| other.1 < *score || (behind && other.1 == *score)).count();
                assert_eq!(set.count_before(&target), expected);
            }
        }
    }

    fn run(seed: u64, rounds: usize, names: u64, score: impl Fn(&mut Random, usize) -> f64) {
        let mut random = Random(seed);
        let (mut set, mut twin) = (Ranked::new(HashKey::new([7; 16])), Twin::default());
        for round in 0..rounds {
            let name = format!("member:{}", random.below(names)).into_bytes();
            // The set grows, then shrinks, then grows again.
            let removals = if round % (rounds / 2) > rounds / 4 { 6 } else { 2 };
            if random.below(10) < removals {
                assert_eq!(set.remove(&name), twin.0.remove(&name));
            } else {
                let score = score(&mut random, round);
                assert_eq!(set.set(&name, score), twin.0.insert(name, score));
            }
            if random.below(rounds as u64 / 8) == 0 {
                let (start, count) = (random.below(names) as usize, random.below(names / 3) as usize);
                for (name, _) in twin.sorted().into_iter().skip(start).take(count) {
                    twin.0.remove(&name);
                }
                set.remove_ranks(start, count);
            }
            if round % (rounds / 40) == 0 {
                compare(&set, &twin);
            }
        }
        compare(&set, &twin);
        compare(&set.clone(), &twin);
        set.remove_ranks(0, usize::MAX);
        compare(&set, &Twin::default());
        assert_eq!((set.score(b"member:1"), set.rank(b"member:1"), set.get(0)), (None, None, None));
    }

    #[test]
    fn any_mixture_of_changes_agrees_with_the_twin() {
        let rounds = if cfg!(miri) { 160 } else { 20_000 };
        run(1, rounds, 9_000, |random, _| random.below(1 << 30) as f64);
        run(2, rounds, 9_000, |random, _| random.below(5) as f64 - 2.0);
        run(3, rounds, 9_000, |_, _| 0.0);
        run(4, rounds, 9_000, |_, round| round as f64);
        run(5, rounds, 9_000, |_, round| -(round as f64) / 3.0);
        run(6, rounds, 900, |random, _| {
            f64::from_bits(random.below(1 << 31) << 32 | random.below(1 << 31)).min(f64::MAX)
        });
        run(7, rounds, 9_000, |random, _| [f64::INFINITY, -f64::INFINITY, 1e300, -0.0][random.below(4) as usize]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "fills thousands of leaves")]
    fn scores_that_come_in_order_leave_full_leaves() {
        for sign in [1.0, -1.0] {
            let mut set = Ranked::new(HashKey::new([7; 16]));
            (0..50_000).for_each(|number| _ = set.set(number.to_string().as_bytes(), sign * f64::from(number)));
            set.order.check();
            assert!(set.order.memory() < 50_000 * 10, "{}", set.order.memory());
        }
    }

    #[test]
    fn names_are_counted_as_if_all_scores_were_the_same() {
        let mut set = Ranked::new(HashKey::new([7; 16]));
        (0..1000).for_each(|number| _ = set.set(format!("{number:04}").as_bytes(), 1.5));
        let count = |name: &str, behind| set.count_before(&Target::Name { name: name.as_bytes(), behind });
        assert_eq!((count("", false), count("0500", false), count("0500", true)), (0, 500, 501));
        assert_eq!((count("05005", true), count("~", false)), (501, 1000));
    }

    #[test]
    fn a_walk_shows_each_member_once() {
        let mut set = Ranked::new(HashKey::new([7; 16]));
        let members = if cfg!(miri) { 300 } else { 5000 };
        (0..members).for_each(|number| _ = set.set(format!("{number:04}").as_bytes(), f64::from(number % 7)));
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            cursor = set.walk(cursor, 10, |name, _| seen.push(name.to_vec()));
            if cursor == 0 {
                break;
            }
        }
        seen.sort();
        assert_eq!(seen, (0..members).map(|number| format!("{number:04}").into_bytes()).collect::<Vec<_>>());
    }
}
