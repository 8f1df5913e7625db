//! A reply with the times that it took, part by part.
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
use crate::reply::turn::Turn;
use crate::reply::{Guard, Parts, Reply, already_taken, block_here, poll_here, read, taken};
use crate::resp::decode::FromReply;
use crate::sys::{clock_us, now};

/// The times that a reply took, from its call until it was a value: see [`Client::timed`](crate::Client::timed).
///
/// Requests that left together count from the same moment, and so do replies that arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// The time that the request waited in the client until it was handed to the system: for a connection, for room, for
    /// requests ahead of it, or for requests that leave with it. `None` if it is not known: the call failed before, or
    /// several nodes of a cluster were asked.
    pub queued: Option<Duration>,
    /// The time from then until its reply was taken from the system: the network, and the server. If a redirect was followed
    /// or the request was sent again, this is the time of the last attempt, and `queued` has those before. For an engine of
    /// this process, or a near cache, this is the time that the call took.
    pub travelled: Option<Duration>,
    /// The time from then until the waiting caller took the reply: until its thread or task had its turn.
    pub ready: Option<Duration>,
    /// The time that decoding the reply took.
    pub decoded: Duration,
    /// The whole time, from the call to the value.
    pub total: Duration,
}

impl fmt::Display for Timing {
    /// Writes the times as one line of a server log.
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

/// The answer to a command, with the times that it took: see [`Client::timed`](crate::Client::timed).
///
/// `.await` it in any async runtime, or [`wait`](TimedReply::wait) for it on a thread. Dropping it has the effect of dropping
/// a [`Reply`].
#[must_use = "await it or wait for it: only then is it known"]
pub struct TimedReply<T> {
    stage: Stage,
    issued_us: u64,
    turn: Turn,
    _call: TimedCall,
    result: PhantomData<fn() -> T>,
}

enum Stage {
    /// The slot of its answer, with the resource that the reply keeps until then.
    Waiting(Handle, Option<Box<dyn Guard>>),
    /// The answer that the call itself has given, and the time at which the call ended.
    Answered(Payload, u64),
    Taken,
}

impl<T: FromReply> TimedReply<T> {
    /// Times the call and the reply that it returns.
    pub(crate) fn of(call: impl FnOnce() -> Reply<T>) -> Self {
        let (timed_call, issued_us) = (TimedCall::begin(), clock_us());
        let stage = match call().into_parts() {
            Parts::Slot(handle, guard) => Stage::Waiting(handle, guard),
            Parts::Answered(payload, _) => Stage::Answered(payload, clock_us()),
        };
        Self { stage, issued_us, turn: Turn::default(), _call: timed_call, result: PhantomData }
    }

    /// Blocks this thread until the answer is there. The client's command timeout bounds the wait.
    ///
    /// A failed call has its times, too.
    pub fn wait(self) -> (Result<T, Error>, Timing) {
        self.wait_until(None)
    }

    /// Blocks this thread until the answer is there, but for no longer than this.
    ///
    /// The result is that of [`wait`](TimedReply::wait), or [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the time is
    /// up.
    pub fn wait_for(self, timeout: Duration) -> (Result<T, Error>, Timing) {
        self.wait_until(now().checked_add(timeout))
    }

    /// Returns whether the answer has arrived, so that waiting for it would not block.
    pub fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Waiting(handle, _) => handle.is_done(),
            Stage::Answered(..) | Stage::Taken => true,
        }
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> (Result<T, Error>, Timing) {
        if let Stage::Waiting(handle, _) = &mut self.stage {
            // If no answer can arrive, `conclude` returns the error.
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
            && poll_here(handle, &mut this.turn, context).is_pending()
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
