//! The mail for a worker's clients.
//!
//! Letters are read in the order in which they arrived, except those for a client with a session that is away (`detached`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_rings::memory::Fresh;

use super::Worker;
use super::connections::forget_deadline;
use crate::context::others::Others;
use crate::context::session_state::SessionState;
use crate::context::tracking_delivery;
use crate::context::tracking_delivery::Delivery;
use crate::execute::scratch::Scratch;
use crate::host::clock;
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::messaging::message::Message;
use crate::net::{Listener, Sending, Token};
use crate::session::Session;

impl Worker {
    pub(super) fn read_mail(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        self = self.open_kept(scratch)?;
        self.letters.extend(self.home.mailbox.collect());
        while let Some(letter) = self.letters.pop_front() {
            if let Some(letter) = self.keep_for_away(letter) {
                self = self.open(letter, scratch)?;
            }
        }
        self = self.take_back_all(scratch)?;
        self.send_queued(scratch);
        Some(self)
    }

    /// Delivers the messages and the invalidations from before a request to its client, if the client is subscribed or tracks
    /// keys. So they reach the client even if the request unsubscribes.
    #[inline]
    pub(super) fn hear_news_before(&mut self, token: Token, scratch: &mut Scratch) {
        let is_told = |state: &SessionState| state.subscriptions.is_some() || state.tracking.is_some();
        if self.sessions[token].as_ref().is_some_and(|session| is_told(&session.state))
            && self.home.mailbox.has_letters.load(Ordering::Relaxed)
        {
            self.hear_news(scratch);
        }
    }

    /// Delivers the letters that answer no request to clients: messages, and which keys have changed. Other letters wait for
    /// [`Worker::read_mail`]: they may run sessions, and the input that was received for a session must not be forgotten for
    /// that.
    #[cold]
    fn hear_news(&mut self, scratch: &mut Scratch) {
        self.depart(scratch);
        let letters = self.home.mailbox.collect();
        for letter in std::mem::take(&mut self.letters).into_iter().chain(letters) {
            let is_news = matches!(
                letter,
                Letter::Message(_) | Letter::Push { .. } | Letter::Invalidate { .. } | Letter::Redirected { .. }
            );
            match if is_news { self.keep_for_away(letter) } else { Some(letter) } {
                Some(Letter::Message(message)) => self.hear(&message, None, scratch),
                Some(Letter::Push { id, bytes }) => self.push(id, &bytes),
                Some(Letter::Invalidate { id, keys }) => self.invalidate(id, keys),
                Some(Letter::Redirected { id, keys }) => self.redirect(id, &keys),
                Some(letter) => self.letters.push_back(letter),
                None => {}
            }
        }
        self.send_queued(scratch);
    }

    /// Carries out a letter.
    pub(super) fn open(mut self: Box<Self>, letter: Letter, scratch: &mut Scratch) -> Option<Box<Self>> {
        match letter {
            Letter::Message(message) => self.hear(&message, None, scratch),
            Letter::Invalidate { id, keys } => self.invalidate(id, keys),
            Letter::Redirected { id, keys } => self.redirect(id, &keys),
            Letter::Push { id, bytes } => self.push(id, &bytes),
            Letter::Adopt(accepted) => self.adopt(accepted, scratch),
            Letter::Close(id) => {
                if let Some(&token) = self.tokens.get(&id) {
                    self.close(token);
                }
            }
            Letter::Unblock { id, ticket, mut reply, is_refused } => {
                return self.release(id, scratch, |session, scratch, others| {
                    session.note_refused(ticket, is_refused, scratch);
                    session.unblock(ticket, &mut reply, scratch, others)
                });
            }
            Letter::Listen => self.watch_doors(scratch),
            Letter::Users => self.close_forbidden(),
            Letter::Resume => return self.resume(scratch),
            // Returned sessions are taken in behind all letters.
            Letter::Returned => {}
            Letter::Durable => self.release_replies(scratch),
            Letter::FollowJournal(id) => self.follow_journal(id),
            Letter::ShareMemory { id, memory } => self.share_memory(id, memory),
            Letter::Synced => {
                self.held.followers.is_listening = false;
                self.held.followers.is_listening_to_replicas = false;
                self.tell_synced();
            }
            // Its replicas are fed at the end of each wake-up.
            Letter::Stream => {}
            Letter::Feed(id) => self.begin_feeding(id),
            Letter::SignOfLife(id) => self.show_life(id),
            Letter::Sleep => self.engine.sleep_out(clock::monotonic_ms()),
            Letter::Answer(has_answered) => has_answered.store(true, Ordering::Release),
            Letter::Stop => self.stopping = true,
        }
        Some(self)
    }

