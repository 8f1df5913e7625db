//! Replies on their way out: they leave one after the other when all that one wake-up has brought has been executed.
//!
//! Sent at once, each would wake its peer by itself; sent together, they find it awake, which saves the kernel's work. What
//! is long, or shares values, is sent at once all the same: it would be held for nothing.

use super::Worker;
use crate::driver::Token;
use crate::output::Output;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Departures {
    waiting: Vec<(Token, Output)>,
    /// Empty outputs, to be used again.
    spare: Vec<Output>,
}

/// As many wait at most, and as many buffers are kept.
const DEPARTURES_MAX: usize = 64;

/// Replies that are longer do not wait, and longer buffers are not kept.
const WAITING_BYTES_MAX: usize = 16 * 1024;

impl Worker {
    /// Has what the session of this connection has just written leave with the others.
    pub(super) fn send_later(&mut self, token: Token) {
        if !self.output.plain().is_some_and(|bytes| (1..=WAITING_BYTES_MAX).contains(&bytes.len())) {
            return self.send(token);
        }
        let spare = self.departures.spare.pop().unwrap_or_default();
        self.departures.waiting.push((token, std::mem::replace(&mut self.output, spare)));
        if self.departures.waiting.len() >= DEPARTURES_MAX {
            self.depart();
        }
    }

    /// Sends what waits.
    pub(super) fn depart(&mut self) {
        let mut waiting = std::mem::take(&mut self.departures.waiting);
        for (token, output) in waiting.drain(..) {
            let unused = std::mem::replace(&mut self.output, output);
            self.send(token);
            let mut spare = std::mem::replace(&mut self.output, unused);
            spare.bytes.shrink_to(WAITING_BYTES_MAX);
            self.departures.spare.push(spare);
        }
        self.departures.waiting = waiting;
    }
}
