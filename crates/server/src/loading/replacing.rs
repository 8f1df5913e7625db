//! A replica takes its primary's data in place of its own.
//!
//! The present data is set aside and is restored if the dump is not valid, as with DEBUG RELOAD. Or, if it is an older state
//! of the same data and the options allow it, it stays and can be read until the new data is complete, and the two are
//! exchanged in one step. An open AOF ends, because its contents are no part of the new data, and another begins with a base
//! of that.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_store::Store;

use super::SnapshotFile;
use super::rdb::{End, Origin};
use crate::config::value::reason;
use crate::config::{Config, Opt};
use crate::engine::Engine;
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::locks::Locks;
use crate::engine::persistence::purpose::Purpose;
use crate::engine::persistence::snapshot::save;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::Id;
use crate::engine::replication::role::Task;
use crate::execute::replay::Replay;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::waiting;

/// The pause between two checks whether the data may be exchanged.
const PAUSE: Duration = Duration::from_millis(1);

/// The properties of a primary's data.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'t> {
    /// The id of its stream.
    pub id: Id,
    /// The offset of the stream up to which the data goes.
    pub offset: u64,
    /// The bytes of its dump; 0 if that is unknown.
    pub bytes: u64,
    /// The task for which it is loaded: if the task has been replaced, nothing is loaded.
    pub task: &'t Task,
}

impl Engine {
    /// Loads this file in place of all data. It becomes the server's snapshot. Returns the database that is selected in the
    /// stream behind it.
    ///
    /// # Errors
    /// The fault; the data is unchanged.
    pub(crate) fn load_file_from_primary(self: &Arc<Self>, path: &Path, arrival: Arrival<'_>) -> Result<u32, String> {
        let (source, bytes) = SnapshotFile::open(&*self.persistence.disk, path).map_err(|error| reason(&error))?;
        let database = self.load_from_primary(source, Arrival { bytes, ..arrival }, || Ok(()))?;
        // If the file cannot become the snapshot, the data is loaded all the same.
        match save::put_in_place(&*self.persistence.disk, path, &self.snapshot_path()) {
            Ok(()) => self.persistence.snapshots.note_saved(self.observe.stats.changes()),
            Err(error) => log::warning(&format!(
                "What the primary has sent cannot be kept as {}: {}",
                self.snapshot_path().display(),
                reason(&error)
            )),
        }
        Ok(database)
    }

    /// Loads a dump in place of all data. After the reading `is_whole` returns whether it has arrived complete. Returns the
    /// database that is selected in the stream behind it.
    ///
    /// # Errors
    /// The fault; the data is unchanged.
    pub(crate) fn load_from_primary(
        self: &Arc<Self>,
        source: impl Read + Send,
        arrival: Arrival<'_>,
        is_whole: impl FnOnce() -> Result<(), String>,
    ) -> Result<u32, String> {
        self.close_log_for_other_data()?;
        self.begin_loading();
        // A base that was given up may have begun an AOF again before the loading did.
        drop(self.persistence.aof.take_starting());
        self.persistence.snapshots.unschedule(Purpose::Base);
        self.end_log();
        let loaded = self.replace_data(source, &arrival, is_whole);
        self.persistence.is_replaying.store(false, Ordering::Relaxed);
        self.persistence.loading.end();
        self.end_loading();
        loaded
    }

    /// Loads a dump as [`Engine::load_from_primary`] does, but the present data can be read until the new data is complete.
    ///
    /// # Errors
    /// The fault; the data is unchanged.
    pub(crate) fn load_beside(
        self: &Arc<Self>,
        source: impl Read + Send,
        arrival: Arrival<'_>,
        is_whole: impl FnOnce() -> Result<(), String>,
    ) -> Result<u32, String> {
        self.persistence.loading.begin_beside(Instant::now().wall_ms() / 1_000, arrival.bytes);
        self.lifecycle.readiness.set(Hindrance::LoadingBeside, true);
        let beside = self.keyspace.store.sibling();
        // Libraries are loaded by running them, which those of this engine are not to know of yet.
        let others = Engine::new(Config::default());
        let mut replay = Replay::begin(&others, 0);
        let loaded = self.load_rdb((&beside, &mut replay), source, arrival.bytes, Origin::Base);
        drop(replay);
        let loaded = loaded.and_then(|end| is_whole().map(|()| end));
        let database = loaded.and_then(|end| {
            self.close_log_for_other_data()?;
            self.exchange_data(&beside, &others, &arrival, end)
        });
        self.persistence.loading.end();
        self.lifecycle.readiness.set(Hindrance::LoadingBeside, false);
        self.end_loading();
        database
        // The replaced data is freed here, without a lock.
    }