    /// Hands the memory to a client of CLIENT RINGS that was permitted it. If that is impossible, because the client has sent
    /// more than that, its connection ends: it waits for nothing else.
    fn share_memory(&mut self, id: u64, memory: Fresh) {
        let Some((token, session)) = self.session_of(id) else { return };
        let is_idle = session.is_idle();
        let shared = if is_idle && !self.held.has(token) {
            self.driver.share_memory(token, memory)
        } else {
            Err(io::Error::other("it has said more, or replies are held back"))
        };
        if let Err(error) = shared {
            log::warning(&format!("Client id={id} cannot be given shared memory, and is closed: {error}"));
            self.close(token);
        }
    }

    /// Returns the session of a client, and where it is.
    pub(super) fn session_of(&mut self, id: u64) -> Option<(Token, &mut Session)> {
        let token = *self.tokens.get(&id)?;
        Some((token, self.sessions.get_mut(token)?.as_mut()?))
    }

    /// Registers new subscriptions of the session of this connection: from now on messages reach it, behind its replies.
    pub(super) fn note_listener(&mut self, token: Token) {
        if let Some(session) = &mut self.sessions[token]
            && let Some(subscriptions) = &mut session.state.subscriptions
        {
            self.subscribers.update(token, session.state.client.id, subscriptions);
        }
    }

    /// Gives a message to those of this worker's clients that listen, or to one of them. It leaves with all else that the
    /// mail brings them.
    pub(super) fn hear(&mut self, message: &Message, only: Option<u64>, scratch: &Scratch) {
        let (driver, sessions, counters) = (&mut self.driver, &self.sessions, &scratch.counters);
        let (held, channels) = (&mut self.held, &mut self.channels);
        self.subscribers.for_each(message, |subscriber, form| {
            let Some(session) = &sessions[subscriber.place] else { return };
            let is_meant = only.is_none_or(|id| id == subscriber.id);
            if is_meant && session.state.client.id == subscriber.id && !session.state.closing {
                let bytes = form.bytes(message, session.state.protocol);
                counters.output_bytes.add(bytes.len() as u64);
                session.state.client.traffic.note_answered(bytes.len());
                channels.queue((held, driver), subscriber.place, bytes);
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
            Delivery::Forward(client, keys) => client.mailbox.post(Letter::Redirected { id: client.id, keys }),
        }
    }

    /// Tells a client of keys that another has read.
    fn redirect(&mut self, id: u64, keys: &[u8]) {
        if let Some((token, session)) = self.session_of(id)
            && let Some(bytes) = tracking_delivery::forwarded(&session.state, keys)
        {
            self.queue(token, &Arc::new(bytes));
        }
    }

    /// Gives a client bytes that answer no request.
    fn push(&mut self, id: u64, bytes: &Arc<Vec<u8>>) {
        if let Some(&token) = self.tokens.get(&id) {
            self.queue(token, bytes);
        }
    }

    /// Queues bytes for a connection. They are sent together with all other bytes that the mail brings to it.
    pub(super) fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        self.channels.queue((&mut self.held, &mut self.driver), token, bytes);
    }

    /// Sends the bytes that the mail has queued for clients.
    pub(super) fn send_queued(&mut self, scratch: &mut Scratch) {
        for token in self.driver.take_queued() {
            scratch.counters.writes.add(1);
            match self.driver.send_queued(token) {
                Sending::Done => self.after_sending(token, 0, scratch),
                Sending::Waiting(count) => self.after_sending(token, count, scratch),
                Sending::Broken => self.close(token),
            }
        }
    }

    /// Accepts from the listeners that there are now, and from no others; from none, if it is not wanted any more.
    fn watch_doors(&mut self, scratch: &Scratch) {
        self.driver.stop_listening();
        let is_wanted = self.number < self.pool.wanted();
        for listener in self.pool.doors(&self.engine) {
            if !is_wanted {
                self.clear_door(&listener, scratch);
            } else if let Err(error) = self.driver.listen(listener) {
                log::warning(&format!("A worker cannot watch a listening socket: {error}"));
            }
        }
    }

    /// Accepts the connections that wait at a listener that this worker has released. The kernel may have reported them to no
    /// other worker; later connections it reports to others.
    fn clear_door(&mut self, listener: &Listener, scratch: &Scratch) {
        while let Ok(accepted) = listener.accept_some()
            && !accepted.is_empty()
        {
            accepted.into_iter().for_each(|accepted| self.place(accepted, scratch));
        }
    }

    /// Runs `end` on the session of a client, which may end its waiting, and sends its replies.
    pub(super) fn release(
        mut self: Box<Self>,
        id: u64,
        scratch: &mut Scratch,
        end: impl FnOnce(&mut Session, &mut Scratch, &mut dyn Others),
    ) -> Option<Box<Self>> {
        let Some(&token) = self.tokens.get(&id) else { return Some(self) };
        let Some(session) = &self.sessions[token] else { return Some(self) };
        forget_deadline(&mut self.deadlines, session);
        self = self.with_session(token, scratch, end)?;
        let is_held = self.sessions[token].as_ref().is_some_and(|session| session.is_held());
        self.driver.hold(token, is_held);
        self.send(token, scratch);
        Some(self)
    }
}
