//! Loading while the server runs: DEBUG RELOAD and DEBUG LOADAOF.
//!
//! The present data is set aside at once, shard by shard, and is restored if the loading fails. Until the end of the loading
//! clients that need data are told to retry, nothing expires and no snapshot begins. The loaded data is not recorded: an AOF
//! that differs from it is given a new base, and replicas need a full sync.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use sleeve_disk::replay;
use sleeve_store::{Shard, Store};

use crate::config::Opt;
use crate::context::key_change;
use crate::context::key_change::{Pending, Turnover};
use crate::engine::Engine;
use crate::engine::clients::watch::Presence;
use crate::engine::journal::BatchBuffer;
use crate::engine::persistence::loading::{Again, NotLoaded, WhenLoaded};
use crate::engine::persistence::purpose::{Purpose, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::engine::scripts::Libraries;
use crate::execute;
use crate::execute::scratch::Scratch;
use crate::execute::serve_blocked;
use crate::host::clock::Instant;
use crate::host::log;

/// The data that was there before, which has stepped aside.
pub(super) struct PreviousData {
    pub(super) store: Store,
    libraries: Libraries,
}

impl Engine {
    /// Lets this engine load again when it is asked to.
    pub(super) fn offer_loading(self: &Arc<Self>) {
        let own = Arc::downgrade(self);
        self.persistence.loading.set_loader(move |what, when_loaded| {
            if let Some(engine) = own.upgrade() {
                load_apart(&engine, what, when_loaded);
            }
        });
    }

    fn load_again(self: &Arc<Self>, what: Again) -> Result<(), NotLoaded> {
        self.begin_loading();
        let loaded = self.load_in_place(what);
        self.persistence.is_replaying.store(false, Ordering::Relaxed);
        self.persistence.loading.end();
        self.end_loading();
        match (&loaded, what) {
            (Ok(()), Again::Snapshot { .. }) => log::warning("DB reloaded by DEBUG RELOAD"),
            (Ok(()), Again::Log) => log::warning("Append Only File loaded by DEBUG LOADAOF"),
            (Err(NotLoaded::Bad(why)), _) => log::warning(&format!("{why}. The data is what it was")),
            (Err(NotLoaded::Unsaved), _) => {}
        }
        if loaded.is_ok() {
            self.follow_loaded(what);
        }
        loaded
    }

    /// Begins the loading: from here on no client reads or changes data, and no snapshot is being written.
    pub(super) fn begin_loading(&self) {
        loop {
            self.persistence.snapshots.wait_until_over();
            let batch_buffer = BatchBuffer::default();
            let locks = self.lock_all(&batch_buffer);
            self.lifecycle.readiness.set(Hindrance::Loading, true);
            self.persistence.is_replaying.store(true, Ordering::Relaxed);
            // A snapshot that was to begin when the locks become free would begin with half of the loaded data.
            if !self.persistence.snapshots.is_running() {
                return drop(locks);
            }
            self.persistence.is_replaying.store(false, Ordering::Relaxed);
            self.lifecycle.readiness.set(Hindrance::Loading, false);
            drop(locks);
            self.clients.post_resume();
        }
    }

    fn load_in_place(self: &Arc<Self>, what: Again) -> Result<(), NotLoaded> {
        if let Again::Snapshot { is_saved: true, .. } = what {
            let mut heard: Option<WhenDone> = Some(Box::new(|_| ()));
            let begun = self.persistence.snapshots.begin(Purpose::File, Instant::now(), &mut heard);
            if begun.is_err() || !self.write_snapshot(Purpose::File) {
                return Err(NotLoaded::Unsaved);
            }
        }
        let previous = self.set_aside();
        let loaded = match what {
            Again::Snapshot { is_added, replaces, .. } => {
                self.load_snapshot_again().and_then(|()| if is_added { self.add(&previous, replaces) } else { Ok(()) })
            }
            Again::Log => self.load_log_again(),
        };
        match loaded {
            Ok(()) => {
                self.tell_of_all(&previous.store);
                Ok(())
            }
            Err(why) => {
                self.bring_back(previous);
                Err(NotLoaded::Bad(why))
            }
        }
        // The replaced data is freed here, without a lock.
    }

    /// Sets all data aside, so that there is none.
    pub(super) fn set_aside(&self) -> PreviousData {
        self.finish_aborted_snapshot();
        let previous = PreviousData { store: self.keyspace.store.sibling(), libraries: self.scripts.libraries() };
        self.change_places(&previous.store);
        self.scripts.replace_libraries(Libraries::default());
        previous
    }

    /// Restores the data that was set aside, in place of the present data.
    pub(super) fn bring_back(&self, previous: PreviousData) {
        self.change_places(&previous.store);
        self.scripts.replace_libraries(previous.libraries);
        // The loaded data is freed here, without a lock.
    }

    fn change_places(&self, other: &Store) {
        let batch_buffer = BatchBuffer::default();
        let mut locks = self.lock_all(&batch_buffer);
        locks.exchange(other);
        locks.weigh(&self.keyspace.estimate);
    }

    fn load_snapshot_again(self: &Arc<Self>) -> Result<(), String> {
        match self.load_snapshot()? {
            Some(_) => Ok(()),
            None => Err(format!("There is no snapshot {} to be loaded", self.snapshot_path().display())),
        }
    }

    fn load_log_again(self: &Arc<Self>) -> Result<(), String> {
        let file = &self.persistence.aof;
        if file.is_open() {
            self.write_log();
            if self.journal.written() < self.journal.end() {
                return Err("The append-only file does not have all changes".into());
            }
        }
        let options = replay::Options { load_truncated: self.config.flag(Opt::AofLoadTruncated), ..Default::default() };
        let open = file.with_any(|log| (!log.is_nameless()).then(|| (log.replay(options), log.bytes())));
        let (replay, bytes, _folder) = match open {
            Some(Some((replay, bytes))) => (replay, bytes, None),
            Some(None) => return Err(NO_LOG.into()),
            None => {
                file.end.wait_until_closed();
                let folder = self.open_log_folder()?;
                if folder.is_empty() {
                    return Err(NO_LOG.into());
                }
                let files = folder.files().map_err(|error| error.to_string())?;
                (folder.replay(options), files.iter().map(|(_, bytes)| bytes).sum(), Some(folder))
            }
        };
        self.persistence.loading.begin(Instant::now().wall_ms() / 1_000, bytes);
        let (outcome, _) = self.replay_log(replay)?;
        outcome.told.iter().for_each(|odd| log::warning(odd));
        if let Some(cut) = &outcome.cut {
            log::warning(&format!("The append-only file {} ends unfinished at byte {}", cut.file, cut.at));
        }
        Ok(())
    }

    /// Adds the data that was set aside to the loaded data.
    fn add(&self, previous: &PreviousData, replaces: bool) -> Result<(), String> {
        let mut libraries = self.scripts.libraries();
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
        let shards = 0..self.keyspace.store.shards();
        let shared = |shard| self.keyspace.store.lock(shard).shared_key(&previous.store.lock(shard));
        if let Some(shared) = shards.clone().find_map(shared).filter(|_| !replaces) {
            let key = shared.key.escape_ascii().to_string();
            let key = log::user_data(&key);
            return Err(format!("The key \"{key}\" of database {} is there already", shared.database));
        }
        shards.for_each(|shard| self.keyspace.store.lock(shard).absorb(&mut previous.store.lock(shard)));
        self.scripts.replace_libraries(libraries);
        Ok(())
    }

    /// Tells the clients that watch keys, cache them or wait for them that all keys have changed.
    pub(super) fn tell_of_all(self: &Arc<Self>, before: &Store) {
        let now_ms = Instant::now().wall_ms();
        let databases = 0..self.keyspace.store.databases() as u32;
        let (mut pending, batch_buffer) = (Pending::default(), BatchBuffer::default());
        let mut locks = self.lock_all(&batch_buffer);
        key_change::tell_all((self, None, &mut pending), Turnover::Replaced, databases, |database, name| {
            let key = self.keyspace.store.key(name);
            let presence = |shard: &Shard| Presence::of(shard.find(database as usize, key, now_ms));
            (presence(&before.lock_of(key.hash)), presence(locks.shard(key.hash)))
        });
        drop(locks);
        self.clients.tracking.broadcast(&mut pending.wakeups);
        pending.wakeups.ring(None);
        serve_blocked::gone(Scratch::new(self, Instant::now()).thread_context(), execute::call, pending.marked);
    }

    /// Applies the consequences of the load. If the loaded data may differ from the data before, the stream begins anew and the
    /// AOF gets a new base.
    fn follow_loaded(self: &Arc<Self>, what: Again) {
        let is_as_before = match what {
            Again::Log => self.persistence.aof.is_open(),
            Again::Snapshot { is_saved, is_added, .. } => is_saved && !is_added,
        };
        if !is_as_before && !self.replication.role.is_replica() {
            self.restart_stream("it does not say what was loaded");
        }
        match what {
            Again::Log => self.persistence.snapshots.note_saved(self.observe.stats.changes()),
            Again::Snapshot { is_saved: true, is_added: false, .. } => {}
            Again::Snapshot { .. } if !self.persistence.aof.is_open() => {}
            Again::Snapshot { .. } => {
                if self.start_snapshot(Purpose::Base, Instant::now(), &mut None).is_err() {
                    self.write_next(Purpose::Base);
                }
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
    let (loading, waits) = (Arc::clone(engine), Arc::clone(&when_loaded));
    let started = engine.detach_thread("load", move || {
        tell(&waits, loading.load_again(what));
        Ok(())
    });
    if let Err(error) = started {
        tell(&when_loaded, Err(NotLoaded::Bad(format!("Its thread cannot start: {error}"))));
    }
}
