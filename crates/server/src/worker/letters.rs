//! What the mail brings to a worker's clients.
//!
//! Letters are read in the order in which they came. One for a client whose session is just running something is put
//! off until that is over, because the session is not in its place: nothing that a client is owed is lost while
//! others are served during a long script, and it gets it in its order.

use std::sync::Arc;

use super::{Worker, forget_deadline};
use crate::context::tracking_delivery;
use crate::context::tracking_delivery::Delivery;
use crate::driver::{Sending, Token};
use crate::execute::scratch::Desk;
use crate::host::clock::Instant;
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::messaging::message::Message;
use crate::request::output::Output;
use crate::session::Session;

impl Worker {
    pub(super) fn read_mail(&mut self) {
        if self.running.is_empty() {
            for (id, letter) in std::mem::take(&mut self.put_off) {
                match letter {
                    Letter::Message(message) => self.hear(&message, Some(id)),
                    letter => self.open(letter),
                }
            }
        }
        self.letters.extend(self.team.members[self.number].0.collect());
        while let Some(letter) = self.letters.pop_front() {
            match addressee(&letter) {
                Some(id) if self.is_busy(id) => self.put_off.push((id, letter)),
                _ => self.open(letter),
            }
        }
        self.send_queued();
    }

    /// Whether there is anything to read.
    pub(super) fn has_mail(&self) -> bool {
        !self.team.members[self.number].0.is_empty() || !self.put_off.is_empty()
    }

    fn open(&mut self, letter: Letter) {
        match letter {
            Letter::Message(message) => {
                self.hear(&message, None);
                let busy = self.running.iter().map(|&(_, id)| (id, Letter::Message(Arc::clone(&message))));
                self.put_off.extend(busy);
            }
            Letter::Invalidate { id, keys } => self.invalidate(id, keys),
            Letter::Redirected { id, keys } => {
                if let Some((token, session)) = self.session_of(id)
                    && let Some(bytes) = tracking_delivery::forwarded(&session.state, &keys)
                {
                    self.channels.queue((&mut self.held, &mut self.driver), token, &Arc::new(bytes));
                }
            }
            Letter::Push { id, bytes } => {
                if let Some(&token) = self.tokens.get(&id) {
                    self.channels.queue((&mut self.held, &mut self.driver), token, &bytes);
                }
            }
            Letter::Adopt(accepted) => self.adopt(accepted),
            Letter::Close(id) => {
                if let Some(&token) = self.tokens.get(&id) {
                    self.close(token);
                }
            }
            Letter::Unblock { id, ticket, mut reply } => {
                self.release(id, |session, desk, output| session.unblock(ticket, &mut reply, desk, output));
            }
            Letter::Listen => self.watch_doors(),
            Letter::Users => {
                self.close_forbidden();
                if !self.running.is_empty() {
                    self.put_off.push((0, Letter::Users));
                }
            }
            Letter::Resume => self.resume(),
            Letter::Durable => self.release_replies(),
            Letter::FollowJournal(id) => self.follow_journal(id),
            Letter::Synced => {
                self.held.followers.is_listening = false;
                self.tell_synced();
            }
            Letter::Stop => self.stopping = true,
        }
    }

    /// The session of a client, and where it is.
    pub(super) fn session_of(&mut self, id: u64) -> Option<(Token, &mut Session)> {
        let token = *self.tokens.get(&id)?;
        Some((token, self.sessions.get_mut(token)?.as_mut()?))
    }

    fn is_busy(&self, id: u64) -> bool {
        self.running.iter().any(|&(_, running)| running == id)
    }

    /// Gives a message to those of this worker's clients that listen, or to one of them. It leaves with all else that the
    /// mail brings them.
    fn hear(&mut self, message: &Message, only: Option<u64>) {
        let (driver, sessions, counters) = (&mut self.driver, &self.sessions, &self.desk.counters);
        let (held, channels) = (&mut self.held, &mut self.channels);
        self.desk.audience.for_each(message, |seat, form| {
            let Some(session) = &sessions[seat.place] else { return };
            let is_meant = only.is_none_or(|id| id == seat.id);
            if is_meant && session.state.peer.id == seat.id && !session.state.closing {
                let bytes = form.bytes(message, session.state.protocol);
                counters.output_bytes.add(bytes.len() as u64);
                channels.queue((held, driver), seat.place, bytes);
            }
        });
    }

    /// Tells a client that keys have changed which it has read.
    fn invalidate(&mut self, id: u64, keys: Option<Arc<Vec<u8>>>) {
        let engine = Arc::clone(&self.desk.engine);
        let Some((token, session)) = self.session_of(id) else { return };
        match tracking_delivery::deliver(&engine, &mut session.state, keys) {
            Delivery::Nothing => {}
            Delivery::Push(bytes) => self.channels.queue((&mut self.held, &mut self.driver), token, &Arc::new(bytes)),
            Delivery::Forward(peer, keys) => peer.mailbox.post(Letter::Redirected { id: peer.id, keys }),
        }
    }

    /// Sends what the mail has brought to clients.
    pub(super) fn send_queued(&mut self) {
        for token in self.driver.take_queued() {
            self.desk.counters.writes.add(1);
            match self.driver.send_queued(token) {
                Sending::Done => self.after_sending(token, 0),
                Sending::Waiting(count) => self.after_sending(token, count),
                Sending::Broken => self.close(token),
            }
        }
    }

    /// Accepts from the doors that the engine has now, and from no others.
    fn watch_doors(&mut self) {
        self.driver.stop_listening();
        for listener in self.desk.engine.doors.listeners() {
            if let Err(error) = self.driver.listen(listener) {
                log::warning(&format!("A worker cannot watch a listening socket: {error}"));
            }
        }
    }

    /// Ends the waiting of those whose time is over.
    pub(super) fn time_out(&mut self) {
        self.desk.now = Instant::now();
        while let Some(&(deadline_ms, id)) = self.deadlines.first()
            && deadline_ms <= self.desk.now.monotonic_ms()
        {
            self.deadlines.pop_first();
            self.release(id, Session::time_out);
        }
    }

    /// Does with the session of a client what may end its waiting, and sends what it is owed.
    fn release(&mut self, id: u64, end: impl FnOnce(&mut Session, &mut Desk, &mut Output)) {
        let Some(&token) = self.tokens.get(&id) else { return };
        let Some(session) = &self.sessions[token] else { return };
        forget_deadline(&mut self.deadlines, session);
        self.with_session(token, |session, _, desk, output| end(session, desk, output));
        let is_held = self.sessions[token].as_ref().is_some_and(|session| session.is_held());
        self.driver.hold(token, is_held);
        self.send(token);
    }

    /// Lets paused sessions try again.
    pub(super) fn resume(&mut self) {
        self.desk.now = Instant::now();
        for token in 0..self.sessions.len() {
            if self.sessions[token].as_ref().is_some_and(|session| session.is_paused()) {
                self.with_session(token, |session, _, desk, output| session.resume(desk, output));
                self.driver.hold(token, false);
                self.send(token);
            }
        }
    }
}

/// The client that a letter is for, if its session has to be in its place for it.
fn addressee(letter: &Letter) -> Option<u64> {
    match letter {
        Letter::Unblock { id, .. }
        | Letter::Push { id, .. }
        | Letter::Invalidate { id, .. }
        | Letter::Redirected { id, .. }
        | Letter::FollowJournal(id) => Some(*id),
        _ => None,
    }
}
