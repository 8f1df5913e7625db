//! The reply gate: a reply may be sent only when the changes that it shows are durable. Also the waiters that are notified
//! when the journal has been fsynced.
//!
//! Both are offsets of the journal. The offset that has passed is one atomic, which the AOF's writers advance. A waiter for
//! an fsync is entered in a list before it checks the offset, so that an advance in between is not missed. Any thread may
//! ask; functions that write or answer are called with no shard locked.

use std::sync::Arc;

use super::Persistence;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::persistence::aof::Policy;
use crate::engine::replication::primary;
use crate::messaging::mail::{Letter, Mailbox};
use crate::request::error::Error;

impl Persistence {
    /// Returns whether a reply that shows the journal up to this offset may be sent. If no other thread is writing, writes
    /// the unwritten part of the journal to the AOF here.
    pub fn passes(&self, engine: &Engine, shown: u64) -> bool {
        if shown > self.passed() {
            self.aof.write_if_idle(engine);
        }
        shown <= self.passed()
    }

    /// Waits until replies may show the journal up to this offset. Returns false if the AOF cannot be written.
    pub fn wait_to_pass(&self, engine: &Engine, shown: u64) -> bool {
        self.passes(engine, shown) || self.wait(shown)
    }

    /// Returns the offset up to which the journal has been fsynced; None if there is no AOF. An AOF without its first base
    /// counts as empty.
    pub fn synced_offset(&self, engine: &Engine) -> Option<u64> {
        let file = &self.aof;
        match file.is_open() {
            true if file.lacks_base() => Some(0),
            true => Some(engine.journal.synced()),
            false => engine.config.flag(Opt::Appendonly).then_some(0),
        }
    }

    /// Returns `synced_offset`, but None also under `appendfsync no`, because then the offset does not advance.
    pub fn known_synced_offset(&self, engine: &Engine) -> Option<u64> {
        self.synced_offset(engine).filter(|_| Policy::of(&engine.config) != Policy::No)
    }

    /// Calls back, from any thread, when all that is in the journal now has been fsynced: with true, or with false as soon as
    /// it is clear that this cannot be known. May call before it returns.
    pub fn when_synced(&self, engine: &Engine, call: impl FnOnce(bool) + Send + 'static) {
        self.aof.sync_waiters.enter_call(engine.journal.end(), Box::new(call));
        // The offset may have advanced since it was checked.
        self.call_synced(self.known_synced_offset(engine).filter(|_| engine.failure().is_none()));
    }

    /// Registers `owner` for a letter when `known_synced_offset` is no longer `synced`. If it differs already, returns true,
    /// and no letter is sent.
    pub fn tell_when_synced(&self, engine: &Engine, synced: Option<u64>, owner: &Arc<Mailbox>) -> bool {
        self.aof.sync_waiters.enter_owner(owner, || self.known_synced_offset(engine) != synced)
    }

    /// Notifies all waiters for an fsync of the present offset.
    pub(super) fn tell_synced(&self, engine: &Engine) {
        self.answer_synced(engine);
        self.call_synced(self.known_synced_offset(engine));
        let owners = self.aof.sync_waiters.take_owners();
        owners.iter().for_each(|owner| owner.post(Letter::Synced));
    }

    /// Runs the callbacks that are due.
    pub(in crate::engine) fn call_synced(&self, known: Option<u64>) {
        let calls = self.aof.sync_waiters.take_calls(known);
        calls.into_iter().for_each(|call| call(known.is_some()));
    }

    /// Answers the clients of WAITAOF with an offset that has been fsynced; all of them if the AOF has been switched off.
    pub fn answer_synced(&self, engine: &Engine) {
        if self.synced_offset(engine).is_none() {
            self.refuse_sync_waiters(engine);
        }
        primary::answer_acknowledged(engine);
    }

    /// Answers the clients of WAITAOF that wait for this server's disk with an error, because the AOF is switched off.
    pub(super) fn refuse_sync_waiters(&self, engine: &Engine) {
        for waiter in engine.replication.replicas.waiters.take_of_own_disk() {
            engine.refuse(&waiter, &Error::NO_LOG_TO_WAIT_FOR);
        }
    }
}
