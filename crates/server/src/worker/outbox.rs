//! The outbox of a worker: replies that are sent together at the end of a wake-up.
//!
//! Sent at once, each reply would wake its client separately; sent together, they find clients awake, which saves work of the
//! kernel. Outputs that are long or share values are sent at once all the same, and so is the only reply of a wake-up, which
//! would wait for nothing. One thread.

use crate::net::Token;
use crate::request::output::Output;

/// The most replies that wait for the end of a wake-up, and the most spare outputs.
const REPLIES_MAX: usize = 64;

/// The longest reply that waits, and the longest buffer that is kept.
const REPLY_BYTES_MAX: usize = 16 * 1024;

/// The replies to be sent at the end of the wake-up, with their connections.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    replies: Vec<(Token, Output)>,
    /// The largest offset of the journal that any of these replies shows.
    shown: u64,
    /// Empty outputs, to be used again.
    spares: Vec<Output>,
}

impl Outbox {
    /// Returns whether this output may wait for the others: it is short, and a single run of bytes.
    #[inline]
    pub fn takes(output: &Output) -> bool {
        output.plain().is_some_and(|bytes| (1..=REPLY_BYTES_MAX).contains(&bytes.len()))
    }

    /// Queues replies, and leaves an empty output in their place. Returns whether the outbox is full.
    #[inline]
    pub fn push(&mut self, token: Token, output: &mut Output) -> bool {
        self.shown = self.shown.max(output.shown);
        self.replies.push((token, std::mem::replace(output, self.spares.pop().unwrap_or_default())));
        self.replies.len() >= REPLIES_MAX
    }

    /// Returns whether no replies wait.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Takes all replies, and the largest offset that they show.
    #[inline]
    pub fn take(&mut self) -> (Vec<(Token, Output)>, u64) {
        (std::mem::take(&mut self.replies), std::mem::take(&mut self.shown))
    }

    /// Takes the emptied list back, for the next replies.
    #[inline]
    pub fn restore(&mut self, list: Vec<(Token, Output)>) {
        debug_assert!(list.is_empty() && self.replies.is_empty(), "replies would be lost");
        self.replies = list;
    }

    /// Keeps an output that was sent, for the next replies.
    #[inline]
    pub fn recycle(&mut self, mut output: Output) {
        // Outputs that the reply gate has released were not taken from here.
        if self.spares.len() < REPLIES_MAX {
            output.bytes.shrink_to(REPLY_BYTES_MAX);
            self.spares.push(output);
        }
    }
}