    fn close_log_for_other_data(self: &Arc<Self>) -> Result<(), String> {
        if self.has_log() {
            self.switch_log(false)?;
            self.persistence.aof.end.wait_until_closed();
        }
        Ok(())
    }

    fn replace_data(
        self: &Arc<Self>,
        source: impl Read + Send,
        arrival: &Arrival<'_>,
        is_whole: impl FnOnce() -> Result<(), String>,
    ) -> Result<u32, String> {
        // While data is loaded no client can make this server a primary.
        self.check_task(arrival)?;
        self.persistence.loading.begin(Instant::now().wall_ms() / 1_000, arrival.bytes);
        let previous = self.set_aside();
        let loaded =
            self.load_rdb((&self.keyspace.store, &mut Replay::begin(self, 0)), source, arrival.bytes, Origin::Base);
        match loaded.and_then(|end| is_whole().map(|()| end)) {
            Ok(end) => {
                let batch_buffer = BatchBuffer::default();
                let locks = self.lock_all(&batch_buffer);
                // A client that was let through before the loading began may have waited for the locks with REPLICAOF.
                if let Err(why) = self.check_task(arrival) {
                    drop(locks);
                    self.bring_back(previous);
                    return Err(why);
                }
                let database = self.follow_data(locks, arrival, end);
                self.tell_of_all(&previous.store);
                Ok(database)
            }
            Err(why) => {
                self.bring_back(previous);
                Err(why)
            }
        }
        // The replaced data is freed here, without a lock.
    }

    /// Exchanges the data with the data that was loaded beside it.
    fn exchange_data(
        self: &Arc<Self>,
        beside: &Store,
        others: &Engine,
        arrival: &Arrival<'_>,
        end: End,
    ) -> Result<u32, String> {
        let batch_buffer = BatchBuffer::default();
        let mut locks = loop {
            self.persistence.snapshots.wait_until_over();
            self.finish_aborted_snapshot();
            let locks = self.lock_all(&batch_buffer);
            // DEBUG RELOAD may have begun before this did.
            if !self.persistence.snapshots.is_running() && !self.lifecycle.readiness.has(Hindrance::Loading) {
                break locks;
            }
            drop(locks);
            waiting::sleep(PAUSE);
        };
        self.check_task(arrival)?;
        locks.exchange(beside);
        locks.weigh(&self.keyspace.estimate);
        self.scripts.replace_libraries(others.scripts.libraries());
        let database = self.follow_data(locks, arrival, end);
        self.tell_of_all(beside);
        Ok(database)
    }

    fn check_task(&self, arrival: &Arrival<'_>) -> Result<(), String> {
        match self.replication.role.is_current(arrival.task) {
            true => Ok(()),
            false => Err("nobody wants it any more".into()),
        }
    }

    /// Makes the journal go on behind the data that has arrived. Returns the database that is selected there.
    fn follow_data(&self, locks: Locks<'_>, arrival: &Arrival<'_>, end: End) -> u32 {
        let database = end.stream_database.unwrap_or(0);
        self.replication.ids.renew(arrival.id);
        self.keyspace.offsets.forget();
        self.replication.own_deadlines.clear();
        self.replication.replicas.waiters.forget_asked();
        self.journal.begin_copy(arrival.offset, database);
        self.journal.keep_backlog(self.config.memory(Opt::ReplBacklogSize));
        drop(locks);
        self.disconnect_replicas();
        self.disconnect_journal_followers();
        database
    }
}
