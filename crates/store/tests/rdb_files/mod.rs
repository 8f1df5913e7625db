//! Whole files: stores of random values are written and read again, in every version, and damaged files are refused.
//!
//! The contents of a store are written out plainly ([`contents`]) and compared in that form. All randomness comes from a
//! seed.

mod by_hand;
mod values;

use std::collections::HashSet;
use std::sync::Mutex;

use sleeve_store::dump_file::{Inserted, Inserter, LoadError};
use sleeve_store::rdb::file::{About, Access, Batch, Event, Fault, Format, Head, Reader, Writer};
use sleeve_store::rdb::types::{hash, list, set, sorted_set, stream, string};
use sleeve_store::rdb::{self, Bad, Input, Loaded, Origin, Version};
use sleeve_store::{
    Collection, Deadline, Digits, EntryRef, Kind, List, Map, Set, SortedSet, Store, Stream, StreamId, ValueRef,
};
use values::{LATER_MS, NOW, Plain, Random, contents, fill, limits, store};

use crate::file::{load, save};

const ABOUT: About<'_> =
    About { server_version: "7.2.4", written_s: 1_700_000_000, used_memory: 1 << 30, is_log_base: false };

fn written(store: &Store, format: Format) -> Vec<u8> {
    let saved = save(store, format, |writer| {
        writer.about(&ABOUT);
        writer.aux("sleeve-offset", b"123456");
        writer.function(b"#!lua name=one\nredis.register_function('f', function() return 1 end)");
    });
    saved.unwrap()
}

fn format(version: Version) -> Format {
    Format { version, is_compressing: true, is_summing: true }
}

/// A source that gives out a file in pieces of random sizes, as disks and sockets do.
struct Pieces<'a>(&'a [u8], Random);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let wanted = 1 + self.1.scale(17) as usize;
        let count = wanted.min(into.len()).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        into[..count].copy_from_slice(taken);
        self.0 = rest;
        Ok(count)
    }
}

fn loaded(file: &[u8]) -> Result<Store, LoadError> {
    let store = store();
    load(&store, Pieces(file, Random(3)), limits(&store), NOW)?;
    Ok(store)
}

#[test]
fn what_was_written_is_read_in_every_version() {
    let keys = if cfg!(miri) { 6 } else { 200 };
    for seed in 0..if cfg!(miri) { 1 } else { 2 } {
        for (version, is_timed) in [(Version::Ten, false), (Version::Twelve, true), (Version::Valkey80, true)] {
            let store = store();
            fill(&store, keys, seed, is_timed);
            let wanted = contents(&store);
            for (is_compressing, is_summing) in [(true, true), (false, true), (true, false)] {
                let file = written(&store, Format { version, is_compressing, is_summing });
                let again = loaded(&file).unwrap_or_else(|error| panic!("seed {seed}, {version:?}: {error}"));
                let found = contents(&again);
                for (key, value) in &wanted {
                    assert_eq!(found.get(key), Some(value), "seed {seed}, {version:?}, {key:?}");
                }
                assert_eq!(found.len(), wanted.len());
                assert_eq!(file.ends_with(&[0; 8]), !is_summing);
            }
        }
    }
}

#[test]
fn a_version_that_does_not_know_everything_gives_no_file() {
    let store = store();
    fill(&store, 40, 1, false);
    assert!(save(&store, format(Version::Ten), |_| {}).is_ok());
    let named = store.key(b"timed");
    let (mut map, limits) = (Map::new(store.hash_key()), limits(&store));
    map.set(b"field", b"value", Deadline::At(LATER_MS), limits.hash, NOW.now_ms);
    drop(store.lock_of(named.hash).set_collection(0, named, map, Deadline::Clear, NOW));
    let saved = save(&store, format(Version::Ten), |_| {});
    assert!(saved.is_err_and(|outdated| outdated.needed == 12));
}

