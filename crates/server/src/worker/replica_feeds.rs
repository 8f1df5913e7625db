//! Feeding replicas: the bytes that their connections are sent, and when.
//!
//! At the end of each wake-up every replica is given as much as its connection takes, of its snapshot or of the journal. A
//! limited number of bytes is handed to a connection and not taken, so that a replica that does not read costs nothing but
//! its place in the journal. No part of the journal goes out that may still be lost here: it has to be written to the AOF, or
//! synced, first, as the options say of replies.
//!
//! While the worker sleeps a letter tells it when there is more; while it is awake it looks by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Worker;
use crate::config::Opt;
use crate::engine::replication::primary;
use crate::engine::replication::{Next, Replica};
use crate::execute::scratch::Scratch;
use crate::host::log;
use crate::host::planted::{self, Fault};
use crate::messaging::mail::Letter;
use crate::net::Token;

/// Bytes that are handed to a connection and not taken, beyond which it is given no more.
const WINDOW_BYTES: usize = 256 << 10;

/// The number of times in a row that a replica is given more, before others of the worker have their turn.
const ROUNDS_MAX: usize = 16;

/// A replica and its connection.
type Feed = (Token, Arc<Replica>);

impl Worker {
    /// Begins to feed a client that has become a replica.
    pub(super) fn begin_feeding(&mut self, id: u64) {
        let Some((token, session)) = self.session_of(id) else { return };
        let Some(replica) = session.state.replica.clone().filter(|replica| replica.is_registered()) else { return };
        if self.feeds.iter().all(|(known, _)| *known != token) {
            self.feeds.push((token, replica));
        }
    }

    /// Shows a waiting replica that its primary lives. The thread that sends the snapshot asks for it, because amid the
    /// snapshot it would be a byte too many.
    pub(super) fn show_life(&mut self, id: u64) {
        if let Some((token, session)) = self.session_of(id)
            && session.state.replica.as_ref().is_some_and(|replica| replica.is_registered() && replica.needs_signs())
        {
            self.queue(token, &Arc::new(b"\n".to_vec()));
        }
    }

    /// Ends the feed of a replica with a connection that ends.
    #[cold]
    pub(super) fn end_feeding(&mut self, token: Token) {
        if let Some(index) = self.feeds.iter().position(|(known, _)| *known == token) {
            let (_, replica) = self.feeds.remove(index);
            log::notice(&format!("Connection with replica {} lost.", replica.client.socket.address));
            primary::dismiss_replica(&self.engine, &replica);
        }
    }

    /// Cancels the letter about new bytes: the worker is awake, and looks for them by itself.
    #[cold]
    pub(super) fn look_after_stream(&mut self) {
        self.engine.journal.forget_owner(&self.home.mailbox);
    }

    /// Feeds each replica the bytes that it may get and takes.
    #[cold]
    pub(super) fn feed_replicas(&mut self, scratch: &mut Scratch) {
        self.feed_all(scratch);
        self.is_mail_left = self.home.mailbox.has_letters.load(Ordering::Relaxed);
    }

    fn feed_all(&mut self, scratch: &mut Scratch) {
        let engine = Arc::clone(&self.engine);
        let end = engine.journal.end();
        // If no client waits for a reply, the journal is written here.
        let sendable = if planted::has(Fault::SendsEarly) || engine.persistence.passes(&engine, end) {
            end
        } else {
            engine.persistence.passed().min(end)
        };
        let mut has_more = true;
        for _ in 0..ROUNDS_MAX {
            let feeds: Vec<Feed> = self.feeds.clone();
            has_more = false;
            for (token, replica) in feeds {
                has_more |= self.feed(token, &replica, sendable);
            }
            if !has_more {
                break;
            }
            self.send_queued(scratch);
        }
        for (token, replica) in self.feeds.clone() {
            primary::spill_for(&engine, &replica, sendable);
            self.bound_lag(token, &replica, end, scratch);
        }
        if self.feeds.is_empty() {
            return;
        }
        let mailbox = &self.home.mailbox;
        if has_more || engine.journal.tell_when_grown(end, mailbox) {
            mailbox.post_unheard(Letter::Stream);
        }
        let is_held_back = sendable < end && !engine.persistence.fails();
        if is_held_back && engine.persistence.tell_when_passed(end, mailbox) {
            mailbox.post_unheard(Letter::Stream);
        }
    }

    /// Hands a replica's connection the next bytes, as many as it may have; returns whether there were any.
    fn feed(&mut self, token: Token, replica: &Replica, end: u64) -> bool {
        let mut has_more = false;
        if self.sessions[token].as_ref().is_some_and(|session| session.state.closing) {
            return false;
        }
        while self.driver.unsent(token) < WINDOW_BYTES {
            let mut bytes = Vec::new();
            match replica.next(end, WINDOW_BYTES, &mut bytes) {
                Next::Bytes => {
                    has_more = true;
                    self.queue(token, &Arc::new(bytes));
                }
                Next::Nothing => break,
                Next::Done => {
                    if let Some(session) = &mut self.sessions[token] {
                        session.state.closing = true;
                    }
                    break;
                }
                Next::Lost => {
                    log::warning(&format!(
                        "The snapshot for replica {} is not to be had; it begins anew.",
                        replica.client.socket.address
                    ));
                    self.close(token);
                    break;
                }
            }
        }
        has_more
    }

    /// Closes a replica that exceeds the output limit of its class of clients, the journal that is kept for it alone
    /// included: the backlog is kept anyway.
    fn bound_lag(&mut self, token: Token, replica: &Replica, end: u64, scratch: &Scratch) {
        let lag = Some(replica.lag(end)).filter(|lag| *lag > self.engine.config.memory(Opt::ReplBacklogSize));
        let waiting = self.driver.waiting(token) as u64 + lag.unwrap_or_default();
        let Some(session) = &mut self.sessions[token] else { return };
        if session.state.closing && waiting == 0 {
            return self.close_when_sent(token);
        }
        if session.is_output_exceeded(usize::try_from(waiting).unwrap_or(usize::MAX), scratch.now) {
            self.close_for_output(token, scratch);
        }
    }
}
