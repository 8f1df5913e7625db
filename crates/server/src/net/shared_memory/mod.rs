//! Connections with bytes that go through memory shared with the client (`sleeve-rings`), over any driver of their sockets.
//!
//! The socket stays with its driver: bytes on it are the client's bell, and its end is the connection's end. While a pair of
//! rings is awake, this driver checks it before each wait. If nothing has arrived for a while (`patience`) it falls asleep,
//! and the client has to ring the bell. So a worker waits in one place for all events, and pairs that sleep cost nothing.
//! Belongs to the thread of its driver.

mod pair;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use sleeve_rings::handover;
use sleeve_rings::memory::Fresh;
use sleeve_rings::patience::Patience;

use super::event::{Event, Token};
use crate::request::output::Output;

pub use pair::{Pair, RING_BYTES};

/// The bytes that are sent along with the memory.
const HANDOVER: &[u8] = b"!";

/// The number of wake-ups in a row in which the sockets may be left unchecked, as long as few bytes come through the rings:
/// the check is a system call, for which short requests would pay.
const ROUNDS_WITHOUT_SOCKETS: u32 = 32;

/// The longest busy poll before clients have to ring.
const LOOK_MAX: Duration = Duration::from_micros(20);

/// The most bytes that count as few, in all of these wake-ups together.
const BYTES_WITHOUT_SOCKETS: usize = 4 * 1024;

/// The connections of a driver that share memory with their clients.
#[derive(Debug)]
pub struct SharedMemory {
    /// The pairs of rings, by token.
    pairs: Vec<Option<Box<Pair>>>,
    count: usize,
    /// The pairs that are checked before each wait.
    awake: Vec<Token>,
    /// The pairs with an event in this wake-up; their events come after those of the sockets.
    ready: Vec<Token>,
    /// The number of events of this wake-up that are events of sockets.
    from_sockets: usize,
    /// The pairs for which bytes were queued that have not been sent.
    queued: Vec<Token>,
    patience: Patience,
    /// The wake-ups since the sockets were checked, and the bytes that have arrived in them.
    rounds: u32,
    bytes: usize,
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self {
            pairs: Vec::new(),
            count: 0,
            awake: Vec::new(),
            ready: Vec::new(),
            from_sockets: usize::MAX,
            queued: Vec::new(),
            patience: Patience::new(LOOK_MAX),
            rounds: 0,
            bytes: 0,
        }
    }
}

/// The beginning and the end of pairs.
impl SharedMemory {
    /// Sends memory to the client over a connection's socket, which has this number.
    ///
    /// # Errors
    /// The errors of the kernel: the socket does not take the memory.
    pub fn begin(&mut self, socket: RawFd, token: Token, (memory, file): Fresh) -> io::Result<()> {
        // SAFETY: the driver keeps the connection's socket open until the connection is closed, and the pair ends before
        // that.
        let bell = unsafe { BorrowedFd::borrow_raw(socket) };
        handover::send(bell, HANDOVER, &file)?;
        if self.pairs.len() <= token {
            self.pairs.resize_with(token + 1, || None);
        }
        self.pairs[token] = Some(Box::new(Pair::new(memory, bell)));
        self.count += 1;
        self.wake(token);
        Ok(())
    }

    /// Ends the pair of a connection that is about to be closed: unsent bytes are written as far as there is room.
    pub fn end(&mut self, token: Token) {
        if let Some(mut pair) = self.pairs.get_mut(token).and_then(Option::take) {
            pair.send_waiting();
            self.count -= 1;
        }
    }

    /// Returns whether no connection shares memory.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.ready.is_empty()
    }

    /// Returns the pair of a connection.
    #[inline]
    pub fn get(&mut self, token: Token) -> Option<&mut Pair> {
        self.pairs.get_mut(token)?.as_deref_mut()
    }

    /// Returns the pair of a connection.
    #[inline]
    pub fn find(&self, token: Token) -> Option<&Pair> {
        self.pairs.get(token)?.as_deref()
    }
}

/// Waiting for events, and taking them.
impl SharedMemory {
    /// Returns whether no pair is awake.
    #[inline]
    pub fn are_all_asleep(&mut self) -> bool {
        self.from_sockets = usize::MAX;
        self.awake.is_empty()
    }

