//! The check that lets a reply leave: the changes it shows have to outlive the process. And the waiters that are notified
//! when the disk has them.
//!
//! Both are offsets of the journal. The passed offset is one atomic, which the AOF's writers advance. A waiter for the disk
//! is entered in a list first and checks the offset then, so that an advance in between is not missed. Any thread may ask;
//! functions that write or answer are called with no shard locked.

use std::sync::Arc;

use super::Persistence;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::{OnTimeout, Waiter};
use crate::engine::persistence::aof::Policy;
use crate::engine::replication::primary;
use crate::messaging::mail::{Letter, Mailbox};
use crate::request::error::Error;

impl Persistence {
    /// Returns whether a reply may leave that shows the journal up to this offset. The unwritten part is written here, if no
    /// other thread is writing.
    pub fn passes(&self, engine: &Engine, shown: u64) -> bool {
        let persistence = self;
        if shown > persistence.passed() {
            engine.persistence.aof.write_if_idle(engine);
        }
        shown <= persistence.passed()
    }

    /// Waits until the journal has passed this offset. Returns false when the AOF cannot be written.
    pub fn wait_to_pass(&self, engine: &Engine, shown: u64) -> bool {
        self.passes(engine, shown) || self.wait(shown)
    }

    /// Returns the offset of the journal up to which the disk has it; none where there is no AOF. An AOF that lacks its first
    /// base has nothing.
    pub fn synced_offset(&self, engine: &Engine) -> Option<u64> {
        let file = &self.aof;
        match file.is_open() {
            true if file.lacks_base() => Some(0),
            true => Some(engine.journal.synced()),
            false => engine.config.flag(Opt::Appendonly).then_some(0),
        }
    }

    /// Returns `synced_offset`, but also none where it does not advance, because nothing is synced: under
    /// `appendfsync no`.
    pub fn known_synced_offset(&self, engine: &Engine) -> Option<u64> {
        self.synced_offset(engine).filter(|_| Policy::of(&engine.config) != Policy::No)
    }

    /// Calls back, from any thread, when the disk has all that is in the journal now: with true, or with false as soon as it
    /// is clear that this cannot be known. May call before it returns.
    pub fn when_synced(&self, engine: &Engine, call: impl FnOnce(bool) + Send + 'static) {
        let waiters = &self.aof.sync_waiters;
        waiters.enter_call(engine.journal.end(), Box::new(call));
        // The offset may have been reached since it was checked.
        let known = self.known_synced_offset(engine).filter(|_| engine.failure().is_none());
        waiters.take_calls(known).into_iter().for_each(|call| call(known.is_some()));
    }

    /// Sends `owner` a letter when `known_synced_offset` is no longer `synced`. Returns true if that is so already:
    /// no letter follows then.
    pub fn tell_when_synced(&self, engine: &Engine, synced: Option<u64>, owner: &Arc<Mailbox>) -> bool {
        self.aof.sync_waiters.enter_owner(owner, || self.known_synced_offset(engine) != synced)
    }

    /// Answers a client of WAITAOF when the disk has the journal up to this offset.
    pub fn answer_when_synced(&self, engine: &Engine, waiter: &Arc<Waiter>, offset: u64) {
        self.aof.sync_waiters.enter_client(offset, waiter);
        // The offset may have been reached since it was checked.
        self.answer_synced(engine, self.synced_offset(engine));
    }

    /// Notifies all waiters for the disk of the synced offset.
    pub(super) fn tell_synced(&self, engine: &Engine) {
        self.answer_synced(engine, self.synced_offset(engine));
        self.call_synced(self.known_synced_offset(engine));
        let owners = self.aof.sync_waiters.take_owners();
        owners.iter().for_each(|owner| owner.post(Letter::Synced));
    }

    /// Runs the callbacks that are due.
    pub(in crate::engine) fn call_synced(&self, known: Option<u64>) {
        let calls = self.aof.sync_waiters.take_calls(known);
        calls.into_iter().for_each(|call| call(known.is_some()));
    }

    /// Answers the clients of WAITAOF that have waited long enough; if the AOF has been switched off, all of them.
    fn answer_synced(&self, engine: &Engine, synced: Option<u64>) {
        let Some(synced) = synced else { return self.refuse_sync_waiters(engine) };
        for (offset, waiter) in self.aof.sync_waiters.take_clients(synced) {
            let disks = OnTimeout::Disks(offset);
            engine.answer(&waiter, |reply| disks.put(reply, |offset| primary::reached(engine, offset)));
        }
        primary::answer_acknowledged(engine);
    }

    /// Tells the clients of WAITAOF that the AOF they wait for is switched off.
    pub(super) fn refuse_sync_waiters(&self, engine: &Engine) {
        for (_, waiter) in self.aof.sync_waiters.take_clients(u64::MAX) {
            engine.refuse(&waiter, &Error::NO_LOG_TO_WAIT_FOR);
        }
    }
}
