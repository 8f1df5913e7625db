//! HyperLogLogs against a plain twin, one byte for each register: random elements into both, sparse and dense, merged, and
//! damaged at random, where every answer but a panic is right. Small enough to run under Miri.

use std::collections::BTreeSet;

use sleeve_store::{Registers, Run, Sketch, SketchRef, add_dense, cache_count, count_registers};

use crate::random::Random;

const ROUNDS: u64 = if cfg!(miri) { 2 } else { 60 };
const SPARSE_MAX: usize = 3000;

fn registers(sketch: SketchRef<'_>) -> Box<Registers> {
    let mut registers = Box::new([0; size_of::<Registers>()]);
    sketch.merge_into(&mut registers).expect("what was never damaged is whole");
    registers
}

#[test]
fn sparse_and_dense_have_the_same_registers() {
    for seed in 0..ROUNDS {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
        dense.make_dense().expect("it is whole");
        let steps = if cfg!(miri) { 20 } else { 1 + random.below(3000) };
        for _ in 0..steps {
            let element = random.next().to_le_bytes();
            let element = &element[..1 + random.below(8)];
            let was_dense = sparse.as_ref().is_dense();
            let changed = sparse.add(element, SPARSE_MAX).expect("it is whole");
            assert_eq!(changed, dense.add(element, SPARSE_MAX).expect("it is whole"));
            assert!(was_dense || sparse.as_ref().is_dense() || sparse.as_bytes().len() <= SPARSE_MAX);
        }
        let twin = registers(sparse.as_ref());
        assert_eq!(twin, registers(dense.as_ref()));
        assert_eq!(sparse.as_ref().count(), dense.as_ref().count());
        assert_eq!(dense.as_ref().count(), Ok(count_registers(&twin)));
        let mut merged = Sketch::new();
        merged.raise_all(&twin, SPARSE_MAX).expect("it is whole");
        assert_eq!(registers(merged.as_ref()), twin);
        sparse.make_dense().expect("it is whole");
        dense.forget_count();
        sparse.forget_count();
        assert_eq!(sparse, dense);
    }
}

#[test]
fn neighbours_with_equal_values_are_one_run() {
    let mut sketch = Sketch::new();
    let mut twin = [0; size_of::<Registers>()];
    for index in [7, 5, 6, 8, 100, 101, 102, 103, 104] {
        twin[index] = 3;
        let mut one = [0; size_of::<Registers>()];
        one[index] = 3;
        sketch.raise_all(&one, SPARSE_MAX).expect("it is whole");
    }
    let runs: Vec<Run> = sketch.as_ref().runs().collect();
    assert_eq!(runs[..2], [Run::Zeros(5), Run::Values(3, 4)]);
    assert_eq!(runs[2], Run::ManyZeros(91));
    assert_eq!(runs[3..5], [Run::Values(3, 4), Run::Values(3, 1)]);
    assert_eq!(*registers(sketch.as_ref()), twin);
}

#[test]
fn counts_are_near_and_are_kept_until_something_changes() {
    let mut sketch = Sketch::new();
    assert_eq!((sketch.as_ref().cached_count(), sketch.as_ref().count()), (Some(0), Ok(0)));
    let total = if cfg!(miri) { 50u64 } else { 100_000 };
    let elements: BTreeSet<u64> = (0..total).collect();
    for element in &elements {
        sketch.add(&element.to_le_bytes(), SPARSE_MAX).expect("it is whole");
    }
    assert_eq!(sketch.as_ref().cached_count(), None);
    let count = sketch.as_ref().count().expect("it is whole");
    // Six standard errors of 0.81 per cent.
    assert!(count.abs_diff(total) as f64 <= 0.05 * total as f64, "{count} of {total}");
    sketch.make_dense().expect("it is whole");
    let mut bytes = sketch.as_bytes().to_vec();
    cache_count(&mut bytes, count);
    assert_eq!(SketchRef::new(&bytes).and_then(SketchRef::cached_count), Some(count));
    assert_eq!(add_dense(&mut bytes, std::iter::once(&0u64.to_le_bytes()[..])), 0);
    assert_eq!(SketchRef::new(&bytes).and_then(SketchRef::cached_count), Some(count));
    let mut more = (total..total + 100_000).map(u64::to_le_bytes);
    while more.next().is_none_or(|element| add_dense(&mut bytes, std::iter::once(&element[..])) == 0) {}
    assert_eq!(SketchRef::new(&bytes).and_then(SketchRef::cached_count), None);
}

#[test]
fn damaged_strings_are_refused_and_never_read_beyond() {
    for seed in 0..ROUNDS * 20 {
        let mut random = Random(seed);
        let mut sketch = Sketch::new();
        for _ in 0..random.below(200) {
            sketch.add(&random.next().to_le_bytes(), 100 + random.below(500)).expect("it is whole");
        }
        let mut bytes = sketch.as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, random.next() as u8),
                _ => bytes[at] = random.next() as u8,
            }
        }
        let Some(damaged) = SketchRef::new(&bytes) else { continue };
        let mut copy = Sketch::from_ref(damaged);
        let mut all = Box::new([0; size_of::<Registers>()]);
        assert_eq!(damaged.count().is_ok(), damaged.merge_into(&mut all).is_ok());
        assert_eq!(damaged.count().is_ok(), Sketch::from_ref(damaged).make_dense().is_ok());
        for _ in 0..50 {
            // Whether this finds the damage depends on where it is.
            _ = copy.add(&random.next().to_le_bytes(), 600);
        }
    }
}
