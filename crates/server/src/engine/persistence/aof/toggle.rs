//! Switches the AOF on and off while the server runs, and manages its folder.
//!
//! An AOF that is switched on is not opened before its first base is written: it begins at the instant of that base, and
//! older files in its folder are left alone until then. If the AOF is switched off, a separate thread writes and fsyncs the
//! rest, and the client that has switched it off waits for that.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sleeve_disk::aof::{AofWriter, Folder, Options};

use super::threads::TRY_AGAIN;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::persistence::aof::Aof;
use crate::engine::persistence::purpose::{Purpose, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::host::clock::Instant;
use crate::host::log;
use crate::host::waiting::Pending;

/// A guard for the end of an AOF. It releases the callers that wait for the end, even if the AOF's thread has panicked.
struct End<'a> {
    file: &'a Aof,
    is_closed: bool,
}

impl End<'_> {
    fn note_closed(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.file.end.note_closed();
        }
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.note_closed();
        self.file.end.end();
    }
}

impl Aof {
    /// Returns the folder of the AOF.
    pub fn folder_path(&self, engine: &Engine) -> PathBuf {
        engine.config.resolve(&engine.config.text(Opt::Appenddirname))
    }

    /// Opens the folder of the AOF, and takes its lock.
    ///
    /// # Errors
    /// A description of the fault, with a remedy.
    pub fn open_folder(&self, engine: &Engine) -> Result<Folder, String> {
        Folder::open(Arc::clone(&engine.persistence.disk), self.options(engine), std::process::id())
            .map_err(|error| error.to_string())
    }

    /// Returns the location of the AOF, and the options for writing it.
    pub fn options(&self, engine: &Engine) -> Options {
        Options {
            folder: self.folder_path(engine),
            name: String::from_utf8_lossy(&engine.config.text(Opt::Appendfilename)).into_owned(),
            checksums: engine.config.flag(Opt::AofChecksums),
            timestamps: engine.config.flag(Opt::AofTimestampEnabled),
            salt: engine.identity.dice().number(),
        }
    }

    /// Starts a thread that removes the files that the AOF no longer needs, if the options ask for that.
    ///
    /// # Errors
    /// The reason why the thread cannot start.
    pub fn remove_history_aside(&self, engine: &Arc<Engine>) -> Result<(), String> {
        let remove = |engine: &Arc<Engine>| {
            engine.persistence.aof.remove_history(engine);
            Ok(())
        };
        engine.detach_thread("log-history", remove).map_err(|error| reason(&error))
    }

    /// Removes the files that the AOF no longer needs, if the options ask for that.
    pub(in crate::engine::persistence) fn remove_history(&self, engine: &Engine) {
        if engine.config.flag(Opt::AofDisableAutoGc) {
            return;
        }
        let Some(history) = self.with(|open| open.log.history()).flatten() else { return };
        match history.run() {
            Ok(()) => _ = self.with(|open| open.log.history_removed()),
            Err(error) => log::warning(&format!("Old files of the log cannot be removed: {error}")),
        }
    }

    /// Returns whether there is an AOF, or will be one as soon as its base is written.
    pub fn exists(&self) -> bool {
        self.is_open() || self.has_starting()
    }

    /// Waits until the first base of the AOF is in place, if it is being written.
    pub fn wait_for_first_base(&self, engine: &Engine) {
        if self.lacks_first_base(engine) {
            engine.persistence.snapshots.wait_until_over();
        }
    }

    /// Returns whether the AOF is switched on and its first base is not in place yet.
    pub(in crate::engine::persistence) fn lacks_first_base(&self, engine: &Engine) -> bool {
        let is_wanted = engine.config.flag(Opt::Appendonly) && !engine.lifecycle.readiness.has(Hindrance::Loading);
        is_wanted && (!self.is_open() || self.lacks_base())
    }

    /// Switches the AOF on or off. While the data is being loaded, it is switched on as soon as the loading has ended. An AOF
    /// that is switched off may still be open: its `end` says when its files are complete.
    ///
    /// # Errors
    /// The reason why the AOF cannot be begun.
    pub fn toggle(&self, engine: &Arc<Engine>, is_on: bool) -> Result<(), String> {
        if engine.lifecycle.readiness.has(Hindrance::Loading) {
            return Ok(());
        }
        if !is_on {
            return self.toggle_off(engine);
        }
        self.end.wait_until_closed();
        if self.is_open() || self.has_starting() {
            return Ok(());
        }
        if self.may_have_folder(engine) {
            // The thread that closes the former AOF may need locks that the caller has, so the caller does not wait for it:
            // the base that follows opens the folder.
            engine.persistence.snapshots.write_next(engine, Purpose::Base);
            return Ok(());
        }
        let folder = self.open_folder(engine)?;
        let waiting = folder.wait(engine.journal.end()).map_err(|error| reason(&error))?;
        self.set_starting(waiting);
        if engine.persistence.snapshots.start(engine, Purpose::Base, Instant::now(), &mut None).is_err() {
            engine.persistence.snapshots.write_next(engine, Purpose::Base);
        }
        Ok(())
    }

