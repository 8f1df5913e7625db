//! A store as a file and back: written by a snapshot and read batch by batch, as a server does both, but at once and in one
//! thread.

use std::io::Read;
use std::sync::Arc;

use sleeve_store::dump_file::{Inserter, LoadError};
use sleeve_store::rdb::Limits;
use sleeve_store::rdb::file::{Access, Batch, Event, Format, Outdated, Reader, Writer};
use sleeve_store::snapshot::{Budget, Progress, Snapshot, SnapshotWriter};
use sleeve_store::{Moment, Store};

/// Returns the file of a store; `begin` writes the part in front of the keys.
pub fn save(store: &Store, format: Format, begin: impl FnOnce(&mut Writer)) -> Result<Vec<u8>, Outdated> {
    let begun = Snapshot::begin(store, &mut store.lock_all(), Arc::default());
    let mut snapshot = begun.expect("no other is unfinished");
    let (mut writer, mut snapshot_writer) = (Writer::new(format), SnapshotWriter::new(snapshot.sizes()));
    begin(&mut writer);
    let budget = Budget { bytes: 1 << 18, pieces: 500 };
    let mut step =
        || snapshot.step(store, budget, &mut |record| snapshot_writer.write(&mut writer, record, |_| Access::Unknown));
    while step().expect("nobody tears it") != Progress::Done {}
    writer.end()?;
    Ok(writer.drain(<[u8]>::to_vec))
}

/// Puts the contents of a file into a store.
pub fn load(store: &Store, source: impl Read, limits: Limits, moment: Moment) -> Result<(), LoadError> {
    let (mut reader, mut batch) = (Reader::new(source, limits), Batch::default());
    let mut inserter = Inserter::new(limits, moment.now_ms);
    loop {
        let event = reader.next_batch(&mut batch, usize::MAX).map_err(LoadError::File)?;
        inserter.insert(store, &mut batch, &|_| moment.clock)?;
        if matches!(event, Some(Event::End)) {
            return Ok(());
        }
    }
}
