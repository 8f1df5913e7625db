//! Files put together by hand, and the outcome of reading them: mostly an error with its reason.

use sleeve_store::rdb::{self, Input, Loaded, Origin};
use sleeve_store::{Collection, Pack, Stream, StreamId};

use super::loaded;
use super::values::{contents, limits, store};

#[test]
fn what_a_length_claims_is_not_reserved() {
    // Each value claims 2^60 elements or bytes and has none.
    let claim = [0x81, 0x10, 0, 0, 0, 0, 0, 0, 0];
    for kind in 0..=30 {
        for prefix in [&b""[..], &[0; 8], &[1], &[2]] {
            let mut file = b"REDIS0012\xfe\x00".to_vec();
            file.extend([&[kind][..], b"\x03key", prefix, &claim, b"x"].concat());
            assert!(loaded(&file).is_err(), "type {kind}");
        }
    }
    let mut file = b"REDIS0011\xfe\x00\xfb".to_vec();
    file.extend([&claim[..], &claim, b"\x00\x01k\x01v\xff"].concat());
    file.extend(rdb::crc64(&file).to_le_bytes());
    assert_eq!(contents(&loaded(&file).unwrap()).len(), 1);
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "no RDB file"),
        (b"*3\r\n$3\r\nSET\r\n", "no RDB file"),
        (b"REDIS0014\xff", "REDIS0014"),
        (b"REDIS0000\xff", "REDIS0000"),
        (b"VALKEY081\xff", "VALKEY081"),
        (b"REDIS0010\x07\x01k", "the value belongs to a module"),
        (b"REDIS0010\x1e\x01k", "no value has the type 30"),
        (b"REDIS0010\xf7\x81\x45\x60\x12\x34\x56\x78\x9a\xbc\x02\x02\x01", "the module"),
        (b"REDIS0010\xf6\x01k", "release candidate"),
        (b"VALKEY080\xf3\x01k", "slots of a cluster"),
        (b"REDIS0010\xfe\x09\x00\x01k\x01v", "`databases` to more than 9"),
        (b"REDIS0010\x00\x01k\x01v\x00\x01k\x01v", "stands in database 0 twice"),
    ];
    for (file, reason) in cases {
        let error = loaded(file).err().expect("not to be loaded").to_string();
        assert!(error.contains(reason), "{}: {error}", file.escape_ascii());
    }
    let error = loaded(b"REDIS0010\xfe\x01\x02\x03key\x02\x01a\x01").err().unwrap().to_string();
    assert!(
        error.starts_with("at byte 20, in the record of the key \"key\" of database 1 that begins at byte 11"),
        "{error}"
    );
}

/// Returns a file with one value of this type and these bytes.
fn file_of(kind: u8, value: &[u8]) -> Vec<u8> {
    [b"REDIS0012\xfe\x00", &[kind][..], b"\x01k", value, b"\xff", &[0; 8]].concat()
}

/// Returns the elements as a listpack of Redis, as a string of fewer than 64 bytes.
fn listpack(elements: &[&str]) -> Vec<u8> {
    let pack: Pack = elements.iter().map(|element| element.as_bytes()).collect();
    let bytes = pack.as_packed().to_redis();
    assert!(bytes.len() < 64);
    [&[bytes.len() as u8][..], &bytes].concat()
}