#[test]
fn what_stands_around_the_keys_is_told_as_it_was_written() {
    let mut writer = Writer::new(format(Version::Ten));
    writer.about(&ABOUT);
    writer.aux("sleeve-offset", b"99");
    writer.function(b"#!lua name=lib");
    writer.select(2);
    writer.sizes(2, 1);
    let head = Head { key: b"one", deadline: Some(-5), access: Access::Idle(70_000) };
    string::write_string(writer.record(&head), ValueRef::Integer(12));
    let head = Head { key: b"two", deadline: None, access: Access::Frequency(200) };
    string::write_string(writer.record(&head), ValueRef::Bytes(b"words"));
    writer.end().unwrap();
    let file = writer.drain(<[u8]>::to_vec);
    assert_eq!(writer.len(), file.len() as u64);
    let with_rest = [&file[..], b"*1\r\n"].concat();
    let mut reader = Reader::new(with_rest.as_slice(), limits(&store()));
    let mut told = Vec::new();
    loop {
        told.push(match reader.next_event().unwrap() {
            Event::Aux { name, value } => format!("{} {}", name.escape_ascii(), value.escape_ascii()),
            Event::Function(code) => format!("function {}", code.escape_ascii()),
            Event::Select(database) => format!("select {database}"),
            Event::Sizes { keys, volatile } => format!("sizes {keys} {volatile}"),
            Event::Key(record) => {
                assert_eq!(&file[record.offset as usize..][..1], if record.deadline.is_some() { [252] } else { [249] });
                format!("{} {} {:?} {:?}", record.database, record.key.escape_ascii(), record.deadline, record.access)
            }
            Event::Empty(odd) => odd.to_string(),
            Event::End => break,
        });
    }
    assert_eq!(reader.offset(), file.len() as u64);
    assert_eq!(reader.into_rest().0, b"*1\r\n");
    let wanted = [
        "redis-ver 7.2.4",
        "redis-bits 64",
        "ctime 1700000000",
        "used-mem 1073741824",
        "aof-base 0",
        "sleeve-offset 99",
        "function #!lua name=lib",
        "select 2",
        "sizes 2 1",
        "2 one Some(-5) Idle(70000)",
        "2 two None Frequency(200)",
    ];
    assert_eq!(told, wanted);
}

