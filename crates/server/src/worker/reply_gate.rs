//! The reply gate: replies that are held until the changes that they show are durable.
//!
//! Each reply has the offset up to which it shows the journal. Before it is sent, the engine is asked whether that offset has
//! passed; if not, the reply waits here, and a letter says when to ask again.
//!
//! Each connection has a queue of held replies, in the order in which they were made, so that a reply that shows little is
//! not held up by later requests of its client. A push to a client that waits for such a reply goes behind it: a client that
//! caches must not get the invalidation of a key before it gets the value that it has asked for. One thread.

use std::collections::VecDeque;
use std::sync::Arc;

use super::journal_followers::{JournalFollowers, Progress};
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientInfo;
use crate::host::clock::Instant;
use crate::net::{Driver, Token};
use crate::request::output::Output;

/// The held replies of a worker's connections, by token.
#[derive(Debug, Default)]
pub(super) struct ReplyGate {
    queues: Vec<VecDeque<Output>>,
    /// The connections with queues that are not empty, each once.
    owed: Vec<Token>,
    /// The number of replies in all queues.
    count: usize,
    /// The time up to which the waiting of held replies was counted, in microseconds of the monotonic clock.
    since_us: u64,
    /// The connections of CLIENT JOURNAL, which get after their replies the offset that these show.
    pub followers: JournalFollowers,
    /// Replies are held, or a connection follows the journal. Otherwise replies that show nothing are sent as they are.
    pub is_used: bool,
    /// Changes that no other thread was asked to make durable are waited for, since this wake-up.
    pub is_unsettled: bool,
    /// The time from which on the worker gathers changes for an fsync, if it does.
    pub gathers_since: Option<Instant>,
}

impl ReplyGate {
    /// Updates [`ReplyGate::is_used`], after a connection was added or removed.
    fn note_use(&mut self) {
        self.is_used = !self.owed.is_empty() || self.followers.len() != 0;
    }

    /// Returns whether bytes are held for a connection.
    #[inline]
    pub fn has(&self, token: Token) -> bool {
        !self.owed.is_empty() && self.queues.get(token).is_some_and(|queue| !queue.is_empty())
    }

    /// Returns the number of bytes that are held for a connection.
    #[inline]
    pub fn len(&self, token: Token) -> usize {
        if self.has(token) { self.queues[token].iter().map(Output::len).sum() } else { 0 }
    }

    /// Sets the present time. Returns how long all held replies have waited since the last call, in total.
    pub fn elapse(&mut self, now_us: u64) -> u64 {
        let since_us = std::mem::replace(&mut self.since_us, now_us);
        self.count as u64 * now_us.saturating_sub(since_us)
    }

    /// Holds replies, behind those that are held already.
    pub fn push(&mut self, token: Token, output: Output) {
        if self.queues.len() <= token {
            self.queues.resize_with(token + 1, VecDeque::new);
        }
        if self.queues[token].is_empty() {
            self.owed.push(token);
            self.note_use();
        }
        self.queues[token].push_back(output);
        self.count += 1;
        self.is_unsettled = true;
    }

    /// Puts bytes that answer no request behind the held replies of a connection, if there are any; returns whether it did.
    pub fn push_behind(&mut self, token: Token, bytes: &Arc<Vec<u8>>) -> bool {
        let is_owed = self.has(token);
        if is_owed && let Some(last) = self.queues[token].back_mut() {
            last.push_shared(bytes);
        }
        is_owed
    }

    /// Returns whether these replies have to wait: they show changes that are not durable, or stand behind replies that do.
    pub fn must_hold(&mut self, token: Token, output: &Output, engine: &Engine) -> bool {
        // This is called even if no client waits for a reply, because it also writes the changes to the AOF.
        let passes = engine.persistence.passes(engine, output.shown);
        self.is_unsettled |= !passes;
        self.has(token) || !(passes || output.is_empty())
    }

    /// Drops the held replies of a connection that is closed, and its messages about the journal.
    pub fn forget(&mut self, token: Token) {
        let has_held = self.has(token);
        if has_held {
            self.count -= std::mem::take(&mut self.queues[token]).len();
            self.owed.retain(|&other| other != token);
        }
        if self.followers.remove(token) || has_held {
            self.note_use();
        }
    }

    /// Enters a connection that follows the journal; returns the first message for it.
    pub fn follow(&mut self, token: Token, client: (Arc<ClientInfo>, u64), progress: Progress<'_>) -> Option<Vec<u8>> {
        let message = self.followers.insert(token, client, progress);
        self.note_use();
        message
    }