#[test]
fn packs_are_taken_over_only_where_they_are_collections() {
    const SORTED_SET: u8 = 17;
    let (hash, set) = (16, 20);
    let refused: [(u8, &[&str], &str); 7] = [
        (hash, &["a", "1", "b", "2", "a", "3"], "twice"),
        (hash, &["7", "1", "7", "2"], "twice"),
        (hash, &["a", "1", "b"], "contradict"),
        (set, &["a", "b", "a"], "twice"),
        (SORTED_SET, &["a", "1", "b", "2", "a", "3"], "twice"),
        (SORTED_SET, &["a", "1", "b"], "contradict"),
        (SORTED_SET, &["a", "one"], "no number"),
    ];
    for (kind, elements, reason) in refused {
        let error = loaded(&file_of(kind, &listpack(elements))).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{elements:?}: {error}");
    }
    let error = loaded(&file_of(4, b"\x02\x01a\x011\x01a\x012")).err().expect("it is refused").to_string();
    assert!(error.contains("twice"), "{error}");
    // Values that would have another form if they were written here are put together anew.
    let same: [(u8, &[&str], &[&str]); 4] = [
        (SORTED_SET, &["b", "2", "a", "1.5"], &["a", "1.5", "b", "2"]),
        (SORTED_SET, &["a", "0.10000000000000001"], &["a", "0.1"]),
        (set, &["3", "1", "2"], &["1", "2", "3"]),
        (set, &["b", "a"], &["b", "a"]),
    ];
    for (kind, found, wanted) in same {
        let read = |elements: &[&str]| contents(&loaded(&file_of(kind, &listpack(elements))).unwrap());
        assert_eq!(read(found), read(wanted));
    }
    let integers = contents(&loaded(&file_of(set, &listpack(&["3", "1", "2"]))).unwrap());
    assert_eq!(integers.values().next().map(|value| value.1), Some("intset"));
}

/// A stream with one entry that a group's consumer has not acknowledged, as Redis 8.6.2 wrote it; behind it comes the state
/// of producers.
const STREAM_OF_8_6: &[u8] = b"\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x1d\x1d\0\0\0\x0a\0\x01\x01\0\x01\x01\x01\x81a\x02\
    \0\x01\x02\x01\0\x01\0\x01\x81b\x02\x04\x01\xff\x01\x01\x01\x01\x01\0\0\x01\x01\x01g\x01\x01\x01\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
    \x3a\xe9\x6e\x03\xa2\x01\0\0\x01\x01\x01c\x3a\xe9\x6e\x03\xa2\x01\0\0\x3a\xe9\x6e\x03\xa2\x01\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
    \x40\x64\x40\x64";

#[test]
fn a_stream_of_redis_8_6_is_read_with_what_it_knows_of_producers() {
    let file = |producers: &[u8]| [b"REDIS0013", &file_of(26, &[STREAM_OF_8_6, producers].concat())[9..]].concat();
    let read = contents(&loaded(&file(b"\0\0\0")).unwrap());
    // The same stream in version 11 has no bytes behind its groups.
    let earlier = contents(&loaded(&file_of(21, &STREAM_OF_8_6[..STREAM_OF_8_6.len() - 4])).unwrap());
    assert_eq!((read.len(), &read), (1, &earlier));
    let producers = b"\x02\x01p\x02\x04iid1\x01\x01\x04iid2\x02\0\x01q\x01\x01x\x03\0\x05\x04";
    let store = loaded(&file(producers)).expect("it is read");
    let locked = store.lock_all();
    let mut streams = 0;
    (0..store.shards()).for_each(|shard| {
        locked.shard(shard).for_each(0, |entry| {
            streams += 1;
            let known = entry.collection::<Stream>().and_then(Stream::producers).expect("producers are known");
            let messages: Vec<_> = known.messages().map(|(entry, ..)| entry.ms).collect();
            assert_eq!((messages, known.added, known.duplicates, known.len()), (vec![1, 2, 3], 5, 4, 2));
            assert_eq!(known.message_of(StreamId::new(2, 0)), Some((&b"p"[..], &b"iid2"[..])));
        })
    });
    assert_eq!(streams, 1);
    drop(locked);
    for wrong in [
        &b"\x01\x01p\x02\x01i\x01\0\x01i\x02\0\0\0"[..],
        b"\x02\x01p\x01\x01i\x01\0\x01p\x01\x01j\x02\0\0\0",
        b"\x01\x01p\x40\x65",
    ] {
        assert!(loaded(&file(wrong)).is_err(), "{wrong:?}");
    }
    let valkey = [b"VALKEY080", &file(b"\0\0\0")[9..]].concat();
    assert!(loaded(&valkey).err().expect("no type of Valkey's").to_string().contains("type 26"));
}

