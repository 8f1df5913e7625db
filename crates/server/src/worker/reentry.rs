//! Serving a worker's clients while it runs a script for one of them.
//!
//! Whatever a session needs to run is put out of the worker's reach first: the session itself, the desk, the output and
//! the buffer that its bytes lie in. The worker can then be used meanwhile, which happens when a script has run for longer
//! than `busy-reply-threshold` ([`crate::context::script_attendant`]): it looks for events and handles them as ever, and the gates see to it
//! that only what may be done meanwhile is done.

use super::Worker;
use crate::context::script_attendant;
use crate::driver::{Event, Token};
use crate::execute::scratch::Desk;
use crate::request::output::Output;
use crate::session::Session;

impl Worker {
    /// Has a session run something, given the bytes of the last event; none when there is no such session, or none any
    /// more, because its peer was owed too much.
    pub(super) fn with_session<R>(
        &mut self,
        token: Token,
        work: impl FnOnce(&mut Session, &[u8], &mut Desk, &mut Output) -> R,
    ) -> Option<R> {
        let mut session = self.sessions[token].take()?;
        let spare = self.spare.take().unwrap_or_else(|| Box::new(Desk::new(&self.desk.engine, self.desk.now)));
        let mut desk = std::mem::replace(&mut self.desk, spare);
        std::mem::swap(&mut self.desk.audience, &mut desk.audience);
        self.desk.now = desk.now;
        let mut output = std::mem::take(&mut self.output);
        let buffer = self.driver.take_buffer();
        self.running.push((token, session.state.peer.id));
        let result = script_attendant::with_attendant(self, Self::attend, || {
            work(&mut session, &buffer, &mut desk, &mut output)
        });
        self.running.pop();
        self.driver.put_buffer(buffer);
        self.output = output;
        std::mem::swap(&mut self.desk.audience, &mut desk.audience);
        self.spare = Some(std::mem::replace(&mut self.desk, desk));
        if std::mem::take(&mut self.has_attended) {
            self.driver.hold(token, session.is_held());
        }
        if !self.doomed.is_empty() && self.doomed.contains(&token) {
            self.doomed.retain(|&doomed| doomed != token);
            session.state.closing = true;
        }
        self.sessions[token] = Some(session);
        if self.output.take_cut() {
            self.output.clear();
            self.close_for_output(token);
            return None;
        }
        Some(result)
    }

    /// Whether a session is running something further down the stack.
    pub(super) fn is_running(&self, token: Token) -> bool {
        self.running.iter().any(|&(running, _)| running == token)
    }

    /// Handles what has happened meanwhile.
    #[cold]
    fn attend(&mut self) {
        self.depart();
        for &(token, _) in &self.running {
            self.driver.hold(token, true);
        }
        self.has_attended = true;
        self.desk.now = crate::host::clock::Instant::now();
        // A wait that fails fails again when the worker comes to wait by itself, which says so and ends the engine.
        let Ok(count) = self.driver.wait(0) else { return };
        for index in 0..count {
            match self.driver.event(index) {
                // What has happened to its connection is looked at when its script is over.
                Event::Closed(token) | Event::Sent(token, _) if self.is_running(token) => {
                    self.driver.report_again(token)
                }
                event => self.handle(event),
            }
        }
        self.depart();
        self.driver.forget_events();
        self.has_attended = true;
        if self.stopping {
            self.desk.engine.scripts.running.end_at_once();
        }
    }
}
