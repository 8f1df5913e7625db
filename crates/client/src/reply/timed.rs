//! A reply that tells how long it took, part by part.
//!
//! It is waited for as every reply is. The connection notes its times beside the slot (`pipe/slot/stamps`); the times of the
//! call, of taking the answer and of decoding it are known here. The waiting thread reads the clock.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::pipe::slot::stamps::TimedCall;
use crate::pipe::slot::{Handle, Payload};
use crate::reply::{Guard, Parts, Reply, already_taken, block_here, poll_here, read, taken};
use crate::sys::{clock_us, now};
use crate::values::decode::FromReply;

/// How long a reply took, from its call until it was a value: see [`Client::timed`](crate::Client::timed).
///
/// Requests that left together count from the same moment, and so do replies that came together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// The time that the request waited here until it was handed to the system: for a connection, for room, for requests
    /// ahead of it, or for others to leave with it. `None` if that is not known: it failed before, or several nodes of a
    /// cluster were asked.
    pub queued: Option<Duration>,
    /// From then until its reply was taken from the system: the network, and the server. Where a redirection was followed or the
    /// request was sent again, this is the last time, and `queued` has those before. In an engine of this process, or a near
    /// cache, this is how long the call took.
    pub travelled: Option<Duration>,
    /// From then until the waiting caller took the reply: until its thread or task had its turn.
    pub ready: Option<Duration>,
    /// How long it took to make the value of it that was asked for.
    pub decoded: Duration,
    /// All of it.
    pub total: Duration,
}

impl fmt::Display for Timing {
    /// As a line of a log has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queued, travelled, ready, decoded, total } = self;
        write!(f, "{total:.1?}")?;
        if let (Some(queued), Some(travelled), Some(ready)) = (queued, travelled, ready) {
            write!(
                f,
                ": queued {queued:.1?}, travelled {travelled:.1?}, taken after {ready:.1?}, decoded in {decoded:.1?}"
            )?;
        }
        Ok(())
    }
}

/// The answer to a command, and how long it took: see [`Client::timed`](crate::Client::timed).
///
/// `.await` it in any async runtime, or [`wait`](TimedReply::wait) for it on a thread. Dropping it takes nothing back, but where
/// a dropped [`Reply`] would.
#[must_use = "await it or wait for it: only then is it known"]
pub struct TimedReply<T> {
    stage: Stage,
    issued_us: u64,
    /// Whether the task that awaits it has let others have their turn.
    has_yielded: bool,
    _call: TimedCall,
    result: PhantomData<fn() -> T>,
}

enum Stage {
    /// The slot of its answer, with the resource that the reply keeps until then.
    Waiting(Handle, Option<Box<dyn Guard>>),
    /// It was answered by the call itself, which ended then.
    Answered(Payload, u64),
    Taken,
}

impl<T: FromReply> TimedReply<T> {
    /// Times the reply that this call returns.
    pub(crate) fn of(call: impl FnOnce() -> Reply<T>) -> Self {
        let (timed_call, issued_us) = (TimedCall::begin(), clock_us());
        let stage = match call().into_parts() {
            Parts::Slot(handle, guard) => Stage::Waiting(handle, guard),
            Parts::Answered(payload, _) => Stage::Answered(payload, clock_us()),
        };
        Self { stage, issued_us, has_yielded: false, _call: timed_call, result: PhantomData }
    }

    /// Blocks this thread until the answer is there. The client's command timeout bounds the wait.
    ///
    /// Of a failure as well it is told how long it took.
    pub fn wait(self) -> (Result<T, Error>, Timing) {
        self.wait_until(None)
    }

    /// Blocks this thread until the answer is there, but for no longer than this.
    ///
    /// As for [`wait`](TimedReply::wait), and [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) when the time is up.
    pub fn wait_for(self, timeout: Duration) -> (Result<T, Error>, Timing) {
        self.wait_until(now().checked_add(timeout))
    }

    /// Whether the answer is there, so that waiting for it would not wait.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Waiting(handle, _) => handle.is_done(),
            Stage::Answered(..) | Stage::Taken => true,
        }
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> (Result<T, Error>, Timing) {
        if let Stage::Waiting(handle, _) = &mut self.stage {
            // Why it is of no use is said when it is taken.
            let _ = block_here(handle, deadline);
        }
        self.conclude()
    }

    /// Takes the answer, or returns the reason why there is none.
    fn conclude(&mut self) -> (Result<T, Error>, Timing) {
        let taken_us = clock_us();
        let (payload, times) = match mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Waiting(handle, guard) => {
                let times = handle.times();
                let payload = taken(handle);
                drop(guard);
                (payload, times)
            }
            // A call that was refused before it was sent has no times.
            Stage::Answered(payload @ Payload::Failed(_), _) => (payload, None),
            Stage::Answered(payload, came_us) => (payload, Some((self.issued_us, came_us))),
            Stage::Taken => (Payload::Failed(already_taken()), None),
        };
        let result = read(payload);
        let (issued_us, now_us) = (self.issued_us, clock_us());
        let between = |from_us: u64, to_us: u64| Duration::from_micros(to_us.saturating_sub(from_us));
        let timing = Timing {
            queued: times.map(|(left_us, _)| between(issued_us, left_us)),
            travelled: times.map(|(left_us, came_us)| between(left_us, came_us)),
            ready: times.map(|(_, came_us)| between(came_us, taken_us)),
            decoded: between(taken_us, now_us),
            total: between(issued_us, now_us),
        };
        (result, timing)
    }
}

impl<T: FromReply> Future for TimedReply<T> {
    type Output = (Result<T, Error>, Timing);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Stage::Waiting(handle, _) = &mut this.stage
            && poll_here(handle, &mut this.has_yielded, context).is_pending()
        {
            return Poll::Pending;
        }
        Poll::Ready(this.conclude())
    }
}

impl<T> fmt::Debug for TimedReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedReply").finish_non_exhaustive()
    }
}