/// Returns the bytes of a stream of one block, with a long name and entries of one small value each; `flags` returns the
/// flags of an entry, and each entry says that it has `elements` elements.
fn stream_of_one_block(name: &str, live: u64, deleted: u64, flags: impl Fn(u64) -> i64, elements: i64) -> Vec<u8> {
    let mut pack = <Pack>::new();
    [live as i64, deleted as i64, 1].into_iter().for_each(|number| pack.push_back(number));
    pack.push_back(name.as_bytes());
    pack.push_back(0_i64);
    for entry in 0..live + deleted {
        [flags(entry), 0, entry as i64, 7, elements].into_iter().for_each(|number| pack.push_back(number));
    }
    let packed = pack.as_packed().to_redis();
    let length = |length: u64| [b"\x81".as_slice(), &length.to_be_bytes()].concat();
    let first = [1_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat();
    let behind = [live, 1, live + deleted, 1, 1, 0, 0, live + deleted, 0].into_iter().flat_map(length);
    let front = [b"\x15\x01\x10".as_slice(), &first, &length(packed.len() as u64), &packed].concat();
    front.into_iter().chain(behind).collect()
}

/// Checks a block with entries that must be put together anew: its names are kept once, as in the file, however many blocks
/// the limits would make of it.
#[test]
fn a_stream_is_no_larger_than_what_it_was_read_from() {
    const SAME_NAMES: i64 = 2;
    let name = "n".repeat(20_000);
    let deletes_every = |nth: u64| move |entry: u64| SAME_NAMES | i64::from(entry % nth == nth - 1);
    let cases = [
        ("whole", stream_of_one_block(&name, 1_000, 0, |_| SAME_NAMES, 4), 1_000),
        ("with deleted ones", stream_of_one_block(&name, 900, 100, deletes_every(10), 4), 900),
        ("with wrong counts of elements", stream_of_one_block(&name, 1_000, 0, |_| SAME_NAMES, 3), 1_000),
    ];
    for (case, bytes, entries) in cases {
        let store = store();
        let read = rdb::read(&mut Input::new(&bytes), Origin::Redis, &limits(&store));
        let Ok(Loaded::Stream(stream)) = read else { panic!("{case} is a stream") };
        assert!(stream.memory() < 2 * bytes.len(), "{case}: {} bytes of {}", stream.memory(), bytes.len());
        assert_eq!((stream.len(), stream.blocks_len()), (entries, 1), "{case}");
        let mut seen = 0;
        for entry in stream.range(StreamId::MIN, StreamId::MAX) {
            let fields: Vec<_> = entry.fields().map(|(name, value)| (name.len(), value.integer())).collect();
            assert_eq!(fields, [(name.len(), Some(7))], "{case}: {}", entry.id);
            seen += 1;
        }
        assert_eq!(seen, entries, "{case}");
        let backwards = stream.range_back(StreamId::MIN, StreamId::MAX).map(|entry| entry.id);
        let forwards = stream.range(StreamId::MIN, StreamId::MAX).map(|entry| entry.id);
        assert!(backwards.collect::<Vec<_>>().into_iter().rev().eq(forwards), "{case}");
    }
}

#[test]
fn what_nobody_needs_is_skipped() {
    let file =
        b"REDIS0012\xf7\x81\x45\x60\x12\x34\x56\x78\x9a\xbc\x02\x02\x00\xf4\x01\x02\x03\xfe\x00\x00\x01k\x01v\xff";
    let file = [&file[..], &[0; 8]].concat();
    assert_eq!(contents(&loaded(&file).unwrap()).len(), 1);
}

#[test]
fn old_versions_have_no_sum_and_deadlines_in_seconds() {
    let file = b"REDIS0002\xfe\x00\xfd\x00\x20\x00\x00\x00\x01k\xc0\x05\xff";
    let plain = contents(&loaded(file).unwrap());
    assert_eq!(plain.values().next().unwrap(), &(Some(8_192_000), "int", vec!["5".to_owned()]));
}
