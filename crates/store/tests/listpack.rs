//! Packed collections against a plain twin, a `Vec<Vec<u8>>`: random operations on both, everything compared after each, for
//! runs that are walked both ways and for those that are walked forwards alone.
//!
//! Foreign bytes are damaged at random and must be refused or read whole. All randomness comes from a seed, which a
//! failure prints. Small enough to run under Miri.

use sleeve_store::{BothWays, Digits, Forwards, Pack, Packed, ValueRef, Ways, packed_size};

use crate::random::Random;

const ROUNDS: usize = if cfg!(miri) { 4 } else { 300 };
const STEPS: usize = if cfg!(miri) { 40 } else { 300 };

impl Random {
    /// Returns an integer of any width, a text that nearly is one, or bytes with a length near a step of the encoding.
    fn packed(&mut self) -> Vec<u8> {
        match self.below(8) {
            0..=2 => {
                let number = self.next() as i64 >> self.below(64);
                number.wrapping_add(self.below(3) as i64 - 1).to_string().into_bytes()
            }
            3 => [&b"0"[..], b"-0", b"007", b"+5", b"", b"9223372036854775808", b"-", b"-128"][self.below(8)].to_vec(),
            4 => {
                let step = [62, 125, 4094, 16376][self.below(if cfg!(miri) { 2 } else { 4 })];
                vec![self.next() as u8; step + self.below(6)]
            }
            _ => (0..self.below(30)).map(|_| self.next() as u8).collect(),
        }
    }
}

fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}

fn size<W: Ways>(value: &[u8]) -> usize {
    packed_size::<W>(ValueRef::Bytes(value))
}

fn same<W: Ways>(pack: &Pack<W>, twin: &[Vec<u8>]) {
    let packed = pack.as_packed();
    assert_eq!(packed.len(), twin.len());
    assert_eq!(packed.is_empty(), twin.is_empty());
    assert!(packed.iter().map(text).eq(twin.iter().cloned()));
    assert_eq!(packed.first().map(text), twin.first().cloned());
    assert_eq!(packed.bytes_len(), twin.iter().map(|value| size::<W>(value)).sum::<usize>() + 2);
}

fn same_backwards(pack: &Pack, twin: &[Vec<u8>]) {
    let packed = pack.as_packed();
    assert!(packed.iter().rev().map(text).eq(twin.iter().rev().cloned()));
    assert_eq!(packed.last().map(text), twin.last().cloned());
    assert_eq!(packed.redis_bytes(), packed.to_redis().len());
}

fn step<W: Ways>(random: &mut Random, pack: &mut Pack<W>, twin: &mut Vec<Vec<u8>>) {
    let value = random.packed();
    let place = random.below(twin.len() + 1);
    let offset = pack.as_packed().offset_of(place).unwrap_or(pack.as_packed().bytes_len());
    match random.below(11) {
        0..=1 => {
            pack.push_back(value.as_slice());
            twin.push(value);
        }
        2..=3 => {
            pack.push_front(value.as_slice());
            twin.insert(0, value);
        }
        4 => {
            let behind = pack.insert_at(offset, value.as_slice());
            assert_eq!(behind, offset + size::<W>(&value));
            twin.insert(place, value);
        }
        5 if place < twin.len() => {
            pack.replace_at(offset, value.as_slice());
            twin[place] = value;
        }
        6 => {
            let count = random.below(4);
            let removed = twin.drain(place..(place + count).min(twin.len())).count();
            assert_eq!(pack.remove_range(offset, count), removed);
        }
        7 => assert_eq!(pack.pop_front(), (!twin.is_empty()).then(|| twin.remove(0)).is_some()),
        8 if random.below(8) == 0 => {
            pack.truncate(place);
            twin.truncate(place);
        }
        9 => {
            let (tail, rest) = (pack.split_off(offset), twin.split_off(place));
            same(&tail, &rest);
            same(pack, twin);
            pack.append(tail.as_packed());
            twin.extend(rest);
        }
        10 if random.below(30) == 0 => {
            pack.clear();
            twin.clear();
        }
        _ => pack.shrink_to_fit(),
    }
}

