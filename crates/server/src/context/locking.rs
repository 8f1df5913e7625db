//! The locks of a running command: how they are taken and given back, and how long it waits for them.
//!
//! A script has all shards. Once it has run for `busy-reply-threshold`, it counts as long-running, and a command that needs a
//! shard gets an error instead of waiting. So every thread goes on serving its clients, and with them the one that sends
//! SCRIPT KILL.

use std::time::Duration;

use sleeve_store::Hash;

use super::Cx;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::journal::Recorder;
use crate::engine::keyspace::locks::Locks;
use crate::host::clock;
use crate::request::error::Error;

/// The time after which a thread that waits for a lock checks whether a script has it.
const LOCK_TIMEOUT: Duration = Duration::from_millis(10);

/// Checks whether a script has run for so long that no command waits for it.
///
/// # Errors
/// BUSY, if so.
#[cold]
pub fn check(engine: &Engine) -> Result<(), Error> {
    let running = &engine.scripts.running;
    let Some(elapsed_ms) = running.elapsed_ms(clock::monotonic_ms) else { return Ok(()) };
    let threshold_ms = engine.config.number(Opt::BusyReplyThreshold);
    if threshold_ms > 0 && elapsed_ms as i64 >= threshold_ms { Err(running.busy()) } else { Ok(()) }
}

impl<'a> Cx<'a> {
    /// Tries to take locks until that succeeds.
    #[inline]
    fn lock_by(&mut self, mut take: impl FnMut(&mut Locks<'a>, Duration) -> bool) -> Result<(), Error> {
        if take(&mut self.locks, LOCK_TIMEOUT) { Ok(()) } else { self.lock_late(take) }
    }

    /// Goes on trying. When that succeeds, the clock is read again for the command that runs then.
    #[cold]
    fn lock_late(&mut self, mut take: impl FnMut(&mut Locks<'a>, Duration) -> bool) -> Result<(), Error> {
        loop {
            check(self.engine)?;
            if take(&mut self.locks, LOCK_TIMEOUT) {
                self.look_at_clock();
                return Ok(());
            }
        }
    }

    /// Takes the shard of a key, or keeps it if it is held alone.
    ///
    /// # Errors
    /// BUSY: a script has it for long, as for all that follow.
    #[inline]
    pub fn lock_key(&mut self, hash: Hash) -> Result<(), Error> {
        self.lock_by(|locks, timeout| locks.take_one_within(hash, timeout))
    }

    /// Takes the shards of these keys instead of the held ones.
    ///
    /// # Errors
    /// BUSY.
    pub fn lock_keys(&mut self, hashes: impl Iterator<Item = Hash> + Clone) -> Result<(), Error> {
        self.lock_by(|locks, timeout| locks.take_within(hashes.clone(), timeout))
    }

    /// Begins to take single shards one after the other.
    ///
    /// # Errors
    /// BUSY.
    pub fn lock_each(&mut self) -> Result<(), Error> {
        self.lock_by(Locks::begin_each_within)
    }

    /// Takes all shards.
    ///
    /// # Errors
    /// BUSY.
    pub fn lock_all(&mut self) -> Result<(), Error> {
        self.lock_by(Locks::take_all_within)
    }

    /// Waits for the shard of a key, however long that takes.
    pub fn wait_for_key(&mut self, hash: Hash) {
        self.locks.take_one(hash);
    }

    /// Waits for the shards of these keys; see [`Locks::take`].
    pub fn wait_for_keys(&mut self, hashes: impl Iterator<Item = Hash>) {
        self.locks.take(hashes);
    }

    /// Returns whether the shard of a key is held.
    pub fn holds(&self, hash: Hash) -> bool {
        self.locks.holds(hash)
    }

    /// Ends a command: a single lock stays, because the next command of the batch often wants the same one.
    #[inline]
    pub fn end_command(&mut self) {
        self.locks.end_command();
    }

    /// Gives all locks back.
    #[inline]
    pub fn unlock(&mut self) {
        self.locks.clear();
    }

    /// Returns the recorder of the effects under the locks.
    #[inline]
    pub fn recorder(&mut self) -> &mut Recorder<'a> {
        &mut self.locks.recorder
    }
}
