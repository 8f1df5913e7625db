//! The end of a log that is switched off, which a thread sees to, and who waits for it. Any thread.
//!
//! First the log is closed: its files are whole, and nobody writes them any more. Then it is over: a base that was being written
//! for it is gone, too.

use std::fmt;

use parking_lot::Mutex;

use crate::host::waiting::Condvar;

/// What is called when it is over.
pub type WhenOver = Box<dyn FnOnce() + Send>;

/// The closing of the log of one engine, if one is closing.
#[derive(Default)]
pub struct Closing {
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Default)]
struct State {
    stage: Stage,
    when_over: Vec<WhenOver>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Over,
    Begun,
    Closed,
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").field("stage", &self.state.lock().stage).finish_non_exhaustive()
    }
}

impl Closing {
    /// A log begins to be closed.
    pub fn begin(&self) {
        self.state.lock().stage = Stage::Begun;
    }

    /// Its files are whole.
    pub fn note_closed(&self) {
        self.state.lock().stage = Stage::Closed;
        self.closed.notify_all();
    }

    /// It is over.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.stage = Stage::Over;
        let told = std::mem::take(&mut state.when_over);
        drop(state);
        self.closed.notify_all();
        told.into_iter().for_each(|tell| tell());
    }

    /// Whether one is closing or being cleared away.
    pub fn is_begun(&self) -> bool {
        self.state.lock().stage != Stage::Over
    }

    /// Waits until the files of the log that is closing are whole.
    pub fn wait_until_closed(&self) {
        let mut state = self.state.lock();
        while state.stage == Stage::Begun {
            self.closed.wait(&mut state);
        }
    }

    /// Calls back when it is over, from any thread; at once if it is.
    pub fn when_over(&self, tell: WhenOver) {
        let mut state = self.state.lock();
        if state.stage != Stage::Over {
            return state.when_over.push(tell);
        }
        drop(state);
        tell();
    }
}
