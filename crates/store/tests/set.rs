//! Sets against a plain twin, a `BTreeSet<Vec<u8>>`: random operations on both, everything compared after each step, and
//! the encoding against Redis's rules. Foreign intsets are damaged at random and must be refused or read whole. All
//! randomness comes from a seed, which a failure prints. Small enough to run under Miri.

use std::collections::{BTreeMap, BTreeSet};

use sleeve_store::{Collection, Digits, Encoding, HashKey, IntegerSet, Set, SetLimits, SetRef, ValueRef};

use crate::random::Random;

const ROUNDS: u64 = if cfg!(miri) { 3 } else { 200 };
const STEPS: usize = if cfg!(miri) { 60 } else { 800 };

impl Random {
    /// Returns an integer of one of the widths, or a text that is long once in a while.
    fn member(&mut self, kinds: usize) -> Vec<u8> {
        match self.below(kinds) {
            0 | 1 => (self.below(400) as i64 - 200).to_string().into_bytes(),
            2 => (self.next() as i64 >> self.below(64)).to_string().into_bytes(),
            3 => format!("m{}", self.below(300)).into_bytes(),
            4 => vec![b'x'; [0, 63, 64, 65, 300][self.below(5)]],
            _ => [&b"007"[..], b"-0", b"+1", b"\0", b"9223372036854775808"][self.below(5)].to_vec(),
        }
    }
}

fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}

fn members(set: SetRef<'_>) -> BTreeSet<Vec<u8>> {
    let mut all = Vec::new();
    set.for_each(|member| all.push(text(member)));
    let count = all.len();
    let all: BTreeSet<_> = all.into_iter().collect();
    assert_eq!(all.len(), count, "a member was shown twice");
    all
}

fn same(set: &Set, twin: &BTreeSet<Vec<u8>>) {
    assert_eq!(set.as_ref().len(), twin.len());
    assert_eq!(set.is_empty(), twin.is_empty());
    assert_eq!(&members(set.as_ref()), twin);
}

/// Returns the encoding after a member is added, as in Redis 7.2.
fn expected(before: Encoding, twin: &BTreeSet<Vec<u8>>, added: &[u8], limits: &SetLimits) -> Encoding {
    let is_integer =
        std::str::from_utf8(added).is_ok_and(|text| text.parse::<i64>().is_ok_and(|n| n.to_string() == text));
    let longest = twin.iter().map(Vec::len).max().unwrap_or(0);
    let fits = twin.len() <= limits.packed_max && longest <= limits.packed_value_max;
    match before {
        Encoding::Intset if is_integer && twin.len() <= limits.integers_max => Encoding::Intset,
        Encoding::Intset if is_integer => Encoding::Hashtable,
        Encoding::Intset | Encoding::Listpack if fits => Encoding::Listpack,
        _ => Encoding::Hashtable,
    }
}

/// Puts a set into an entry and takes it out again as its packed bytes.
fn through_an_entry(set: Set, hash_key: HashKey) -> Set {
    match set.packed() {
        Some((form, bytes)) => Set::from_packed(hash_key, form, bytes.to_vec()),
        None => set.clone(),
    }
}

#[test]
fn a_set_does_what_its_twin_does() {
    for seed in 0..ROUNDS {
        println!("seed {seed}");
        let mut random = Random(seed);
        let hash_key = HashKey::new([seed as u8; 16]);
        let limits = SetLimits {
            integers_max: random.below(100),
            packed_max: random.below(60),
            packed_value_max: [0, 4, 64, 1000][random.below(4)],
        };
        let (mut set, mut twin) = (Set::new(hash_key), BTreeSet::new());
        let (kinds, adds) = ([2, 3, 6][random.below(3)], 4 + random.below(4));
        for _ in 0..STEPS {
            let member = random.member(kinds);
            if random.below(10) < adds {
                if twin.is_empty() {
                    set.prepare(&member, 1, &limits);
                }
                let before = set.encoding();
                let is_new = set.add(member.as_slice(), &limits);
                assert_eq!(is_new, twin.insert(member.clone()));
                let after = if is_new { expected(before, &twin, &member, &limits) } else { before };
                assert_eq!(set.encoding(), after);
            } else {
                assert_eq!(set.remove(member.as_slice()), twin.remove(&member));
            }
            let asked = random.member(kinds);
            assert_eq!(set.as_ref().contains(asked.as_slice()), twin.contains(&asked));
            let drawn = set.as_ref().random(random.next()).map(text);
            assert!(drawn.map_or(twin.is_empty(), |member| twin.contains(&member)));
            if random.below(8) == 0 {
                set = through_an_entry(set, hash_key);
                same(&set, &twin);
            }
        }
        same(&set, &twin);
    }
}

#[test]
fn what_stays_during_a_scan_is_shown_once() {
    let limits = SetLimits { integers_max: 0, packed_max: 0, packed_value_max: 0 };
    let mut random = Random(7);
    let mut set = Set::new(HashKey::new([7; 16]));
    let stays = if cfg!(miri) { 100 } else { 5_000 };
    for number in 0..stays {
        set.add(format!("stays:{number}").as_bytes(), &limits);
    }
    let (mut cursor, mut seen) = (0, BTreeMap::new());
    for step in 0.. {
        cursor = set.as_ref().scan(cursor, 10, |member| *seen.entry(text(member)).or_insert(0) += 1);
        assert!(cursor < 1 << 48);
        for _ in 0..20 {
            let passing = format!("goes:{}", random.below(20_000));
            if step < 300 {
                set.add(passing.as_bytes(), &limits)
            } else {
                set.remove(passing.as_bytes())
            };
        }
        if cursor == 0 {
            break;
        }
    }
    assert!((0..stays).all(|number| seen.get(format!("stays:{number}").as_bytes()) == Some(&1)));
}

