//! A server that waits for its replicas before it ends, and the clients that have told it to. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::engine::clients::blocking::Waiter;
use crate::host::waiting::Condvar;

/// The wait of a server that is to end, if it waits.
#[derive(Debug, Default)]
pub struct ShutdownWait {
    state: Mutex<Option<WaitState>>,
    changed: Condvar,
    /// A signal has told the server to end, and the periodic work has not come to it, because DEBUG PAUSE-CRON stops it.
    has_signal: AtomicBool,
}

#[derive(Debug)]
struct WaitState {
    /// The clients that have told it to end.
    clients: Vec<Arc<Waiter>>,
    /// Until when it waits, monotonic milliseconds.
    until_ms: u64,
}

impl ShutdownWait {
    /// Begins to wait, until this time at the most, monotonic milliseconds. Returns false if another client has told the
    /// server to end since [`ShutdownWait::join`]; this client joins that one.
    pub fn begin(&self, client: Option<Arc<Waiter>>, until_ms: u64) -> bool {
        let mut state = self.state.lock();
        let is_first = state.is_none();
        state.get_or_insert_with(|| WaitState { clients: Vec::new(), until_ms }).clients.extend(client);
        is_first
    }

    /// Returns until when it waits, if it does.
    pub fn until_ms(&self) -> Option<u64> {
        self.state.lock().as_ref().map(|state| state.until_ms)
    }

    /// Adds a client that tells the server to end during the wait, to be answered as the others; else gives the client back.
    pub fn join(&self, client: Option<Arc<Waiter>>) -> Option<Option<Arc<Waiter>>> {
        match &mut *self.state.lock() {
            Some(state) => {
                state.clients.extend(client);
                None
            }
            None => Some(client),
        }
    }

    /// Waits for so long, or until the wait ends. Returns whether it goes on.
    pub fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| state.is_some(), time);
        state.is_some()
    }

    /// Notes a signal that waits for the periodic work.
    pub fn note_signal(&self) {
        self.has_signal.store(true, Ordering::Relaxed);
    }

    /// Returns whether a signal waits.
    pub fn has_signal(&self) -> bool {
        self.has_signal.load(Ordering::Relaxed)
    }

    /// Takes the signal that waits. Returns false if there is none, because another thread has taken it.
    pub fn take_signal(&self) -> bool {
        self.has_signal.swap(false, Ordering::Relaxed)
    }

    /// Ends the wait, and returns the clients that have told the server to end, if it waited.
    pub fn end(&self) -> Option<Vec<Arc<Waiter>>> {
        let state = self.state.lock().take()?;
        self.changed.notify_all();
        Some(state.clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_who_tell_it_at_once_one_begins() {
        let waiting = ShutdownWait::default();
        assert!(waiting.join(None).is_some() && waiting.join(None).is_some(), "nobody has begun yet");
        assert!(waiting.begin(None, 10));
        assert!(!waiting.begin(None, 20));
        assert_eq!(waiting.until_ms(), Some(10));
        assert!(waiting.end().is_some() && waiting.end().is_none());
    }
}
