//! Whether a reply may leave: what it shows has to outlive the process. And who hears that the disk has it.
//!
//! Both are offsets of the journal. How far it has passed is one atomic, which the log's writers move on; who waits for the
//! disk is entered in a list first and looks then, so that what comes about in between is not missed. Any thread may ask; what
//! writes or answers is called with no shard locked.

use std::sync::Arc;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::{OnTimeout, Waiter};
use crate::engine::durability::log_file::Policy;
use crate::messaging::mail::{Letter, Mailbox};
use crate::request::error::Error;

impl Engine {
    /// Whether a reply may leave that shows the journal up to this offset. What is not written yet is written here, if
    /// nobody else does.
    pub fn passes(&self, shown: u64) -> bool {
        let durability = &self.durability;
        if shown > durability.passed() {
            self.write_log_if_idle();
        }
        shown <= durability.passed()
    }

    /// Waits until the journal has passed this offset; false when the log cannot be written.
    pub fn wait_to_pass(&self, shown: u64) -> bool {
        self.passes(shown) || self.durability.wait(shown)
    }

    /// The offset of the journal up to which the disk has it; none where there is no log. A log whose first base is still to
    /// come has nothing.
    pub fn synced_offset(&self) -> Option<u64> {
        let file = &self.durability.log;
        match file.is_open() {
            true if file.lacks_base() => Some(0),
            true => Some(self.journal.synced()),
            false => self.config.flag(Opt::Appendonly).then_some(0),
        }
    }

    /// As [`Engine::synced_offset`], but none also where it does not move, because nobody syncs: under `appendfsync no`.
    pub fn known_synced_offset(&self) -> Option<u64> {
        self.synced_offset().filter(|_| Policy::of(&self.config) != Policy::No)
    }

    /// Calls back, from any thread, when the disk has all that is in the journal now: with true, or with false as soon as it is
    /// clear that nobody will know. May call before it returns.
    pub fn when_synced(&self, call: impl FnOnce(bool) + Send + 'static) {
        let waiters = &self.durability.log.sync_waiters;
        waiters.enter_call(self.journal.end(), Box::new(call));
        // It may have come about since it was looked for.
        let known = self.known_synced_offset().filter(|_| self.failure().is_none());
        waiters.take_calls(known).into_iter().for_each(|call| call(known.is_some()));
    }

    /// Has `owner` get a letter when [`Engine::known_synced_offset`] is no longer `synced`. True when that is so already: there
    /// will be no letter then.
    pub fn tell_when_synced(&self, synced: Option<u64>, owner: &Arc<Mailbox>) -> bool {
        self.durability.log.sync_waiters.enter_owner(owner, || self.known_synced_offset() != synced)
    }

    /// Answers a client of WAITAOF when the disk has the journal up to this offset.
    pub fn answer_when_synced(&self, waiter: &Arc<Waiter>, offset: u64) {
        self.durability.log.sync_waiters.enter_client(offset, waiter);
        // It may have come about since it was looked for.
        self.answer_synced(self.synced_offset());
    }

    /// Tells all who wait for the disk how far it is.
    pub(super) fn tell_synced(&self) {
        self.answer_synced(self.synced_offset());
        self.call_synced(self.known_synced_offset());
        let owners = self.durability.log.sync_waiters.take_owners();
        owners.iter().for_each(|owner| owner.post(Letter::Synced));
    }

    /// Calls whoever has asked to be called.
    pub(in crate::engine) fn call_synced(&self, known: Option<u64>) {
        let calls = self.durability.log.sync_waiters.take_calls(known);
        calls.into_iter().for_each(|call| call(known.is_some()));
    }

    /// Answers the clients of WAITAOF that have waited long enough; where the log has been switched off, all of them.
    fn answer_synced(&self, synced: Option<u64>) {
        let Some(synced) = synced else { return self.refuse_sync_waiters() };
        for (offset, waiter) in self.durability.log.sync_waiters.take_clients(synced) {
            let disks = OnTimeout::Disks(offset);
            self.answer(&waiter, |reply| disks.put(reply, |offset| self.reached(offset)));
        }
        self.answer_acknowledged();
    }

    /// Tells the clients of WAITAOF that the log they wait for is switched off.
    pub(super) fn refuse_sync_waiters(&self) {
        for (_, waiter) in self.durability.log.sync_waiters.take_clients(u64::MAX) {
            self.refuse(&waiter, &Error::NO_LOG_TO_WAIT_FOR);
        }
    }
}