/// Checks that all members of a table are drawn equally often, also when most of the others were removed: chi-square over the
/// draws.
#[test]
fn draws_from_a_table_are_even() {
    let limits = SetLimits { integers_max: 0, packed_max: 0, packed_value_max: 0 };
    for (added, kept) in if cfg!(miri) { [(60, 20), (30, 30)] } else { [(100_000, 3_000), (3_000, 3_000)] } {
        let mut random = Random(added as u64);
        let mut set = Set::new(HashKey::new([1; 16]));
        (0..added).for_each(|number| _ = set.add(number as i64, &limits));
        (kept..added).for_each(|number| assert!(set.remove(number as i64)));
        let draws_each = 40;
        let mut counts = vec![0f64; kept];
        for _ in 0..kept * draws_each {
            let member = set.as_ref().random(random.next()).and_then(|member| member.integer()).expect("not empty");
            counts[member as usize] += 1.0;
        }
        let mean = draws_each as f64;
        let chi_square: f64 = counts.iter().map(|count| (count - mean).powi(2) / mean).sum();
        // Mean `kept`, deviation the root of twice that; five deviations are one in millions, and the seed is fixed.
        let limit = kept as f64 + 5.0 * (2.0 * kept as f64).sqrt();
        assert!(chi_square < limit, "chi-square {chi_square} of at most {limit}");
    }
}

/// Returns an intset as Redis has it: a header with the width and the number of integers, then the integers.
fn redis_intset(width: usize, numbers: &BTreeSet<i64>) -> Vec<u8> {
    let header = [(width as u32).to_le_bytes(), (numbers.len() as u32).to_le_bytes()].concat();
    numbers.iter().fold(header, |intset, number| [&intset, &number.to_le_bytes()[..width]].concat())
}

#[test]
fn integers_of_any_width_are_those_of_redis_outside() {
    for seed in 0..ROUNDS {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (mut set, mut twin, mut width) = (IntegerSet::new(), BTreeSet::new(), 2);
        let widest = 1 + random.below(64);
        for _ in 0..STEPS / 4 {
            let shift = 63 - random.below(widest);
            let number = match random.below(4) {
                0 => i64::MIN >> shift,
                1 => !(i64::MIN >> shift),
                2 => (!(i64::MIN >> shift)).wrapping_add(1),
                _ => random.next() as i64 >> shift,
            };
            if random.below(4) > 0 {
                assert_eq!(set.insert(number), twin.insert(number));
                let needed = if i16::try_from(number).is_ok() { 2 } else { 4 };
                width = width.max(if i32::try_from(number).is_ok() { needed } else { 8 });
            } else {
                let number = twin.iter().nth(random.below(twin.len().max(1))).copied().unwrap_or(number);
                assert_eq!(set.remove(number), twin.remove(&number));
            }
            let integers = set.as_integers();
            assert!(integers.iter().eq(twin.iter().copied()) && integers.iter().rev().eq(twin.iter().rev().copied()));
            assert_eq!(integers.contains(number), twin.contains(&number));
            let place = random.below(twin.len() + 1);
            assert_eq!(integers.get(place), twin.iter().nth(place).copied());
            assert_eq!(integers.to_redis(), redis_intset(width, &twin));
            let again = IntegerSet::from_redis(&integers.to_redis()).expect("our own bytes are right");
            assert!(again.as_integers().iter().eq(twin.iter().copied()));
            assert_eq!(again.as_integers().to_redis(), integers.to_redis());
        }
    }
    let set: IntegerSet = (90_000..90_020).collect();
    assert_eq!(set.as_bytes().len(), 1 + 20 * 3);
}

#[test]
fn foreign_intsets_are_read_whole_or_refused() {
    let mut random = Random(3);
    for _ in 0..ROUNDS * 20 {
        let numbers: BTreeSet<i64> =
            (0..random.below(20)).map(|_| random.next() as i64 >> [0, 32, 48, 60][random.below(4)]).collect();
        let set: IntegerSet = numbers.iter().copied().collect();
        let bytes = set.as_integers().to_redis();
        let read = IntegerSet::from_redis(&bytes).expect("our own bytes are right");
        assert!(read.as_integers().iter().eq(numbers.iter().copied()));
        assert_eq!(read.as_bytes(), set.as_bytes());
        let mut damaged = bytes.clone();
        match random.below(3) {
            0 => damaged.truncate(random.below(bytes.len())),
            1 => damaged.push(random.next() as u8),
            _ => {
                let at = random.below(damaged.len());
                damaged[at] ^= 1 << random.below(8);
            }
        }
        if let Some(read) = IntegerSet::from_redis(&damaged) {
            assert_eq!(read.as_integers().to_redis(), damaged);
        }
    }
}

#[test]
fn a_result_of_nothing_but_integers_becomes_a_run_of_them() {
    let limits = SetLimits { integers_max: 3, packed_max: 10, packed_value_max: 64 };
    let mut set = Set::for_result(HashKey::new([0; 16]), false);
    for member in [b"3", b"1", b"2"] {
        assert!(set.add(member, &limits));
    }
    assert_eq!(set.encoding(), Encoding::Listpack);
    set.compact_integers(&limits);
    assert_eq!(set.encoding(), Encoding::Intset);
    let mut set = Set::for_result(HashKey::new([0; 16]), false);
    for member in [&b"3"[..], b"1", b"x"] {
        assert!(set.add(member, &limits));
    }
    set.compact_integers(&limits);
    assert_eq!(set.encoding(), Encoding::Listpack);
}
