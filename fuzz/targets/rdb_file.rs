//! Arbitrary bytes as an RDB file. It is loaded or refused, with the same result record by record and in batches. A loaded
//! store is written and loaded again, and is equal.
//!
//! The sum at the end is not compared, so that every input reaches the code that reads records.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sleeve_store::dump_file::Inserter;
use sleeve_store::rdb::file::{Access, Batch, Event, Format, Reader, Writer};
use sleeve_store::rdb::{Limits, Version};
use sleeve_store::snapshot::{Budget, Progress, SnapshotWriter, Snapshot};
use sleeve_store::{Kind, List, Map, Options, Set, SortedSet, Store, Stream};

const DATABASES: usize = 4;

fuzz_target!(|file: &[u8]| {
    let Some(store) = loaded(file) else { return };
    for version in [Version::Twelve, Version::Valkey80] {
        let again = loaded(&written(&store, version)).expect("our own file is a file");
        assert_eq!(sizes(&again), sizes(&store), "and holds the same");
    }
});

/// Loads a file in batches. A file that can be read in batches can be read record by record, and the reverse. The exceptions
/// are a file with the same key twice, and one with a key in a database that does not exist.
fn loaded(file: &[u8]) -> Option<Store> {
    let store = Store::new(Options { databases: DATABASES, shards: 2, ..Options::new([1; 16]) });
    let limits = Limits::usual(store.hash_key());
    let (mut reader, mut batch) = (Reader::new(file, limits), Batch::default());
    reader.trust_sum();
    let mut inserter = Inserter::new(limits, i64::MIN);
    let is_loaded = loop {
        match reader.next_batch(&mut batch, usize::MAX) {
            Ok(Some(Event::End)) => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
        inserter.insert(&store, &mut batch, &|_| 0).ok()?;
    };
    let mut reader = Reader::new(file, limits);
    reader.trust_sum();
    let is_readable = loop {
        match reader.next_event() {
            Ok(Event::End) => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    assert_eq!(is_loaded, is_readable);
    is_loaded.then_some(store)
}

fn written(store: &Store, version: Version) -> Vec<u8> {
    let begun = Snapshot::begin(store, &mut store.lock_all(), Arc::default());
    let mut snapshot = begun.expect("no other is unfinished");
    let (mut writer, mut snapshot_writer) = (Writer::new(Format { version, is_compressing: true, is_summing: true }), SnapshotWriter::default());
    let budget = Budget { bytes: 1 << 18, pieces: 500 };
    let mut step = || snapshot.step(store, budget, &mut |record| snapshot_writer.write(&mut writer, record, |_| Access::Idle(3)));
    while step().expect("nobody tears it") != Progress::Done {}
    writer.end().expect("the version knows everything");
    writer.drain(<[u8]>::to_vec)
}

/// Returns, for each key, the type of its value, its size, and its deadline.
fn sizes(store: &Store) -> BTreeMap<(usize, Vec<u8>), (&'static str, u64, Option<i64>)> {
    let (locked, mut all) = (store.lock_all(), BTreeMap::new());
    for shard in locked.set().iter() {
        for database in 0..DATABASES {
            locked.shard(shard).for_each(database, |entry| {
                let size = match entry.kind() {
                    Kind::String => entry.value().len() as u64,
                    Kind::List => entry.collection::<List>().map_or(0, |list| list.len() as u64),
                    Kind::Set => entry.collection::<Set>().map_or(0, |set| set.len() as u64),
                    Kind::SortedSet => entry.collection::<SortedSet>().map_or(0, |set| set.len() as u64),
                    Kind::Hash => entry.collection::<Map>().map_or(0, |map| map.len() as u64),
                    Kind::Stream => entry.collection::<Stream>().map_or(0, |stream| stream.len()),
                };
                all.insert((database, entry.key().to_vec()), (entry.kind().name(), size, entry.deadline()));
            });
        }
    }
    all
}