    /// Waits until bytes arrive through a ring, or until there is an event of a socket, for which `wait` waits; returns the
    /// number of events. If the driver `may_skip` a check of the sockets, it does so as long as few bytes come through the
    /// rings.
    pub fn wait(
        &mut self,
        wait: impl FnOnce(u64) -> io::Result<usize>,
        may_skip: bool,
        timeout_ms: u64,
    ) -> io::Result<usize> {
        // Events that were not taken in the last wake-up will be found again.
        for token in self.ready.drain(..) {
            if let Some(pair) = self.pairs.get_mut(token).and_then(Option::as_mut) {
                pair.is_ready = false;
            }
        }
        let has_news = self.look() || (timeout_ms != 0 && self.await_news()) || !self.fall_asleep();
        self.rounds += 1;
        let is_little = self.rounds < ROUNDS_WITHOUT_SOCKETS && self.bytes <= BYTES_WITHOUT_SOCKETS;
        self.from_sockets = if has_news && is_little && may_skip {
            0
        } else {
            (self.rounds, self.bytes) = (0, 0);
            wait(if has_news { 0 } else { timeout_ms })?
        };
        Ok(self.from_sockets + self.ready.len())
    }

    /// Notes which of the awake pairs have an event; returns whether any has.
    #[inline]
    fn look(&mut self) -> bool {
        let Self { pairs, awake, ready, .. } = self;
        awake.retain(|&token| {
            let Some(pair) = pairs.get_mut(token).and_then(Option::as_mut) else { return false };
            if pair.has_news() {
                pair.is_ready = true;
                ready.push(token);
            }
            pair.is_awake = !pair.is_held() || pair.is_ready;
            pair.is_awake
        });
        !ready.is_empty()
    }

    /// Busy polls for as long as that pays; returns whether any pair has an event.
    fn await_news(&mut self) -> bool {
        if !self.awake.is_empty()
            && let Some(mut watch) = self.patience.begin()
        {
            while watch.goes_on() {
                if self.look() {
                    self.patience.found();
                    return true;
                }
            }
        }
        false
    }

    /// Puts all pairs to sleep. Returns false if one has an event by now, which then stays awake.
    fn fall_asleep(&mut self) -> bool {
        let Self { pairs, awake, ready, .. } = self;
        awake.retain(|&token| {
            let Some(pair) = pairs.get_mut(token).and_then(Option::as_mut) else { return false };
            pair.is_awake = !pair.fall_asleep();
            if pair.is_awake {
                pair.is_ready = true;
                ready.push(token);
            }
            pair.is_awake
        });
        ready.is_empty()
    }

    /// Returns event `index` of this wake-up; if it is an event of a socket, `next` returns it.
    pub fn event(&mut self, mut next: impl FnMut(&mut [u8]) -> Event, index: usize, buffer: &mut [u8]) -> Event {
        let token = match index.checked_sub(self.from_sockets) {
            Some(place) => match self.ready.get(place) {
                Some(&token) => token,
                None => return Event::Nothing,
            },
            None => match next(buffer) {
                event @ (Event::Received(token, _) | Event::Closed(token)) if self.find(token).is_some() => {
                    self.wake(token);
                    let Some(pair) = self.get(token) else { return Event::Nothing };
                    if matches!(event, Event::Closed(_)) {
                        pair.hang_up();
                    }
                    // The pair's event is reported in its turn.
                    if pair.is_ready {
                        return Event::Nothing;
                    }
                    token
                }
                other => return other,
            },
        };
        let Some(pair) = self.get(token) else { return Event::Nothing };
        let event = pair.event(token, buffer);
        if let Event::Received(_, count) = event {
            self.bytes += count;
        }
        event
    }

    /// Wakes a pair: it is checked before each wait from now on.
    fn wake(&mut self, token: Token) {
        let Some(pair) = self.pairs.get_mut(token).and_then(Option::as_mut) else { return };
        pair.wake_up();
        if !std::mem::replace(&mut pair.is_awake, true) {
            self.awake.push(token);
        }
    }
}

/// The functions for the worker.
impl SharedMemory {
    /// Sends each output of a connection that shares memory.
    pub fn send_each(&mut self, outputs: &mut [(Token, Output)]) {
        for (token, output) in outputs {
            if let Some(pair) = self.get(*token) {
                pair.send(output);
            }
        }
    }

    /// Adds bytes to the unsent ones of a connection. Returns false if it shares no memory.
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) -> bool {
        let Some(pair) = self.pairs.get_mut(token).and_then(Option::as_mut) else { return false };
        if pair.queue(bytes) {
            self.queued.push(token);
        }
        true
    }

    /// Adds the connections for which bytes were queued to `queued`.
    pub fn take_queued(&mut self, queued: &mut Vec<Token>) {
        for token in self.queued.drain(..) {
            if let Some(pair) = self.pairs.get_mut(token).and_then(Option::as_mut) {
                pair.is_queued = false;
                queued.push(token);
            }
        }
    }

    /// Stops or resumes receiving from a connection; returns false if it shares no memory.
    pub fn hold(&mut self, token: Token, held: bool) -> bool {
        let Some(pair) = self.get(token) else { return false };
        pair.hold(held);
        if !held {
            self.wake(token);
        }
        true
    }
}
