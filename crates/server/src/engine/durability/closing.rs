//! The end of a log that is switched off, which a thread sees to, and who waits for it. Any thread.
//!
//! First the log is closed: its files are whole, and nobody writes them any more. Then it is over: a base that was being written
//! for it is gone, too.

use std::fmt;

use parking_lot::Mutex;

use crate::host::waiting::Condvar;

/// What is called when it is over.
pub type WhenOver = Box<dyn FnOnce() + Send>;

/// The logs of one engine that are closing.
#[derive(Default)]
pub struct Closing {
    state: Mutex<State>,
    closed: Condvar,
}

/// Several may be under way: a log can be switched on and off again while what was given up for the first time is cleared away.
#[derive(Default)]
struct State {
    /// How many have begun and whose files may not be whole yet.
    unclosed: u32,
    /// How many have begun and are not over.
    unfinished: u32,
    when_over: Vec<WhenOver>,
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").field("unfinished", &self.state.lock().unfinished).finish_non_exhaustive()
    }
}

impl Closing {
    /// A log begins to be closed.
    pub fn begin(&self) {
        let mut state = self.state.lock();
        state.unclosed += 1;
        state.unfinished += 1;
    }

    /// The files of one that has begun are whole.
    pub fn note_closed(&self) {
        let mut state = self.state.lock();
        state.unclosed = state.unclosed.saturating_sub(1);
        drop(state);
        self.closed.notify_all();
    }

    /// One is over whose files are whole.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.unfinished = state.unfinished.saturating_sub(1);
        let told = if state.unfinished == 0 { std::mem::take(&mut state.when_over) } else { Vec::new() };
        drop(state);
        self.closed.notify_all();
        told.into_iter().for_each(|tell| tell());
    }

    /// Whether one is closing or being cleared away.
    pub fn is_begun(&self) -> bool {
        self.state.lock().unfinished > 0
    }

    /// Waits until the files of the log that is closing are whole.
    pub fn wait_until_closed(&self) {
        let mut state = self.state.lock();
        while state.unclosed > 0 {
            self.closed.wait(&mut state);
        }
    }

    /// Calls back when it is over, from any thread; at once if it is.
    pub fn when_over(&self, tell: WhenOver) {
        let mut state = self.state.lock();
        if state.unfinished > 0 {
            return state.when_over.push(tell);
        }
        drop(state);
        tell();
    }
}
