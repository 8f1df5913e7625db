//! The way of replies out of a worker: into the outbox, through the reply gate, to the driver.
//!
//! If no reply is held and no connection follows the journal, a reply that shows nothing passes the gate with one comparison.
//! The thread that serves the worker.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::connections::{Connections, LARGE_BYTES};
use super::outbox::Outbox;
use crate::engine::persistence::aof::OnWorker;
use crate::execute::scratch::Scratch;
use crate::host::clock::{self, Clocks};
use crate::net::{Sending, Token};
use crate::request::error::Error;
use crate::request::output::Output;

/// Sending replies.
impl Connections {
    /// Queues the replies that this connection's session has just written, to be sent with the others.
    #[inline]
    pub fn send_later(&mut self, token: Token, scratch: &mut Scratch) {
        if !Outbox::takes(&scratch.output) {
            return self.send(token, scratch);
        }
        if self.outbox.push(token, &mut scratch.output) {
            self.depart(scratch);
        }
    }

    /// Sends the queued replies.
    pub fn depart(&mut self, scratch: &mut Scratch) {
        if self.outbox.is_empty() {
            return;
        }
        let (mut replies, shown) = self.outbox.take();
        if shown != 0 || self.gate.is_used {
            self.hold_some(&mut replies, scratch);
        }
        self.send_together(&mut replies, scratch);
        self.outbox.restore(replies);
    }

    /// Sends replies that may be sent, those of several connections with one system call, and leaves the list empty.
    fn send_together(&mut self, replies: &mut Vec<(Token, Output)>, scratch: &mut Scratch) {
        if replies.len() > 1 {
            let (sends, bytes) = self.driver.send_together(replies);
            scratch.counters.writes.add(sends as u64);
            scratch.counters.output_bytes.add(bytes as u64);
        }
        for (token, output) in replies.drain(..) {
            let unused = std::mem::replace(&mut scratch.output, output);
            self.send_now(token, scratch);
            self.outbox.recycle(std::mem::replace(&mut scratch.output, unused));
        }
    }

    /// Sends the replies that the session of this connection has just written, or holds them back.
    #[inline]
    pub fn send(&mut self, token: Token, scratch: &mut Scratch) {
        if scratch.output.shown == 0 && !self.gate.is_used {
            self.send_now(token, scratch)
        } else {
            self.send_unless_held(token, scratch)
        }
    }

    /// Sends the replies that the session of this connection has written.
    fn send_now(&mut self, token: Token, scratch: &mut Scratch) {
        if self.sessions[token].as_ref().is_some_and(|session| session.state.subscriptions.is_some()) {
            self.note_listener(token);
        }
        if self.channels.has(token) {
            self.channels.seal(token, &mut scratch.output);
        }
        let sending = if scratch.output.is_empty() {
            // There is no new output, but earlier output may still wait.
            scratch.output.shown = 0;
            Sending::Waiting(self.driver.waiting(token))
        } else {
            scratch.counters.writes.add(1);
            let len = scratch.output.len();
            scratch.counters.output_bytes.add(len as u64);
            self.owes_purge |= len >= LARGE_BYTES;
            self.driver.send(token, &mut scratch.output)
        };
        debug_assert!(scratch.output.is_empty(), "the replies of one client would reach another");
        self.handle_sending(token, sending, scratch);
    }

    /// Sends the bytes that the mail has queued for clients.
    pub fn send_queued(&mut self, scratch: &mut Scratch) {
        for token in self.driver.take_queued() {
            scratch.counters.writes.add(1);
            let sending = self.driver.send_queued(token);
            self.handle_sending(token, sending, scratch);
        }
    }

    #[inline]
    fn handle_sending(&mut self, token: Token, sending: Sending, scratch: &mut Scratch) {
        match sending {
            Sending::Done => self.after_sending(token, 0, scratch),
            Sending::Waiting(count) => self.after_sending(token, count, scratch),
            Sending::Broken => self.close(token),
        }
    }

    /// Notes how many bytes of output the client has not taken. Closes the connection if nothing is left to send and it was to
    /// be closed then.
    pub fn after_sending(&mut self, token: Token, waiting: usize, scratch: &mut Scratch) {
        let waiting = if self.gate.is_used { waiting + self.gate.len(token) } else { waiting };
        let Some(session) = &mut self.sessions[token] else { return };
        let client = &session.state.client;
        client.memory.output.store(waiting, Ordering::Relaxed);
        client.memory.output_spare.store(if waiting == 0 { 0 } else { self.driver.spare(token) }, Ordering::Relaxed);
        if waiting == 0 && session.state.closing {
            return self.close_when_sent(token);
        }
        if let Some(deadline_ms) = session.deadline_ms() {
            self.deadlines.insert((deadline_ms, session.state.client.id));
        }
        if session.state.closing || session.is_held() {
            self.driver.hold(token, true);
        }
        if waiting != 0 || session.is_behind() {
            self.close_if_unread(token, waiting, scratch);
        }
        if self.engine.config.bounds_memory() {
            self.weigh(token, scratch);
        }
    }
}