/// Takes random steps, with `more` after each.
fn walk<W: Ways>(more: impl Fn(&mut Random, &mut Pack<W>, &mut Vec<Vec<u8>>)) {
    for seed in 0..ROUNDS as u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (mut pack, mut twin) = (Pack::<W>::new(), Vec::new());
        for _ in 0..STEPS {
            step(&mut random, &mut pack, &mut twin);
            more(&mut random, &mut pack, &mut twin);
            same(&pack, &twin);
        }
        let place = random.below(twin.len() + 1);
        assert_eq!(pack.as_packed().get(place).map(text), twin.get(place).cloned());
        let redis = pack.as_packed().to_redis();
        assert_eq!(Pack::from_redis(&redis).as_ref(), Some(&pack));
        assert_eq!(Pack::<BothWays>::from_redis(&redis).map(|read| read.as_packed().to_redis()), Some(redis));
    }
}

#[test]
fn a_pack_is_what_its_plain_twin_is() {
    walk::<BothWays>(|random, pack, twin| {
        if random.below(11) == 0 {
            assert_eq!(pack.pop_back(), twin.pop().is_some());
        }
        same_backwards(pack, twin);
    });
}

#[test]
fn a_pack_that_is_walked_forwards_is_what_its_plain_twin_is() {
    walk::<Forwards>(|_, _, _| {});
}

fn find_all<W: Ways>(twin: &[Vec<u8>]) {
    let pack: Pack<W> = twin.iter().map(Vec::as_slice).collect();
    let packed = pack.as_packed();
    for (skip, from) in [(0, 0), (1, 0), (1, 1), (2, 4)] {
        let begin = packed.offset_of(from).unwrap_or_default();
        for value in twin {
            let place = (from..twin.len()).step_by(skip + 1).find(|&place| twin[place] == *value);
            let found = packed.find_from(begin, value.as_slice(), skip);
            assert_eq!(found, place.and_then(|place| packed.offset_of(place)));
        }
    }
    assert_eq!(packed.find(b"nowhere to be found", 0), None);
    for place in [3, 29] {
        let offset = packed.offset_of(place).unwrap_or_default();
        assert_eq!(packed.iter_from(offset).map(text).next(), Some(twin[place].clone()));
        assert!(packed.iter_to(offset).map(text).eq(twin[..place].iter().cloned()));
    }
    assert_eq!(packed.offset_of(30), None);
}

#[test]
fn elements_are_found_where_they_are() {
    for seed in 0..ROUNDS as u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let twin: Vec<Vec<u8>> = (0..30).map(|_| random.packed()).collect();
        find_all::<BothWays>(&twin);
        find_all::<Forwards>(&twin);
        let pack: Pack = twin.iter().map(Vec::as_slice).collect();
        let packed = pack.as_packed();
        for offset in [3, 29].map(|place| packed.offset_of(place).unwrap_or_default()) {
            assert_eq!(packed.before(offset).and_then(|before| packed.read(before)).map(|read| read.1), Some(offset));
            assert_eq!(packed.after(packed.before(offset).unwrap_or_default()), offset);
        }
    }
}

#[test]
fn the_bytes_are_those_of_redis() {
    // The bytes are from the reply to `DUMP` of Redis 7.0 for a list of these elements.
    let elements = ["1", "-1", "127", "128", "4095", "-4096", "4096", "-40000", "8388607", "-8388609", "a", ""];
    let pack: Pack = elements.iter().map(|element| element.as_bytes()).collect();
    let redis = [
        &[66, 0, 0, 0, 12, 0, 1, 1, 223, 255, 2, 127, 1, 192, 128, 2, 207, 255, 2, 208, 0, 2, 241, 0, 16, 3][..],
        &[242, 192, 99, 255, 4, 242, 255, 255, 127, 4, 243, 255, 255, 127, 255, 5, 129, 97, 2, 128, 1],
    ]
    .concat();
    let mut expected = redis;
    expected.push(255);
    expected[0] = expected.len() as u8;
    assert_eq!(pack.as_packed().to_redis(), expected);
    let pack: Pack<Forwards> = elements.iter().map(|element| element.as_bytes()).collect();
    assert_eq!(pack.as_packed().to_redis(), expected);
}

