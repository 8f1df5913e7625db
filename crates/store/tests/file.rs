//! A store as a file and back: written by a snapshot and read batch by batch, as a server does both, but at once and in one
//! thread.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use sleeve_store::dump_file::{LoadError, insert_batch};
use sleeve_store::rdb::Limits;
use sleeve_store::rdb::file::{Access, Batch, Error, Event, Format, Outdated, Reader, Writer};
use sleeve_store::snapshot::{Budget, Progress, Scribe, Snapshot};
use sleeve_store::{Moment, Store};

/// The file of a store; `begin` writes what stands in front of the keys.
pub fn save(store: &Store, format: Format, begin: impl FnOnce(&mut Writer)) -> Result<Vec<u8>, Outdated> {
    let begun = Snapshot::begin(store, &mut store.lock_all(), Arc::default());
    let mut snapshot = begun.expect("no other is unfinished");
    let (mut writer, mut scribe) = (Writer::new(format), Scribe::new(snapshot.sizes()));
    begin(&mut writer);
    let budget = Budget { bytes: 1 << 18, pieces: 500 };
    let mut step =
        || snapshot.step(store, budget, &mut |record| scribe.write(&mut writer, record, |_| Access::Unknown));
    while step().expect("nobody tears it") != Progress::Done {}
    writer.end()?;
    Ok(writer.drain(<[u8]>::to_vec))
}

/// Why a file was not loaded.
#[derive(Debug)]
pub enum Unloaded {
    /// What is wrong with the file.
    File(Error),
    /// Why the store does not take it.
    Keys(LoadError),
}

impl fmt::Display for Unloaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(formatter, "{error}"),
            Self::Keys(error) => write!(formatter, "{error}"),
        }
    }
}

/// Puts what is in a file into a store.
pub fn load(store: &Store, source: impl Read, limits: Limits, moment: Moment) -> Result<(), Unloaded> {
    let (mut reader, mut batch) = (Reader::new(source, limits), Batch::default());
    loop {
        let event = reader.next_batch(&mut batch, 1 << 18);
        insert_batch(store, &mut store.lock_all(), &mut batch, moment.now_ms, &|_| moment.clock)
            .map_err(Unloaded::Keys)?;
        if matches!(event.map_err(Unloaded::File)?, Some(Event::End)) {
            return Ok(());
        }
    }
}
