//! Streams against a plain twin: an ordered list of entries, driven by the same random operations.

use sleeve_store::{BlockLimits, Collection, Digits, HashKey, Keep, Pending, Stream, StreamGroup, StreamId};

const LIMITS: BlockLimits = BlockLimits { bytes_max: 400, entries_max: 7 };

/// A random generator without dependencies (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}

/// The plain twin.
#[derive(Default)]
struct Twin {
    entries: Vec<(StreamId, Vec<Vec<u8>>)>,
    added: u64,
    max_deleted: StreamId,
}

fn fields_of(stream: &Stream, start: StreamId, end: StreamId, is_backward: bool) -> Vec<(StreamId, Vec<Vec<u8>>)> {
    let entries = if is_backward { stream.range_back(start, end) } else { stream.range(start, end) };
    entries
        .map(|entry| {
            let text = |value: sleeve_store::ValueRef<'_>| value.bytes(&mut Digits::default()).to_vec();
            let fields: Vec<Vec<u8>> = entry.fields().flat_map(|(name, value)| [text(name), text(value)]).collect();
            assert_eq!(fields.len(), 2 * entry.fields_len());
            (entry.id, fields)
        })
        .collect()
}

fn check(stream: &Stream, twin: &Twin, random: &mut Random) {
    assert_eq!(stream.len(), twin.entries.len() as u64);
    assert_eq!(fields_of(stream, StreamId::MIN, StreamId::MAX, false), twin.entries);
    let first = twin.entries.first().map_or(StreamId::MIN, |(id, _)| *id);
    assert_eq!((stream.first_id(), stream.last_entry_id()), (first, twin.entries.last().map(|(id, _)| *id)));
    let counters = stream.counters();
    assert_eq!((counters.entries_added, counters.max_deleted_id), (twin.added, twin.max_deleted));
    let [start, end] = [(); 2].map(|()| StreamId::new(random.below(60), random.below(4)));
    let mut expected: Vec<_> = twin.entries.iter().filter(|(id, _)| (start..=end).contains(id)).cloned().collect();
    assert_eq!(fields_of(stream, start, end, false), expected);
    expected.reverse();
    assert_eq!(fields_of(stream, start, end, true), expected);
}

fn step(stream: &mut Stream, twin: &mut Twin, random: &mut Random) {
    match random.below(10) {
        0..=5 => {
            let last = stream.last_id();
            let id = StreamId::new(last.ms + random.below(2), last.seq + 1 + random.below(3));
            let count = 1 + random.below(3);
            let field = |number: u64| format!("{number}").repeat(1 + (number as usize * 7) % 40).into_bytes();
            let fields: Vec<Vec<u8>> = (0..2 * count).map(|_| field(random.below(3))).collect();
            stream.append(id, fields.iter().map(Vec::as_slice), LIMITS);
            twin.entries.push((id, fields));
            twin.added += 1;
        }
        6..=7 => {
            let id = match twin.entries.get(random.below(twin.entries.len().max(1) as u64) as usize) {
                Some((id, _)) if random.below(5) != 0 => *id,
                _ => StreamId::new(random.below(60), 1),
            };
            let place = twin.entries.iter().position(|(other, _)| *other == id);
            assert_eq!(stream.delete(id), place.is_some());
            if let Some(place) = place {
                twin.entries.remove(place);
                twin.max_deleted = twin.max_deleted.max(id);
            }
        }
        _ => {
            let keep = match random.below(2) {
                0 => Keep::Last(random.below(40)),
                _ => Keep::From(StreamId::new(random.below(60), 0)),
            };
            let (in_blocks, before) = (random.below(2) == 0, twin.entries.len());
            let removed = stream.trim(keep, in_blocks, None) as usize;
            let exact = match keep {
                Keep::Last(count) => before.saturating_sub(count as usize),
                Keep::From(from) => twin.entries.iter().take_while(|(id, _)| *id < from).count(),
            };
            assert!(removed <= exact && (in_blocks || removed == exact), "{removed} of {exact} went");
            twin.entries.drain(..removed);
        }
    }
}

