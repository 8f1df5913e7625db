//! A replica's loading of its primary's data in place of its own.
//!
//! The present data is set aside and is restored if the dump is not valid, as with DEBUG RELOAD. If it is an older state of
//! the same data and the options allow it, it stays and can be read until the new data is complete, and the two are exchanged
//! in one step. An open AOF ends, because its contents are no part of the new data, and another begins with a base of the new
//! data.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_store::Store;

use super::rdb::{End, Origin, SnapshotFile};
use super::{progress, rdb, reload};
use crate::config::value::reason;
use crate::config::{Config, Opt};
use crate::engine::Engine;
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::engine::keyspace::locks::Locks;
use crate::engine::persistence::purpose::Purpose;
use crate::engine::persistence::snapshot::walk;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::Id;
use crate::engine::replication::role::Task;
use crate::engine::replication::role_change;
use crate::execute::replay::Replay;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::waiting;

/// The pause between two checks whether the data may be exchanged.
const PAUSE: Duration = Duration::from_millis(1);

/// The properties of a primary's data.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'t> {
    /// The id of the primary's stream.
    pub id: Id,
    /// The offset of the stream for which the data stands.
    pub offset: u64,
    /// The bytes of the dump; 0 if that is unknown.
    pub bytes: u64,
    /// The task for which the data is loaded: if the task has been replaced, nothing is loaded.
    pub task: &'t Task,
}

/// Loads this file in place of all data. The file becomes the server's snapshot. Returns the database that is selected in the
/// stream after it.
///
/// # Errors
/// The fault; the data is unchanged.
pub(crate) fn load_file_from_primary(engine: &Arc<Engine>, path: &Path, arrival: Arrival<'_>) -> Result<u32, String> {
    let (source, bytes) = SnapshotFile::open(&*engine.persistence.disk, path).map_err(|error| reason(&error))?;
    let database = load_from_primary(engine, source, Arrival { bytes, ..arrival }, || Ok(()))?;
    // If the file cannot become the snapshot, the data is loaded all the same.
    match walk::put_in_place(&*engine.persistence.disk, path, &engine.persistence.snapshots.path(engine)) {
        Ok(()) => engine.persistence.snapshots.note_saved(engine.observe.stats.changes()),
        Err(error) => log::warning(&format!(
            "What the primary has sent cannot be kept as {}: {}",
            engine.persistence.snapshots.path(engine).display(),
            reason(&error)
        )),
    }
    Ok(database)
}

/// Loads a dump in place of all data. After the reading `is_whole` returns whether the dump has arrived completely. Returns
/// the database that is selected in the stream after it.
///
/// # Errors
/// The fault; the data is unchanged.
pub(crate) fn load_from_primary(
    engine: &Arc<Engine>,
    source: impl Read + Send,
    arrival: Arrival<'_>,
    is_whole: impl FnOnce() -> Result<(), String>,
) -> Result<u32, String> {
    close_log_for_other_data(engine)?;
    reload::begin_loading(engine);
    // A base that was aborted may have scheduled an AOF again before the loading began.
    drop(engine.persistence.aof.take_starting());
    engine.persistence.snapshots.unschedule(Purpose::Base);
    engine.persistence.aof.finish(engine);
    let loaded = replace_data(engine, source, &arrival, is_whole);
    engine.persistence.is_replaying.store(false, Ordering::Relaxed);
    engine.persistence.loading.end();
    progress::end(engine);
    loaded
}

/// Loads a dump as `load_from_primary` does, but the present data can be read until the new data is complete.
///
/// # Errors
/// The fault; the data is unchanged.
pub(crate) fn load_beside(
    engine: &Arc<Engine>,
    source: impl Read + Send,
    arrival: Arrival<'_>,
    is_whole: impl FnOnce() -> Result<(), String>,
) -> Result<u32, String> {
    engine.persistence.loading.begin_beside(Instant::now().wall_ms() / 1_000, arrival.bytes);
    engine.lifecycle.readiness.set(Hindrance::LoadingBeside, true);
    let beside = engine.keyspace.store.sibling();
    // Libraries are loaded by running them, and the present libraries of this engine must not be changed yet, so another
    // engine loads them.
    let others = Engine::new(Config::default());
    let mut replay = Replay::begin(&others, 0);
    let loaded = rdb::load_rdb(engine, (&beside, &mut replay), source, arrival.bytes, Origin::Base);
    drop(replay);
    let loaded = loaded.and_then(|end| is_whole().map(|()| end));
    let database = loaded.and_then(|end| {
        close_log_for_other_data(engine)?;
        exchange_data(engine, &beside, &others, &arrival, end)
    });
    engine.persistence.loading.end();
    engine.lifecycle.readiness.set(Hindrance::LoadingBeside, false);
    progress::end(engine);
    database
    // The replaced data is freed here, without a lock.
}

