//! The rules by which the worker holds replies back, and sends them later.
//!
//! Each reply says up to which offset it shows the journal. Before it leaves, the engine is asked whether the journal has
//! passed that; if not, the reply goes into the queue of its connection (`held_replies`), and a letter says when to look
//! again. The thread that serves the worker.

use std::sync::Arc;

use super::Worker;
use crate::execute::scratch::Scratch;
use crate::host::clock;
use crate::messaging::mail::Letter;
use crate::net::Token;
use crate::request::error::Error;
use crate::request::output::Output;

impl Worker {
    /// Holds back the replies that may not leave yet.
    #[cold]
    pub(super) fn hold_send_queue(&mut self, waiting: &mut Vec<(Token, Output)>, scratch: &mut Scratch) {
        for (token, mut output) in std::mem::take(waiting) {
            if self.must_hold(token, &output, scratch) {
                self.hold(token, output, scratch);
            } else {
                self.cover(token, &mut output);
                waiting.push((token, output));
            }
        }
    }

    /// Sends the replies that the session of this connection has just written, or holds them back.
    pub(super) fn send_unless_held(&mut self, token: Token, scratch: &mut Scratch) {
        let mut output = std::mem::take(&mut scratch.output);
        if self.must_hold(token, &output, scratch) {
            return self.hold(token, output, scratch);
        }
        self.cover(token, &mut output);
        scratch.output = output;
        self.send_now(token, scratch);
    }

    /// Returns whether these replies show something that has not outlived the process yet, or stand behind such replies.
    fn must_hold(&self, token: Token, output: &Output, scratch: &Scratch) -> bool {
        let engine = &self.engine;
        let began = clock::ticks();
        // Asked also if no client waits for a reply: the changes go to the AOF all the same.
        let passes = engine.persistence.passes(engine, output.shown);
        scratch.counters.log_ticks.add(clock::ticks().saturating_sub(began));
        if !passes && output.is_empty() {
            engine.persistence.aof.ask();
        }
        self.held.has(token) || !(passes || output.is_empty())
    }

    /// Holds replies back until the changes they show have outlived the process.
    #[cold]
    fn hold(&mut self, token: Token, output: Output, scratch: &mut Scratch) {
        let shown = output.shown;
        scratch.counters.syncing_us.add(self.held.elapse(scratch.now.monotonic_us));
        scratch.counters.replies_held.add(1);
        self.held.push(token, output);
        self.note_listener(token);
        let mailbox = &self.home.mailbox;
        if self.engine.persistence.tell_when_passed(shown, mailbox) {
            mailbox.post_unheard(Letter::Durable);
        }
        self.after_sending(token, self.driver.waiting(token), scratch);
    }

    /// Sends the replies that had been held back and may leave now.
    pub(super) fn release_replies(&mut self, scratch: &mut Scratch) {
        let engine = Arc::clone(&self.engine);
        scratch.counters.syncing_us.add(self.held.elapse(scratch.now.monotonic_us));
        loop {
            let failure = engine.persistence.fails().then(|| engine.lifecycle.readiness.check_disk().err()).flatten();
            let mut released = self.held.release(engine.persistence.passed(), failure.as_ref().map(Error::text));
            released.iter_mut().for_each(|(token, output)| self.cover(*token, output));
            self.send_together(&mut released, scratch);
            let Some(least) = self.held.least_shown() else { return };
            if !engine.persistence.tell_when_passed(least, &self.home.mailbox) {
                return;
            }
        }
    }
}
