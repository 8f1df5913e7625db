//! What the mail brings to a worker's clients.
//!
//! Letters are read in the order in which they came, but those for a client whose session is away (`away`).

use std::sync::Arc;

use super::Worker;
use super::connections::forget_deadline;
use crate::context::others::Others;
use crate::context::tracking_delivery;
use crate::context::tracking_delivery::Delivery;
use crate::driver::{Sending, Token};
use crate::execute::scratch::Desk;
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::messaging::message::Message;
use crate::session::Session;

impl Worker {
    pub(super) fn read_mail(mut self: Box<Self>, desk: &mut Desk) -> Option<Box<Self>> {
        self = self.open_kept(desk)?;
        self.letters.extend(self.home.mailbox.collect());
        while let Some(letter) = self.letters.pop_front() {
            if let Some(letter) = self.keep_for_away(letter) {
                self = self.open(letter, desk)?;
            }
        }
        self = self.take_back_all(desk)?;
        self.send_queued(desk);
        Some(self)
    }

    /// Does what a letter says.
    pub(super) fn open(mut self: Box<Self>, letter: Letter, desk: &mut Desk) -> Option<Box<Self>> {
        match letter {
            Letter::Message(message) => self.hear(&message, None, desk),
            Letter::Invalidate { id, keys } => self.invalidate(id, keys),
            Letter::Redirected { id, keys } => {
                if let Some((token, session)) = self.session_of(id)
                    && let Some(bytes) = tracking_delivery::forwarded(&session.state, &keys)
                {
                    self.queue(token, &Arc::new(bytes));
                }
            }
            Letter::Push { id, bytes } => {
                if let Some(&token) = self.tokens.get(&id) {
                    self.queue(token, &bytes);
                }
            }
            Letter::Adopt(accepted) => self.adopt(accepted, desk),
            Letter::Close(id) => {
                if let Some(&token) = self.tokens.get(&id) {
                    self.close(token);
                }
            }
            Letter::Unblock { id, ticket, mut reply } => {
                return self
                    .release(id, desk, |session, desk, others| session.unblock(ticket, &mut reply, desk, others));
            }
            Letter::Listen => self.watch_doors(),
            Letter::Users => self.close_forbidden(),
            Letter::Resume => return self.resume(desk),
            // It is looked for behind all letters.
            Letter::Returned => {}
            Letter::Durable => self.release_replies(desk),
            Letter::FollowJournal(id) => self.follow_journal(id),
            Letter::Synced => {
                self.held.followers.is_listening = false;
                self.tell_synced();
            }
            Letter::Stop => self.stopping = true,
        }
        Some(self)
    }

    /// The session of a client, and where it is.
    pub(super) fn session_of(&mut self, id: u64) -> Option<(Token, &mut Session)> {
        let token = *self.tokens.get(&id)?;
        Some((token, self.sessions.get_mut(token)?.as_mut()?))
    }

    /// Has messages reach the session of this connection from now on that it has begun to listen to: behind its replies.
    pub(super) fn note_listener(&mut self, token: Token) {
        if let Some(session) = &mut self.sessions[token]
            && let Some(subscriptions) = &mut session.state.subscriptions
        {
            self.audience.update(token, session.state.peer.id, subscriptions);
        }
    }

    /// Gives a message to those of this worker's clients that listen, or to one of them. It leaves with all else that the
    /// mail brings them.
    pub(super) fn hear(&mut self, message: &Message, only: Option<u64>, desk: &Desk) {
        let (driver, sessions, counters) = (&mut self.driver, &self.sessions, &desk.counters);
        let (held, channels) = (&mut self.held, &mut self.channels);
        self.audience.for_each(message, |seat, form| {
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
        let engine = Arc::clone(&self.engine);
        let Some((token, session)) = self.session_of(id) else { return };
        match tracking_delivery::deliver(&engine, &mut session.state, keys) {
            Delivery::Nothing => {}
            Delivery::Push(bytes) => self.queue(token, &Arc::new(bytes)),
            Delivery::Forward(peer, keys) => peer.mailbox.post(Letter::Redirected { id: peer.id, keys }),
        }
    }

    /// Has bytes leave with all else that the mail brings to a connection.
    pub(super) fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        self.channels.queue((&mut self.held, &mut self.driver), token, bytes);
    }

    /// Sends what the mail has brought to clients.
    pub(super) fn send_queued(&mut self, desk: &mut Desk) {
        for token in self.driver.take_queued() {
            desk.counters.writes.add(1);
            match self.driver.send_queued(token) {
                Sending::Done => self.after_sending(token, 0, desk),
                Sending::Waiting(count) => self.after_sending(token, count, desk),
                Sending::Broken => self.close(token),
            }
        }
    }

    /// Accepts from the doors that the engine has now, and from no others.
    fn watch_doors(&mut self) {
        self.driver.stop_listening();
        for listener in self.engine.doors.listeners() {
            if let Err(error) = self.driver.listen(listener) {
                log::warning(&format!("A worker cannot watch a listening socket: {error}"));
            }
        }
    }

    /// Does with the session of a client what may end its waiting, and sends what it is owed.
    pub(super) fn release(
        mut self: Box<Self>,
        id: u64,
        desk: &mut Desk,
        end: impl FnOnce(&mut Session, &mut Desk, &mut dyn Others),
    ) -> Option<Box<Self>> {
        let Some(&token) = self.tokens.get(&id) else { return Some(self) };
        let Some(session) = &self.sessions[token] else { return Some(self) };
        forget_deadline(&mut self.deadlines, session);
        self = self.with_session(token, desk, end)?;
        let is_held = self.sessions[token].as_ref().is_some_and(|session| session.is_held());
        self.driver.hold(token, is_held);
        self.send(token, desk);
        Some(self)
    }
}
