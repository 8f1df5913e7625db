//! Whoever is awake, reads: what comes for tasks is read by one of them, in its own runtime.
//!
//! To wake a task from a foreign thread costs more than the whole command, and to wake each of a hundred that wait costs a
//! hundred times as much; a task that wakes its neighbours does it cheaply. And a reader that is always awake takes replies in
//! crumbs. So when bytes come, and a task waits for one of the oldest replies, the reactor calls that task alone. Its turn
//! comes when those that are ready have had theirs; then it reads what has come together, and answers the others. What they
//! send in their turns is left lying meanwhile, and leaves in one piece when the first of them has to wait.
//!
//! Nobody depends on it: the reactor looks again a moment later, and then reads and writes by itself what was left. Where it
//! had to, the runtime is busy with something else, and is not asked again for a while.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Link;
use super::receive::{Cause, read};
use crate::pipe::slot::Completions;
use crate::process::wake::wake_all;
use crate::reactor::REPORTS_ONCE;

/// How long a task that was called has time to come, and what is gathered may be left lying then.
const PATIENCE: Duration = Duration::from_micros(200);

/// For how many times at most no task is called after several did not come.
const PAUSE_MAX: u32 = 1024;

/// What the connection's task remembers of the tasks that it has called.
#[derive(Default)]
pub(crate) struct Calls {
    /// Until when the last one has time.
    until: Option<Instant>,
    /// How many in a row did not come.
    missed: u32,
    /// How many times nobody is called.
    pause: u32,
}

impl Calls {
    /// Until when what is gathered, and what has come, is left to those who are awake.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Something has come. Whether it is left to a task.
    pub(crate) fn leave_to_task(&mut self, link: &Link) -> bool {
        if !REPORTS_ONCE {
            return false;
        }
        if link.is_left() {
            return true;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let Some(waker) = link.shared.lock().pipe.call_task() else { return false };
        link.leave();
        wake_all(std::iter::once(waker));
        self.until = Some(Instant::now() + PATIENCE);
        true
    }

    /// Whether the time of the task that was called is over, and it did not come.
    pub(crate) fn take_back(&mut self, link: &Link) -> bool {
        if self.until.is_none_or(|until| until > Instant::now()) {
            return false;
        }
        self.until = None;
        let is_left = link.take_left();
        self.missed = if is_left { (self.missed + 1).min(PAUSE_MAX.ilog2()) } else { 0 };
        self.pause = (1 << self.missed) - 1;
        is_left
    }
}

impl Link {
    /// Leaves what has come to whoever is awake.
    fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Whether what has come is left to whoever is awake.
    #[inline]
    fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes it upon oneself to read what was left. False when somebody else has.
    pub(super) fn take_left(&self) -> bool {
        self.left.swap(false, Ordering::AcqRel)
    }

    /// Reads what has come, if that was left to whoever is awake.
    pub(super) fn read_left(&self) {
        if !self.is_left() || !self.take_left() {
            return;
        }
        let Some(socket) = self.shared.lock().socket().cloned() else { return };
        let mut done = Completions::default();
        let outcome = read(self, &socket, false, &mut done);
        self.finish(&mut done);
        match outcome {
            Ok(taken) if !taken.is_more => {}
            Ok(_) => self.leave_rest(),
            Err(cause) => self.report(cause),
        }
    }

    /// A caller that reads leaves the rest to the task, whom nothing else would tell of what TLS has decrypted.
    pub(super) fn leave_rest(&self) {
        let mut shared = self.shared.lock();
        shared.is_unread = true;
        self.end_lone(&mut shared);
        self.wake(shared);
    }

    /// A caller that reads has found the connection broken: its task does what is to be done.
    pub(super) fn report(&self, cause: Cause) {
        let mut shared = self.shared.lock();
        if let Cause::Broken(why) = cause {
            shared.fault.get_or_insert(why);
        }
        self.end_lone(&mut shared);
        self.wake(shared);
    }
}
