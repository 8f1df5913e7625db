//! A full sync: it replaces the present data with the primary's data. The dump is either written to a file and then loaded,
//! or loaded as it arrives (`loader`).
//!
//! With a file, the present data stays until the dump is complete. The file then becomes the server's snapshot; an incomplete
//! file is removed.

use std::io::{self, IoSlice};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};

use sleeve_disk::disk::{File, Open};

use super::connection::{Connection, End, SIGN_OF_LIFE_EVERY};
use super::loader::{Loader, Order};
use crate::config::value::reason;
use crate::config::{DisklessLoad, Opt};
use crate::engine::Engine;
use crate::engine::replication::Id;
use crate::engine::replication::role::Transfer;
use crate::execute::replay::Replay;
use crate::host::log;
use crate::host::threads;
use crate::loading::replacing::{self, Arrival};
use crate::peers::follower::link::{LinkError, Size};

/// A dump that is arriving.
pub(super) struct Arriving {
    engine: Arc<Engine>,
    id: Id,
    offset: u64,
    /// The destination of the dump, once it has begun.
    target: Option<Target>,
    transfer: Transfer,
}

enum Target {
    File(Unloaded),
    Loader(Loader),
}

/// The file of a dump that is not loaded yet.
struct Unloaded {
    engine: Arc<Engine>,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Arriving {
    /// Begins a full sync: the dump stands for the stream with this id up to this offset.
    pub(super) fn new(engine: &Arc<Engine>, id: Id, offset: u64) -> Self {
        Self { engine: Arc::clone(engine), id, offset, target: None, transfer: Transfer::default() }
    }

    /// Begins the dump. `size` is its size, if the primary has stated it.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(super) fn begin(&mut self, size: Size, connection: &Connection<'_>) -> Result<(), End> {
        let engine = &self.engine;
        let (is_straight, is_beside) = self.way();
        let to = if is_straight { "parser" } else { "disk" };
        self.transfer.total_bytes = match size {
            Size::Bytes(bytes) => {
                log::notice(&format!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to {to}"));
                Some(bytes)
            }
            Size::Unknown => {
                log::notice(&format!("MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to {to}"));
                None
            }
        };
        connection.set_transfer(self.transfer);
        self.target = Some(match is_straight {
            true => {
                let with = if is_beside { " with async loading" } else { "" };
                log::notice(&format!("MASTER <-> REPLICA sync: Loading DB in memory{with}"));
                let bytes = self.transfer.total_bytes.unwrap_or(0);
                let order =
                    Order { id: self.id, offset: self.offset, bytes, task: connection.task().clone(), is_beside };
                let loader = Loader::start(engine, order);
                Target::Loader(loader.map_err(|error| cannot("start the thread that loads its dump", &error))?)
            }
            false => Target::File(Unloaded::begin(engine)?),
        });
        Ok(())
    }

    /// Returns whether the dump is loaded as it arrives, and whether the present data can be read during the load. It can if
    /// it is an older state of the same data.
    fn way(&self) -> (bool, bool) {
        let engine = &self.engine;
        match DisklessLoad::at(engine.config.number(Opt::ReplDisklessLoad)) {
            DisklessLoad::Disabled => (false, false),
            DisklessLoad::OnEmptyDb => {
                ((0..engine.keyspace.store.databases()).all(|database| engine.keyspace.store.is_empty(database)), false)
            }
            DisklessLoad::SwapDb => (true, engine.replication.ids.id() == self.id),
        }
    }

    /// Takes a part of the dump.
    ///
    /// # Errors
    /// Errors of the operating system, or a fault in the dump.
    pub(super) fn take(&mut self, part: &[u8], connection: &mut Connection<'_>) -> Result<(), End> {
        match &mut self.target {
            Some(Target::File(unloaded)) => {
                let written = unloaded.file.append(&[IoSlice::new(part)]);
                written.map_err(|error| cannot("write its dump", &error))?;
            }
            Some(Target::Loader(loader)) => loader.put(part, connection)?,
            None => {}
        }
        self.transfer.read_bytes += part.len() as u64;
        connection.set_transfer(self.transfer);
        Ok(())
    }

    /// Replaces the present data with the complete dump. Returns the replay for the stream that follows the dump.
    ///
    /// # Errors
    /// The dump is not valid; the present data is unchanged.
    pub(super) fn finish(self, connection: &mut Connection<'_>) -> Result<Replay, End> {
        let Self { engine, id, offset, target, .. } = self;
        let database = match target {
            Some(Target::File(unloaded)) => {
                unloaded.load(Arrival { id, offset, bytes: 0, task: connection.task() }, connection)?
            }
            Some(Target::Loader(loader)) => loader.finish(connection)?,
            None => return Err(LinkError::foreign("its dump ends before it begins").into()),
        };
        log::notice("MASTER <-> REPLICA sync: Finished with success");
        Ok(Replay::copy(&engine, database))
    }
}

impl Unloaded {
    fn begin(engine: &Arc<Engine>) -> Result<Self, End> {
        let path = engine.persistence.snapshots.arriving_path(engine);
        let file = engine.persistence.disk.open(&path, Open::Create);
        let file = file.map_err(|error| cannot("make the file for its dump", &error))?;
        Ok(Self { engine: Arc::clone(engine), path, file })
    }

    fn load(self, arrival: Arrival<'_>, connection: &mut Connection<'_>) -> Result<u32, End> {
        self.file.sync().map_err(|error| cannot("sync its dump", &error))?;
        log::notice("MASTER <-> REPLICA sync: Loading DB in memory");
        let load = || replacing::load_file_from_primary(&self.engine, &self.path, arrival);
        let loaded = std::thread::scope(|scope| {
            let (over, is_over) = channel::<()>();
            let beside = move || {
                let _over = over;
                load()
            };
            // If the system refuses a thread, the dump is loaded on this thread, and the primary gets no signs of life during
            // the load.
            let Ok(loading) = threads::start_within(scope, "load", beside) else { return load() };
            let mut sent = Ok(());
            while is_over.recv_timeout(SIGN_OF_LIFE_EVERY) == Err(RecvTimeoutError::Timeout) {
                sent = sent.and_then(|()| connection.send_sign_of_life());
            }
            loading.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        loaded.map_err(|why| LinkError::foreign(format!("its dump cannot be loaded: {why}")).into())
    }
}

impl Drop for Unloaded {
    fn drop(&mut self) {
        // A loaded file has been renamed, so this removes only a file that was not loaded.
        _ = self.engine.persistence.disk.remove(&self.path);
    }
}

fn cannot(what: &str, error: &io::Error) -> LinkError {
    LinkError::passing(format!("cannot {what}: {}", reason(error)))
}