    /// Appends the message of CLIENT JOURNAL to replies that are about to be sent, if their client follows the journal.
    pub fn cover(&mut self, token: Token, output: &mut Output, driver: &Driver, progress: Progress<'_>) {
        if self.followers.cover(token, output, || driver.waiting(token) != 0, progress) {
            self.note_use();
        }
    }

    /// Returns the messages of CLIENT JOURNAL about an advance of the disk or of a replica.
    pub fn messages(&mut self, driver: &Driver, progress: Progress<'_>) -> Vec<(Token, Vec<u8>)> {
        let Self { queues, followers, .. } = self;
        let has_held = |token: Token| queues.get(token).is_some_and(|queue| !queue.is_empty());
        let messages = followers.messages(|token| (has_held(token), driver.waiting(token) != 0), progress);
        self.note_use();
        messages
    }

    /// Returns the least offset that any connection's next held reply shows; None if no reply is held.
    pub fn least_shown(&self) -> Option<u64> {
        self.owed.iter().filter_map(|&token| self.queues[token].front()).map(|output| output.shown).min()
    }

    /// Takes the replies that may be sent, each connection's in one piece: those that show nothing beyond `passed`. If the
    /// AOF `fails`, takes all replies, and replaces those to requests that have changed data by this error.
    pub fn release(&mut self, passed: u64, fails: Option<&[u8]>) -> Vec<(Token, Output)> {
        let (queues, held, mut released) = (&mut self.queues, &mut self.count, Vec::new());
        self.owed.retain(|&token| {
            let queue = &mut queues[token];
            let count = queue.iter().take_while(|output| output.shown <= passed).count();
            if let Some(error) = fails {
                queue.iter_mut().skip(count).for_each(|output| output.refuse_writes(error));
            }
            let count = if fails.is_some() { queue.len() } else { count };
            *held -= count;
            let mut ready = queue.drain(..count);
            if let Some(mut first) = ready.next() {
                ready.by_ref().for_each(|mut next| next.move_to(&mut first));
                released.push((token, first));
            }
            drop(ready);
            !queue.is_empty()
        });
        self.note_use();
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str, shown: u64) -> Output {
        let mut output = Output::default();
        output.bytes.extend_from_slice(text.as_bytes());
        output.shown = shown;
        output
    }

    fn texts(released: Vec<(Token, Output)>) -> Vec<(Token, String)> {
        let text = |mut output: Output| {
            let mut bytes = Vec::new();
            output.copy_to(&mut bytes);
            String::from_utf8(bytes).expect("text")
        };
        released.into_iter().map(|(token, output)| (token, text(output))).collect()
    }

    #[test]
    fn each_reply_waits_for_what_it_shows_and_for_those_before_it() {
        let mut held = ReplyGate::default();
        for (token, text, shown) in [(3, "a", 10), (3, "b", 30), (0, "c", 20), (3, "d", 5)] {
            held.push(token, reply(text, shown));
        }
        assert!(held.release(9, None).is_empty());
        assert_eq!(texts(held.release(20, None)), [(3, "a".to_owned()), (0, "c".to_owned())]);
        assert!(held.has(3) && !held.has(0));
        assert_eq!((held.len(3), held.len(0)), (2, 0));
        assert_eq!(texts(held.release(30, None)), [(3, "bd".to_owned())]);
        assert!(!held.is_used);
    }

    #[test]
    fn the_time_of_all_that_is_held_is_added_up() {
        let mut held = ReplyGate::default();
        assert_eq!(held.elapse(1_000), 0);
        held.push(1, reply("a", 10));
        held.push(2, reply("b", 20));
        assert_eq!(held.elapse(1_100), 200);
        held.push(2, reply("c", 30));
        assert_eq!(held.elapse(1_200), 300);
        held.release(20, None);
        assert_eq!((held.elapse(1_250), held.elapse(1_250)), (50, 0));
        held.forget(2);
        assert_eq!(held.elapse(9_000), 0);
    }

    #[test]
    fn what_is_pushed_goes_behind_the_replies_that_are_held() {
        let mut held = ReplyGate::default();
        let push = Arc::new(b">".to_vec());
        assert!(!held.push_behind(1, &push));
        held.push(1, reply("a", 7));
        assert!(held.push_behind(1, &push));
        assert_eq!(texts(held.release(7, None)), [(1, "a>".to_owned())]);
        held.push(1, reply("b", 8));
        held.forget(1);
        assert!(!held.is_used && held.release(u64::MAX, None).is_empty());
    }
}
