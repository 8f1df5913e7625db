//! Replies on their way out: they leave one after the other when all that one wake-up has brought has been executed.
//!
//! Sent at once, each would wake its peer by itself; sent together, they find it awake, which saves the kernel's work. What
//! is long, or shares values, is sent at once all the same: it would be held for nothing.

use crate::driver::Token;
use crate::request::output::Output;

/// Connections whose replies are to be sent at the end of a wake-up.
#[derive(Debug, Default)]
pub(super) struct Departures {
    waiting: Vec<(Token, Output)>,
    /// The largest offset of the journal that any of them shows.
    shown: u64,
    /// Empty outputs, to be used again.
    spare: Vec<Output>,
}

/// As many wait at most, and as many buffers are kept.
const DEPARTURES_MAX: usize = 64;

/// Replies that are longer do not wait, and longer buffers are not kept.
const WAITING_BYTES_MAX: usize = 16 * 1024;

impl Departures {
    /// Adds what a session has written, if it may wait, and leaves an empty output. Whether it was added.
    #[inline]
    pub fn add(&mut self, token: Token, output: &mut Output) -> bool {
        let may_wait = output.plain().is_some_and(|bytes| (1..=WAITING_BYTES_MAX).contains(&bytes.len()));
        if may_wait {
            let spare = self.spare.pop().unwrap_or_default();
            self.shown = self.shown.max(output.shown);
            self.waiting.push((token, std::mem::replace(output, spare)));
        }
        may_wait
    }

    /// Whether no more should wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= DEPARTURES_MAX
    }

    /// Takes all that wait, in their order; the list is to be given back empty.
    #[inline]
    pub fn take(&mut self) -> Vec<(Token, Output)> {
        std::mem::take(&mut self.waiting)
    }

    /// Up to which offset of the journal those that wait show what was done; asked once.
    #[inline]
    pub fn take_shown(&mut self) -> u64 {
        std::mem::take(&mut self.shown)
    }

    /// Gives the empty list back.
    #[inline]
    pub fn give_back(&mut self, list: Vec<(Token, Output)>) {
        self.waiting = list;
    }

    /// Keeps an output that has left, to be used again.
    #[inline]
    pub fn keep(&mut self, mut output: Output) {
        output.bytes.shrink_to(WAITING_BYTES_MAX);
        self.spare.push(output);
    }
}