/// The reply gate.
impl Connections {
    /// Takes the replies that may not be sent yet out of the list, and holds them.
    #[cold]
    fn hold_some(&mut self, replies: &mut Vec<(Token, Output)>, scratch: &mut Scratch) {
        for (token, mut output) in std::mem::take(replies) {
            if self.must_hold(token, &output, scratch) {
                self.hold(token, output, scratch);
            } else {
                self.cover(token, &mut output);
                replies.push((token, output));
            }
        }
    }

    /// Sends the replies that the session of this connection has just written, or holds them back.
    fn send_unless_held(&mut self, token: Token, scratch: &mut Scratch) {
        let mut output = std::mem::take(&mut scratch.output);
        if self.must_hold(token, &output, scratch) {
            return self.hold(token, output, scratch);
        }
        self.cover(token, &mut output);
        scratch.output = output;
        self.send_now(token, scratch);
    }

    /// Returns whether these replies have to wait. The time that writing the AOF takes here is counted.
    fn must_hold(&mut self, token: Token, output: &Output, scratch: &Scratch) -> bool {
        let began = clock::ticks();
        let must_hold = self.gate.must_hold(token, output, &self.engine);
        scratch.counters.log_ticks.add(clock::ticks().saturating_sub(began));
        must_hold
    }

    fn cover(&mut self, token: Token, output: &mut Output) {
        self.gate.cover(token, output, &self.driver, (&self.engine, &self.home.mailbox));
    }

    /// Holds replies until the changes that they show are durable.
    #[cold]
    fn hold(&mut self, token: Token, output: Output, scratch: &mut Scratch) {
        scratch.counters.syncing_us.add(self.gate.elapse(scratch.now.monotonic_us));
        scratch.counters.replies_held.add(1);
        self.gate.push(token, output);
        self.note_listener(token);
        self.after_sending(token, self.driver.waiting(token), scratch);
    }

    /// Makes the changes durable that the held replies of this wake-up show, or asks the AOF thread for that. Returns whether
    /// the worker must not sleep.
    #[inline]
    pub fn settle(&mut self, clocks: &mut Clocks, scratch: &mut Scratch) -> bool {
        self.gate.is_unsettled && self.settle_held(clocks, scratch)
    }

    #[cold]
    fn settle_held(&mut self, clocks: &mut Clocks, scratch: &mut Scratch) -> bool {
        let (began, engine, since) = (clock::ticks(), Arc::clone(&self.engine), self.gate.gathers_since.take());
        match engine.persistence.aof.settle_on_worker(&engine, self.home.number, since) {
            OnWorker::Gathers => {
                self.gate.gathers_since = since.or_else(|| Some(clocks.read()));
                // The clients may need this processor.
                thread::yield_now();
                return true;
            }
            OnWorker::Done => {
                scratch.now = clocks.read();
                scratch.counters.log_ticks.add(clock::ticks().saturating_sub(began));
            }
            // There may be changes to which no client wants a reply.
            OnWorker::HandsOver if self.gate.least_shown().is_none() => engine.persistence.aof.ask(),
            OnWorker::HandsOver => {}
        }
        self.gate.is_unsettled = false;
        self.release_replies(scratch);
        self.home.mailbox.has_letters.load(Ordering::Relaxed)
    }

    /// Sends the held replies that may be sent now. For the others, asks the AOF thread and for a letter.
    pub fn release_replies(&mut self, scratch: &mut Scratch) {
        let engine = Arc::clone(&self.engine);
        scratch.counters.syncing_us.add(self.gate.elapse(scratch.now.monotonic_us));
        loop {
            let failure = engine.persistence.fails().then(|| engine.lifecycle.readiness.check_disk().err()).flatten();
            let mut released = self.gate.release(engine.persistence.passed(), failure.as_ref().map(Error::text));
            released.iter_mut().for_each(|(token, output)| self.cover(*token, output));
            self.send_together(&mut released, scratch);
            let Some(least) = self.gate.least_shown() else { return };
            if !engine.persistence.tell_when_passed(least, &self.home.mailbox) {
                return;
            }
        }
    }
}
