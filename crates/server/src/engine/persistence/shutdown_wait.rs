//! The wait of a server for its replicas before it ends, and the clients that have ordered the shutdown. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::engine::clients::blocking::Waiter;
use crate::host::waiting::Condvar;

/// The wait before the end of a server, if there is one.
#[derive(Debug, Default)]
pub struct ShutdownWait {
    state: Mutex<Option<WaitState>>,
    changed: Condvar,
    /// A signal has ordered a shutdown that the periodic work has not begun yet, because DEBUG PAUSE-CRON stops it.
    has_signal: AtomicBool,
}

#[derive(Debug)]
struct WaitState {
    /// The clients that have ordered the shutdown.
    clients: Vec<Arc<Waiter>>,
    /// The latest end of the wait, in monotonic milliseconds.
    until_ms: u64,
}

impl ShutdownWait {
    /// Begins a wait, at most until this time, in monotonic milliseconds. Returns false if another client has begun one since
    /// [`ShutdownWait::join`]; then this client joins that one.
    pub fn begin(&self, client: Option<Arc<Waiter>>, until_ms: u64) -> bool {
        let mut state = self.state.lock();
        let is_first = state.is_none();
        state.get_or_insert_with(|| WaitState { clients: Vec::new(), until_ms }).clients.extend(client);
        is_first
    }

    /// Returns the latest end of the wait, if there is one.
    pub fn until_ms(&self) -> Option<u64> {
        self.state.lock().as_ref().map(|state| state.until_ms)
    }

    /// Adds a client that orders a shutdown during the wait, so that it is answered with the others. If there is no wait,
    /// gives the client back.
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

    /// Notes a signal that has ordered a shutdown, for the periodic work.
    pub fn note_signal(&self) {
        self.has_signal.store(true, Ordering::Relaxed);
    }

    /// Returns whether such a signal is noted.
    pub fn has_signal(&self) -> bool {
        self.has_signal.load(Ordering::Relaxed)
    }

    /// Takes the noted signal. Returns false if there is none, because another thread has taken it.
    pub fn take_signal(&self) -> bool {
        self.has_signal.swap(false, Ordering::Relaxed)
    }

    /// Ends the wait, and returns the clients that have ordered the shutdown; None if there was no wait.
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
