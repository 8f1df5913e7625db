//! All data of a primary: into a file as it comes, and from there in place of what there is.
//!
//! What there is stays until the new is whole. The file becomes the server's snapshot then; one that is not whole goes.

use std::io::{self, IoSlice};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use sleeve_disk::disk::{File, Open};

use super::connection::{Connection, End};
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::replication::Id;
use crate::engine::replication::link::{Broken, Size};
use crate::engine::replication::role::Transfer;
use crate::execute::replay::Replay;
use crate::host::log;
use crate::host::threads;

/// How often a primary hears that this server is still there while it loads.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(1);

/// A dump that is coming.
pub(super) struct Arriving {
    engine: Arc<Engine>,
    id: Id,
    offset: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    transfer: Transfer,
}

impl Arriving {
    /// Makes the file for what stands for the stream with this id up to this offset.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn begin(engine: &Arc<Engine>, id: Id, offset: u64) -> Result<Self, End> {
        let path = engine.arriving_snapshot_path();
        let file =
            engine.disk.open(&path, Open::Create).map_err(|error| cannot("make the file for its dump", &error))?;
        Ok(Self { engine: Arc::clone(engine), id, offset, path, file, transfer: Transfer::default() })
    }

    /// The primary has said how large the dump is, if it knows that.
    pub(super) fn expect(&mut self, size: Size, connection: &Connection<'_>) {
        self.transfer.total_bytes = match size {
            Size::Bytes(bytes) => {
                log::notice(&format!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to disk"));
                Some(bytes)
            }
            Size::Unknown => {
                log::notice("MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to disk");
                None
            }
        };
        connection.set_transfer(self.transfer);
    }

    /// A part of it has come.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn take(&mut self, part: &[u8], connection: &Connection<'_>) -> Result<(), End> {
        self.file.append(&[IoSlice::new(part)]).map_err(|error| cannot("write its dump", &error))?;
        self.transfer.read_bytes += part.len() as u64;
        connection.set_transfer(self.transfer);
        Ok(())
    }

    /// It is whole: loads it in place of what there is. Gives what goes on with the stream behind it.
    ///
    /// # Errors
    /// It is not good, and everything is as it was.
    pub(super) fn load(self, engine: &Arc<Engine>, connection: &mut Connection<'_>) -> Result<Replay, End> {
        self.file.sync().map_err(|error| cannot("sync its dump", &error))?;
        log::notice("MASTER <-> REPLICA sync: Loading DB in memory");
        let loaded = std::thread::scope(|scope| {
            let (over, is_over) = channel::<()>();
            let load = || {
                let _over = over;
                engine.load_from_primary(&self.path, self.id, self.offset)
            };
            let loading = threads::start_within(scope, "load", load);
            let loading = loading.map_err(|error| cannot("start the thread that loads its dump", &error))?;
            let mut sent = Ok(());
            while is_over.recv_timeout(SIGN_OF_LIFE_EVERY) == Err(RecvTimeoutError::Timeout) {
                sent = sent.and_then(|()| connection.send_sign_of_life());
            }
            let loaded = loading.join().unwrap_or_else(|panic| resume_unwind(panic));
            let database = loaded.map_err(|why| Broken::foreign(format!("its dump cannot be loaded: {why}")))?;
            Ok::<u32, End>(database)
        });
        let database = loaded?;
        log::notice("MASTER <-> REPLICA sync: Finished with success");
        Ok(Replay::copy(engine, database))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // Where it was loaded it has another name by now.
        _ = self.engine.disk.remove(&self.path);
    }
}

fn cannot(what: &str, error: &io::Error) -> Broken {
    Broken::passing(format!("cannot {what}: {}", reason(error)))
}
