//! Sorted sets against a plain twin, through their public face: packed, large, and across the step between.

use std::collections::BTreeMap;

use sleeve_store::{
    Collection, Digits, Encoding, HashKey, NameBound, NameRange, SortedSet, SortedSetLimits, SortedSetRef, ValueRef,
};

const KEY: [u8; 16] = [3; 16];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[derive(Default)]
struct Twin(BTreeMap<Vec<u8>, f64>);

impl Twin {
    fn sorted(&self) -> Vec<(Vec<u8>, f64)> {
        let mut members: Vec<_> = self.0.iter().map(|(name, score)| (name.clone(), *score)).collect();
        members.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
        members
    }
}

fn bytes(name: ValueRef<'_>) -> Vec<u8> {
    name.bytes(&mut Digits::default()).to_vec()
}

fn shown(set: SortedSetRef<'_>, ranks: std::ops::Range<usize>, is_reverse: bool) -> Vec<(Vec<u8>, f64)> {
    let mut seen = Vec::new();
    set.visit(ranks, is_reverse, |name, score| seen.push((bytes(name), score)));
    seen
}

fn compare(set: SortedSetRef<'_>, twin: &Twin, random: &mut Random) {
    let sorted = twin.sorted();
    let reversed: Vec<_> = sorted.iter().rev().cloned().collect();
    let len = sorted.len();
    assert_eq!((set.len(), set.is_empty()), (len, len == 0));
    assert_eq!(shown(set, 0..len, false), sorted);
    assert_eq!(shown(set, 0..usize::MAX, true), reversed);
    if len == 0 {
        return;
    }
    let start = random.below(len);
    let end = start + random.below(len - start + 1);
    assert_eq!(shown(set, start..end, false), sorted[start..end]);
    assert_eq!(shown(set, start..end, true), reversed[len - end..len - start]);
    let (name, score) = &sorted[start];
    assert_eq!((set.score(name), set.rank(name)), (Some(*score), Some((start, *score))));
    assert_eq!(set.get(start).map(|(name, score)| (bytes(name), score)), Some((name.clone(), *score)));
    for or_equal in [false, true] {
        let below = sorted.iter().filter(|other| other.1 < *score || (or_equal && other.1 == *score)).count();
        assert_eq!(set.count_below(*score, or_equal), below);
    }
    if set.packed().is_some() {
        let [least, most] = [random.below(len), random.below(len)].map(|rank| sorted[rank].0.as_slice());
        let range = NameRange { least: NameBound::Inclusive(least), most: NameBound::Exclusive(most) };
        for is_reverse in [false, true] {
            assert_eq!(set.ranks_of_names(&range, is_reverse).len(), walk_names(&sorted, least, most, is_reverse));
        }
    }
    let mut walked = Vec::new();
    let mut cursor = set.walk(0, 7, |name, score| walked.push((bytes(name), score)));
    while cursor != 0 {
        cursor = set.walk(cursor, 7, |name, score| walked.push((bytes(name), score)));
    }
    walked.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    assert_eq!(walked, sorted);
}

/// Returns the number of names that Redis finds between two in a packed set, at any scores: it walks from one end to the
/// first name within the range's nearer bound, and on to the first name beyond the other bound.
fn walk_names(sorted: &[(Vec<u8>, f64)], least: &[u8], most: &[u8], is_reverse: bool) -> usize {
    let (first, last) = (&sorted[0].0[..], &sorted[sorted.len() - 1].0[..]);
    if least >= most || last < least || first >= most {
        return 0;
    }
    let names = sorted.iter().map(|(name, _)| name.as_slice());
    if is_reverse {
        names.rev().skip_while(|&name| name >= most).take_while(|&name| name >= least).count()
    } else {
        names.skip_while(|&name| name < least).take_while(|&name| name < most).count()
    }
}

fn run(seed: u64, names: usize, limits: SortedSetLimits, score: impl Fn(&mut Random) -> f64) {
    let mut random = Random(seed);
    let (mut set, mut twin) = (SortedSet::new(HashKey::new(KEY)), Twin::default());
    for round in 0..if cfg!(miri) { 40 } else { 3_000 } {
        let name = match random.below(names) {
            number if number % 2 == 0 => number.to_string().into_bytes(),
            number => format!("name-{number}").into_bytes(),
        };
        match random.below(10) {
            0..6 => {
                let score = score(&mut random);
                assert_eq!(set.set(&name, score, limits), twin.0.insert(name, score));
            }
            6..9 => assert_eq!(set.remove(&name), twin.0.remove(&name)),
            _ => {
                let start = random.below(names);
                let ranks = start..start + random.below(4);
                twin.sorted().iter().skip(ranks.start).take(ranks.len()).for_each(|(name, _)| {
                    twin.0.remove(name);
                });
                set.remove_ranks(ranks);
            }
        }
        if round % 20 == 0 {
            compare(set.as_ref(), &twin, &mut random);
        }
        // A packed set goes out and comes back, as it does in a key's entry.
        if let Some((form, packed)) = set.packed() {
            set = SortedSet::from_packed(HashKey::new(KEY), form, packed.to_vec());
        }
    }
    compare(set.clone().as_ref(), &twin, &mut random);
}