    /// Returns whether a thread of this engine may use the folder of the AOF although no AOF is open: it writes a base, or
    /// one that is being aborted.
    fn may_have_folder(&self, engine: &Engine) -> bool {
        let running = engine.persistence.snapshots.status().running;
        self.end.is_begun() || running.is_some_and(|(purpose, _)| purpose == Purpose::Base)
    }

    /// Begins an AOF with the present data, while no client is served.
    ///
    /// # Errors
    /// The reason why the AOF cannot be begun.
    pub fn write_first_base(&self, engine: &Engine, waiting: AofWriter) -> Result<(), String> {
        let snapshots = &engine.persistence.snapshots;
        self.set_starting(waiting);
        snapshots
            .begin(Purpose::Base, Instant::now(), &mut None)
            .map_err(|_| "a snapshot is being written".to_owned())?;
        if engine.persistence.snapshots.write(engine, Purpose::Base) {
            return Ok(());
        }
        Err("The append-only file cannot be begun: its first base could not be written".into())
    }

    /// Keeps an AOF for the next base if its first base could not be written, and schedules that base.
    pub(in crate::engine::persistence) fn begin_again(&self, engine: &Engine) {
        if let Some(log) = self.drop_if(engine, |_| true) {
            match Folder::from(log).wait_anew(engine.journal.end(), std::process::id()) {
                Ok(log) => self.keep_starting(engine, log),
                Err(not) => log::warning(&format!("The append-only file cannot be begun: {}", not.error)),
            }
        }
        if engine.config.flag(Opt::Appendonly) {
            engine.persistence.snapshots.schedule(Purpose::Base);
        }
    }

    /// Takes the AOF that the next base will begin, if there is to be one; makes a new one if an earlier attempt has failed.
    ///
    /// # Errors
    /// The reason why it cannot be begun now. The caller has to retry.
    pub(in crate::engine::persistence) fn take_starting_or_begin(
        &self,
        engine: &Engine,
    ) -> Result<Option<AofWriter>, String> {
        let starting = self.take_starting();
        if starting.is_some() || self.is_open() || !engine.config.flag(Opt::Appendonly) {
            return Ok(starting);
        }
        let begun = self
            .open_folder(engine)
            .and_then(|folder| folder.wait(engine.journal.end()).map_err(|error| reason(&error)));
        begun.map(Some).inspect_err(|_| engine.persistence.snapshots.schedule(Purpose::Base))
    }

    /// Checks whether the AOF's files are as they were written. If another process has removed or changed one, the next start
    /// would not find the data in it: then begins a new AOF with all data. For a thread of the open AOF.
    pub(in crate::engine::persistence) fn look_after(&self, engine: &Engine) {
        let mut tampering = None;
        let dropped = self.drop_if(engine, |log| {
            tampering = log.tampering();
            tampering.is_some()
        });
        let (Some(log), Some(tampering)) = (dropped, tampering) else { return };
        log::warning(&format!("{tampering}. The next start could not read it, so the log is begun anew with all data"));
        if let Some(log) = self.begin_as_soon_as_possible(engine, Folder::from(log)) {
            self.keep_starting(engine, log);
            self.write_base_next(engine);
        }
    }

    /// Begins an AOF in this folder, and has writes refused until that succeeds. Returns None if the AOF has been switched
    /// off in the meantime.
    fn begin_as_soon_as_possible(&self, engine: &Engine, mut folder: Folder) -> Option<AofWriter> {
        let opening = self.opening();
        let begun = loop {
            let error = match folder.wait_anew(engine.journal.end(), std::process::id()) {
                Ok(log) => break Some(log),
                Err(not) => {
                    folder = not.folder;
                    not.error
                }
            };
            self.note_fails(engine, "beginning", &io::Error::other(error.to_string()));
            if !self.wait_for_close(opening, TRY_AGAIN) || !engine.config.flag(Opt::Appendonly) {
                break None;
            }
        };
        self.note_works(engine);
        begun
    }