#[test]
fn a_stream_is_a_list_of_entries_in_the_order_of_their_ids() {
    let (seeds, steps) = if cfg!(miri) { (1..=2, 40) } else { (1..=40, 300) };
    for seed in seeds {
        let (mut random, mut twin) = (Random(seed), Twin::default());
        let mut stream = Stream::new(HashKey::new([7; 16]));
        for _ in 0..steps {
            step(&mut stream, &mut twin, &mut random);
            check(&stream, &twin, &mut random);
        }
        let copy = stream.clone();
        check(&copy, &twin, &mut random);
        stream.trim(Keep::Last(0), false, None);
        assert_eq!(stream.memory(), 0, "an empty stream holds nothing");
        assert!(!Collection::is_empty(&stream), "and is kept nevertheless");
    }
}

#[test]
fn trimming_stops_before_more_than_it_may_remove() {
    let mut stream = Stream::new(HashKey::new([7; 16]));
    for ms in 1..=70 {
        stream.append(StreamId::new(ms, 0), [b"a".as_slice(), b"b"].into_iter(), LIMITS);
    }
    assert_eq!(stream.trim(Keep::Last(0), true, Some(20)), 14, "two blocks of seven");
    assert_eq!(stream.trim(Keep::Last(50), true, None), 0, "no whole block may go");
    assert_eq!(stream.trim(Keep::Last(50), false, None), 6);
}

#[test]
fn groups_tell_how_far_they_lag_as_long_as_that_can_be_told() {
    let mut stream = Stream::new(HashKey::new([7; 16]));
    let id = |ms| StreamId::new(ms, 0);
    let group = |last, read| StreamGroup::new(id(last), read);
    assert_eq!(stream.lag(&group(0, None)), Some(0));
    (1..=5).for_each(|ms| stream.append(id(ms), [b"a".as_slice(), b"b"].into_iter(), LIMITS));
    assert_eq!(stream.lag(&group(0, None)), Some(5));
    assert_eq!(stream.lag(&group(1, None)), Some(4));
    assert_eq!((stream.lag(&group(2, None)), stream.lag(&group(2, Some(2)))), (None, Some(3)));
    assert_eq!((stream.lag(&group(5, None)), stream.lag(&group(9, None))), (Some(0), None));
    stream.delete(id(3));
    assert_eq!(stream.lag(&group(2, Some(2))), None, "what was deleted ahead makes it uncertain");
    assert_eq!(stream.lag(&group(4, Some(4))), Some(1));
}

#[test]
fn what_is_pending_belongs_to_one_consumer() {
    let mut stream = Stream::new(HashKey::new([7; 16]));
    assert!(stream.add_group(b"g", StreamGroup::default()) && !stream.add_group(b"g", StreamGroup::default()));
    let id = |ms| StreamId::new(ms, 0);
    stream.change_group(b"g", |group, _| {
        let [one, other] = [b"one", b"two"].map(|name| group.add(name, 5));
        let pending = |consumer| Pending { consumer, delivered_ms: 7, deliveries: 1 };
        (1..=4).for_each(|ms| group.set_pending(id(ms), pending(one)));
        group.set_pending(id(2), pending(other));
        assert!(group.acknowledge(id(1)) && !group.acknowledge(id(1)));
        assert_eq!(group.consumer(one).pending_from(StreamId::MIN).collect::<Vec<_>>(), [id(3), id(4)]);
        assert_eq!(group.consumer(other).pending_len(), 1);
        assert_eq!(group.pending_in(id(2)..=id(3)).count(), 2);
        assert_eq!(group.pending_in(id(3)..=id(2)).count(), 0);
        assert_eq!((group.remove(b"one"), group.remove(b"one"), group.pending_len()), (Some(2), None, 1));
        assert_eq!(group.add(b"three", 5), one, "a number is given again");
    });
    assert!(stream.remove_group(b"g"));
    assert_eq!(stream.memory(), 0);
}
