//! The work of a lane: handing out answers and sending calls that may leave, by one thread at a time, and without the lock
//! for the slow parts.
//!
//! That thread is a reader of either connection, woken by the answer to a call or a fence, or a caller. A thread that finds
//! another at work leaves its work to that thread, which checks again before it stops.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Wake, Waker};

use super::Lane;
use super::state::{Flight, Keeper, Pending, State, Work};
use crate::connection::Link;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::asker::Unit;
use crate::pipe::slot::{Completions, Handle, Payload, Waiter};
use crate::reactor::TaskWaker;
use crate::resp::request::name::Name;
use crate::sys::lock::MutexGuard;
use crate::sys::now;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

impl Lane {
    /// Hands out answers and sends calls that may leave, unless another thread is doing so.
    pub(super) fn work<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        if mem::replace(&mut state.is_worked, true) {
            return;
        }
        let (mut done, mut finished) = (Completions::default(), Vec::new());
        loop {
            self.hand_out(&mut state, &mut done, &mut finished);
            let Some(work) = state.next_work() else { break };
            drop(state);
            match work {
                Work::Send(number, pending, link) => state = self.send_pending(number, *pending, &link, &mut done),
                Work::Fence { database, issued_ms } => {
                    let fence = self.send_fence(database, issued_ms);
                    state = self.state.lock();
                    state.fence = Some(fence);
                }
            }
        }
        state.is_worked = false;
        if state.order.is_empty()
            && let Some(wire) = &mut state.wire
        {
            wire.idle_since.get_or_insert_with(now);
        }
        self.calls.store(state.order.len(), Ordering::Relaxed);
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        state.task_wakers.drain(..).for_each(TaskWaker::wake);
        drop(state);
        self.transport.finish(&mut done);
    }

    fn send_pending<'a>(
        self: &'a Arc<Self>,
        number: u64,
        pending: Pending,
        link: &Arc<Link>,
        done: &mut Completions,
    ) -> MutexGuard<'a, State> {
        let Pending { request, name, database, length, issued_ms, target, pattern, keeper } = pending;
        let mut handle = match link.send_copied(database, name, request, issued_ms) {
            Ok(handle) => handle,
            Err(error) => {
                target.complete(Payload::Failed(error), done);
                drop(keeper);
                let mut state = self.state.lock();
                state.bytes -= length;
                state.order.gone(number);
                return state;
            }
        };
        // An answer that arrives before this check is found without a wake-up.
        _ = handle.poll_ready(&mut Context::from_waker(&Waker::from(Arc::clone(self))), false);
        let mut state = self.state.lock();
        state.in_flight.push_back(Flight { number, handle, length, target, pattern, keeper });
        state
    }

    fn send_fence(self: &Arc<Self>, database: u32, issued_ms: u32) -> Handle {
        let (target, mut handle) = self.landing.lock().pair(Name::of(&["PING"]));
        let unit = Unit { database, target, length: PING.len(), issued_ms };
        if let Err((error, units)) = self.transport.send_gathered(vec![unit], PING) {
            let mut done = Completions::default();
            units.into_iter().for_each(|unit| unit.target.complete(Payload::Failed(error.clone()), &mut done));
        }
        _ = handle.poll_ready(&mut Context::from_waker(&Waker::from(Arc::clone(self))), false);
        _ = self.transport.as_driver().flush(Waiter::Other);
        handle
    }

    /// Hands out answers: those of calls to their callers, and that of a fence to the calls that wait for it.
    fn hand_out(&self, state: &mut State, done: &mut Completions, finished: &mut Vec<Keeper>) {
        let answered = |flight: &Flight| flight.handle.is_done();
        let mut rest = VecDeque::new();
        while let Some(flight) = state.in_flight.pop_front() {
            // Calls are answered in order, except those that timed out or lost their connection.
            if !answered(&flight) {
                let others = state.in_flight.iter().any(answered);
                rest.push_back(flight);
                if !others {
                    break;
                }
                continue;
            }
            let Flight { number, handle, length, target, pattern, keeper } = flight;
            let payload = handle.take().unwrap_or_else(|handle| Payload::Failed(handle.given_up()));
            state.bytes -= length;
            match &payload {
                Payload::Failed(error) if error.kind() == ErrorKind::Timeout && error.effect() == Effect::Unknown => {
                    state.order.timed_out(number);
                }
                Payload::Failed(_) => state.order.gone(number),
                _ => state.order.answered(number),
            }
            pattern.into_iter().for_each(|pattern| self.learn(pattern, &payload));
            target.complete(payload, done);
            finished.push(keeper);
        }
        rest.append(&mut state.in_flight);
        state.in_flight = rest;
        if state.fence.as_ref().is_some_and(Handle::is_done)
            && let Some(Ok(payload)) = state.fence.take().map(Handle::take)
        {
            match payload {
                Payload::Failed(error) if error.kind() == ErrorKind::Disconnected => state.order.lose_fence(),
                Payload::Failed(error) => {
                    for Pending { name, length, target, keeper, .. } in state.order.fail_fence() {
                        let message = format!(
                            "{name} is large and was not sent, since what was sent before it was not answered: "
                        );
                        let error = Error::unsent(error.kind(), message + error.message());
                        target.complete(Payload::Failed(error), done);
                        state.bytes -= length;
                        finished.push(keeper);
                    }
                }
                _ => state.order.pass_fence(),
            }
        }
    }
}

/// The answer to a call or a fence wakes the lane.
impl Wake for Lane {
    fn wake(self: Arc<Self>) {
        self.work(self.state.lock());
    }
}
