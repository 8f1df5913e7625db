//! Lists against a plain twin, a `Vec<Vec<u8>>`: random operations under several limits, everything compared after each.
//!
//! All randomness comes from a seed, which a failure prints. Small enough to run under Miri.

use sleeve_store::{Collection, Digits, End, HashKey, List, ListLimit, ValueRef};

use crate::random::Random;

const ROUNDS: u64 = if cfg!(miri) { 1 } else { 60 };
const STEPS: usize = if cfg!(miri) { 30 } else { 400 };

impl Random {
    fn end(&mut self) -> End {
        if self.below(2) == 0 { End::Front } else { End::Back }
    }

    /// Returns one of few different values, so that they are found again, and now and then a long one.
    fn element(&mut self) -> Vec<u8> {
        match self.below(12) {
            0..=4 => self.below(6).to_string().into_bytes(),
            5..=9 => format!("element:{:06}", self.below(5)).into_bytes(),
            10 => vec![b'x'; self.below(700)],
            _ => vec![b'y'; self.below(12_000)],
        }
    }
}

fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}

fn same(list: &List, twin: &[Vec<u8>], at: usize) {
    let view = list.as_ref();
    assert_eq!((view.len(), list.is_empty()), (twin.len(), twin.is_empty()));
    assert!(view.iter().map(text).eq(twin.iter().cloned()));
    assert!(view.iter_from(at).map(text).eq(twin.iter().skip(at).cloned()));
    let back = twin.iter().take(if at < twin.len() { at + 1 } else { 0 }).rev().cloned();
    assert!(view.iter_back_from(at).map(text).eq(back));
    assert_eq!(view.get(at).map(text), twin.get(at).cloned());
    assert_eq!(view.end(End::Front).map(text), twin.first().cloned());
    assert_eq!(view.end(End::Back).map(text), twin.last().cloned());
    let (count, packs) = view.packs();
    let packs: Vec<_> = packs.collect();
    assert_eq!(packs.len(), count);
    assert_eq!(packs.iter().map(|pack| pack.len()).sum::<usize>(), twin.len());
    let bytes: usize = packs.iter().map(|pack| pack.bytes_len()).sum();
    // A compressed list is smaller, a hundred times at best.
    assert!(list.memory() >= bytes / 100 && list.memory() <= 3 * bytes + 16_384, "{} for {bytes}", list.memory());
}

fn remove(twin: &mut Vec<Vec<u8>>, end: End, value: &[u8], count: usize) -> usize {
    let mut removed = 0;
    while removed < count {
        let mut places = twin.iter();
        let place = match end {
            End::Front => places.position(|each| each == value),
            End::Back => places.rposition(|each| each == value),
        };
        let Some(place) = place else { break };
        twin.remove(place);
        removed += 1;
    }
    removed
}

fn push(random: &mut Random, list: &mut List, twin: &mut Vec<Vec<u8>>, limit: ListLimit) {
    let (end, count) = (random.end(), 1 + random.below(3));
    let values: Vec<_> = (0..count).map(|_| random.element()).collect();
    list.prepare(values.iter().map(Vec::len).sum(), count, limit);
    for value in values {
        list.push(end, value.as_slice(), limit);
        twin.insert(if end == End::Front { 0 } else { twin.len() }, value);
    }
}

fn step(random: &mut Random, list: &mut List, twin: &mut Vec<Vec<u8>>, limit: ListLimit) {
    let (value, end, place) = (random.element(), random.end(), random.below(twin.len() + 1));
    match random.below(15) {
        0..=6 => push(random, list, twin, limit),
        7..=8 => {
            list.pop(end);
            twin.drain(if end == End::Front { 0..twin.len().min(1) } else { twin.len().saturating_sub(1)..twin.len() });
        }
        9 if random.below(6) == 0 => {
            list.pop_many(end, place);
            twin.drain(if end == End::Front { 0..place } else { twin.len() - place..twin.len() });
        }
        10 if random.below(6) == 0 => {
            let count = random.below(twin.len() + 1);
            list.trim(place, count);
            *twin = twin.iter().skip(place).take(count).cloned().collect();
        }
        11 => {
            list.prepare(value.len(), 1, limit);
            assert_eq!(list.set(place, value.as_slice(), limit), place < twin.len());
            twin.iter_mut().skip(place).take(1).for_each(|each| each.clone_from(&value));
        }
        12..=13 => {
            let pivot = twin.get(place).cloned().unwrap_or_default();
            list.prepare(value.len(), 1, limit);
            let found = twin.iter().position(|each| *each == pivot);
            assert_eq!(list.insert((&pivot[..]).into(), end, value.as_slice().into(), limit), found.is_some());
            found.into_iter().for_each(|found| twin.insert(found + usize::from(end == End::Back), value.clone()));
        }
        14 => {
            let count = random.below(4);
            assert_eq!(list.remove(end, value.as_slice(), count), remove(twin, end, &value, count));
        }
        _ => {}
    }
    list.shrink(limit);
}