/// Loads a file by several threads, which take turns at reading stretches of some `bytes_max` bytes.
fn loaded_by_turns(file: &[u8], bytes_max: usize) -> Result<(Store, Inserted), LoadError> {
    let target = store();
    let (limits, total, failed) = (limits(&target), Mutex::default(), Mutex::default());
    let reader = Mutex::new(Some(Reader::new(file, limits)));
    let next = |batch: &mut Batch| loop {
        let mut reader = reader.lock().unwrap();
        match reader.as_mut()?.next_batch(batch, bytes_max) {
            Ok(None) => return Some(()),
            Ok(Some(Event::End)) => *reader = None,
            Ok(Some(_)) => {}
            Err(error) => {
                *reader = None;
                *failed.lock().unwrap() = Some(LoadError::File(error));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (mut inserter, mut batch) = (Inserter::new(limits, NOW.now_ms), Batch::default());
                while next(&mut batch).is_some() {
                    let inserted = inserter.insert(&target, &mut batch, &|_| 5).unwrap();
                    assert!(batch.is_empty());
                    let mut total: std::sync::MutexGuard<'_, Inserted> = total.lock().unwrap();
                    (total.keys, total.expired) = (total.keys + inserted.keys, total.expired + inserted.expired);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    failed.into_inner().unwrap().map_or(Ok((target, total)), Err)
}

#[test]
fn threads_take_turns_at_a_file() {
    let source = store();
    fill(&source, if cfg!(miri) { 6 } else { 300 }, 8, true);
    let file = written(&source, format(Version::Twelve));
    let wanted = contents(&source);
    for bytes_max in [1, 10_000, usize::MAX] {
        let (target, inserted) = loaded_by_turns(&file, bytes_max).unwrap();
        assert_eq!(inserted, Inserted { keys: wanted.len() as u64, ..Inserted::default() });
        assert!(contents(&target) == wanted);
    }
    let Err(LoadError::File(error)) = loaded_by_turns(&file[..file.len() - 9], 10_000) else { panic!("it is cut off") };
    assert_eq!((error.offset, error.to_string().contains("end in the middle")), (file.len() as u64 - 9, true));
}

#[test]
fn keys_whose_time_is_over_are_left_out_and_counted() {
    let mut writer = Writer::new(format(Version::Ten));
    writer.select(0);
    for (key, deadline) in [("over", Some(NOW.now_ms - 1)), ("now", Some(NOW.now_ms)), ("never", None)] {
        let head = Head { key: key.as_bytes(), deadline, access: Access::Unknown };
        string::write_string(writer.record(&head), ValueRef::Bytes(b"value"));
    }
    writer.end().unwrap();
    let (target, inserted) = writer.drain(|file| loaded_by_turns(file, usize::MAX)).unwrap();
    assert_eq!(inserted, Inserted { keys: 2, expired: 1, odd: Vec::new() });
    assert_eq!(contents(&target).len(), 2);
}

#[test]
fn a_value_that_fits_into_no_stretch_is_read_as_it_comes() {
    let mut writer = Writer::new(Format { version: Version::Ten, is_compressing: false, is_summing: true });
    writer.select(1);
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7 + at / 251) as u8).collect();
    for key in ["before", "long", "behind"] {
        let head = Head { key: key.as_bytes(), deadline: None, access: Access::Unknown };
        let value = if key == "long" { &long[..] } else { b"short" };
        string::write_string(writer.record(&head), ValueRef::Bytes(value));
    }
    writer.end().unwrap();
    let file = writer.drain(<[u8]>::to_vec);
    let (target, inserted) = loaded_by_turns(&file, usize::MAX).unwrap();
    assert_eq!(inserted.keys, 3);
    let key = target.key(b"long");
    let shard = target.lock_of(key.hash);
    assert!(shard.get(1, key, 0).unwrap().value() == ValueRef::Bytes(&long));
    drop(shard);
    let Err(LoadError::File(error)) = loaded_by_turns(&file[..2_000_000], usize::MAX) else { panic!("it is cut off") };
    assert_eq!((error.key.as_deref(), error.offset), (Some(&b"long"[..]), 2_000_000));
}

#[test]
fn a_value_in_parts_is_the_value() {
    let store = store();
    fill(&store, if cfg!(miri) { 20 } else { 250 }, 5, true);
    let mut writer = Writer::new(format(Version::Twelve));
    let locked = store.lock_all();
    for database in 0..3 {
        writer.select(database);
        for shard in locked.set().iter() {
            locked.shard(shard).for_each(database, |entry| in_parts(&mut writer, &entry));
        }
    }
    drop(locked);
    writer.end().unwrap();
    let again = writer.drain(loaded).unwrap();
    assert_eq!(contents(&again), contents(&store));
}

/// Writes an entry part by part, as if it were a large one.
fn in_parts(writer: &mut Writer, entry: &EntryRef<'_>) {
    let head = Head { key: entry.key(), deadline: entry.deadline(), access: Access::Unknown };
    let record = writer.record(&head);
    match entry.kind() {
        Kind::String => {
            let mut digits = Digits::default();
            let value = entry.value();
            let bytes = value.bytes(&mut digits);
            string::open(record, bytes.len() as u64);
            bytes.chunks(1000).for_each(|part| string::write_string_part(writer.parts(), part));
        }
        Kind::List => {
            let (count, packs) = entry.collection::<List>().unwrap().packs();
            list::open(record, count as u64);
            packs.for_each(|pack| list::write_pack(writer.parts(), pack));
        }
        Kind::Set => {
            let set = entry.collection::<Set>().unwrap();
            set::open(record, set.len() as u64);
            set.for_each(|member| set::write_member(writer.parts(), member));
        }
        Kind::SortedSet => {
            let set = entry.collection::<SortedSet>().unwrap();
            sorted_set::open(record, set.len() as u64);
            set.visit(0..set.len(), false, |member, score| sorted_set::write_scored(writer.parts(), member, score));
        }
        Kind::Hash => {
            let map = entry.collection::<Map>().unwrap();
            hash::open(record, map.len() as u64, map.due_ms().is_some());
            map.for_each_with_deadline(i64::MIN, |field, value, deadline| {
                hash::write_field(writer.parts(), field, value, deadline)
            });
        }
        Kind::Stream => {
            let stream = entry.collection::<Stream>().unwrap();
            stream::open(record, stream.blocks_len() as u64, false);
            stream_in_parts(writer, stream);
        }
    }
}

fn stream_in_parts(writer: &mut Writer, stream: &Stream) {
    let parts = writer.parts();
    stream.blocks().for_each(|(first, block)| stream::write_block(parts, first, block));
    stream::write_stream_counters(
        parts,
        stream.len(),
        stream.first_id(),
        stream.counters(),
        stream.groups().len() as u64,
    );
    for (name, group) in stream.groups() {
        stream::write_group(parts, name, group.last_id, group.entries_read, group.pending_len() as u64);
        group
            .pending_in(StreamId::MIN..=StreamId::MAX)
            .for_each(|(id, pending)| stream::write_pending(parts, id, pending));
        stream::write_consumers(parts, group.consumers().len() as u64);
        for consumer in group.consumers() {
            stream::write_consumer(
                parts,
                &consumer.name,
                consumer.seen_ms,
                consumer.active_ms,
                consumer.pending_len() as u64,
            );
            consumer.pending_from(StreamId::MIN).for_each(|id| stream::write_consumer_pending(parts, id));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of fields, or a file read thousands of times")]
fn deadlines_that_are_nearer_than_the_next_sweep_are_written() {
    let (store, limits) = (store(), limits(&store()));
    let mut map = Map::new(limits.hash_key);
    for number in 0..5_000_i64 {
        let field = number.to_string().into_bytes();
        map.set(&field, b"value", Deadline::At(if number < 100 { 10 } else { 12 }), limits.hash, 0);
    }
    // After the sweep that removes the first hundred fields, the next one comes later than the other fields expire.
    map.expire(11, usize::MAX, |_| {});
    assert_eq!((map.as_ref().len(), map.due_ms() > Some(12)), (4_900, true));
    let named = store.key(b"key");
    drop(store.lock_of(named.hash).set_collection(0, named, map, Deadline::Clear, NOW));
    let mut dump = Vec::new();
    let locked = store.lock_of(named.hash);
    rdb::write(&mut dump, &locked.get(0, named, 11).unwrap(), 11, Version::Twelve);
    let Ok(Loaded::Hash(again)) = rdb::read(&mut Input::new(&dump), Origin::Redis, &limits) else {
        panic!("a dump is a dump")
    };
    assert_eq!(again.as_ref().get_with_deadline(b"4999", 11).map(|(_, deadline)| deadline), Some(Some(12)));
    assert_eq!(again.as_ref().len(), 4_900);
}

/// Returns a file with one small value of each encoding, and its contents.
fn small_file(version: Version) -> (Vec<u8>, Plain) {
    let store = store();
    fill(&store, 150, 11, version != Version::Ten);
    // Larger values would make every byte of the file take too long.
    let (mut seen, mut others) = (HashSet::new(), Vec::new());
    for ((database, key), (_, encoding, lines)) in contents(&store) {
        if lines.concat().len() > 400 || !seen.insert(encoding) {
            others.push((database, key));
        }
    }
    assert!(seen.len() >= 6, "{seen:?}");
    for (database, key) in others {
        let named = store.key(&key);
        drop(store.lock_of(named.hash).remove(database, named));
    }
    (written(&store, format(version)), contents(&store))
}

#[test]
#[cfg_attr(miri, ignore = "thousands of fields, or a file read thousands of times")]
fn a_flipped_bit_anywhere_is_an_error_or_changes_nothing() {
    for version in [Version::Ten, Version::Twelve, Version::Valkey80] {
        let (file, wanted) = small_file(version);
        assert_eq!(contents(&loaded(&file).unwrap()), wanted);
        for at in 0..file.len() {
            // All bits of one file are flipped, and one bit of every byte of the others.
            for bit in if version == Version::Ten { 0..8 } else { at % 8..at % 8 + 1 } {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                // A flipped bit can turn version 12 into version 2, which had no checksum yet.
                if let Ok(store) = loaded(&damaged) {
                    assert_eq!(contents(&store), wanted, "{version:?}: bit {bit} of byte {at} was flipped");
                    assert_eq!(at, 7);
                }
                // Without the checksum the bytes may be another file, but reading it must not hang or panic.
                let other = store();
                let mut reader = Reader::new(damaged.as_slice(), limits(&other));
                reader.trust_sum();
                while !matches!(reader.next_event(), Ok(Event::End) | Err(_)) {}
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of fields, or a file read thousands of times")]
fn a_file_that_is_cut_off_is_an_error_that_says_where() {
    let (file, _) = small_file(Version::Twelve);
    for length in 0..file.len() {
        let Err(LoadError::File(error)) = loaded(&file[..length]) else { panic!("cut at {length}") };
        assert!(error.offset <= length as u64 && error.begins_at <= error.offset, "cut at {length}: {error}");
        let is_right = match error.fault {
            Fault::Magic => length < 9,
            Fault::Bad(bad) => matches!(bad, Bad::End | Bad::Packed | Bad::PackedOf(_)),
            _ => false,
        };
        assert!(is_right, "cut at {length}: {error}");
    }
}

/// A source that counts the bytes that are read of it.
struct Counted<'a> {
    source: std::io::Chain<&'a [u8], std::io::Take<std::io::Repeat>>,
    read: u64,
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.read(into)?;
        self.read += read as u64;
        Ok(read)
    }
}

#[test]
#[cfg_attr(miri, ignore = "megabytes, one after the other")]
fn a_string_that_claims_more_than_the_file_has_is_not_read() {
    use std::io::Read;
    const REST: u64 = 32 << 20;
    // A string under the key "k", a string that is compressed, a key, and the value of an auxiliary field.
    let fronts: [&[u8]; 4] = [b"\x00\x01k", b"\x00\x01k\xc3", b"\x00", b"\xfa\x01k"];
    for front in fronts {
        for claimed in [REST + 2, 1 << 40, u64::MAX] {
            let file = [b"REDIS0010".as_slice(), front, b"\x81", &claimed.to_be_bytes(), b"\x01"].concat();
            let size = file.len() as u64 + REST;
            let mut source = Counted { source: file.chain(std::io::repeat(0).take(REST)), read: 0 };
            let store = store();
            let mut reader = Reader::new(&mut source, limits(&store));
            reader.expect_size(size);
            let Err(error) = reader.next_event() else { panic!("{claimed} bytes are not there") };
            assert!(matches!(error.fault, Fault::Bad(Bad::End)), "{error}");
            assert!(error.offset <= file.len() as u64, "{error}");
            assert!(source.read < REST / 8, "{} bytes were read", source.read);
        }
    }
}
