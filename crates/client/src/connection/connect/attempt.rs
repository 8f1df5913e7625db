//! The time that one attempt to connect may take, and its owner's duties during that time.
//!
//! Before each of its waits its owner is asked whether the connection is still wanted, and uses the occasion to fail the
//! commands that timed out. One task has an attempt; the code that it calls decides how long to wait.

use std::io;
use std::time::{Duration, Instant};

use crate::reactor::state::Readiness;
use crate::reactor::task_context::TaskContext;
use crate::sys::now;

/// The time that is left of one attempt to connect.
pub(crate) struct Attempt<'a> {
    /// The deadline; none if the attempt may take for ever.
    deadline: Option<Instant>,
    /// Returns the longest time to wait; none when no handle needs the connection any more.
    tick: &'a mut dyn FnMut() -> Option<Duration>,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt that begins now. A time beyond the range of the machine's clock never passes.
    pub(crate) fn new(timeout: Duration, tick: &'a mut dyn FnMut() -> Option<Duration>) -> Self {
        Self { deadline: now().checked_add(timeout), tick }
    }

    /// Waits until an event arrives, for no longer than the rest of the time. Fails if the attempt has timed out, or no
    /// handle needs the connection.
    pub(crate) async fn wait(&mut self, context: &TaskContext) -> io::Result<Readiness> {
        self.wait_for(context, Duration::MAX).await
    }

    /// Waits as [`wait`](Attempt::wait) does, and for no longer than this.
    pub(crate) async fn wait_for(&mut self, context: &TaskContext, time: Duration) -> io::Result<Readiness> {
        let slice = self.slice()?.min(time);
        // A time beyond the range of the machine's clock never passes.
        Ok(context.wait(now().checked_add(slice)).await)
    }

    /// Lets the other tasks have their turns, if there is time.
    pub(crate) async fn yield_now(&mut self, context: &TaskContext) -> io::Result<()> {
        self.slice()?;
        context.yield_now().await;
        Ok(())
    }

    /// Returns the longest time for the next wait.
    fn slice(&mut self) -> io::Result<Duration> {
        let wanted = (self.tick)().ok_or_else(|| io::Error::other("nobody wants it any more"))?;
        let left = self.left();
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time"));
        }
        Ok(wanted.min(left))
    }

    /// Asks the owner as before a wait, for code that waits by itself: returns the longest time to wait, or none if no handle
    /// needs the connection any more.
    pub(crate) fn tick(&mut self) -> Option<Duration> {
        (self.tick)()
    }

    /// Returns the rest of the time.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now()))
    }
}