    /// Schedules the base with which an AOF begins. If a snapshot is running, the base comes after it, unless that snapshot
    /// is the base.
    fn write_base_next(&self, engine: &Engine) {
        let own = engine.handle();
        let mut then: Option<WhenDone> = Some(Box::new(move |_| {
            let persistence = &own.persistence;
            if persistence.aof.has_starting()
                && persistence.snapshots.start(&own, Purpose::Base, Instant::now(), &mut None).is_err()
            {
                persistence.snapshots.write_next(&own, Purpose::Base);
            }
        }));
        if !engine.persistence.snapshots.follow(&mut then) {
            then.into_iter().for_each(|then| then(true));
        }
    }

    /// Keeps an AOF for the next base, unless the AOF has been switched off in the meantime.
    pub(in crate::engine::persistence) fn keep_starting(&self, engine: &Engine, log: AofWriter) {
        self.set_starting(log);
        // The thread that switches the AOF off first sets the option, and then looks for this AOF.
        if !engine.config.flag(Opt::Appendonly) {
            drop(self.take_starting());
        }
    }

    /// Starts a thread that writes and fsyncs the rest of the AOF, and waits for a base that is being aborted.
    fn toggle_off(&self, engine: &Arc<Engine>) -> Result<(), String> {
        let (file, snapshots) = (self, &engine.persistence.snapshots);
        engine.persistence.refuse_sync_waiters(engine);
        let pending = Pending::default();
        let given_up = pending.ending();
        let mut tell: Option<WhenDone> = Some(Box::new(move |_| drop(pending)));
        if snapshots.abort(Purpose::Base, &mut tell) {
            log::notice(&format!("Killing running AOF rewrite child: a thread of {}", std::process::id()));
        }
        // If no base is being aborted, no other thread ends the wait, so it ends here.
        drop(tell);
        // An AOF that was to begin with the next base is dropped, and so is one that could not be begun so far.
        drop(file.take_starting());
        snapshots.unschedule(Purpose::Base);
        if !file.is_open() {
            file.next_opening();
        }
        file.end.begin();
        let started = engine.detach_thread("log-close", move |engine| {
            let file = &engine.persistence.aof;
            let mut end = End { file, is_closed: false };
            if file.is_open() {
                _ = engine.persistence.aof.close_and_tell(engine);
            }
            end.note_closed();
            given_up.wait();
            Ok(())
        });
        started.map_err(|error| {
            drop(End { file, is_closed: false });
            // The AOF stays switched on, so its base is scheduled.
            snapshots.schedule(Purpose::Base);
            reason(&error)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::loading;
    use sleeve_disk::disk::memory::MemoryDisk;

    use super::*;
    use crate::config::Config;
    use crate::engine::origin::Origin;
    use crate::host::threads::refusal;

    #[test]
    fn a_log_for_which_there_was_no_thread_begins_when_there_is_one() {
        let engine = Engine::begin(Config::default(), Origin::of_machine().on(Arc::new(MemoryDisk::new())));
        loading::load(&engine).expect("there is nothing");
        engine.config.assign(Opt::Appendonly, &[b"yes"]).expect("an option of the table");
        refusal::after(0, || engine.persistence.aof.toggle(&engine, true)).expect("the folder is there");
        assert_begins(&engine);
    }

    #[test]
    fn an_aof_that_cannot_begin_after_the_loading_begins_later() {
        let engine = Engine::begin(Config::default(), Origin::of_machine().on(Arc::new(MemoryDisk::new())));
        loading::load(&engine).expect("there is nothing");
        let other = engine.persistence.aof.open_folder(&engine).expect("nobody has it");
        engine.config.assign(Opt::Appendonly, &[b"yes"]).expect("an option of the table");
        loading::end(&engine);
        drop(other);
        assert_begins(&engine);
    }

    /// Asserts that the AOF is not open, and that it is begun later by the periodic work.
    fn assert_begins(engine: &Arc<Engine>) {
        assert!(!engine.persistence.aof.is_open());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !engine.persistence.aof.is_open() {
            assert!(std::time::Instant::now() < deadline, "it does not begin");
            // This call stands for the worker that ticks.
            engine.persistence.snapshots.follow_file_rules(engine, Instant::now());
            std::thread::yield_now();
        }
        engine.persistence.snapshots.wait_until_over();
        assert!(!engine.persistence.aof.lacks_base());
        engine.persistence.aof.finish(engine);
    }
}
