//! The effects of commands: the keys that they change, the events that are published about it, and the record.
//!
//! Between `begin` and `end` a command notes its changes, and records the effect as other commands where its request would
//! not do; otherwise `end` records the request as it came. The effects of one command, transaction or script are one piece,
//! which goes to the journal before the locks of the changed keys are given back, so the journal has them in the order in
//! which they happened. The executing thread.

use sleeve_wire::commands::Command;
use sleeve_wire::reply::{Protocol, Writer};

use super::Cx;
use super::key_change;
use super::key_change::{Cause, Source};
use super::notifications;
use super::notifications::EventClass;
use crate::config::Opt;
use crate::request::{Key, Request};

/// Elements that one effect names at most, where there could be any number.
pub const ELEMENTS_MAX: usize = 1_000;

/// Recording effects. A command that changes something and says nothing here is recorded as it came.
impl Cx<'_> {
    /// Returns whether effects are wanted at all: if not, there is no need to put one into words.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.locks.recorder.is_recording()
    }

    /// Records an effect on the selected database in other words than the request's.
    pub fn record(&mut self, effect: &[&[u8]]) {
        self.record_with(effect, std::iter::empty());
    }

    /// Records an effect as [`Cx::record`] does, where more words follow.
    pub fn record_with<'w>(&mut self, head: &[&[u8]], rest: impl ExactSizeIterator<Item = &'w [u8]>) {
        if let Some(mut words) = self.effect(head.len() + rest.len()) {
            words.bulks(head);
            rest.for_each(|word| words.bulk(word));
        }
    }

    /// Records an effect of so many words, which the caller writes as bulk strings; nothing if no effects are wanted.
    #[inline]
    pub fn effect(&mut self, words: usize) -> Option<Writer<'_>> {
        self.is_recorded = true;
        let is_wanted = !self.is_unrecorded && self.is_recording();
        is_wanted.then(|| self.locks.recorder.effect(self.state.database, words))
    }

    /// Returns the word of an effect that removes a key where this option says whether that is to take no time, as in Redis.
    pub fn removal(&self, is_lazy: Opt) -> &'static [u8] {
        key_change::removal(self.engine, is_lazy)
    }

    /// Suppresses the record of the command's changes.
    pub fn record_nothing(&mut self) {
        self.is_recorded = true;
    }

    /// Records the request as it came.
    pub fn record_request(&mut self, request: &Request<'_>) {
        self.is_recorded = true;
        if self.is_unrecorded || !self.is_recording() {
            return;
        }
        let (recorder, database) = (&mut self.locks.recorder, self.state.database);
        if !self.engine.names.are_own() {
            // A reader of the journal knows the commands by their original names.
            let top = request.row.parent.map_or(request.row, Command::row);
            let mut words = recorder.effect(database, request.len());
            words.bulk(top.name.as_bytes());
            request.args.iter().skip(1).for_each(|word| words.bulk(word));
        } else if let Some(bytes) = request.args.as_multibulk() {
            recorder.verbatim(database, bytes);
        } else {
            let mut words = recorder.effect(database, request.len());
            request.args.iter().for_each(|word| words.bulk(word));
        }
    }

    /// Sends the request to the replicas, which run it too. It changes no data, so it is in no AOF.
    pub fn send_to_replicas(&mut self, request: &Request<'_>) {
        let name = request.row.name.as_bytes();
        self.send_words_to_replicas(std::iter::once(name).chain(request.args.iter().skip(1)), request.len());
    }

    /// Sends replicas so many words as a request, in no log.
    pub fn send_words_to_replicas<'w>(&mut self, request: impl Iterator<Item = &'w [u8]>, count: usize) {
        if self.is_unrecorded || !self.locks.recorder.is_streaming() {
            return;
        }
        let mut bytes = Vec::new();
        let mut words = Writer::new(&mut bytes, Protocol::Resp2);
        words.array(count);
        request.for_each(|word| words.bulk(word));
        self.locks.recorder.for_replicas(&bytes);
    }

    /// Sets whether the effects of the commands that follow are recorded: `redis.set_repl`.
    pub fn keep_record(&mut self, is_kept: bool) {
        self.is_unrecorded = !is_kept;
    }

    /// Ends a transaction or a script. Its effects are one piece: none if the server's end has cut it short.
    pub fn end_transaction(&mut self) {
        if self.engine.scripts.running.has_left_half() {
            self.locks.recorder.drop_piece();
        }
        self.locks.recorder.end_transaction();
    }
}

