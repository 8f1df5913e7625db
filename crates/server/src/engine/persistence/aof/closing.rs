//! The end of an AOF that is switched off, which a thread handles, and the waiters for it. Any thread.
//!
//! First the AOF is closed: its files are complete, and no thread writes them any more. Then the closing ends: a base that
//! was being written for the AOF has been removed, too.

use std::fmt;

use parking_lot::Mutex;

use crate::host::waiting::Condvar;

/// A callback for the end of the closing.
pub type WhenOver = Box<dyn FnOnce() + Send>;

/// The closings of one engine's AOFs.
#[derive(Default)]
pub struct Closing {
    state: Mutex<ClosingCounts>,
    closed: Condvar,
}

/// The numbers of closings under way. There may be several: an AOF can be switched on and off again before the closing of the
/// first has ended.
#[derive(Default)]
struct ClosingCounts {
    /// The number of closings with files that may not be complete yet.
    unclosed: u32,
    /// The number of closings that have not ended.
    unfinished: u32,
    when_over: Vec<WhenOver>,
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").field("unfinished", &self.state.lock().unfinished).finish_non_exhaustive()
    }
}

impl Closing {
    /// Begins the closing of an AOF.
    pub fn begin(&self) {
        let mut state = self.state.lock();
        state.unclosed += 1;
        state.unfinished += 1;
    }

    /// Notes that the files of a closing are complete.
    pub fn note_closed(&self) {
        let mut state = self.state.lock();
        state.unclosed = state.unclosed.saturating_sub(1);
        drop(state);
        self.closed.notify_all();
    }

    /// Ends a closing with complete files.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.unfinished = state.unfinished.saturating_sub(1);
        let told = if state.unfinished == 0 { std::mem::take(&mut state.when_over) } else { Vec::new() };
        drop(state);
        self.closed.notify_all();
        told.into_iter().for_each(|tell| tell());
    }

    /// Returns whether a closing is under way.
    pub fn is_begun(&self) -> bool {
        self.state.lock().unfinished > 0
    }

    /// Waits until the files of all closing AOFs are complete.
    pub fn wait_until_closed(&self) {
        let mut state = self.state.lock();
        while state.unclosed > 0 {
            self.closed.wait(&mut state);
        }
    }

    /// Calls back when the closing has ended, from any thread; at once if there is none.
    pub fn when_over(&self, tell: WhenOver) {
        let mut state = self.state.lock();
        if state.unfinished > 0 {
            return state.when_over.push(tell);
        }
        drop(state);
        tell();
    }
}