fn close_log_for_other_data(engine: &Arc<Engine>) -> Result<(), String> {
    if engine.persistence.aof.exists() {
        engine.persistence.aof.toggle(engine, false)?;
        engine.persistence.aof.end.wait_until_closed();
    }
    Ok(())
}

fn replace_data(
    engine: &Arc<Engine>,
    source: impl Read + Send,
    arrival: &Arrival<'_>,
    is_whole: impl FnOnce() -> Result<(), String>,
) -> Result<u32, String> {
    // While data is loaded no client can make this server a primary.
    check_task(engine, arrival)?;
    engine.persistence.loading.begin(Instant::now().wall_ms() / 1_000, arrival.bytes);
    let previous = reload::set_aside(engine);
    let loaded = rdb::load_rdb(
        engine,
        (&engine.keyspace.store, &mut Replay::begin(engine, 0)),
        source,
        arrival.bytes,
        Origin::Base,
    );
    match loaded.and_then(|end| is_whole().map(|()| end)) {
        Ok(end) => {
            let batch_buffer = BatchBuffer::default();
            let locks = all_shards::lock_all(engine, &batch_buffer);
            // A client may have passed the gates before the loading began, and may have waited for the locks with REPLICAOF.
            if let Err(why) = check_task(engine, arrival) {
                drop(locks);
                reload::bring_back(engine, previous);
                return Err(why);
            }
            let database = follow_data(engine, locks, arrival, end);
            reload::tell_of_all(engine, &previous.store);
            Ok(database)
        }
        Err(why) => {
            reload::bring_back(engine, previous);
            Err(why)
        }
    }
    // The replaced data is freed here, without a lock.
}

/// Exchanges the present data with the loaded data.
fn exchange_data(
    engine: &Arc<Engine>,
    beside: &Store,
    others: &Engine,
    arrival: &Arrival<'_>,
    end: End,
) -> Result<u32, String> {
    let batch_buffer = BatchBuffer::default();
    let mut locks = loop {
        engine.persistence.snapshots.wait_until_over();
        walk::finish_aborted_snapshot(engine);
        let locks = all_shards::lock_all(engine, &batch_buffer);
        // DEBUG RELOAD may have begun first.
        if !engine.persistence.snapshots.is_running() && !engine.lifecycle.readiness.has(Hindrance::Loading) {
            break locks;
        }
        drop(locks);
        waiting::sleep(PAUSE);
    };
    check_task(engine, arrival)?;
    locks.exchange(beside);
    locks.weigh(&engine.keyspace.estimate);
    engine.scripts.replace_libraries(others.scripts.libraries());
    let database = follow_data(engine, locks, arrival, end);
    reload::tell_of_all(engine, beside);
    Ok(database)
}

fn check_task(engine: &Engine, arrival: &Arrival<'_>) -> Result<(), String> {
    match engine.replication.role.is_current(arrival.task) {
        true => Ok(()),
        false => Err("nobody wants it any more".into()),
    }
}

/// Continues the journal after the loaded data. Returns the database that is selected there.
fn follow_data(engine: &Engine, locks: Locks<'_>, arrival: &Arrival<'_>, end: End) -> u32 {
    let database = end.stream_database.unwrap_or(0);
    engine.replication.ids.renew(arrival.id);
    engine.keyspace.offsets.forget();
    engine.replication.own_deadlines.clear();
    engine.replication.replicas.waiters.forget_asked();
    engine.journal.begin_copy(arrival.offset, database);
    engine.journal.keep_backlog(engine.config.memory(Opt::ReplBacklogSize));
    drop(locks);
    role_change::disconnect_replicas(engine);
    role_change::disconnect_journal_followers(engine);
    database
}
