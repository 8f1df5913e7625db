//! Loading while the server runs: DEBUG RELOAD and DEBUG LOADAOF.
//!
//! The present data is set aside at once, shard by shard, and is restored if the loading fails. Until the end of the loading,
//! clients that need data get the error LOADING, nothing expires and no snapshot begins. The loaded data is not recorded in
//! the journal: if the AOF differs from it, the AOF gets a new base, and replicas need a full sync.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use sleeve_disk::replay;
use sleeve_store::{Shard, Store};

use super::{aof, progress, rdb};
use crate::config::Opt;
use crate::context::key_change;
use crate::context::key_change::{Pending, Turnover};
use crate::engine::Engine;
use crate::engine::clients::watch::Presence;
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::engine::persistence::loading::{Again, NotLoaded, WhenLoaded};
use crate::engine::persistence::purpose::{Purpose, WhenDone};
use crate::engine::persistence::snapshot::walk;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::primary;
use crate::engine::scripts::Libraries;
use crate::execute;
use crate::execute::scratch::Scratch;
use crate::execute::serve_blocked;
use crate::host::clock::Instant;
use crate::host::log;

/// The data from before the loading, which was set aside.
pub(super) struct PreviousData {
    pub(super) store: Store,
    libraries: Libraries,
}

/// Gives this engine the function that loads again.
pub(super) fn offer(engine: &Arc<Engine>) {
    let own = Arc::downgrade(engine);
    engine.persistence.loading.set_loader(move |what, when_loaded| {
        if let Some(engine) = own.upgrade() {
            load_apart(&engine, what, when_loaded);
        }
    });
}

fn load_again(engine: &Arc<Engine>, what: Again) -> Result<(), NotLoaded> {
    begin_loading(engine);
    let loaded = load_in_place(engine, what);
    engine.persistence.is_replaying.store(false, Ordering::Relaxed);
    engine.persistence.loading.end();
    progress::end(engine);
    match (&loaded, what) {
        (Ok(()), Again::Snapshot { .. }) => log::warning("DB reloaded by DEBUG RELOAD"),
        (Ok(()), Again::Log) => log::warning("Append Only File loaded by DEBUG LOADAOF"),
        (Err(NotLoaded::Bad(why)), _) => log::warning(&format!("{why}. The data is what it was")),
        (Err(NotLoaded::Unsaved), _) => {}
    }
    if loaded.is_ok() {
        follow_loaded(engine, what);
    }
    loaded
}

/// Begins the loading: from here on no client reads or changes data, and no snapshot is being written.
pub(super) fn begin_loading(engine: &Engine) {
    loop {
        engine.persistence.snapshots.wait_until_over();
        let batch_buffer = BatchBuffer::default();
        let locks = all_shards::lock_all(engine, &batch_buffer);
        engine.lifecycle.readiness.set(Hindrance::Loading, true);
        engine.persistence.is_replaying.store(true, Ordering::Relaxed);
        // If a snapshot began as soon as the locks become free, it would begin with half of the loaded data.
        if !engine.persistence.snapshots.is_running() {
            return drop(locks);
        }
        engine.persistence.is_replaying.store(false, Ordering::Relaxed);
        engine.lifecycle.readiness.set(Hindrance::Loading, false);
        drop(locks);
        engine.clients.post_resume();
    }
}

fn load_in_place(engine: &Arc<Engine>, what: Again) -> Result<(), NotLoaded> {
    if let Again::Snapshot { is_saved: true, .. } = what {
        let mut heard: Option<WhenDone> = Some(Box::new(|_| ()));
        let begun = engine.persistence.snapshots.begin(Purpose::File, Instant::now(), &mut heard);
        if begun.is_err() || !engine.persistence.snapshots.write(engine, Purpose::File) {
            return Err(NotLoaded::Unsaved);
        }
    }
    let previous = set_aside(engine);
    let loaded = match what {
        Again::Snapshot { is_added, replaces, .. } => {
            load_snapshot_again(engine).and_then(|()| if is_added { add(engine, &previous, replaces) } else { Ok(()) })
        }
        Again::Log => load_log_again(engine),
    };
    match loaded {
        Ok(()) => {
            tell_of_all(engine, &previous.store);
            Ok(())
        }
        Err(why) => {
            bring_back(engine, previous);
            Err(NotLoaded::Bad(why))
        }
    }
    // The replaced data is freed here, without a lock.
}

/// Sets all data aside, so that the engine is empty.
pub(super) fn set_aside(engine: &Engine) -> PreviousData {
    walk::finish_aborted_snapshot(engine);
    let previous = PreviousData { store: engine.keyspace.store.sibling(), libraries: engine.scripts.libraries() };
    change_places(engine, &previous.store);
    engine.scripts.replace_libraries(Libraries::default());
    previous
}

/// Restores the data that was set aside, in place of the present data.
pub(super) fn bring_back(engine: &Engine, previous: PreviousData) {
    change_places(engine, &previous.store);
    engine.scripts.replace_libraries(previous.libraries);
    // The loaded data is freed here, without a lock.
}

fn change_places(engine: &Engine, other: &Store) {
    let batch_buffer = BatchBuffer::default();
    let mut locks = all_shards::lock_all(engine, &batch_buffer);
    locks.exchange(other);
    locks.weigh(&engine.keyspace.estimate);
}

fn load_snapshot_again(engine: &Arc<Engine>) -> Result<(), String> {
    match rdb::load_snapshot(engine)? {
        Some(_) => Ok(()),
        None => {
            Err(format!("There is no snapshot {} to be loaded", engine.persistence.snapshots.path(engine).display()))
        }
    }
}

