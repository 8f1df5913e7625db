//! A replica takes its primary's data in place of its own.
//!
//! What there was steps aside and comes back if the dump is not good, as with DEBUG RELOAD; a log that is open ends, because what
//! it has is no part of the new, and another begins with a base of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Source;
use super::rdb::Origin;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::journal::BatchBuffer;
use crate::engine::persistence::save;
use crate::engine::replication::Id;
use crate::execute::replay::Replay;
use crate::host::clock::Instant;
use crate::host::log;

impl Engine {
    /// Loads this file in place of all data. It stands for the stream with this id up to this offset, and becomes the server's
    /// snapshot. Gives the database that is selected in the stream there.
    ///
    /// # Errors
    /// What is wrong with it; the data is what it was.
    pub(in crate::boot) fn load_from_primary(
        self: &Arc<Self>,
        path: &Path,
        id: Id,
        offset: u64,
    ) -> Result<u32, String> {
        if self.has_log() {
            self.switch_log(false)?;
            self.durability.log.end.wait_until_closed();
        }
        self.begin_loading();
        let loaded = self.replace_data(path, (id, offset));
        self.is_replaying.store(false, Ordering::Relaxed);
        self.durability.loading.end();
        self.end_loading();
        let database = loaded?;
        // Where it cannot be had as a snapshot, the data is there all the same.
        match save::put_in_place(&*self.disk, path, &self.snapshot_path()) {
            Ok(()) => self.durability.snapshots.note_saved(self.stats.changes()),
            Err(error) => log::warning(&format!(
                "What the primary has sent cannot be kept as {}: {}",
                self.snapshot_path().display(),
                reason(&error)
            )),
        }
        Ok(database)
    }

    fn replace_data(self: &Arc<Self>, path: &Path, (id, offset): (Id, u64)) -> Result<u32, String> {
        let (source, size) = Source::open(&*self.disk, path).map_err(|error| reason(&error))?;
        self.durability.loading.begin(Instant::now().wall_ms() / 1_000, size);
        let previous = self.set_aside();
        let loaded = self.load_rdb(&mut Replay::begin(self, 0), source, size, Origin::Base);
        match loaded {
            Ok(end) => {
                let database = end.stream_database.unwrap_or(0);
                let batch_buffer = BatchBuffer::default();
                let locks = self.lock_all(&batch_buffer);
                self.replication.ids.renew(id);
                self.offsets.forget();
                self.journal.begin_copy(offset, database);
                self.journal.keep_backlog(self.config.memory(Opt::ReplBacklogSize));
                drop(locks);
                self.disconnect_replicas();
                self.tell_of_all(&previous.store);
                Ok(database)
            }
            Err(why) => {
                self.bring_back(previous);
                Err(why)
            }
        }
        // What has no place any more is freed here, without a lock.
    }
}