#[test]
fn foreign_bytes_are_read_whole_or_refused() {
    let mut random = Random(7);
    for _ in 0..ROUNDS * 40 {
        let pack: Pack =
            (0..random.below(6)).map(|_| random.packed()).collect::<Vec<_>>().iter().map(Vec::as_slice).collect();
        let mut bytes = pack.as_packed().to_redis();
        for _ in 0..=random.below(3) {
            match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len() + 1)),
                1 => bytes.push(random.next() as u8),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = random.below(bytes.len().min(12));
                    bytes[at] = random.next() as u8;
                }
            }
            if random.below(2) == 0 && bytes.len() > 4 {
                let total = (bytes.len() as u32).to_le_bytes();
                bytes[..4].copy_from_slice(&total);
            }
            let read = Pack::<BothWays>::from_redis(&bytes);
            let twin: Option<Vec<Vec<u8>>> = read.as_ref().map(|read| read.as_packed().iter().map(text).collect());
            if let (Some(read), Some(twin)) = (&read, &twin) {
                same(read, twin);
                same_backwards(read, twin);
            }
            let forwards = Pack::<Forwards>::from_redis(&bytes);
            assert_eq!(forwards.map(|read| read.as_packed().iter().map(text).collect()), twin);
        }
    }
}

#[test]
fn longer_forms_of_redis_become_the_shortest() {
    // The number 5 in 16 bits, the text "7" as a string, and "b" with a length of 32 bits.
    let body = [&[0xF1, 5, 0, 3][..], &[0x81, b'7', 2], &[0xF0, 1, 0, 0, 0, b'b', 6]].concat();
    let bytes = [&[21, 0, 0, 0, 3, 0][..], &body, &[0xFF]].concat();
    let read = Pack::<BothWays>::from_redis(&bytes).map(|pack| pack.as_bytes().to_vec());
    assert_eq!(read, Some(vec![3, 0, 5, 1, 7, 1, 0x81, b'b', 2]));
    let read = Pack::<Forwards>::from_redis(&bytes).map(|pack| pack.as_bytes().to_vec());
    assert_eq!(read, Some(vec![3, 0, 5, 7, 0x81, b'b']));
    let empty: Packed<'_> = Packed::EMPTY;
    assert!(empty.is_empty() && empty.first().is_none());
}

#[test]
fn a_queue_keeps_its_memory_in_bounds() {
    let mut pack: Pack = Pack::new();
    for number in 0..if cfg!(miri) { 500 } else { 100_000i64 } {
        pack.push_back(number);
        if number >= 50 {
            pack.pop_front();
        }
    }
    assert!(pack.len() == 50 && pack.memory_bytes() < 1000, "{}", pack.memory_bytes());
}

#[test]
#[cfg_attr(miri, ignore = "a walk of 70,000 elements takes minutes there")]
fn more_than_the_count_can_say_are_counted() {
    let mut pack: Pack = (0..70_000i64).collect();
    assert_eq!(pack.len(), 70_000);
    pack.pop_front();
    pack.pop_back();
    assert_eq!((pack.len(), pack.as_packed().get(69_997)), (69_998, Some(ValueRef::Integer(69_998))));
    pack.truncate(10);
    assert_eq!(pack.len(), 10);
    let many: Pack = (0..70_000i64).collect();
    assert_eq!(Pack::<Forwards>::from_redis(&many.as_packed().to_redis()).map(|pack| pack.len()), Some(70_000));
}