const SMALL: SortedSetLimits = SortedSetLimits { entries_max: 128, value_max: 64 };

#[test]
fn packed_and_large_sets_agree_with_the_twin() {
    let large = SortedSetLimits { entries_max: 0, value_max: 0 };
    for (seed, limits) in [(1, SMALL), (2, SortedSetLimits { entries_max: 30, value_max: 64 }), (3, large)] {
        run(seed, 90, limits, |random| random.below(20) as f64 - 10.0);
        run(seed + 10, 90, limits, |random| random.below(1000) as f64 / 7.0 * 10f64.powi(random.below(40) as i32 - 20));
        run(seed + 20, 90, limits, |random| [f64::INFINITY, f64::NEG_INFINITY, 0.5][random.below(3)]);
        run(seed + 30, 700, limits, |random| random.below(1 << 20) as f64);
    }
}

#[test]
fn it_is_packed_up_to_the_limits_and_not_beyond() {
    let mut set = SortedSet::new(HashKey::new(KEY));
    (0..128).for_each(|number| _ = set.set(number.to_string().as_bytes(), 0.0, SMALL));
    assert_eq!(set.encoding(), Encoding::Listpack);
    assert_eq!(set.set(b"0", 7.5, SMALL), Some(0.0));
    assert_eq!(set.encoding(), Encoding::Listpack);
    set.set(b"one more", 0.0, SMALL);
    assert_eq!((set.encoding(), set.as_ref().len()), (Encoding::Skiplist, 129));
    set.remove(b"one more");
    assert_eq!(set.encoding(), Encoding::Skiplist);
    set.settle(SMALL);
    assert_eq!((set.encoding(), set.as_ref().len()), (Encoding::Listpack, 128));
    set.set(&[b'x'; 65], 1.0, SMALL);
    assert_eq!(set.encoding(), Encoding::Skiplist);
    set.remove(b"1");
    set.settle(SMALL);
    assert_eq!(set.encoding(), Encoding::Skiplist);
    assert_eq!(SortedSet::with_room(HashKey::new(KEY), 129, 1, SMALL).encoding(), Encoding::Skiplist);
    assert_eq!(SortedSet::with_room(HashKey::new(KEY), 1, 65, SMALL).encoding(), Encoding::Skiplist);
    let mut announced = SortedSet::with_room(HashKey::new(KEY), 1, 1, SMALL);
    announced.prepare(129, SMALL);
    assert_eq!(announced.encoding(), Encoding::Skiplist);
}

#[test]
fn ranges_of_names() {
    use NameBound::{Exclusive, Inclusive, Least, Most};
    for limits in [SMALL, SortedSetLimits { entries_max: 0, value_max: 0 }] {
        let mut set = SortedSet::new(HashKey::new(KEY));
        ["a", "b", "c", "d", "e"].iter().for_each(|name| _ = set.set(name.as_bytes(), 1.0, limits));
        let ranks = |least, most| {
            let range = NameRange { least, most };
            let found = set.as_ref().ranks_of_names(&range, false);
            assert_eq!(set.as_ref().ranks_of_names(&range, true).len(), found.len());
            found
        };
        assert_eq!(ranks(Least, Most), 0..5);
        assert_eq!(ranks(Inclusive(b"b"), Inclusive(b"d")), 1..4);
        assert_eq!(ranks(Exclusive(b"b"), Exclusive(b"d")), 2..3);
        assert_eq!(ranks(Exclusive(b"bb"), Most), 2..5);
        for (least, most) in
            [(Most, Least), (Least, Least), (Most, Most), (Inclusive(b"d".as_slice()), Inclusive(b"b"))]
        {
            assert!(ranks(least, most).is_empty());
        }
        assert!(ranks(Exclusive(b"b"), Inclusive(b"b")).is_empty());
        assert_eq!(ranks(Inclusive(b"b"), Inclusive(b"b")), 1..2);
        assert!(ranks(Inclusive(b"x"), Most).is_empty());
    }
}