/// The notes about changes.
impl Cx<'_> {
    /// Reports that a key has changed or vanished.
    #[inline]
    pub fn tell(&mut self, cause: Cause<'_>, database: u32, key: Key<'_>) {
        let source = Source {
            engine: self.engine,
            counters: self.counters,
            state: Some(&*self.state),
            pending: self.pending,
            recorder: &mut self.locks.recorder,
        };
        key_change::tell(source, cause, database, key);
    }

    /// Reports that a key of the selected database has changed.
    #[inline]
    pub fn changed(&mut self, key: Key<'_>) {
        self.tell(Cause::Command, self.state.database, key);
    }

    /// Reports that a key of the selected database has changed, which counts so often: once for each element, as in Redis.
    #[inline]
    pub fn changed_by(&mut self, key: Key<'_>, count: usize) {
        self.tell(Cause::Uncounted, self.state.database, key);
        self.pending.changes += count as u64;
    }

    /// Notes that a key has been given a deadline, by a client or by an applied stream or AOF: on a replica only this note
    /// tells of a deadline that a client has given.
    #[inline]
    pub fn deadline_given(&self, database: u32, key: Key<'_>, at_ms: i64) {
        let replication = &self.engine.replication;
        if replication.role.is_replica() && !self.state.is_replaying {
            replication.own_deadlines.note(database, key.name, at_ms);
        }
    }

    /// Counts `count` changes that are reported in other ways, or that no client is notified of.
    pub fn changed_many(&mut self, count: u64) {
        self.pending.changes += count;
    }

    /// Publishes an event about a key of the selected database, in Redis's words, behind the change.
    #[inline]
    pub fn notify(&mut self, class: EventClass, event: &'static str, key: Key<'_>) {
        self.notify_in(self.state.database, class, event, key);
    }

    /// Publishes an event about a key of another database.
    #[inline]
    pub fn notify_in(&mut self, database: u32, class: EventClass, event: &'static str, key: Key<'_>) {
        let by = (self.engine, self.state.own(), &mut self.pending.wakeups);
        notifications::publish(by, database, (class, event), key.name);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::context::key_change::Pending;
    use crate::context::session_state::State;
    use crate::engine::Engine;
    use crate::engine::clients::client_info::NewClient;
    use crate::execute::scratch::Scratch;
    use crate::host::clock::Instant;
    use crate::messaging::mail::Mailbox;
    use crate::request::output::Output;

    #[test]
    fn who_begins_to_read_while_a_transaction_runs_never_sees_half_of_it() {
        let engine = Engine::new(Config::default());
        let (scratch, mut output) = (Scratch::new(&engine, Instant::now()), Output::default());
        let arrival = NewClient { address: "test:0".into(), local_address: "test:0".into(), descriptor: -1 };
        let mut state =
            State::new(engine.clients.enter(arrival, Arc::new(Mailbox::new(|| ())), 0), engine.acl.default_user());
        let mut pending = Pending::default();
        let mut cx = Cx::new(scratch.thread_context(), &mut state, &mut output, &mut pending, |_, _| ());
        cx.locks.recorder.begin_transaction();
        cx.record(&[b"DEL", b"first"]);
        let mut reader = engine.journal.subscribe();
        cx.record(&[b"DEL", b"second"]);
        cx.locks.recorder.end_transaction();
        cx.locks.clear();
        let mut journal = Vec::new();
        reader.read(&mut journal);
        assert!(journal.is_empty());
        cx.record(&[b"DEL", b"third"]);
        cx.locks.clear();
        reader.read(&mut journal);
        assert!(journal.ends_with(b"$5\r\nthird\r\n"));
    }
}