#[test]
fn a_list_is_what_its_plain_twin_is() {
    for (option, seed) in [-2, -1, 5, 0, 128].into_iter().flat_map(|option| (0..ROUNDS).map(move |seed| (option, seed)))
    {
        let mut random = Random(seed);
        let (mut list, mut twin) = (List::new(HashKey::new([7; 16])), Vec::new());
        let mut limit = ListLimit::new(option);
        for number in 0..STEPS {
            if random.below(50) == 0 {
                limit = ListLimit::new(option).compressed_beyond(random.below(4));
                limit = if random.below(3) == 0 { limit.alone_from(random.below(60)) } else { limit };
            }
            step(&mut random, &mut list, &mut twin, limit);
            let at = random.below(twin.len() + 2);
            let outcome = std::panic::catch_unwind(|| same(&list, &twin, at));
            assert!(outcome.is_ok(), "limit {option}, seed {seed}, step {number}");
        }
    }
}

#[test]
fn a_list_becomes_a_chain_and_one_pack_again() {
    let limit = ListLimit::new(-2);
    let mut list = List::new(HashKey::new([7; 16]));
    let element = [b'e'; 98];
    for number in 0..82 {
        assert_eq!(list.encoding().name(), "listpack", "{number}");
        list.prepare(element.len(), 1, limit);
        list.push(End::Back, &element, limit);
    }
    assert_eq!(list.encoding().name(), "quicklist");
    while list.as_ref().len() > 40 {
        assert_eq!(list.encoding().name(), "quicklist");
        list.pop(End::Back);
        list.shrink(limit);
    }
    assert_eq!(list.encoding().name(), "listpack");
}

#[test]
#[cfg_attr(miri, ignore = "a million elements take hours there")]
fn a_long_list_takes_little_more_than_its_elements() {
    for end in [End::Front, End::Back] {
        let limit = ListLimit::new(-2);
        let mut list = List::new(HashKey::new([7; 16]));
        for number in 0..1_000_000 {
            let element = format!("element:{number:06}");
            list.prepare(element.len(), 1, limit);
            list.push(end, element.as_bytes(), limit);
        }
        assert!(list.memory() < 16_700_000, "{}", list.memory());
    }
}

#[test]
#[cfg_attr(miri, ignore = "compresses ten thousand elements")]
fn compressed_parts_take_less_and_hold_the_same() {
    let (plain, compressed) = (ListLimit::new(64), ListLimit::new(64).compressed_beyond(2));
    let element = |number: usize| format!("{{\"event\": \"view\", \"item\": \"item:{:04}\"}}", number % 100);
    let build = |limit, end| {
        let mut list = List::new(HashKey::new([7; 16]));
        for number in 0..10_000 {
            list.prepare(element(number).len(), 1, limit);
            list.push(end, element(number).as_bytes(), limit);
        }
        list
    };
    for end in [End::Front, End::Back] {
        let (one, mut other) = (build(plain, end), build(compressed, end));
        let small = other.memory();
        assert!(small < one.memory() / 2, "{small} of {}", one.memory());
        assert!(one.as_ref().iter().eq(other.as_ref().iter()));
        assert_eq!(other.clone().memory(), other.clone().clone().memory());
        assert!(other.clone().as_ref().iter().eq(one.as_ref().iter()), "a copy of what readers have opened");
        assert_eq!(other.memory(), small, "what readers open is not of the list");
        assert!(other.insert(element(50).as_bytes().into(), End::Front, b"x".as_slice().into(), compressed));
        assert!(other.memory() < small + 8192, "all is closed again");
        assert_eq!(other.remove(End::Back, element(7).as_bytes(), usize::MAX), 100);
        assert_eq!(other.remove(End::Front, b"x".as_slice(), usize::MAX), 1);
        assert!(other.memory() < small + 8192, "what was changed in the middle is compressed again");
        while let Some(last) = other.as_ref().end(End::Back).map(|value| value.bytes(&mut Digits::default()).to_vec()) {
            assert!(last.ends_with(b"\"}"));
            other.pop(End::Back);
        }
        assert!(other.memory() < 20_000, "{}", other.memory());
    }
}
