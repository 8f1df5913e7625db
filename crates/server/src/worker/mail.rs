//! The mail for a worker's clients.
//!
//! Letters are read in the order of their arrival. The exceptions are letters for a client with a session that another thread
//! still runs (`long_script`).

use super::Worker;
use super::replica_feeds;
use crate::context::worker_handoff::WorkerHandoff;
use crate::execute::scratch::Scratch;
use crate::host::clock;
use crate::host::log;
use crate::messaging::mail::{Accepted, Letter};
use crate::net::Listener;
use crate::session::Session;

use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Worker {
    pub(super) fn read_mail(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        self = self.open_kept(scratch)?;
        self.letters.extend(self.connections.home.mailbox.collect());
        while let Some(letter) = self.letters.pop_front() {
            if let Some(letter) = self.connections.long_scripts.keep(letter, &self.engine) {
                self = self.open(letter, scratch)?;
            }
        }
        self.connections.take_returned(scratch);
        self = self.open_kept(scratch)?;
        self.connections.send_queued(scratch);
        Some(self)
    }

    /// Delivers the letters that answer no request: messages and invalidations. Other letters wait for [`Worker::read_mail`]:
    /// they may run sessions, and then the input that was received for the present session would be lost.
    #[cold]
    pub(super) fn hear_news(&mut self, scratch: &mut Scratch) {
        self.connections.depart(scratch);
        let letters = self.connections.home.mailbox.collect();
        for letter in std::mem::take(&mut self.letters).into_iter().chain(letters) {
            let is_news = matches!(
                letter,
                Letter::Message(_) | Letter::Push { .. } | Letter::Invalidate { .. } | Letter::Redirected { .. }
            );
            let letter = if is_news { self.connections.long_scripts.keep(letter, &self.engine) } else { Some(letter) };
            match letter {
                Some(Letter::Message(message)) => self.connections.publish(&message, None, scratch),
                Some(Letter::Push { id, bytes }) => self.connections.push(id, &bytes),
                Some(Letter::Invalidate { id, keys }) => self.connections.invalidate(id, keys),
                Some(Letter::Redirected { id, keys }) => self.connections.redirect(id, &keys),
                Some(letter) => self.letters.push_back(letter),
                None => {}
            }
        }
        self.connections.send_queued(scratch);
    }

    /// Opens the letters that were kept for clients with sessions that are back, before newer ones. If such a letter runs a
    /// long script, the thread that takes the worker over goes on with the rest.
    fn open_kept(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        while let Some((id, letter)) = self.connections.long_scripts.take_letter() {
            match letter {
                Letter::Message(message) => self.connections.publish(&message, Some(id), scratch),
                letter => self = self.open(letter, scratch)?,
            }
        }
        Some(self)
    }

    /// Carries out a letter.
    fn open(mut self: Box<Self>, letter: Letter, scratch: &mut Scratch) -> Option<Box<Self>> {
        match letter {
            Letter::Message(message) => self.connections.publish(&message, None, scratch),
            Letter::ShardChannelsLeft(channels) => self.connections.end_shard_channels(&channels),
            Letter::Invalidate { id, keys } => self.connections.invalidate(id, keys),
            Letter::Redirected { id, keys } => self.connections.redirect(id, &keys),
            Letter::Push { id, bytes } => self.connections.push(id, &bytes),
            Letter::Adopt(accepted) => self.connections.adopt(accepted, scratch),
            Letter::Close(id) => {
                replica_feeds::send_rest(&mut self.connections, id, scratch);
                if let Some(token) = self.connections.token_of(id) {
                    self.connections.close(token);
                }
            }
            Letter::Unblock { id, ticket, mut reply, is_refused } => {
                return self.release(id, scratch, |session, scratch, others| {
                    session.note_refused(ticket, is_refused, scratch);
                    session.unblock(ticket, &mut reply, scratch, others)
                });
            }
            Letter::Listen => self.watch_doors(scratch),
            Letter::Users => self.connections.close_forbidden(),
            Letter::Resume => return self.resume(scratch),
            // The worker takes its sessions back from long scripts after it has read all letters.
            Letter::Returned => {}
            Letter::Durable => self.connections.release_replies(scratch),
            Letter::FollowJournal(id) => self.connections.follow_journal(id),
            Letter::ShareMemory { id, memory } => self.connections.share_memory(id, memory),
            Letter::Synced => {
                self.connections.gate.followers.end_listening();
                self.connections.tell_synced();
            }
            // The worker's replicas are fed at the end of each wake-up.
            Letter::Stream => {}
            Letter::Feed(id) => self.connections.begin_feeding(id),
            Letter::SignOfLife(id) => self.connections.show_life(id),
            Letter::Sleep => _ = self.engine.sleep_out(clock::monotonic_ms()),
            Letter::Answer(has_answered) => has_answered.store(true, Ordering::Release),
            Letter::Stop => self.stopping = true,
        }
        Some(self)
    }

    /// Accepts from the present listeners, and from no others; from none, if the worker is not wanted any more.
    fn watch_doors(&mut self, scratch: &Scratch) {
        self.connections.driver.stop_listening();
        let is_wanted = self.number < self.pool.wanted();
        for listener in self.pool.doors(&self.engine) {
            if !is_wanted {
                self.clear_door(&listener, scratch);
            } else if let Err(error) = self.connections.driver.listen(listener) {
                log::warning(&format!("A worker cannot watch a listening socket: {error}"));
            }
        }
    }

    /// Accepts the connections that wait at a listener which this worker has released. The kernel may have reported them only
    /// to this worker; later connections are reported to others.
    fn clear_door(&mut self, listener: &Listener, scratch: &Scratch) {
        while let Ok(accepted) = listener.accept_some()
            && !accepted.is_empty()
        {
            accepted.into_iter().for_each(|accepted| self.place(accepted, scratch));
        }
    }

    /// Gives a new connection to the worker with the fewest clients, among the wanted ones.
    pub(super) fn place(&mut self, accepted: Accepted, scratch: &Scratch) {
        // If all workers have ended, this one will end, too.
        let Some(member) = self.pool.choose() else { return };
        if Arc::ptr_eq(&member, &self.connections.home) {
            self.connections.adopt(accepted, scratch);
        } else {
            member.mailbox.post(Letter::Adopt(accepted));
        }
    }
    /// Runs `end`, which may end the waiting of a client, on the client's session, and sends its replies.
    pub(super) fn release(
        mut self: Box<Self>,
        id: u64,
        scratch: &mut Scratch,
        end: impl FnOnce(&mut Session, &mut Scratch, &mut dyn WorkerHandoff),
    ) -> Option<Box<Self>> {
        let Some(token) = self.connections.end_wait(id) else { return Some(self) };
        self = self.with_session(token, scratch, end)?;
        self.connections.hold_as_session_wants(token);
        self.connections.send(token, scratch);
        Some(self)
    }
}