fn load_log_again(engine: &Arc<Engine>) -> Result<(), String> {
    let file = &engine.persistence.aof;
    if file.is_open() {
        engine.persistence.aof.write(engine);
        if engine.journal.written() < engine.journal.end() {
            return Err("The append-only file does not have all changes".into());
        }
    }
    let options = replay::Options { load_truncated: engine.config.flag(Opt::AofLoadTruncated), ..Default::default() };
    let open = file.with_any(|log| (!log.is_nameless()).then(|| (log.replay(options), log.bytes())));
    let (replay, bytes, _folder) = match open {
        Some(Some((replay, bytes))) => (replay, bytes, None),
        Some(None) => return Err(NO_LOG.into()),
        None => {
            file.end.wait_until_closed();
            let folder = engine.persistence.aof.open_folder(engine)?;
            if folder.is_empty() {
                return Err(NO_LOG.into());
            }
            let files = folder.files().map_err(|error| error.to_string())?;
            (folder.replay(options), files.iter().map(|(_, bytes)| bytes).sum(), Some(folder))
        }
    };
    engine.persistence.loading.begin(Instant::now().wall_ms() / 1_000, bytes);
    let (outcome, _) = aof::replay_log(engine, replay)?;
    outcome.told.iter().for_each(|odd| log::warning(odd));
    if let Some(cut) = &outcome.cut {
        log::warning(&format!("The append-only file {} ends unfinished at byte {}", cut.file, cut.at));
    }
    Ok(())
}

/// Adds the data that was set aside to the loaded data.
fn add(engine: &Engine, previous: &PreviousData, replaces: bool) -> Result<(), String> {
    let mut libraries = engine.scripts.libraries();
    for library in previous.libraries.iter() {
        let is_there = libraries.get(&library.name).is_some();
        if is_there && !replaces {
            return Err(format!("The library '{}' is there already", library.name));
        }
        if let Some(function) = libraries.collision(library) {
            return Err(format!("The function '{function}' is there already"));
        }
        if !is_there {
            libraries.insert(Arc::clone(library));
        }
    }
    let shards = 0..engine.keyspace.store.shards();
    let shared = |shard| sleeve_store::shared_key(&engine.keyspace.store.lock(shard), &previous.store.lock(shard));
    if let Some(shared) = shards.clone().find_map(shared).filter(|_| !replaces) {
        let key = shared.key.escape_ascii().to_string();
        let key = log::user_data(&key);
        return Err(format!("The key \"{key}\" of database {} is there already", shared.database));
    }
    shards.for_each(|shard| {
        sleeve_store::absorb(&mut engine.keyspace.store.lock(shard), &mut previous.store.lock(shard))
    });
    engine.scripts.replace_libraries(libraries);
    Ok(())
}

/// Notifies the clients that watch keys, cache them or wait for them that all keys have changed.
pub(super) fn tell_of_all(engine: &Arc<Engine>, before: &Store) {
    let now_ms = Instant::now().wall_ms();
    let databases = 0..engine.keyspace.store.databases() as u32;
    let (mut pending, batch_buffer) = (Pending::default(), BatchBuffer::default());
    let mut locks = all_shards::lock_all(engine, &batch_buffer);
    key_change::tell_all((engine, None, &mut pending), Turnover::Replaced, databases, |database, name| {
        let key = engine.keyspace.store.key(name);
        let presence = |shard: &Shard| Presence::of(shard.find(database as usize, key, now_ms));
        (presence(&before.lock_of(key.hash)), presence(locks.shard(key.hash)))
    });
    drop(locks);
    engine.clients.tracking.broadcast(&mut pending.wakeups);
    pending.wakeups.ring(None);
    serve_blocked::gone(Scratch::new(engine, Instant::now()).thread_context(), execute::call, pending.marked);
}

/// Applies the consequences of the load. If the loaded data may differ from the data before, the stream begins anew and the
/// AOF gets a new base.
fn follow_loaded(engine: &Arc<Engine>, what: Again) {
    let is_as_before = match what {
        Again::Log => engine.persistence.aof.is_open(),
        Again::Snapshot { is_saved, is_added, .. } => is_saved && !is_added,
    };
    if !is_as_before && !engine.replication.role.is_replica() {
        primary::restart_stream(engine, "it does not say what was loaded");
    }
    match what {
        Again::Log => engine.persistence.snapshots.note_saved(engine.observe.stats.changes()),
        Again::Snapshot { is_saved: true, is_added: false, .. } => {}
        Again::Snapshot { .. } if !engine.persistence.aof.is_open() => {}
        Again::Snapshot { .. } => {
            if engine.persistence.snapshots.start(engine, Purpose::Base, Instant::now(), &mut None).is_err() {
                engine.persistence.snapshots.write_next(engine, Purpose::Base);
            }
        }
    }
}

const NO_LOG: &str = "There is no append-only file to be loaded";

fn load_apart(engine: &Arc<Engine>, what: Again, when_loaded: WhenLoaded) {
    let when_loaded = Arc::new(Mutex::new(Some(when_loaded)));
    let tell = |when_loaded: &Mutex<Option<WhenLoaded>>, loaded| {
        if let Some(tell) = when_loaded.lock().take() {
            tell(loaded);
        }
    };
    let waits = Arc::clone(&when_loaded);
    let started = engine.detach_thread("load", move |engine| {
        tell(&waits, load_again(engine, what));
        Ok(())
    });
    if let Err(error) = started {
        tell(&when_loaded, Err(NotLoaded::Bad(format!("Its thread cannot start: {error}"))));
    }
}
